/**
 * Seeded random programs whose extents vary: one program for a range gives what the static program of each shape gives, in strict mode bit
 * for bit. SINTER_PROGRAMS sets how many (default 12), SINTER_FIRST_SEED where they start.
 */
import { afterAll, describe, expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { spec } from '../../src/api/tensor/tree.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { arange, concat, exp, maximum, relu, softmax, type Tensor, tanh, where } from '../../src/index.ts'
import { openProgram, runOn, runStatic } from '../compile/openSupport.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { makeRng, type Rng } from './rng.ts'

const count = Number(process.env.SINTER_PROGRAMS ?? 12)
const first = Number(process.env.SINTER_FIRST_SEED ?? 0)

const dimensions = [
  { name: 'b', least: 3, most: 11 },
  { name: 'n', least: 5, most: 41 },
]
const samples = [
  [7, 37],
  [11, 41],
  [3, 5],
  [11, 5],
  [3, 41],
  [5, 18],
]
const others = [
  [4, 16],
  [8, 23],
]

type Step = (x: Tensor) => Tensor

const axisOf = (rng: Rng, x: Tensor): number => rng.int(0, x.shape.length - 1)

/** A random step; what it draws depends on ranks alone, so that it is the same step at all extents. */
function step(rng: Rng): Step {
  const [kind, a, c] = [rng.int(0, 13), rng.int(0, 2 ** 20), 0.25 + rng.int(0, 7) / 4]
  const own = (x: Tensor): number => axisOf(makeRng(a), x)
  switch (kind) {
    case 0:
      return (x) => x.mul(c).add(1)
    case 1:
      return (x) => tanh(x).sub(x.mul(0.5))
    case 2:
      return (x) => relu(x.sub(x.mean(own(x), { keepdims: true })))
    case 3:
      return (x) => softmax(x, own(x))
    case 4:
      return (x) => x.swapaxes(0, x.shape.length - 1)
    case 5:
      return (x) => (x.shape.length < 3 ? x : x.reshape([-1, x.shape.at(-1) ?? 1]))
    case 6:
      return (x) => concat([x, exp(x.neg().abs().neg())], own(x))
    case 7:
      return (x) => x.pad(x.shape.map((_, d): [number, number] => (d === own(x) ? [1, 2] : [0, 0])))
    case 8:
      return (x) => x.cumsum(own(x)).mul(0.1)
    case 9:
      return (x) => maximum(x, x.flip(own(x)))
    case 10:
      return (x) => x.div(x.abs().max(own(x), { keepdims: true }).add(1))
    case 11:
      return (x) => {
        const d = own(x)
        const at = arange(x.shape[d] ?? 0).reshape(x.shape.map((n, i) => (i === d ? n : 1)))
        return where(at.less(3), x, x.mul(0.5))
      }
    case 12:
      return (x) => {
        const flat = x.reshape([-1, x.shape.at(-1) ?? 1])
        return flat.matmul(flat.swapaxes(0, 1).matmul(flat)).mul(0.01).reshape(x.shape)
      }
    default:
      return (x) => x.sub(x.var(own(x), { keepdims: true }))
  }
}

const backend = compiledBackend({ threads: 1 })
afterAll(() => {
  backend.dispose()
})

describe('random programs with open extents', () => {
  let opened = 0
  for (let seed = first; seed < first + count; seed++)
    test(`seed ${seed}`, () => {
      const rng = makeRng(seed)
      const steps = Array.from({ length: 2 + rng.int(0, 4) }, () => step(rng))
      const reduces = rng.int(0, 2)
      const f = (x: Tensor): Tensor | Tensor[] => {
        const y = steps.reduce((v, s) => s(v), x)
        return reduces === 0 ? y : reduces === 1 ? [y, y.sum(0)] : y.mean()
      }
      const trace = ([b = 1, n = 1]: readonly number[]) => traceFunction(f, [spec([b, n, 6])]).graph
      for (const mode of ['fast', 'strict'] as const) {
        let program: ReturnType<typeof openProgram>['program']
        try {
          program = openProgram({ dimensions, samples, trace }, mode, compiledTarget).program
        } catch (error) {
          // A position divided by an open extent has no form in kernels: it is refused by name.
          if (!(error instanceof UserError) || error.code !== 'E_UNSUPPORTED') throw error
          expect(error.summary).toMatch(/^b, n cannot be open here: /)
          continue
        }
        opened++
        const executable = backend.prepare(program)
        for (const at of others) {
          const graph = trace(at)
          const got = runOn(backend, executable, graph, at)
          for (const [o, want] of runStatic(backend, graph, mode, compiledTarget).entries()) {
            if (mode === 'strict') {
              expect(got[o], `strict at ${at.join(' by ')}`).toEqual(want)
              continue
            }
            let [most, worst] = [1, 0]
            want.forEach((v, i) => {
              most = Math.max(most, Math.abs(Number(v)))
              worst = Math.max(worst, Math.abs(Number(v) - Number(got[o]?.[i])))
            })
            expect(worst / most, `fast at ${at.join(' by ')}`).toBeLessThan(1e-5)
          }
        }
        executable.dispose()
      }
    })
  test('most of them are open', () => {
    expect(opened).toBeGreaterThan(count)
  })
})
