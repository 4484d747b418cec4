/** Making folders from paths that users give. */
import { existsSync, mkdirSync } from 'node:fs'
import { dirname, resolve } from 'node:path'

/**
 * Makes a folder and the missing ones above it, one by one; what is there already stays. Throws the error of the file system,
 * whose `path` is the folder that cannot be made. (`mkdirSync` with `recursive` never returns where the system has no place for
 * a folder although the one above it is there, as in /proc.)
 */
export function makeFolder(path: string): void {
  const missing: string[] = []
  for (let at = resolve(path); !existsSync(at) && dirname(at) !== at; at = dirname(at)) missing.unshift(at)
  for (const folder of missing) {
    try {
      mkdirSync(folder)
    } catch (cause) {
      // Another process may have made it meanwhile.
      if (!existsSync(folder)) throw cause
    }
  }
}
