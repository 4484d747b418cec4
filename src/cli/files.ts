/** Files of the command line: what the operating system refuses becomes E_FILE. */
import { writeFileSync } from 'node:fs'
import { dirname, isAbsolute, relative } from 'node:path'
import { makeFolder } from '../backends/folders.ts'
import { fileError } from '../backends/modelFiles.ts'

export { externalLoader, fileError, readBytes } from '../backends/modelFiles.ts'

/** Writes a file, making its folder. Throws E_FILE. */
export function writeBytes(path: string, data: Uint8Array | string): void {
  const folder = dirname(path)
  try {
    makeFolder(folder)
  } catch (cause) {
    throw fileError('write', path, cause, `the folder ${folder} cannot be made: `)
  }
  try {
    writeFileSync(path, data)
  } catch (cause) {
    throw fileError('write', path, cause)
  }
}

/** A path as one types it in a shell: relative to a folder where it lies inside, quoted where it has to be. */
export function typedPath(path: string, from = process.cwd()): string {
  const inside = relative(from, path)
  const shown = inside.startsWith('..') || isAbsolute(inside) ? path : inside
  if (/^[\w@%+=:,./-]+$/.test(shown)) return shown
  return process.platform === 'win32' ? `"${shown}"` : `'${shown.replaceAll("'", "'\\''")}'`
}
