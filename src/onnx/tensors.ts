/** TensorProto to host tensors: every storage form of the dtypes Sinter has, external data included. */
import { UserError } from '../diagnostics/errors.ts'
import { type DType, dtypeBytes } from '../types/dtype.ts'
import { type HostArray, hostArray, hostView } from '../types/host.ts'
import { showShape, sizeOf } from '../types/shape.ts'
import { type CodedType, codeBits, codeDType, isCodedType, unpackCodes } from './codes.ts'
import { decodeTensor } from './decode.ts'
import { type TensorProto, tensorType } from './proto.ts'

/** A tensor on the host, row-major. */
export interface HostTensor {
  readonly data: HostArray
  readonly shape: readonly number[]
  readonly dtype: DType
  /** The ONNX type whose codes the data are, where the graph has no dtype for it. */
  readonly coded?: CodedType
}

/** Bytes of a file beside the model; `length` undefined means to its end. */
export type ExternalLoader = (location: string, offset: number, length: number | undefined) => Uint8Array

const dtypes: Readonly<Record<number, DType>> = {
  [tensorType.FLOAT]: 'f32',
  [tensorType.UINT8]: 'u8',
  [tensorType.INT8]: 'i8',
  [tensorType.UINT16]: 'u16',
  [tensorType.INT16]: 'i16',
  [tensorType.INT32]: 'i32',
  [tensorType.INT64]: 'i64',
  [tensorType.BOOL]: 'bool',
  [tensorType.FLOAT16]: 'f16',
  [tensorType.DOUBLE]: 'f64',
  [tensorType.UINT32]: 'u32',
  [tensorType.UINT64]: 'u64',
  [tensorType.BFLOAT16]: 'bf16',
}

const typeNames = new Map(Object.entries(tensorType).map(([name, type]) => [type as number, name]))

/** The schema's name of an element type. */
export const elementTypeName = (type: number): string => typeNames.get(type) ?? `element type ${type}`

/** The dtype of an ONNX element type, undefined for those Sinter has no dtype for (strings, complex, 8-bit floats, 4-bit). */
export const dtypeOfElement = (type: number): DType | undefined => dtypes[type]

/** The type of codes that stands for an ONNX element type without a dtype, if there is one. */
export function codedOfElement(type: number): CodedType | undefined {
  const name = elementTypeName(type)
  return isCodedType(name) ? name : undefined
}

/** The dtype that tensors of an ONNX element type have in the graph. Throws E_ONNX_UNSUPPORTED. */
export function requireDType(type: number, what: string): DType {
  const coded = codedOfElement(type)
  const d = coded === undefined ? dtypes[type] : codeDType(coded)
  if (d === undefined)
    throw new UserError('E_ONNX_UNSUPPORTED', `${what} has elements of type ${elementTypeName(type)}`, {
      help: 'the importer reads numbers and bool',
    })
  return d
}

const bad = (message: string): UserError =>
  new UserError('E_ONNX_MALFORMED', message, {
    help: 'the exporter wrote a tensor that contradicts itself: export it again',
  })

/** Smaller tensors are copied out of bytes that are given away: a view keeps all of those in memory. */
const leastViewed = 16384

/**
 * Little-endian bytes as a host array: an aligned copy, or, of many bytes that are given away, a view. `before` is how many bytes in front of
 * them nobody reads any more: there they are moved to be aligned, which takes a tenth of the time of a copy into new memory.
 */
function fromBytes(bytes: Uint8Array, dtype: DType, n: number, name: string, before: number | undefined): HostArray {
  if (bytes.length !== n * dtypeBytes(dtype))
    throw bad(`tensor "${name}" has ${bytes.length} bytes for ${n} elements of ${dtype}`)
  const { buffer, byteOffset, length } = bytes
  const beyond = byteOffset % dtypeBytes(dtype)
  if (before !== undefined && length >= leastViewed && dtype !== 'bool' && beyond <= before) {
    const at = byteOffset - beyond
    if (beyond > 0) new Uint8Array(buffer).copyWithin(at, byteOffset, byteOffset + length)
    return hostView(dtype, buffer, at, n)
  }
  const copy = new Uint8Array(bytes.length)
  copy.set(bytes)
  if (dtype === 'bool') for (let i = 0; i < n; i++) copy[i] = copy[i] === 0 ? 0 : 1
  return hostView(dtype, copy.buffer, 0, n)
}

/** Elements from one of the typed fields. */
function fromFields(t: TensorProto, dtype: DType, n: number): HostArray {
  const source: readonly (number | bigint)[] =
    dtype === 'f32'
      ? t.floatData
      : dtype === 'f64'
        ? t.doubleData
        : dtype === 'i64'
          ? t.int64Data
          : dtype === 'u32' || dtype === 'u64'
            ? t.uint64Data
            : t.int32Data
  if (source.length !== n) throw bad(`tensor "${t.name}" has ${source.length} values for shape ${showShape(t.dims)}`)
  const out = hostArray(dtype, n)
  if (out instanceof BigInt64Array || out instanceof BigUint64Array) {
    source.forEach((v, i) => {
      out[i] = BigInt(v)
    })
  } else {
    source.forEach((v, i) => {
      out[i] = dtype === 'bool' ? (Number(v) === 0 ? 0 : 1) : Number(v)
    })
  }
  return out
}

