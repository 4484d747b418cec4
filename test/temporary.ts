/** Temporary files of a run of the tests stand in one folder, which goes when the run ends, however its processes ended. */
import { mkdtempSync, realpathSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

const prefix = 'sinter-tests-'

/** Whether a folder is the one of a run. */
export const isRunsFolder = (folder: string): boolean => basename(folder).startsWith(prefix)

/** Each project of a run sets up: the first of them makes the folder. */
export default function setup(): (() => void) | undefined {
  if (isRunsFolder(tmpdir())) return undefined
  const folder = mkdtempSync(join(realpathSync(tmpdir()), prefix))
  process.env.TMPDIR = folder
  return () => rmSync(folder, { recursive: true, force: true, maxRetries: 3 })
}
