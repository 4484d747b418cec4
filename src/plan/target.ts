/** Targets as data: what the cost model and the schedules know of a machine. */
import type { ProductDType } from '../types/product.ts'

/** A library of matrix products on a machine. */
export interface LibraryInfo {
  readonly name: string
  /** Operations a second of a large product, by the dtype of its operands. */
  readonly rate: Readonly<Record<ProductDType, number>>
  /** Seconds of a call beside its work. */
  readonly launch: number
  /** Products of fewer operations are kernels. */
  readonly leastFlops: number
  /** Products (by `productKey`) that it was found to have no algorithm for, and why. */
  readonly refused?: ReadonlyMap<string, string>
}

export interface TargetInfo {
  readonly name: string
  /** Bytes a second between memory and the device, streaming. */
  readonly bandwidth: number
  /** Multiply-adds (counted as two operations) a second in a matrix product. */
  readonly matrixRate: number
  /** The same of operands that are not 16-bit floats, where matrix units take only those; `matrixRate` unless given. */
  readonly plainMatrixRate?: number
  /** Simple elementwise operations a second, vectorised. */
  readonly simpleRate: number
  /** Divisions and square roots a second. */
  readonly divideRate: number
  /** Special functions (exp, log, tanh, erf ...) a second. */
  readonly specialRate: number
  /** Calls of the generator of random bits (64 bits each; Threefry-2x32) a second. */
  readonly randomRate: number
  /** Seconds from one kernel to the next. */
  readonly launch: number
  /** Most bytes of one value in memory, and of a program's intermediate values together: what addresses and bindings reach. */
  readonly mostBytes: { readonly value: number; readonly arena: number }
  /** Bits that positions in a kernel have: of elements, indices along axes, numbers of programs. */
  readonly positionBits: 32 | 64
  /** Buffers a kernel may bind. */
  readonly maxBuffers: number
  /** Most statements of one kernel (code size). */
  readonly maxStatements: number
  /** The same of a union of independent kernels: it may bind more where parameters stand in a table. */
  readonly maxUnionBuffers: number
  readonly maxUnionStatements: number
  /** A result that is written over what its kernel reads, of the same dtype and shape, is one binding with it. */
  readonly joinsOverwritten: boolean
  /** Inputs and results of one 32-bit value that a union may read beside its buffers. */
  readonly valueBuffers: number
  /** Parts of a union that are the same code count once: their parameters and extents stand in a table. */
  readonly sharesUnionCode: boolean
  /** Bytes of scratch a program may hold for a row that stays resident. */
  readonly rowBytes: number
  /** The same where a row must stay in one block of threads, if that is less: scans, strict sums, rows under cut reductions. */
  readonly blockRowBytes?: number
  /**
   * Bytes that a block of threads holds of the line of a scan: in registers, and in strict mode, where a thread walks it, in the memory
   * that the block shares. Longer lines are scanned in stages; absent: a program scans lines of any length.
   */
  readonly lineBytes?: { readonly fast: number; readonly strict: number }
  /** Time of reading a row's elements once more, of that of the first time; absent where rows that do not stay resident are refused. */
  readonly rereadShare?: number
  /** Block of a matrix product a program computes: rows, columns, depth of one step. */
  readonly dotBlock: {
    readonly m: number
    readonly n: number
    readonly k: number
    /** What blocks are multiples of (the largest that is not more than the block), beyond the extent if need be: matrix units. */
    readonly grains?: readonly number[]
    /** Columns of a block where there are more than `n` of them and the grid would otherwise have too few programs. */
    readonly fewColumns?: number
    /** What rows and columns of a block are multiples of where it does not hold all of an axis (8 and 16 unless given). */
    readonly quantum?: number
  }
  /**
   * When the depth of a product with few blocks (`below` of `minPrograms`) is cut: its modelled seconds (less, and a finishing stage
   * costs more than it brings), and the share of them that writing and reading partial results may take. Parts until there are
   * `fill` of `minPrograms`, which `units` of the machine share.
   */
  readonly depthSplit: {
    readonly leastSeconds: number
    readonly mostTraffic: number
    readonly below: number
    readonly fill: number
    readonly units: number
  }
  /** Elements of the rows a program works on at once where it goes through many. */
  readonly rowsAtOnce: number
  /** Elements an elementwise program covers. */
  readonly elementBlock: number
  /** Bytes that it loads at most where a quarter of those elements is less: programs then write while others read. */
  readonly elementBytes?: number
  /** Rows that an elementwise program takes of tensors beside one that is the same in all rows. */
  readonly sharedRows: number
  /** Bools between kernels are stored one bit an element. */
  readonly packBools: boolean
  /** Bytes that intermediate buffers are aligned to in their arena. */
  readonly alignment: number
  /** Fewest programs that keep the target busy. */
  readonly minPrograms: number
  /** Programs that go through rows of a tensor one after another: as many as run at once. Absent: however many suit the rows. */
  readonly rowPrograms?: number
  /**
   * Rows of fewer elements than `below` share a program, up to `points` elements; `sharing` times as many where they share much of
   * what they read, as long as enough programs remain.
   */
  readonly shortRows: { readonly below: number; readonly points: number; readonly sharing: number }
  /** The share of bandwidth and arithmetic that one program can use. Absent: a program uses all there is. */
  readonly programShare?: number
  /** Columns a program of a column-wise reduction takes at least: a reduction is cut where fewer programs would remain. */
  readonly columnBlock: number
  /** The same of a finishing stage, whose partial results come from the last cache. */
  readonly partialColumns: number
  /** Matrix products by a library of the machine, in fast mode; absent where there is none. */
  readonly library?: LibraryInfo
}

