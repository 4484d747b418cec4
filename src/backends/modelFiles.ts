/** Reading the files of a model in Node: what the operating system refuses becomes E_FILE. */
import { closeSync, constants, fstatSync, openSync, readFileSync, readSync, realpathSync, type Stats } from 'node:fs'
import { dirname, join, sep } from 'node:path'
import { UserError } from '../diagnostics/errors.ts'

const reasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder',
  ENOTDIR: 'a part of its path is not a folder',
  EACCES: 'permission is denied',
  EPERM: 'permission is denied',
  EROFS: 'the file system is read-only',
  ENAMETOOLONG: 'its name is too long',
  ENOSPC: 'the disk is full',
  ENXIO: 'it is a socket, or a device that is not there',
  ERR_FS_FILE_TOO_LARGE: 'it is too large',
}

/** Those that read otherwise where something is written. */
const writeReasons: Readonly<Record<string, string>> = { ENOENT: 'the file system has no place for it' }

/** What went wrong with a path, as E_FILE; `before` stands before the reason. */
export function fileError(verb: 'read' | 'write', path: string, cause: unknown, before = ''): UserError {
  if (cause instanceof UserError) return cause
  const code = cause instanceof Error && 'code' in cause ? String(cause.code) : ''
  const known = (verb === 'write' ? writeReasons[code] : undefined) ?? reasons[code]
  const why = known ?? (cause instanceof Error ? cause.message : String(cause))
  return new UserError('E_FILE', `cannot ${verb} ${path}: ${before}${why}`, {
    cause,
    ...(verb === 'write' ? { help: 'give a path in a folder that you may write to' } : {}),
  })
}

/** What a path leads to that is no file. */
function kindOf(s: Stats): string {
  if (s.isDirectory()) return 'a folder'
  if (s.isFIFO()) return 'a pipe'
  if (s.isSocket()) return 'a socket'
  return 'a device'
}

/**
 * Reads from an open file. A pipe or a device may have no end, or nothing to read for ever: opening does not wait for one, and it is
 * refused before a byte is read.
 */
function fromFile<R>(path: string, read: (file: number) => R): R {
  const file = openSync(path, constants.O_RDONLY | (constants.O_NONBLOCK ?? 0))
  try {
    const stats = fstatSync(file)
    if (!stats.isFile())
      throw new UserError('E_FILE', `cannot read ${path}: it is ${kindOf(stats)}`, {
        help: 'give a file; what a pipe gives, write into one first',
      })
    return read(file)
  } finally {
    closeSync(file)
  }
}

/** A whole file. Throws E_FILE. */
export function readBytes(path: string): Uint8Array {
  try {
    return fromFile(path, (file) => readFileSync(file))
  } catch (cause) {
    throw fileError('read', path, cause)
  }
}

const readPart = (path: string, offset: number, length: number | undefined): Uint8Array =>
  fromFile(path, (file) => {
    const rest = Math.max(0, fstatSync(file).size - offset)
    const out = new Uint8Array(Math.min(length ?? rest, rest))
    let at = 0
    while (at < out.length) {
      const n = readSync(file, out, at, out.length - at, offset + at)
      if (n === 0) break
      at += n
    }
    return out.subarray(0, at)
  })

/** Bytes of a file beside the model; `length` undefined means to its end. */
export type PartLoader = (location: string, offset: number, length: number | undefined) => Uint8Array

/** Reads external data beside a model; links that lead out of the model's folder are refused. */
export function externalLoader(modelPath: string): PartLoader {
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
