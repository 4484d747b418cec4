/** Where a model comes from: bytes, or a file in Node, or an address; with what it keeps in other files. */
import type { InferenceSession } from 'onnxruntime-common'

import { besideModel, isAddress, readModelBytes } from '../backends/modelSource.ts'
import { UserError } from '../diagnostics/errors.ts'
import { kindOf } from '../diagnostics/shown.ts'
import type { ExternalLoader } from '../onnx/index.ts'

type SessionOptions = InferenceSession.SessionOptions

/** The bytes of a model, a reader of its external data, and the options beside it. */
export interface Source {
  readonly bytes: Uint8Array
  readonly external: ExternalLoader
  readonly options: SessionOptions
}

/** Bytes that somebody gave, or of the file that is named; undefined for neither. */
async function bytesOf(x: unknown): Promise<Uint8Array | undefined> {
  if (typeof x === 'string') return readModelBytes(x)
  if (x instanceof Uint8Array) return x
  if (ArrayBuffer.isView(x)) return new Uint8Array(x.buffer, x.byteOffset, x.byteLength)
  if (x instanceof ArrayBuffer || (typeof SharedArrayBuffer !== 'undefined' && x instanceof SharedArrayBuffer))
    return new Uint8Array(x)
  return typeof Blob !== 'undefined' && x instanceof Blob ? new Uint8Array(await x.arrayBuffer()) : undefined
}

/** The file of kept programs that `extra: { sinter: { compiled } }` gives, by its path or its bytes. Throws E_ARGUMENT, E_FILE. */
export async function compiledOf({ extra }: SessionOptions): Promise<Uint8Array | undefined> {
  const own: unknown = extra?.sinter
  const compiled = typeof own === 'object' && own !== null && 'compiled' in own ? own.compiled : undefined
  if (compiled === undefined) return undefined
  const bytes = await bytesOf(compiled)
  if (bytes === undefined)
    throw new UserError('E_ARGUMENT', `extra.sinter.compiled is ${kindOf(compiled)}`, {
      help: 'give the path of a file of `sinter compile`, or its bytes',
    })
  return bytes
}

const plainPath = (path: string): string => path.replace(/^\.\//, '')

/** The files that the options name, by the location that the model calls them by. */
async function namedFiles(options: SessionOptions): Promise<Map<string, Uint8Array>> {
  const out = new Map<string, Uint8Array>()
  for (const entry of options.externalData ?? []) {
    const [path, data] = typeof entry === 'string' ? [entry, entry] : [entry.path, entry.data]
    const bytes = await bytesOf(data)
    if (bytes === undefined)
      throw new UserError('E_ARGUMENT', `externalData of "${path}" is ${kindOf(data)}`, {
        help: 'give its bytes, or the path of its file',
      })
    out.set(plainPath(path), bytes)
  }
  return out
}

/**
 * The model that arguments of `InferenceSession.create` name: a path or an address, bytes, or a buffer with an offset and a length, each
 * with options behind. Throws E_ARGUMENT, E_FILE.
 */
export async function sourceOf(args: readonly unknown[]): Promise<Source> {
  const [model, second, third, fourth] = args
  let bytes = await bytesOf(model)
  if (bytes === undefined)
    throw new UserError('E_ARGUMENT', `a session is made of ${kindOf(model)}`, {
      help: 'give the path of an .onnx file, or its bytes',
    })
  const isPart = typeof second === 'number'
  if (isPart) {
    const length = typeof third === 'number' ? third : bytes.length - second
    const isInside = Number.isSafeInteger(second) && second >= 0 && length >= 0 && second + length <= bytes.length
    if (!isInside)
      throw new UserError('E_ARGUMENT', `bytes ${second} to ${second + length} of a buffer of ${bytes.length}`)
    bytes = bytes.subarray(second, second + length)
  }
  const given = !isPart ? second : typeof third === 'number' ? fourth : (third ?? fourth)
  if (given !== undefined && (typeof given !== 'object' || given === null))
    throw new UserError('E_ARGUMENT', `the options of a session are ${kindOf(given)}`, {
      help: "give an object: { executionProviders: ['wasm'] }",
    })
  const options: SessionOptions = given ?? {}
  const named = await namedFiles(options)
  const beside = typeof model === 'string' && !isAddress(model) ? await besideModel(model) : undefined
  return { bytes, options, external: loaderOf(named, beside) }
}

const loaderOf =
  (named: ReadonlyMap<string, Uint8Array>, beside: ExternalLoader | undefined): ExternalLoader =>
  (location, offset, length) => {
    const bytes = named.get(plainPath(location))
    if (bytes !== undefined) return bytes.subarray(offset, length === undefined ? undefined : offset + length)
    if (beside !== undefined) return beside(location, offset, length)
    throw new UserError('E_FILE', `the model keeps weights in "${location}", which was not given`, {
      help: 'give it in externalData: [{ path, data }], or make the session of a path',
    })
  }
