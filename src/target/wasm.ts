/** WebAssembly as a machine. */
import type { Machine } from './machine.ts'

/** Memory that addresses of 32 bits reach, but for the last page. */
const memory32 = 65535 * 65536

/** WebAssembly with 128-bit SIMD on one core of a server CPU (bench/NOTES.md has the measurements behind the rates). */
export const wasmTarget: Machine = {
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
