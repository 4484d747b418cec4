/**
 * Long sums and running sums are accurate: in fast mode within 4 log2(n) 2^-24 sum|x|, in strict mode what the reference defines, bit for
 * bit, on every device. Sites, as accumulators that were folded in order over many terms: the reference's folds and scans; on WebAssembly
 * folds in registers (scalar, vectors along the sum, vectors beside it), folds in tiles (rows far apart), cut folds with their
 * finishing stages and scans; on GPUs loops over chunks of registers (`closeChunk`), cut folds, scans of lines that one thread holds and of lines that no block holds. The kernel
 * interpreter accumulates in double precision.
 */
import { expect, test } from 'vitest'
import * as s from '../../src/index.ts'
import type { NumericsMode } from '../../src/kernel/ir.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { some, turn } from '../support/nightly.ts'
import { compileAll, type Held, modes, testOnHost, testOnSoftwareGpu } from './devices.ts'
import { errorOf, graphOf, type InputName, inputNames, inputs, nameOf, type Summing, strictOf } from './summing.ts'

const sums: readonly Summing[] = [
  { shape: [100_000], axis: undefined },
  { shape: [2 ** 17 + 3], axis: 0 },
  { shape: [40, 5001], axis: 1 },
  { shape: [5000, 60], axis: 0 },
  { shape: [3000, 600], axis: 0 },
  { shape: [3, 4099, 5], axis: 1 },
  { shape: [700, 100], axis: 1 },
  { shape: [60, 70, 80], axis: undefined },
]
const running: readonly Summing[] = [
  { shape: [5, 5000], axis: 1, running: { reverse: true } },
  { shape: [3000, 33], axis: 0, running: { exclusive: true } },
]
const longRunning: Summing = { shape: [100_001], axis: 0, running: {} }
/** Lines that no block of threads holds. */
const long: readonly Summing[] = [
  longRunning,
  { shape: [50_000], axis: 0, running: { reverse: true, exclusive: true } },
  { shape: [5000, 40], axis: 0, running: { reverse: true } },
]
/** Columns wide enough that one thread holds a whole line, where few programs are enough. */
const heldByThreads: readonly Summing[] = [
  { shape: [32, 1200], axis: 0, running: {} },
  { shape: [29, 1100], axis: 0, running: { reverse: true } },
]
const fewPrograms = { minPrograms: 2 }
/** A software GPU takes seconds for scans of many lines. */
const onSoftware: readonly Summing[] = [
  ...sums.filter(({ shape }) => shape.length < 3 && (shape[0] ?? 0) !== 40),
  { shape: [3, 5000], axis: 1, running: {} },
  { shape: [40_000], axis: 0, running: {} },
]

/** What is wrong with a device's result: an error above the bound in fast mode, a bit in strict mode. */
function faultOf(
  summing: Summing,
  mode: NumericsMode,
  name: InputName,
  x: Float32Array,
  got: ArrayLike<unknown>,
): string | undefined {
  if (mode === 'fast') {
    const error = errorOf(summing, x, got)
    return error <= 1 ? undefined : `${nameOf(summing)}, ${name}: ${error.toFixed(2)} bounds`
  }
  const expected = strictOf(graphOf(summing), x)
  const at = Array.from(expected, Number).findIndex((y, i) => !Object.is(y, Number(got[i])))
  return at < 0
    ? undefined
    : `${nameOf(summing)}, ${name}, strict: [${at}] is ${String(got[at])}, not ${String(expected[at])}`
}

/** Sums on a device, of the inputs of some names. */
const held = (names: readonly InputName[]): Held<Summing, InputName> => ({
  given: () => names,
  valuesOf: ({ shape }, name) => inputs[name](sizeOf(shape)),
  faultOf: (summing, mode, name, x, got) => faultOf(summing, mode, name, Float32Array.from(x, Number), got),
})

test.each([1, 3])('WebAssembly, %i threads', { timeout: 60_000 }, async (threads) => {
  await s.setDevice('wasm', { threads })
  for (const [i, summing] of some([...sums, ...running, longRunning], 2).entries())
    for (const mode of turn(modes, i + (threads >> 1))) {
      const { axis, running: options } = summing
      const f = s.jit((y: s.Tensor) => (options === undefined ? y.sum(axis) : y.cumsum(axis ?? 0, options)), { mode })
      for (const name of some(inputNames, 2)) {
        const x = inputs[name](sizeOf(summing.shape))
        const got = f(s.tensor(x, { shape: summing.shape })).dataSync()
        expect(faultOf(summing, mode, name, x, got)).toBeUndefined()
      }
    }
})

test('2^25 ones', { timeout: 60_000 }, () => {
  const n = 2 ** 25
  const ones = s.ones([n])
  for (const mode of modes) {
    const f = s.jit((x: s.Tensor) => [x.sum(), x.cumsum(0).slice([-2, n]), x.mean()], { mode })
    const [sum, last, mean] = f(ones)
    expect(sum?.item()).toBe(n)
    expect(last?.tolist()).toEqual([n - 1, n].map(Math.fround))
    expect(mean?.item()).toBe(1)
  }
})

test.each(modes)('moments of 100,000 numbers near 10,000 and of one number, %s', (mode) => {
  const x = inputs['near 10,000'](100_000)
  const mean = x.reduce((t, y) => t + y, 0) / x.length
  const variance = x.reduce((t, y) => t + (y - mean) ** 2, 0) / x.length
  const run = (f: (y: s.Tensor) => s.Tensor) => s.jit(f, { mode })(s.tensor(x))
  expect(Math.abs(Number(run((y) => y.mean()).item()) - mean)).toBeLessThan(0.002)
  expect(Math.abs(Number(run((y) => y.var()).item()) / variance - 1)).toBeLessThan(1e-5)
  expect(Math.abs(Number(run((y) => y.std()).item()) / Math.sqrt(variance) - 1)).toBeLessThan(1e-5)
  const normalised = Array.from(run((y) => s.layerNorm(y)).dataSync(), Number)
  const spread = Math.sqrt(variance + 1e-5)
  const worst = normalised.reduce((w, y, k) => Math.max(w, Math.abs(y - ((x[k] ?? 0) - mean) / spread)), 0)
  expect(worst).toBeLessThan(0.004)
  // The least step between numbers near 10,000.1 is 2^-10: a mean that is off by more makes a variance of nothing.
  const same = s.full([100_000], 10_000.1)
  expect(
    s
      .jit((y: s.Tensor) => y.var(), { mode })(same)
      .item(),
  ).toBeLessThan(2 ** -20)
})

testOnHost(
  () => [
    ...compileAll(some([...sums, ...running, ...long], 3), graphOf, cudaTarget),
    ...compileAll(heldByThreads, graphOf, { ...cudaTarget, ...fewPrograms }),
  ],
  held(some(['one before many', 'near 10,000', 'alternating signs'] as const, 2)),
)

testOnSoftwareGpu(
  () => [
    ...compileAll(some(onSoftware, 2), graphOf, webgpuTarget({ storageBuffers: 12 })),
    ...compileAll(heldByThreads, graphOf, { ...webgpuTarget({ storageBuffers: 12 }), ...fewPrograms }),
  ],
  held(some(['one before many', 'near 10,000'] as const, 2)),
)
