/** NVIDIA GPUs through CUDA as machines. */
import type { LibraryInfo, SimtTarget } from './machine.ts'
import { cudaSimt, type EarlyStart, gpuPrices } from './simt.ts'

/** Bytes of the rows that a program may hold: a cluster of eight blocks of 1024 threads with 32 words each, and one such block. */
const clusterRowBytes = 1 << 20
const blockRowBytes = 128 << 10

/** Bytes of a block that runs chains of products, beside those its exchanges and the device take. */
const chainBytes = (sharedBytes: number): number => sharedBytes - (3 << 10)

/** An NVIDIA H200 through CUDA (4.2 TB/s measured; dense bf16 through mma.sync), without a library of products. */
export const cudaTarget: SimtTarget = {
  name: 'cuda',
  memories: [{ bytes: Number.POSITIVE_INFINITY, bandwidth: 4.2e12 }],
  overlap: 1,
  matrixRate: 4.7e14,
  plainMatrixRate: 3.8e13,
  tf32MatrixRate: 2.4e14,
  tf32x3MatrixRate: 7.4e13,
  precision: 'tf32x3',
  prices: gpuPrices,
  launch: 3e-6,
  stageLaunch: 1e-6,
  // Virtual addresses; how much of it there is, the allocator knows.
  mostBytes: { value: 2 ** 47, arena: 2 ** 47 },
  positionBits: 64,
  maxBuffers: 400,
  maxStatements: 400,
  maxUnionBuffers: 16384,
  maxUnionStatements: 400,
  joinsOverwritten: false,
  valueBuffers: 0,
  countsLoops: false,
  sharesUnionCode: true,
  rowBytes: clusterRowBytes,
  blockRowBytes,
  // What the registers of 1024 threads hold, and the memory they share.
  lineBytes: { fast: 128 << 10, strict: 128 << 10 },
  memoryLine: 128,
  memorySector: 32,
  // Mostly from the second-level cache.
  rereadShare: 0.4,
  dotBlock: {
    m: 128,
    n: 128,
    k: 64,
    grains: [16, 64],
    deep: { rows: 16, columns: 64, bytes: 256, stepSeconds: 0.5e-6 },
    stepSeconds: 1e-6,
    tileRate: 8e12,
    gatherSeconds: { 2: 2.4e-12, 4: 1.2e-12, far: 5e-12 },
    storeSeconds: 1e-11,
    fillSeconds: { computed: 0.8e-12, load: 1.4e-12, factorLoad: 0.3e-12, factorFunction: 3e-12 },
  },
  // A warp has 16 rows of a block, and all columns of the products in registers. What is hidden is measured (bench/NOTES.md).
  chains: {
    rows: 128,
    shared: 64,
    width: 256,
    grain: 16,
    wide: { beyond: 64, grain: 32 },
    long: { shared: 128, columns: 192, columnsBeside: 176 },
    bytes: chainBytes(cudaSimt.maxSharedBytes),
    columns: 400,
    rates: { narrow: 6e14, beyond: 128, widePair: 5e14, wide: 4.2e14 },
    hidden: 0.9,
    besideRates: { along: 5e12, readAcross: 2.7e12, writtenAcross: 8e11 },
  },
  // Rates beside those of products that store their results, which reach half of what large ones do (bench/NOTES.md).
  vectorChains: {
    blocks: [
      { rows: 128, shared: 64, rate: 6e13, sliced: 5e13 },
      { rows: 64, shared: 64, rate: 5e13, sliced: 4e13 },
      { rows: 64, shared: 32, rate: 4.5e13, sliced: 3.5e13 },
      { rows: 32, shared: 32, rate: 3e13, sliced: 2.5e13 },
      { rows: 32, shared: 16, rate: 2e13, sliced: 1.5e13 },
    ],
    bytes: chainBytes(cudaSimt.maxSharedBytes),
    columns: 256,
    ofRate: { severalTiles: 0.6, halves: 0.8 },
    share: 1 / 264,
  },
  rowsAtOnce: 4096,
  elementBlock: 2048,
  sharedRows: 2,
  rowAlignment: { bytes: 16, least: 2 ** 16, room: 1 / 8, widest: 4 },
  packBools: false,
  alignment: 64,
  apartBytes: 16 << 20,
  minPrograms: 528,
  slidingWindows: { most: 8, threads: 128 },
  // A block that streams (bench/NOTES.md), and a multiprocessor.
  programShare: { moving: 1 / 60, computing: 1 / 132, columns: 1 / 140 },
  shortRows: { below: 1024, points: 2048, sharing: 1 },
  columnBlock: 128,
  // Few programs that wait for a cache leave most of its bandwidth.
  partialColumns: 16,
  simt: cudaSimt,
}

