/**
 * Machines that run blocks of threads, as their kernels are scheduled and emitted: units, registers, limits, and features by what they
 * make possible. Passes ask for a feature; no pass asks for a language or a device by name.
 */

import { type Prices, pricesByClass } from './prices.ts'

/** What code for the machine is written in. */
export type Language = 'cuda' | 'wgsl'

/**
 * When a kernel lets those that follow it in a graph be launched, which wait by themselves for it to end: as soon as all of its
 * blocks run (`start`), when what comes before it has ended too and its blocks all run at once (`work`), or when its blocks have ended
 * (`exit`).
 */
export type LaunchDependents = 'start' | 'work' | 'exit'
/** The same as an option; `never`: the driver starts them. */
export type EarlyStart = LaunchDependents | 'never'

/** Prices of an H200 by class of operation (bench/NOTES.md). */
export const gpuPrices = pricesByClass({ simple: 2.5e13, divide: 3e12, special: 2.5e12, random: 4e11 })

export interface SimtMachine {
  readonly language: Language

  // Blocks of threads.

  /** Most threads of a block. */
  readonly maxThreads: number
  /** Threads of a block as long as their registers hold its tiles; more only beyond. */
  readonly fewThreads: number
  /** log2 of the lanes that exchange registers (a warp, a subgroup of a known size); 0 without. */
  readonly laneBits: number
  /** Most blocks that run a program together (a cluster); 1: blocks run alone. */
  readonly clusters: number
  /** Multiprocessors, where they are known. */
  readonly multiprocessors?: number
  /** Most blocks of a launch along x, where the code finds its program by the row of the grid beyond. */
  readonly maxBlocks: number

  // Memory of a block, registers of a thread.

  /** Bytes of shared memory a block may have, and those it has without asking at launch. */
  readonly maxSharedBytes: number
  readonly staticSharedBytes: number
  /** Bytes that stay in the last cache while programs read them in turn. */
  readonly cachedBytes: number
  /** Registers a tile may take, and one along a row that is walked in chunks. */
  readonly registers: number
  readonly walkedRegisters: number
  /** Values of a tile that a thread should hold, and of what is elementwise alone. */
  readonly values: number
  readonly elementValues: number

  // Products.

  /** Products of 16-bit floats by the threads of a warp together (mma.sync). */
  readonly hasMatrixUnit: boolean
  /** The same by four warps, from shared memory (wgmma). */
  readonly hasWarpGroupProducts: boolean
  /** Products of halves by the lanes of a subgroup together, 16 x 16 x 16, with sums in f32; who has which element is not known. */
  readonly hasSubgroupMatrices: boolean
  /** Share of the shared memory that tiles of products read in vectors of four may take; 0: there are none. */
  readonly vectorTileShare: number
  /** Bytes that tiles of a chain of such products may take whole; indices of the depth that they are filled by where they would take more. */
  readonly vectorTiles: { readonly whole: number; readonly slice: number }
  /** Multiply-adds of a product that is worth their code, which takes longer to compile. */
  readonly leastProduct: number

  // What the machine and the compiler of its language do.

  /** Copies from memory to shared memory in the background. */
  readonly hasAsyncCopy: boolean
  /** Lanes of a warp may exchange registers where a condition holds for some warps of a block. */
  readonly exchangesInBranches: boolean
  /** An instruction that folds integers over all lanes. */
  readonly foldsLanes: boolean
  /** Lanes of a warp vote on a condition, and meet: what they wrote into shared memory before, all of them read behind it. */
  readonly votes: boolean
  /** Code says how many registers a thread may take; else the driver decides, and with many fewer threads are resident. */
  readonly boundsRegisters: boolean
  /** Loops over registers are written out wherever they stand: what stands in two nests is compiled twice. */
  readonly unrollsInPlace: boolean
  /** Instructions convert between f16 and f32 as IEEE 754 says: to the nearest, ties to even, with subnormals, infinities and NaN. */
  readonly hasHalfConversions: boolean
  /** Greatest and least floats say what they give of a NaN. */
  readonly ordersNaN: boolean
  /** Few statements under a condition cost no branch. */
  readonly hasPredication: boolean
  /** Parameters of unions may stand in a table of pointers (`KernelSource.table`). */
  readonly hasPointerTable: boolean
  /** Kernels wait for those before them in a graph and may be launched early; absent: they do not. */
  readonly launchDependents?: LaunchDependents

  // Times.

  /** Seconds of a merge over a cluster. */
  readonly mergeSeconds: number
  /** What operations cost the whole machine: its record's. */
  readonly prices: Prices
}

/** An NVIDIA H200 through CUDA (compute capability 9.0). */
export const cudaSimt: SimtMachine = {
  language: 'cuda',
  maxThreads: 1024,
  fewThreads: 1024,
  laneBits: 5,
  clusters: 8,
  multiprocessors: 132,
  maxBlocks: 2 ** 31 - 1,
  maxSharedBytes: 227 * 1024,
  staticSharedBytes: 48 * 1024,
  cachedBytes: 32 << 20,
  registers: 32,
  walkedRegisters: 32,
  values: 16,
  elementValues: 16,
  hasMatrixUnit: true,
  hasWarpGroupProducts: true,
  hasSubgroupMatrices: false,
  vectorTileShare: 0,
  vectorTiles: { whole: 224 * 1024, slice: 8 },
  leastProduct: 2 ** 22,
  hasAsyncCopy: true,
  exchangesInBranches: true,
  foldsLanes: true,
  votes: true,
  boundsRegisters: true,
  unrollsInPlace: false,
  hasHalfConversions: true,
  ordersNaN: true,
  hasPredication: true,
  hasPointerTable: true,
  mergeSeconds: 0.8e-6,
  prices: gpuPrices,
}

/** WebGPU's default limits, without subgroups. */
export const webgpuSimt: SimtMachine = webgpuSimtWith({
  maxThreads: 256,
  maxSharedBytes: 16384,
  laneBits: 0,
  hasHalfConversions: false,
  hasSubgroupMatrices: false,
})

/** A GPU through WebGPU, by its limits (threads and shared bytes of a workgroup, log2 of its subgroups' size) and what it was found to do. */
export function webgpuSimtWith(
  limits: Pick<
    SimtMachine,
    'maxThreads' | 'maxSharedBytes' | 'laneBits' | 'hasHalfConversions' | 'hasSubgroupMatrices'
  >,
): SimtMachine {
  return {
    language: 'wgsl',
    ...limits,
    // A driver gives registers as it likes: fewer threads are resident, and each should have more loads on their way.
    fewThreads: 128,
    clusters: 1,
    maxBlocks: Number.POSITIVE_INFINITY,
    staticSharedBytes: Number.POSITIVE_INFINITY,
    cachedBytes: 4 << 20,
    registers: 32,
    walkedRegisters: 16,
    values: 16,
    elementValues: 4,
    hasMatrixUnit: false,
    hasWarpGroupProducts: false,
    vectorTileShare: 0.5,
    vectorTiles: { whole: 0, slice: 8 },
    leastProduct: 2 ** 22,
    hasAsyncCopy: false,
    exchangesInBranches: false,
    foldsLanes: true,
    votes: false,
    boundsRegisters: false,
    unrollsInPlace: true,
    ordersNaN: false,
    hasPredication: false,
    hasPointerTable: false,
    mergeSeconds: 0,
    prices: gpuPrices,
  }
}
