/**
 * Builds `dist` from `src`: compiles (`emit.mjs`), removes outputs whose source is gone, and makes the command executable.
 *
 * Outputs are overwritten in place, so a program running from `dist` meanwhile never sees it empty.
 */
import { chmodSync, existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { emit, optionsIn } from './emit.mjs'

const root = resolve(dirname(fileURLToPath(import.meta.url)), '..')
const dist = join(root, 'dist')
const command = join(dist, 'cli', 'main.js')

const { written, messages } = emit(root, optionsIn(join(root, 'tsconfig.build.json')))
if (messages !== '') {
  console.error(messages)
  process.exit(1)
}
if (existsSync(dist)) {
  for (const entry of readdirSync(dist, { recursive: true, withFileTypes: true })) {
    const path = join(entry.parentPath ?? entry.path, entry.name)
    if (entry.isFile() && !written.has(path)) rmSync(path)
  }
}

if (existsSync(command)) {
  if (!readFileSync(command, 'utf8').startsWith('#!/usr/bin/env node')) {
    console.error('src/cli/main.ts must start with #!/usr/bin/env node')
    process.exit(1)
  }
  chmodSync(command, 0o755)
}
