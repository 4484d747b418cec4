/** Targets as data: what the cost model and the schedules know of a machine. */

export interface TargetInfo {
  readonly name: string
  /** Bytes a second between memory and the device, streaming. */
  readonly bandwidth: number
  /** Multiply-adds (counted as two operations) a second in a matrix product. */
  readonly matrixRate: number
  /** Simple elementwise operations a second, vectorised. */
  readonly simpleRate: number
  /** Divisions and square roots a second. */
  readonly divideRate: number
  /** Special functions (exp, log, tanh, erf ...) a second. */
  readonly specialRate: number
  /** Random words (Threefry-2x32) a second. */
  readonly randomRate: number
  /** Seconds from one kernel to the next. */
  readonly launch: number
  /** Buffers a kernel may bind. */
  readonly maxBuffers: number
  /** Most statements of one kernel (code size). */
  readonly maxStatements: number
  /** The same of a union of independent kernels: it may bind more where parameters stand in a table. */
  readonly maxUnionBuffers: number
  readonly maxUnionStatements: number
  /** Bytes of scratch a program may hold for a row that stays resident. */
  readonly rowBytes: number
  /** Time of reading a row's elements once more, of that of the first time; absent where rows that do not stay resident are refused. */
  readonly rereadShare?: number
  /** Block of a matrix product a program computes: rows, columns, depth of one step. */
  readonly dotBlock: { readonly m: number; readonly n: number; readonly k: number }
  /** Elements of the rows a program works on at once where it goes through many. */
  readonly rowsAtOnce: number
  /** Elements an elementwise program covers. */
  readonly elementBlock: number
  /** Bools between kernels are stored one bit an element. */
  readonly packBools: boolean
  /** Bytes that intermediate buffers are aligned to in their arena. */
  readonly alignment: number
  /** Fewest programs that keep the target busy. */
  readonly minPrograms: number
  /** Parts of a union that are the same code count once: their parameters and extents stand in a table. */
  readonly sharesUnionCode: boolean
  /** Rows of fewer elements than `below` share a program, up to `points` elements. */
  readonly shortRows: { readonly below: number; readonly points: number }
  /** Columns a program of a column-wise reduction takes at least: a reduction is cut where fewer programs would remain. */
  readonly columnBlock: number
}

/** WebAssembly with 128-bit SIMD on one core of a server CPU (bench/NOTES.md has the measurements behind the rates). */
export const wasmTarget: TargetInfo = {
  name: 'wasm',
  bandwidth: 11e9,
  matrixRate: 50e9,
  simpleRate: 8e9,
  divideRate: 3e9,
  specialRate: 1.3e9,
  randomRate: 0.15e9,
  launch: 0.5e-6,
  maxBuffers: 64,
  maxStatements: 600,
  maxUnionBuffers: 16384,
  maxUnionStatements: 65536,
  rowBytes: 4 << 20,
  dotBlock: { m: 192, n: 256, k: 256 },
  rowsAtOnce: 8192,
  elementBlock: 16384,
  packBools: true,
  alignment: 64,
  minPrograms: 16,
  shortRows: { below: 64, points: 1024 },
  columnBlock: 1,
}

/** An NVIDIA H200 through CUDA (4.2 TB/s measured; dense bf16 through mma.sync). */
export const cudaTarget: TargetInfo = {
  ...wasmTarget,
  name: 'cuda',
  bandwidth: 4.2e12,
  matrixRate: 4e14,
  simpleRate: 2.5e13,
  divideRate: 3e12,
  specialRate: 2.5e12,
  randomRate: 4e11,
  launch: 3e-6,
  maxBuffers: 400,
  maxStatements: 400,
  sharesUnionCode: false,
  maxUnionBuffers: 16384,
  maxUnionStatements: 400,
  sharesUnionCode: true,
  rowBytes: 128 << 10,
  // Mostly from the second-level cache.
  rereadShare: 0.4,
  dotBlock: { m: 128, n: 128, k: 32 },
  rowsAtOnce: 4096,
  elementBlock: 2048,
  packBools: false,
  minPrograms: 528,
  shortRows: { below: 1024, points: 2048 },
  columnBlock: 64,
}

/**
 * A discrete GPU through WebGPU, by the limits of its adapter: buffers a stage may bind (8 by default), bytes that bindings
 * must be aligned to.
 */
export const webgpuTarget = (storageBuffers = 8, alignment = 256): TargetInfo => ({
  ...cudaTarget,
  name: 'webgpu',
  matrixRate: 2e13,
  launch: 5e-6,
  maxBuffers: storageBuffers,
  maxStatements: 300,
  maxUnionBuffers: storageBuffers,
  maxUnionStatements: 600,
  dotBlock: { m: 64, n: 64, k: 16 },
  alignment,
  rowsAtOnce: 2048,
  elementBlock: 2048,
  minPrograms: 264,
})
  sharesUnionCode: false,
