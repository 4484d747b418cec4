/**
 * cuBLASLt through the FFI library, behind the interfaces of `driver.ts`: descriptions of products, the algorithm its heuristic
 * chooses, and calls. Values of enumerations are those of cublasLt.h and library_types.h (CUDA 12 and 13).
 */
import { ProductRefused } from '../../runtime/backend.ts'
import {
  describeProduct,
  type ProductDType,
  productKey,
  type StridedMatrix,
  type StridedProduct,
} from '../../types/product.ts'
import {
  type CudaContext,
  DriverError,
  type FoundProduct,
  type ProductAlignment,
  type ProductHandle,
  type ProductLibrary,
} from './driver.ts'
import {
  type Ffi,
  loadFfi,
  loadProductLibrary,
  type NativeArgument,
  type NativeFunction,
  type NativeLibrary,
} from './library.ts'

const u64 = 'uint64_t'
const u32 = 'uint32_t'

const signatures = {
  cublasLtCreate: ['void*'],
  cublasLtDestroy: [u64],
  cublasLtMatmulDescCreate: ['void*', u32, u32],
  cublasLtMatmulDescSetAttribute: [u64, u32, 'void*', u64],
  cublasLtMatmulDescDestroy: [u64],
  cublasLtMatrixLayoutCreate: ['void*', u32, u64, u64, u64],
  cublasLtMatrixLayoutSetAttribute: [u64, u32, 'void*', u64],
  cublasLtMatrixLayoutDestroy: [u64],
  cublasLtMatmulPreferenceCreate: ['void*'],
  cublasLtMatmulPreferenceSetAttribute: [u64, u32, 'void*', u64],
  cublasLtMatmulPreferenceDestroy: [u64],
  cublasLtMatmulAlgoGetHeuristic: [u64, u64, u64, u64, u64, u64, u64, 'int', 'void*', 'void*'],
  cublasLtMatmul: [
    u64, // handle
    u64, // operation
    'void*', // alpha
    u64, // A
    u64,
    u64, // B
    u64,
    'void*', // beta
    u64, // C
    u64,
    u64, // D
    u64,
    'void*', // algorithm
    u64, // workspace
    u64,
    u64, // stream
  ],
} as const

type Name = keyof typeof signatures

const dataType: Readonly<Record<ProductDType, number>> = { f32: 0, f64: 1, f16: 2, bf16: 14 }
/** CUBLAS_COMPUTE_32F, which multiplies f32 as f32, and CUBLAS_COMPUTE_64F. */
const computeType = { f32: 68, f64: 70 } as const
/** CUBLAS_COMPUTE_32F_FAST_TF32. */
const fastTf32 = 77
const transposed = { N: 0, T: 1 } as const
const operation = { transA: 3, transB: 4 } as const
const layout = { batchCount: 5, batchStride: 6 } as const
const preference = { workspace: 1, reductionScheme: 3, alignA: 5, alignB: 6, alignC: 7, alignD: 8 } as const
/** Partial sums are kept and added in the type they are computed in, not in that of the result. */
const reduceInComputeType = 2

/** Bytes of cublasLtMatmulAlgo_t, and of cublasLtMatmulHeuristicResult_t: it, workspace, status, waves, four words. */
const algorithmBytes = 64
const heuristicBytes = 96
const candidates = 4

const notSupported = 15

class Calls {
  readonly functions: Readonly<Record<Name, NativeFunction>>
  private readonly statusName: NativeFunction
  private readonly ffi: Ffi

  constructor(ffi: Ffi, library: NativeLibrary) {
    this.ffi = ffi
    this.functions = Object.fromEntries(
      Object.entries(signatures).map(([name, args]) => [name, library.func(name, 'int', args)]),
    ) as Record<Name, NativeFunction>
    this.statusName = library.func('cublasLtGetStatusName', u64, ['int'])
  }

  call(name: Name, ...args: readonly NativeArgument[]): void {
    const status = this.functions[name](...args)
    if (status !== 0) throw new DriverError(name, this.nameOf(status), 'cuBLASLt')
  }

