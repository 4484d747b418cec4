/** GPUs through WebGPU as machines. */
import type { SimtTarget } from './machine.ts'
import { gpuPrices, webgpuSimtWith } from './simt.ts'

/** What a device allows (the specification's limits), and what is known of its subgroups. */
export interface WebgpuLimits {
  /** Buffers a stage may bind. */
  readonly storageBuffers: number
  /** Bytes that bindings must be aligned to. */
  readonly alignment: number
  /** Threads of a workgroup, and bytes they share. */
  readonly threads: number
  readonly sharedBytes: number
  /** Most bytes of a binding, and of a buffer. */
  readonly valueBytes: number
  readonly arenaBytes: number
  /** log2 of the lanes of a subgroup, where all have as many; 0 without. */
  readonly laneBits: number
  /** Built-in functions convert between f16 and f32 as IEEE 754 says. */
  readonly hasHalfConversions: boolean
  /** Subgroups multiply matrices of 16 x 16 halves with sums in f32. */
  readonly hasSubgroupMatrices: boolean
}

/** What bindings and buffers of a discrete GPU have at most, where nothing else is known. */
const largestBinding = 2 ** 32 - 4

/** WebGPU's default limits, but for the bytes of bindings and buffers. */
export const webgpuDefaults: WebgpuLimits = {
  storageBuffers: 8,
  alignment: 256,
  threads: 256,
  sharedBytes: 16384,
  valueBytes: largestBinding,
  arenaBytes: largestBinding,
  laneBits: 0,
  hasHalfConversions: false,
  hasSubgroupMatrices: false,
}

/** A discrete GPU through WebGPU, by the limits of its device (`webgpuDefaults` unless given). */
export function webgpuTarget(given: Partial<WebgpuLimits> = {}): SimtTarget {
  const limits = { ...webgpuDefaults, ...given }
  const { storageBuffers, threads, sharedBytes, laneBits, hasHalfConversions } = limits
  // A block's tiles of 128 x 32 take 20 KiB.
  const hasSubgroupMatrices = limits.hasSubgroupMatrices && sharedBytes >= 32768
  // As many words as the threads of a workgroup hold in 32 registers each.
  const rowBytes = 128 * threads
  return {
    name: 'webgpu',
    memories: [{ bytes: Number.POSITIVE_INFINITY, bandwidth: 4.2e12 }],
    overlap: 1,
    matrixRate: 4e13,
    plainMatrixRate: 4e13,
    ...(hasSubgroupMatrices ? { oneDtypeUnit: { dtype: 'f16', rate: 1.5e14, depth: 32 } } : {}),
    precision: 'ieee',
    prices: gpuPrices,
    launch: 5e-6,
    stageLaunch: 5e-6,
    mostBytes: { value: limits.valueBytes, arena: limits.arenaBytes },
    positionBits: 32,
    maxBuffers: storageBuffers,
    maxStatements: 300,
    maxUnionBuffers: storageBuffers,
    maxUnionStatements: 600,
    joinsOverwritten: true,
    // Uniform buffers of a stage, on every device.
    valueBuffers: 12,
    countsLoops: false,
    sharesUnionCode: false,
    rowBytes,
    blockRowBytes: rowBytes,
    lineBytes: { fast: rowBytes, strict: sharedBytes },
    // Mostly from the second-level cache.
    rereadShare: 0.4,
    // Both tiles of a step take half of the shared memory at most.
    dotBlock: {
      m: 128,
      n: 128,
      k: sharedBytes >= 32768 ? 16 : 8,
      fewColumns: 64,
      quantum: 32,
      stepSeconds: 0.5e-6,
    },
    vectorChains: {
      blocks: [
        // Measured at widths of 64 and 128. Of 64 by 64 a thread would hold twice the results: as quick at 64, slower at 128.
        { rows: 64, shared: 32, rate: 1.8e13, sliced: 2e13 },
        { rows: 32, shared: 32, rate: 1e13, sliced: 1.2e13 },
        { rows: 32, shared: 16, rate: 6e12, sliced: 8e12 },
        { rows: 16, shared: 16, rate: 3e12, sliced: 4e12 },
        { rows: 16, shared: 8, rate: 2e12, sliced: 2e12 },
      ],
      bytes: sharedBytes - 512,
      columns: 256,
      ofRate: { severalTiles: 0.6, halves: 0.85 },
      share: 1 / 264,
    },
    // Blocks have few threads, and wait for each step of the depth.
    rowsAtOnce: 2048,
    elementBlock: 2048,
    // Four words in flight a thread, of 128.
    elementBytes: 8192,
    sharedRows: 2,
    packBools: false,
    alignment: limits.alignment,
    minPrograms: 264,
    slidingWindows: { most: 8, threads: 128 },
    rowPrograms: 264,
    programShare: { moving: 1 / 200, computing: 1 / 132 },
    // Five times: a token's heads with its angles.
    shortRows: { below: 1024, points: 1024, sharing: 5 },
    columnBlock: 64,
    // Few programs that wait for a cache leave most of its bandwidth.
    partialColumns: 16,
    simt: webgpuSimtWith({
      maxThreads: threads,
      maxSharedBytes: sharedBytes,
      laneBits,
      hasHalfConversions,
      hasSubgroupMatrices,
    }),
  }
}
