/** Where a model comes from: bytes, or a file in Node, or an address; with what it keeps in other files. */
import type { InferenceSession } from 'onnxruntime-common'

import { besideModel, isAddress, readModelBytes } from '../backends/modelSource.ts'
import { UserError } from '../diagnostics/errors.ts'
import { kindOf } from '../diagnostics/shown.ts'
import { type ExternalLoader, type Length, type LengthRange, splitLengths } from '../onnx/index.ts'

type SessionOptions = InferenceSession.SessionOptions

/** The bytes of a model, a reader of its external data, and the options beside it. */
export interface Source {
  readonly bytes: Uint8Array
  readonly external: ExternalLoader
  /** Whether nobody else has these bytes, nor those that `external` reads. */
  readonly donated: boolean
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

/** What `extra: { sinter }` of a session's options says: options that ONNX Runtime has no names for. */
export interface OwnOptions {
  /** A file of kept programs. */
  readonly compiled: Uint8Array | undefined
  /** Most results of nodes whose number of them depends on data, by the node's name or that of an output of it. */
  readonly bounds: Readonly<Record<string, number>>
  /** Extents that are fixed by their names, as `freeDimensionOverrides` has them too. */
  readonly fixed: Readonly<Record<string, number>>
  /** Extents of which the least and the most are known. */
  readonly ranges: readonly LengthRange[]
}

const ownNames = ['compiled', 'bounds', 'lengths']

/** The options under `extra: { sinter }`. Throws E_ARGUMENT, E_FILE, E_ONNX_INPUT for a range that is none. */
export async function ownOptions({ extra }: SessionOptions): Promise<OwnOptions> {
  const own: unknown = extra?.sinter ?? {}
  const fail = (what: string, help: string): never => {
    throw new UserError('E_ARGUMENT', what, { help })
  }
  const isRecord = (x: unknown): x is Readonly<Record<string, unknown>> =>
    typeof x === 'object' && x !== null && !Array.isArray(x)
  if (!isRecord(own)) return fail(`extra.sinter is ${kindOf(own)}`, `give an object with ${ownNames.join(', ')}`)
  const odd = Object.keys(own).find((k) => !ownNames.includes(k))
  if (odd !== undefined) fail(`extra.sinter has no option "${odd}"`, `it has ${ownNames.join(', ')}`)
  const { compiled, bounds = {}, lengths = {} } = own
  if (!isRecord(bounds)) return fail(`extra.sinter.bounds is ${kindOf(bounds)}`, 'give { nodeOrOutput: 100 }')
  if (!isRecord(lengths)) return fail(`extra.sinter.lengths is ${kindOf(lengths)}`, 'give { sequence: [1, 512] }')
  return {
    compiled: await compiledOf(compiled),
    bounds: bounds as Readonly<Record<string, number>>,
    ...splitLengths(lengths as Readonly<Record<string, Length>>),
  }
}

/** The bytes of a file of kept programs, given by its path or its bytes. */
async function compiledOf(compiled: unknown): Promise<Uint8Array | undefined> {
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
  // What was read from a file here, or fetched, nobody else has.
  const isOwn = typeof model === 'string' && !isPart && named.size === 0
  return { bytes, options, external: loaderOf(named, beside), donated: isOwn }
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
