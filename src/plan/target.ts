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
  /** Block of a matrix product a program computes: rows, columns, depth of one step. */
  readonly dotBlock: { readonly m: number; readonly n: number; readonly k: number }
  /** Elements an elementwise program covers. */
  readonly elementBlock: number
  /** Bools between kernels are stored one bit an element. */
  readonly packBools: boolean
  /** Fewest programs that keep the target busy. */
  readonly minPrograms: number
}

/** WebAssembly with 128-bit SIMD on one core of a server CPU (bench/NOTES.md has the measurements behind the rates). */
export const wasmTarget: TargetInfo = {
  name: 'wasm',
  bandwidth: 11e9,
  matrixRate: 36e9,
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
  elementBlock: 16384,
  packBools: true,
  minPrograms: 16,
}