  handle(name: Name, ...args: readonly NativeArgument[]): number {
    const out = new BigUint64Array(1)
    this.call(name, out, ...args)
    return Number(out[0])
  }

  nameOf(status: number): string {
    const at = this.statusName(status)
    if (Number(at) === 0) return `status ${status}`
    const bytes = new Uint8Array(this.ffi.view(BigInt(at), 64))
    const end = bytes.indexOf(0)
    return new TextDecoder().decode(bytes.slice(0, end < 0 ? bytes.length : end))
  }
}

/** cuBLASLt of this machine, or why there is none. */
export function openProducts(): ProductLibrary | { readonly missing: string } {
  try {
    const ffi = loadFfi()
    const library = loadProductLibrary(ffi)
    if ('missing' in library) return library
    const version = Number(library.func('cublasLtGetVersion', u64, [])())
    const calls = new Calls(ffi, library)
    // 130100 is 13.1.0, and so is 120605 12.6.5.
    const shown = `${Math.floor(version / 10000)}.${Math.floor(version / 100) % 100}.${version % 100}`
    return { version: shown, open: (context) => new Handle(calls, context) }
  } catch (e) {
    return { missing: e instanceof Error ? e.message : String(e) }
  }
}

/** The product whose result is stored by columns, as BLAS stores them: a result by rows is the transposed one by columns. */
function byColumns(p: StridedProduct): { readonly product: StridedProduct; readonly swapped: boolean } {
  if (p.out.order === 'columns') return { product: p, swapped: false }
  const turn = <M extends StridedMatrix>(x: M): M => ({ ...x, order: x.order === 'rows' ? 'columns' : 'rows' })
  const added = p.addend === undefined ? {} : { addend: turn(p.addend) }
  return { product: { ...p, m: p.n, n: p.m, a: turn(p.b), b: turn(p.a), out: turn(p.out), ...added }, swapped: true }
}

class Handle implements ProductHandle {
  private readonly calls: Calls
  private readonly context: CudaContext
  private readonly handle: number
  /** Descriptions made, and what takes each away. */
  private readonly made: { readonly destroy: Name; readonly object: number }[] = []

  constructor(calls: Calls, context: CudaContext) {
    this.calls = calls
    this.context = context
    context.activate()
    this.handle = calls.handle('cublasLtCreate')
  }

  private make(create: Name, destroy: Name, ...args: readonly number[]): number {
    const object = this.calls.handle(create, ...args)
    this.made.push({ destroy, object })
    return object
  }

  private layout(x: StridedMatrix, rows: number, columns: number, batches: number): number {
    const [r, c] = x.order === 'columns' ? [rows, columns] : [columns, rows]
    const { calls } = this
    const made = this.make(
      'cublasLtMatrixLayoutCreate',
      'cublasLtMatrixLayoutDestroy',
      dataType[x.dtype],
      r,
      c,
      x.leading,
    )
    if (batches > 1) {
      calls.call('cublasLtMatrixLayoutSetAttribute', made, layout.batchCount, Int32Array.of(batches), 4)
      calls.call('cublasLtMatrixLayoutSetAttribute', made, layout.batchStride, BigInt64Array.of(BigInt(x.batch)), 8)
    }
    return made
  }