/** Memory that addresses of 32 bits reach, but for the last page. */
const memory32 = 65535 * 65536

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
  mostBytes: { value: memory32, arena: memory32 },
  positionBits: 32,
  maxBuffers: 64,
  maxStatements: 600,
  maxUnionBuffers: 16384,
  maxUnionStatements: 65536,
  joinsOverwritten: false,
  valueBuffers: 0,
  sharesUnionCode: false,
  rowBytes: 4 << 20,
  dotBlock: { m: 192, n: 256, k: 256 },
  depthSplit: { leastSeconds: 1e-4, mostTraffic: 0.06, below: 0.25, fill: 0.5, units: 1 },
  rowsAtOnce: 8192,
  elementBlock: 16384,
  sharedRows: 1,
  packBools: true,
  alignment: 64,
  minPrograms: 16,
  shortRows: { below: 64, points: 1024, sharing: 1 },
  columnBlock: 1,
  partialColumns: 64,
}

/** An NVIDIA H200 through CUDA (4.2 TB/s measured; dense bf16 through mma.sync). */
export const cudaTarget: TargetInfo = {
  ...wasmTarget,
  name: 'cuda',
  bandwidth: 4.2e12,
  matrixRate: 4.7e14,
  plainMatrixRate: 3.8e13,
  simpleRate: 2.5e13,
  divideRate: 3e12,
  specialRate: 2.5e12,
  randomRate: 4e11,
  launch: 3e-6,
  // Virtual addresses; how much of it there is, the allocator knows.
  mostBytes: { value: 2 ** 47, arena: 2 ** 47 },
  positionBits: 64,
  maxBuffers: 400,
  maxStatements: 400,
  maxUnionBuffers: 16384,
  maxUnionStatements: 400,
  sharesUnionCode: true,
  // Eight blocks of 1024 threads with 32 words each.
  rowBytes: 1 << 20,
  blockRowBytes: 128 << 10,
  lineBytes: { fast: 128 << 10, strict: 128 << 10 },
  // Mostly from the second-level cache.
  rereadShare: 0.4,
  dotBlock: { m: 128, n: 128, k: 64, grains: [16, 64] },
  // Partial results stay in the second-level cache.
  depthSplit: { leastSeconds: 5e-6, mostTraffic: 0.25, below: 0.25, fill: 0.75, units: 132 },
  rowsAtOnce: 4096,
  elementBlock: 2048,
  sharedRows: 2,
  packBools: false,
  minPrograms: 528,
  // A cluster of eight blocks, or a block that streams.
  programShare: 0.06,
  shortRows: { below: 1024, points: 2048, sharing: 1 },
  columnBlock: 128,
  // Few programs that wait for a cache leave most of its bandwidth.
  partialColumns: 16,
}

