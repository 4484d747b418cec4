/** Programs with open extents: one program for many shapes gives what the static program of each gives; in strict mode in every bit. */

import { expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { spec } from '../../src/api/tensor/tree.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { Fitter } from '../../src/compile/open/fit.ts'
import { samplesOf } from '../../src/compile/open/samples.ts'
import { arange, exp, softmax, type Tensor, where } from '../../src/index.ts'
import { formulaAt, formulaRange, realAt } from '../../src/runtime/extents.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { some, turn } from '../support/nightly.ts'
import { dimensions, openCases, others, samples } from './openCases.ts'
import { openProgram, runOn, runStatic } from './openSupport.ts'
import { at as of } from './support.ts'

const backend = createWasmBackend({ threads: 1 })

// By day every other one, in one of the modes.
for (const [i, { name, ...made }] of some(openCases, 2).entries())
  for (const mode of turn(['fast', 'strict'] as const, i))
    test(`${name}, ${mode}`, () => {
      const { program } = openProgram(made, mode, wasmTarget)
      const executable = backend.prepare(program)
      for (const extents of [of(samples, 0), of(samples, 2), ...others]) {
        const graph = made.trace(extents)
        const got = runOn(backend, executable, graph, extents)
        runStatic(backend, graph, mode, wasmTarget).forEach((want, o) => {
          let [most, worst] = [1, 0]
          want.forEach((v, i) => {
            most = Math.max(most, Math.abs(Number(v)))
            worst = Math.max(worst, Math.abs(Number(v) - Number(got[o]?.[i])))
          })
          if (mode === 'strict') expect(got[o], `at ${extents.join(' by ')}`).toEqual(want)
          else expect(worst / most, `at ${extents.join(' by ')}`).toBeLessThan(1e-5)
        })
      }
      executable.dispose()
    })

test('formulas are found exactly, and none is found where there is none', () => {
  const fitter = new Fitter(samples)
  const whole = (f: (b: number, n: number) => number) => fitter.whole(samples.map(([b = 0, n = 0]) => f(b, n)))
  for (const f of [
    (b: number, n: number) => b * n,
    (_: number, n: number) => 768 * n * n - 5,
    (b: number, n: number) => 3 * b + n + 1,
    (_: number, n: number) => Math.ceil(n / 2),
  ]) {
    const found = whole(f)
    if (found === undefined) expect.fail(String(f))
    for (const [b = 0, n = 0] of others) expect(formulaAt(found, [b, n])).toBe(f(b, n))
  }
  expect(whole((_, n) => (n * 7919) % 13)).toBeUndefined()
  const mean = fitter.real(
    samples.map(([b = 0, n = 0]) => Math.fround(1 / (36 * b * n))),
    'f32',
  )
  if (mean === undefined) expect.fail('no reciprocal')
  expect(Math.fround(realAt(mean, [8, 64]))).toBe(Math.fround(1 / (36 * 8 * 64)))
  expect(
    fitter.real(
      samples.map(([, n = 0]) => Math.sin(n)),
      'f32',
    ),
  ).toBeUndefined()
})

test('products of quotients are found once their quotients are known, by what each remainder shows', () => {
  const at = [...samples, [5, 32], [8, 58], [9, 23], [4, 12]]
  const values = (f: (b: number, n: number) => number) => at.map(([b = 0, n = 0]) => f(b, n))
  const [half, quarter] = [(n: number) => Math.floor((n + 1) / 2), (n: number) => Math.floor((n + 3) / 4)]
  const products = [
    (_: number, n: number) => 64 * half(n),
    (b: number, n: number) => 3 * b * quarter(n),
    (_: number, n: number) => quarter(n) ** 2,
    (b: number, n: number) => b * n * half(n),
    (_: number, n: number) => n - 2 * half(n) + 5,
    (_: number, n: number) => 2 * half(n) + quarter(n) - 1,
  ]
  const fitter = new Fitter(at)
  for (const f of products) expect(fitter.whole(values(f)), String(f)).toBeUndefined()
  expect(fitter.learn([values((_, n) => half(n)), values((_, n) => quarter(n)), values((b, n) => b * n)])).toBe(4)
  for (const f of products) {
    const found = fitter.whole(values(f))
    if (found === undefined) expect.fail(String(f))
    for (let n = 5; n < 68; n++) expect(formulaAt(found, [7, n]), String(f)).toBe(f(7, n))
    const { lo, hi } = formulaRange(found, dimensions)
    for (let n = 5; n < 68; n++) expect(lo <= f(7, n) && f(7, n) <= hi, String(f)).toBe(true)
  }
  // Odd lengths alone leave open what is added before the division.
  const odd = new Fitter(samples.filter(([, n = 0]) => n % 2 === 1))
  expect(odd.whole(odd.samples.map(([, n = 0]) => Math.floor((n + 6) / 4)))).toBeUndefined()
})

test('samples leave each remainder of what extents are divided by', () => {
  const ranges = [
    { name: 'b', lo: 3, hi: 40 },
    { name: 'n', lo: 8, hi: 97 },
  ]
  for (const divisor of [2, 3, 8, 24]) {
    const { samples } = samplesOf(ranges, new Set(), 'both', divisor)
    for (const [i, { lo, hi }] of ranges.entries()) {
      expect(new Set(samples.map((s) => (s[i] ?? 0) % divisor)).size, `${divisor}`).toBe(divisor)
      expect(samples.every((s) => lo <= (s[i] ?? 0) && (s[i] ?? 0) <= hi)).toBe(true)
    }
  }
})

test('what has no formula, or another form at another length, is refused with its operation and the dimensions', () => {
  const compiled = (f: (x: Tensor, n: number) => Tensor) => () =>
    openProgram(
      { dimensions, samples, trace: ([, n = 1]) => traceFunction((x: Tensor) => f(x, n), [spec([n, 24])]).graph },
      'fast',
      wasmTarget,
    )
  expect(compiled((x, n) => x.mul(Math.sin(n)))).toThrow(/E_UNSUPPORTED.*batch, length cannot be open here: a number/)
  expect(compiled((x, n) => (n > 40 ? exp(x) : x.mul(2)))).toThrow(/E_UNSUPPORTED.*batch, length cannot be open here/)
})

test('rows that a block of a product holds at the planned sample, and not at the greatest extents, are refused there and planned at those', () => {
  const trace = ([b = 1, n = 1]: readonly number[]) =>
    traceFunction(
      (q: Tensor, k: Tensor) => softmax(q.matmul(k.swapaxes(-1, -2)), -1),
      [spec([b, n, 16]), spec([b, n, 16])],
    ).graph
  const [near, most] = [
    [7, 127],
    [11, 131],
  ]
  const made = {
    dimensions: [
      { name: 'batch', least: 2, most: 11 },
      { name: 'length', least: 37, most: 131 },
    ],
    trace,
  }
  const others = [
    [2, 37],
    [11, 37],
    [2, 131],
    [5, 83],
  ]
  const planned = (first: readonly number[], second: readonly number[]) =>
    openProgram({ ...made, samples: [first, second, ...others] }, 'fast', cudaTarget).program
  expect(() => planned(near, most)).toThrow(/E_UNSUPPORTED.*a fold of rows that a block of a product holds whole/)
  const { steps } = planned(most, near)
  expect(steps.length).toBeGreaterThan(1)
})

test('a chain over an open axis in parts: those behind its end leave states that weigh nothing', () => {
  const cut: Machine = {
    ...wasmTarget,
    minPrograms: 64,
    launch: 1e-12,
    chains: { rows: 8, shared: 4, width: 64 },
    programShare: { moving: 1 / 64, computing: 1 / 64 },
  }
  const trace = ([b = 1, n = 1]: readonly number[]) =>
    traceFunction(
      (q: Tensor, k: Tensor, v: Tensor) =>
        softmax(where(arange(n).less(n - 2), q.matmul(k.swapaxes(-1, -2)), -Infinity), -1).matmul(v),
      [spec([b, 4, 16]), spec([b, n, 16]), spec([b, n, 12])],
    ).graph
  const { program, report } = openProgram({ dimensions, samples, trace }, 'fast', cut)
  expect(report.kernels.map((k) => [k.kind, k.stages.length])).toEqual([['chain', 1]])
  const executable = backend.prepare(program)
  for (const extents of [...samples, ...others]) {
    const graph = trace(extents)
    const got = runOn(backend, executable, graph, extents)
    const [want = []] = runStatic(backend, graph, 'fast', wasmTarget)
    const worst = Array.from(want as Float32Array).reduce(
      (m, v, i) => Math.max(m, Math.abs(v - Number(got[0]?.[i]))),
      0,
    )
    expect(worst, `at ${extents.join(' by ')}`).toBeLessThan(1e-5)
  }
  executable.dispose()
})