  find(wanted: StridedProduct, alignment: ProductAlignment, workspaceBytes: number): FoundProduct {
    this.context.activate()
    const { calls } = this
    // Counts of the library are of 32 bits; strides and places of more.
    const most = Math.max(wanted.batches, wanted.m, wanted.n, wanted.k)
    if (most >= 2 ** 31)
      throw new ProductRefused(productKey(wanted), `cuBLASLt counts ${most} in 32 bits: ${describeProduct(wanted)}`)
    const { product, swapped } = byColumns(wanted)
    const { batches, m, n, k, alpha, a, b, out, addend } = product
    const sums = a.dtype === 'f64' ? 'f64' : 'f32'
    const operationOf = this.make(
      'cublasLtMatmulDescCreate',
      'cublasLtMatmulDescDestroy',
      product.precision === 'tf32' ? fastTf32 : computeType[sums],
      dataType[sums],
    )
    const set = (attribute: number, x: StridedMatrix): void => {
      const value = x.order === 'rows' ? transposed.T : transposed.N
      calls.call('cublasLtMatmulDescSetAttribute', operationOf, attribute, Int32Array.of(value), 4)
    }
    set(operation.transA, a)
    set(operation.transB, b)
    const la = this.layout(a, m, k, batches)
    const lb = this.layout(b, k, n, batches)
    const lo = this.layout(out, m, n, batches)
    // The library reads where it writes only what has the layout of the result. Without an addend it reads nothing there.
    const lc = addend === undefined ? lo : this.layout(addend, m, n, batches)
    const result = this.heuristic(wanted, operationOf, [la, lb, lc, lo], workspaceBytes, {
      ...alignment,
      ...(swapped ? { a: alignment.b, b: alignment.a } : {}),
    })
    const algorithm = result.slice(0, algorithmBytes)
    const scalar = (x: number): ArrayBufferView => (sums === 'f64' ? Float64Array.of(x) : Float32Array.of(x))
    const [ofProduct, ofAddend] = [scalar(alpha), scalar(addend?.beta ?? 0)]
    const bytes = Number(new DataView(result.buffer).getBigUint64(algorithmBytes, true))
    const { handle } = this
    return {
      workspaceBytes: bytes,
      enqueue: (at, workspace, stream) => {
        const [x, y] = swapped ? [at.b, at.a] : [at.a, at.b]
        const { out: to, addend: from = to } = at
        calls.call(
          'cublasLtMatmul',
          ...[handle, operationOf, ofProduct, x, la, y, lb, ofAddend, from, lc, to, lo],
          ...[algorithm, workspace, bytes, stream],
        )
      },
    }
  }

  /** The heuristic's first result that works. Throws ProductRefused. */
  private heuristic(
    wanted: StridedProduct,
    operationOf: number,
    [la, lb, lc, lo]: readonly [number, number, number, number],
    workspaceBytes: number,
    align: ProductAlignment,
  ): Uint8Array {
    const { calls } = this
    const wishes = calls.handle('cublasLtMatmulPreferenceCreate')
    try {
      const set = (attribute: number, value: ArrayBufferView): void =>
        calls.call('cublasLtMatmulPreferenceSetAttribute', wishes, attribute, value, value.byteLength)
      set(preference.workspace, BigUint64Array.of(BigInt(workspaceBytes)))
      set(preference.reductionScheme, Uint32Array.of(reduceInComputeType))
      set(preference.alignA, Uint32Array.of(align.a))
      set(preference.alignB, Uint32Array.of(align.b))
      set(preference.alignC, Uint32Array.of(align.addend ?? align.out))
      set(preference.alignD, Uint32Array.of(align.out))
      const results = new Uint8Array(new ArrayBuffer(candidates * heuristicBytes))
      const count = new Int32Array(1)
      const status = calls.functions.cublasLtMatmulAlgoGetHeuristic(
        ...[this.handle, operationOf, la, lb, lc, lo, wishes, candidates, results, count],
      )
      if (status !== 0 && status !== notSupported)
        throw new DriverError('cublasLtMatmulAlgoGetHeuristic', calls.nameOf(status), describeProduct(wanted))
      const view = new DataView(results.buffer)
      for (let i = 0; i < (status === 0 ? (count[0] ?? 0) : 0); i++) {
        const at = i * heuristicBytes
        if (view.getInt32(at + algorithmBytes + 8, true) === 0) return results.slice(at, at + heuristicBytes)
      }
      const why = status === 0 ? 'no result' : calls.nameOf(status)
      throw new ProductRefused(productKey(wanted), `cuBLASLt has no algorithm for ${describeProduct(wanted)}: ${why}`)
    } finally {
      calls.call('cublasLtMatmulPreferenceDestroy', wishes)
    }
  }

  dispose(): void {
    for (const { destroy, object } of this.made) this.calls.call(destroy, object)
    this.made.length = 0
    this.calls.call('cublasLtDestroy', this.handle)
  }
}
