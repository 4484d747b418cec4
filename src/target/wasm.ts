/** WebAssembly as a machine. */
import type { Machine } from './machine.ts'
import { wasmPrices } from './wasmPrices.ts'

/** Memory that addresses of 32 bits reach, but for the last page. */
const memory32 = 65535 * 65536

/** WebAssembly with 128-bit SIMD on one core of a server CPU (bench/NOTES.md has the measurements behind the rates). */
export const wasmTarget: Machine = {
  name: 'wasm',
  // A core's own cache, its share of the common one, and what lies beyond.
  memories: [
    { bytes: 1 << 20, bandwidth: 60e9 },
    { bytes: 1 << 24, bandwidth: 50e9 },
    { bytes: Number.POSITIVE_INFINITY, bandwidth: 12e9 },
  ],
  overlap: 0.65,
  matrixRate: 50e9,
  integerMatrixRate: 80e9,
  precision: 'ieee',
  prices: wasmPrices,
  launch: 0.8e-6,
  mostBytes: { value: memory32, arena: memory32 },
  positionBits: 32,
  maxBuffers: 64,
  maxStatements: 600,
  maxUnionBuffers: 16384,
  maxUnionStatements: 65536,
  joinsOverwritten: false,
  valueBuffers: 0,
  countsLoops: true,
  sharesUnionCode: false,
  rowBytes: 4 << 20,
  dotBlock: { m: 192, n: 256, k: 256, fewColumns: 128 },
  depthSplit: { leastSeconds: 1e-4, mostTraffic: 0.06, below: 0.25, fill: 0.5 },
  // Scores of 64 rows, exponentials of them and the operand that is transposed stay in the core's own cache.
  chains: { rows: 64, shared: 256, width: 256 },
  rowsAtOnce: 8192,
  elementBlock: 16384,
  sharedRows: 1,
  packBools: true,
  alignment: 64,
  minPrograms: 16,
  shortRows: { below: 96, points: 1024, sharing: 1 },
  windowPoints: 4096,
  // Rows in pieces, each on another page, are read at a fifth of the rate of whole ones.
  columnBlock: 4096,
  partialColumns: 64,
  // Fitted to kernels timed on two machines (bench/NOTES.md).
  loops: {
    nearest: 18 << 10,
    lanes: 4,
    whole: 0.055e-9,
    shuffled: 0.12e-9,
    strided: 0.24e-9,
    gathered: 0.3e-9,
    single: 0.085e-9,
    divided: 0.4e-9,
    masked: 0.44e-9,
    round: 0.22e-9,
    entry: 0.3e-9,
    leave: 10e-9,
    predicted: 24,
    partial: 1.3e-9,
    chain: 0.43e-9,
    merge: 1.3e-9,
    latency: 7,
    window: 12e-9,
    own: 1 << 20,
    late: 2.1e-9,
    lateFar: 10e-9,
    lateRun: 4,
    followed: 8,
    beside: 0.3,
    nearOverlap: 0.8,
    program: 2e-9,
  },
}
