/**
 * NumPy's `.npy` files, versions 1 to 3 (NEP 1). f16 is `<f2`; bf16, which NumPy lacks, is the two raw bytes `<V2` that
 * NumPy itself writes for such arrays.
 */
import { UserError } from '../diagnostics/errors.ts'
import type { HostTensor } from '../onnx/index.ts'
import { type DType, dtypeBytes } from '../types/dtype.ts'
import { hostView } from '../types/host.ts'
import { sizeOf } from '../types/shape.ts'

const descriptors: Readonly<Record<DType, string>> = {
  f32: '<f4',
  f64: '<f8',
  f16: '<f2',
  bf16: '<V2',
  i8: '|i1',
  i16: '<i2',
  i32: '<i4',
  i64: '<i8',
  u8: '|u1',
  u16: '<u2',
  u32: '<u4',
  u64: '<u8',
  bool: '|b1',
}

/** dtype by kind and width: the descriptor without its byte order. */
const byKind = new Map<string, DType>(
  (Object.entries(descriptors) as [DType, string][]).map(([dtype, d]) => [d.slice(1), dtype]),
)

const magic = [0x93, 0x4e, 0x55, 0x4d, 0x50, 0x59] as const

const bad = (name: string, what: string, help?: string): UserError =>
  new UserError('E_FILE', `${name} is no readable .npy file: ${what}`, help === undefined ? {} : { help })

interface Header {
  readonly dtype: DType
  readonly bigEndian: boolean
  readonly fortran: boolean
  readonly shape: number[]
}

function parseHeader(text: string, name: string): Header {
  const descr = /'descr'\s*:\s*'([^']*)'/.exec(text)?.[1]
  const order = /'fortran_order'\s*:\s*(True|False)/.exec(text)?.[1]
  const dims = /'shape'\s*:\s*\(([^)]*)\)/.exec(text)?.[1]
  if (order === undefined || dims === undefined) throw bad(name, 'its header is not that of an array')
  if (descr === undefined) throw bad(name, 'it holds records', 'save a plain numeric array')
  const dtype = byKind.get(descr.slice(1))
  if (dtype === undefined)
    throw bad(name, `its dtype '${descr}' is not supported`, `convert it to one of ${[...byKind.keys()].join(', ')}`)
  const shape = dims
    .split(',')
    .map((d) => d.trim())
    .filter((d) => d !== '')
    .map(Number)
  if (!shape.every((d) => Number.isSafeInteger(d) && d >= 0)) throw bad(name, `its shape is (${dims})`)
  return { dtype, bigEndian: descr.startsWith('>'), fortran: order === 'True', shape }
}

/** Reverses the bytes of each element in place. */
function swapBytes(bytes: Uint8Array, width: number): void {
  for (let i = 0; i + width <= bytes.length; i += width) bytes.subarray(i, i + width).reverse()
}

/** Column-major elements in row-major order. */
function toRowMajor(bytes: Uint8Array, shape: readonly number[], width: number): Uint8Array {
  const out = new Uint8Array(bytes.length)
  const index = new Array<number>(shape.length).fill(0)
  const strides = shape.map((_, i) => shape.slice(0, i).reduce((n, d) => n * d, 1))
  for (let to = 0; to < bytes.length; to += width) {
    const from = index.reduce((n, v, i) => n + v * (strides[i] ?? 0), 0) * width
    out.set(bytes.subarray(from, from + width), to)
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      const v = (index[axis] ?? 0) + 1
      index[axis] = v === shape[axis] ? 0 : v
      if (v !== shape[axis]) break
    }
  }
  return out
}

/** Reads a `.npy` file's bytes; `name` is what errors call it. Throws E_FILE. */
export function readNpy(bytes: Uint8Array, name: string): HostTensor {
  if (bytes.length < 10 || magic.some((m, i) => bytes[i] !== m)) throw bad(name, 'it does not start as one')
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  const version = view.getUint8(6)
  if (version < 1 || version > 3) throw bad(name, `its version is ${version}`)
  const start = version === 1 ? 10 : 12
  if (bytes.length < start) throw bad(name, 'it is truncated')
  const end = start + (version === 1 ? view.getUint16(8, true) : view.getUint32(8, true))
  if (bytes.length < end) throw bad(name, 'its header is truncated')
  const { dtype, bigEndian, fortran, shape } = parseHeader(new TextDecoder().decode(bytes.subarray(start, end)), name)
  const n = sizeOf(shape)
  const width = dtypeBytes(dtype)
  const got = bytes.length - end
  if (got !== n * width) throw bad(name, `${got} bytes of data where shape [${shape.join(', ')}] needs ${n * width}`)
  let data = new Uint8Array(got)
  data.set(bytes.subarray(end))
  if (bigEndian) swapBytes(data, width)
  if (fortran && shape.length > 1) data = toRowMajor(data, shape, width) as typeof data
  return { data: hostView(dtype, data.buffer, 0, n), shape, dtype }
}

/** The bytes of a `.npy` file, version 1, row-major, little-endian. */
export function writeNpy(tensor: HostTensor): Uint8Array {
  const { data, shape, dtype } = tensor
  const dims = shape.length === 1 ? `${shape[0]},` : shape.join(', ')
  const dict = `{'descr': '${descriptors[dtype]}', 'fortran_order': False, 'shape': (${dims}), }`
  // Data starts at a multiple of 64 bytes.
  const length = Math.ceil((10 + dict.length + 1) / 64) * 64 - 10
  const header = new TextEncoder().encode(`${dict.padEnd(length - 1)}\n`)
  const out = new Uint8Array(10 + length + data.byteLength)
  out.set(magic)
  out.set([1, 0, length & 255, length >> 8], 6)
  out.set(header, 10)
  out.set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), 10 + length)
  return out
}
