/** The process that runs cases for `sinter verify --jobs`: a folder comes in, its result goes out. */
import { Session } from '../session.ts'
import type { ChildSetup } from './pool.ts'
import { runCase } from './runCase.ts'

const setup = JSON.parse(process.argv[2] ?? '') as ChildSetup
const opened = Session.open(setup.device, setup)

process.on('message', async (dir: string) => {
  process.send?.(await runCase(dir, await opened, setup.options))
})
process.on('disconnect', () => process.exit(0))