/** cuBLASLt on an H200: what large products reach on random data (bench/NOTES.md). f32 is summed and multiplied as f32. */
export const cublasLt: LibraryInfo = {
  name: 'cuBLASLt',
  rate: { bf16: 7e14, f16: 6.9e14, f32: 5e13, tf32: 4e14, f64: 6e13 },
  cuts: true,
  shares: [
    { bytes: 16, share: 1 },
    { bytes: 8, share: 0.37 },
    { bytes: 1, share: 0.2 },
  ],
  launch: 2.5e-6,
  leastFlops: 1e8,
  leastRows: 64,
  restShare: 0.3,
}

/** What is known of a device: its compute capability (90 is 9.0), multiprocessors, and bytes of shared memory a block may ask for. */
export interface CudaDeviceFacts {
  readonly capability: number
  readonly multiprocessors: number
  readonly sharedBytes: number
  /** Whether products may be calls of cuBLASLt. */
  readonly hasLibrary: boolean
  /** When kernels let others start, where the device can (`work` unless given). */
  readonly earlyStart?: EarlyStart | undefined
}

/** A device as a machine. */
export function cudaTargetOf({
  capability,
  multiprocessors,
  sharedBytes,
  hasLibrary,
  earlyStart = 'work',
}: CudaDeviceFacts): SimtTarget {
  const isHopper = capability >= 90
  const hasMatrixUnit = capability >= 80
  const hasGroups = capability === 90
  const { chains, vectorChains, precision, ...others } = cudaTarget
  const maxSharedBytes = Math.min(cudaSimt.maxSharedBytes, sharedBytes)
  // Only groups of warps leave room for wide results and long steps, and reach the unit's rate; single warps read tiles of any width alike.
  const rates = { narrow: 2.6e14, beyond: 128, widePair: 2.6e14, wide: 2.6e14 }
  const alone = { width: 128, columns: 320, rates, hidden: 0, wide: { beyond: 0, grain: 16 }, long: undefined }
  return {
    ...others,
    ...(hasMatrixUnit && chains !== undefined
      ? { chains: { ...chains, ...(hasGroups ? {} : alone), bytes: chainBytes(maxSharedBytes) } }
      : {}),
    ...(vectorChains === undefined ? {} : { vectorChains: { ...vectorChains, bytes: chainBytes(maxSharedBytes) } }),
    precision: hasMatrixUnit ? precision : 'ieee',
    ...(hasLibrary ? { library: cublasLt } : {}),
    ...(isHopper ? {} : { rowBytes: blockRowBytes }),
    simt: {
      ...cudaSimt,
      vectorTiles: { ...cudaSimt.vectorTiles, whole: chainBytes(maxSharedBytes) },
      multiprocessors,
      clusters: isHopper ? cudaSimt.clusters : 1,
      maxSharedBytes,
      hasMatrixUnit,
      hasAsyncCopy: hasMatrixUnit,
      foldsLanes: hasMatrixUnit,
      hasWarpGroupProducts: hasGroups,
      ...(isHopper && earlyStart !== 'never' ? { launchDependents: earlyStart } : {}),
    },
  }
}