/** cuBLASLt on an H200: what large products reach on random data (bench/NOTES.md). f32 is summed and multiplied as f32. */
export const cublasLt: LibraryInfo = {
  name: 'cuBLASLt',
  rate: { bf16: 7e14, f16: 6.9e14, f32: 5e13, f64: 6e13 },
  launch: 2.5e-6,
  leastFlops: 1e8,
}

/** An NVIDIA GPU with cuBLASLt or without. */
export const cudaTargetWith = (library: boolean, clusters = true): TargetInfo => ({
  ...cudaTarget,
  ...(library ? { library: cublasLt } : {}),
  ...(clusters ? {} : { rowBytes: cudaTarget.blockRowBytes ?? cudaTarget.rowBytes }),
})

/** WebGPU's default limits: buffers a stage may bind, bytes that bindings must be aligned to, threads of a workgroup, bytes they share. */
export const webgpuDefaults = { storageBuffers: 8, alignment: 256, threads: 256, sharedBytes: 16384 }

/** What bindings and buffers of a discrete GPU have at most, where nothing else is known. */
const largestBinding = 2 ** 32 - 4

/** A discrete GPU through WebGPU, by the limits of its adapter (`webgpuDefaults` has the defaults); `valueBytes`: of a binding, and of a buffer. */
export const webgpuTarget = (
  storageBuffers = webgpuDefaults.storageBuffers,
  alignment = webgpuDefaults.alignment,
  threads = webgpuDefaults.threads,
  sharedBytes = webgpuDefaults.sharedBytes,
  valueBytes = largestBinding,
  arenaBytes = largestBinding,
): TargetInfo => ({
  ...cudaTarget,
  name: 'webgpu',
  matrixRate: 4e13,
  plainMatrixRate: 4e13,
  launch: 5e-6,
  mostBytes: { value: valueBytes, arena: arenaBytes },
  positionBits: 32,
  maxBuffers: storageBuffers,
  maxStatements: 300,
  maxUnionBuffers: storageBuffers,
  maxUnionStatements: 600,
  joinsOverwritten: true,
  // Uniform buffers of a stage, on every device.
  valueBuffers: 12,
  sharesUnionCode: false,
  // Blocks have few threads, and wait for each step of the depth.
  depthSplit: { leastSeconds: 5e-6, mostTraffic: 0.25, below: 1, fill: 2, units: 132 },
  // Both tiles of a step take half of the shared memory at most.
  dotBlock: { m: 128, n: 128, k: sharedBytes >= 32768 ? 16 : 8, fewColumns: 64, quantum: 32 },
  alignment,
  // As many words as the threads of a workgroup hold in 32 registers each.
  rowBytes: 128 * threads,
  blockRowBytes: 128 * threads,
  lineBytes: { fast: 128 * threads, strict: sharedBytes },
  rowsAtOnce: 2048,
  elementBlock: 2048,
  // Four words in flight a thread, of 128.
  elementBytes: 8192,
  minPrograms: 264,
  programShare: 0.03,
  rowPrograms: 264,
  columnBlock: 64,
  // Five times: a token's heads with its angles.
  shortRows: { below: 1024, points: 1024, sharing: 5 },
})
