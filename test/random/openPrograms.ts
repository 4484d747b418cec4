/** Seeded random programs whose extents vary, and the extents they are sampled and run at. */
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { spec } from '../../src/api/tensor/tree.ts'
import type { Graph } from '../../src/graph/node.ts'
import { arange, concat, exp, maximum, relu, softmax, type Tensor, tanh, where } from '../../src/index.ts'
import type { OpenCase } from '../compile/openSupport.ts'
import { makeRng, type Rng } from './rng.ts'

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
/** Extents that no sample has. */
export const others = [
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

/** The program of a seed. */
export function randomOpen(seed: number): OpenCase {
  const rng = makeRng(seed)
  const steps = Array.from({ length: 2 + rng.int(0, 4) }, () => step(rng))
  const reduces = rng.int(0, 2)
  const f = (x: Tensor): Tensor | Tensor[] => {
    const y = steps.reduce((v, s) => s(v), x)
    return reduces === 0 ? y : reduces === 1 ? [y, y.sum(0)] : y.mean()
  }
  const trace = ([b = 1, n = 1]: readonly number[]): Graph => traceFunction(f, [spec([b, n, 6])]).graph
  return { dimensions, samples, trace }
}
