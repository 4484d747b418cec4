#!/usr/bin/env node
/** The `sinter` command. */
import { main } from './commands.ts'

// A reader that has seen enough (`sinter explain ... | head`) is no error.
process.stdout.on('error', (error: NodeJS.ErrnoException) => process.exit(error.code === 'EPIPE' ? 0 : 1))

process.exitCode = await main(process.argv.slice(2))
