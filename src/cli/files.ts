/** Reading and writing files: what the operating system refuses becomes E_FILE. */
import { closeSync, fstatSync, mkdirSync, openSync, readFileSync, readSync, realpathSync, writeFileSync } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { UserError } from '../diagnostics/errors.ts'
import type { ExternalLoader } from '../onnx/index.ts'

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is not a folder',
  EACCES: 'permission is denied',
  EPERM: 'permission is denied',
  ENOSPC: 'the disk is full',
  ERR_FS_FILE_TOO_LARGE: 'it is too large',
}

/** What went wrong with a path, as E_FILE. */
export function fileError(verb: string, path: string, cause: unknown): UserError {
  if (cause instanceof UserError) return cause
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const why = reasons[code] ?? (cause instanceof Error ? cause.message : String(cause))
  return new UserError('E_FILE', `cannot ${verb} ${path}: ${why}`, { cause })
}

/** A whole file. Throws E_FILE. */
export function readBytes(path: string): Uint8Array {
  try {
    return readFileSync(path)
  } catch (cause) {
    throw fileError('read', path, cause)
  }
}

/** Writes a file, making its folder. Throws E_FILE. */
export function writeBytes(path: string, data: Uint8Array | string): void {
  try {
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, data)
  } catch (cause) {
    throw fileError('write', path, cause)
  }
}

function readPart(path: string, offset: number, length: number | undefined): Uint8Array {
  const file = openSync(path, 'r')
  try {
    const wanted = length ?? Math.max(0, fstatSync(file).size - offset)
    const out = new Uint8Array(Math.min(wanted, Math.max(0, fstatSync(file).size - offset)))
    let at = 0
    while (at < out.length) {
      const n = readSync(file, out, at, out.length - at, offset + at)
      if (n === 0) break
      at += n
    }
    return out.subarray(0, at)
  } finally {
    closeSync(file)
  }
}

/** Reads external data beside a model; links that lead out of the model's folder are refused. */
export function externalLoader(modelPath: string): ExternalLoader {
  return (location, offset, length) => {
    const path = join(dirname(modelPath), location)
    try {
      const home = realpathSync(dirname(modelPath))
      const real = realpathSync(path)
      if (!real.startsWith(home.endsWith(sep) ? home : home + sep))
        throw new UserError('E_ONNX_INPUT', `external data "${location}" leads outside the model's folder`)
      return readPart(real, offset, length)
    } catch (cause) {
      throw fileError('read', path, cause)
    }
  }
}