/** External data stays inside the model's folder: no absolute path, no drive or scheme, no '..'. */
export function confineLocation(location: string, tensor: string): string {
  const parts = location.split(/[\\/]/)
  const escapes =
    location === '' ||
    location.includes('\0') ||
    /^[\\/]/.test(location) ||
    /^[A-Za-z][A-Za-z0-9+.-]*:/.test(location) ||
    parts.includes('..')
  if (escapes)
    throw new UserError(
      'E_ONNX_INPUT',
      `tensor "${tensor}" keeps its data at "${location}", outside the model's folder`,
      {
        help: 'external data must be a relative path below the folder of the model, without ".."',
      },
    )
  return parts.filter((p) => p !== '' && p !== '.').join('/')
}

function readWhole(text: string | undefined, what: string, tensor: string): number | undefined {
  if (text === undefined || text === '') return undefined
  const v = Number(text)
  if (!Number.isSafeInteger(v) || v < 0) throw bad(`tensor "${tensor}" has external ${what} "${text}"`)
  return v
}

/** What the host's loader throws comes out with the tensor's name. */
function readExternal(tensor: string, location: string, read: () => Uint8Array): Uint8Array {
  try {
    return read()
  } catch (cause) {
    if (cause instanceof UserError) throw cause
    const message = cause instanceof Error ? cause.message : String(cause)
    throw new UserError('E_ONNX_INPUT', `the data of tensor "${tensor}" in "${location}" cannot be read: ${message}`, {
      help: 'keep the data files beside the model',
      cause,
    })
  }
}

function externalBytes(t: TensorProto, bytes: number, load: ExternalLoader | undefined): Uint8Array {
  const location = confineLocation(t.externalData.get('location') ?? '', t.name)
  const offset = readWhole(t.externalData.get('offset'), 'offset', t.name) ?? 0
  const length = readWhole(t.externalData.get('length'), 'length', t.name)
  if (length !== undefined && length !== bytes)
    throw bad(`tensor "${t.name}" has external length ${length}, but its elements take ${bytes} bytes`)
  if (load === undefined)
    throw new UserError('E_ONNX_INPUT', `tensor "${t.name}" keeps its data in the file "${location}"`, {
      help: 'give a loader of external data (import from a file rather than from bytes)',
    })
  const got = readExternal(t.name, location, () => load(location, offset, bytes))
  return got.length > bytes ? got.subarray(0, bytes) : got
}

/** Codes of less than a byte are packed in files, in `int32Data` as in `rawData`. */
function codedTensor(t: TensorProto, coded: CodedType, n: number, load: ExternalLoader | undefined): HostTensor {
  const size = Math.ceil((n * codeBits(coded)) / 8)
  const bytes = t.external ? externalBytes(t, size, load) : (t.rawData ?? Uint8Array.from(t.int32Data))
  if (bytes.length !== size) throw bad(`tensor "${t.name}" has ${bytes.length} bytes for ${n} elements of ${coded}`)
  return { data: unpackCodes(bytes, coded, n), shape: t.dims, dtype: codeDType(coded), coded }
}

/** Bytes in front of a message's `rawData` that say its field and its length: the length of tensors that are viewed takes three of them or more. */
const rawDataHead = 4

/**
 * Host data of a TensorProto; where its bytes and the loader's are `donated`, in these. Throws E_ONNX_MALFORMED, E_ONNX_UNSUPPORTED (element type),
 * E_ONNX_INPUT (external data).
 */
export function tensorFromProto(t: TensorProto, load?: ExternalLoader, donated = false): HostTensor {
  const dtype = requireDType(t.dataType, `tensor "${t.name}"`)
  const n = sizeOf(t.dims)
  const coded = codedOfElement(t.dataType)
  if (coded !== undefined) return codedTensor(t, coded, n, load)
  if (t.external) {
    const bytes = externalBytes(t, n * dtypeBytes(dtype), load)
    return { data: fromBytes(bytes, dtype, n, t.name, donated ? 0 : undefined), shape: t.dims, dtype }
  }
  const data =
    t.rawData === undefined
      ? fromFields(t, dtype, n)
      : fromBytes(t.rawData, dtype, n, t.name, donated ? rawDataHead : undefined)
  // Where they stand now.
  if (donated && t.rawData !== undefined) t.rawData = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  return { data, shape: t.dims, dtype }
}

/** Reads a serialised TensorProto, as in the `.pb` files of ONNX's test cases. */
export function readTensorProto(bytes: Uint8Array): HostTensor & { readonly name: string } {
  const t = decodeTensor(bytes)
  return { ...tensorFromProto(t), name: t.name }
}
