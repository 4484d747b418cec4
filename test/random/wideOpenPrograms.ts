/**
 * Seeded random programs of three open extents: tensors are joined and split, counters and integers, searches over joined axes, pieces of axes,
 * products between open axes, and what two arguments of other extents share.
 */
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { spec } from '../../src/api/tensor/tree.ts'
import { samplesOf } from '../../src/compile/open/samples.ts'
import type { Graph } from '../../src/graph/node.ts'
import {
  arange,
  bitwiseXor,
  concat,
  exp,
  mod,
  random,
  softmax,
  stack,
  type Tensor,
  tanh,
  tensor,
  where,
  zeros,
} from '../../src/index.ts'
import type { OpenCase } from '../compile/openSupport.ts'
import { makeRng, type Rng } from './rng.ts'

/** The extent that does not vary. */
const width = 6

const ranges = [
  { name: 'b', lo: 3, hi: 11 },
  { name: 'n', lo: 7, hi: 43 },
  { name: 'm', lo: 5, hi: 29 },
]
const { samples, dimensions } = samplesOf(ranges, new Set([width]))
/** What a program is sampled at some of whose extents are quotients: those of `halving` are. */
const { samples: ofQuotients } = samplesOf(ranges, new Set([width]), 'both')
const halving = 10

/** Extents that no sample has, beside a corner. */
export const wideOthers = [
  [4, 16, 9],
  [8, 23, 25],
  [3, 43, 5],
  [9, 8, 27],
] as const

export interface Values {
  readonly x: Tensor
  /** Of shape [m, width]. */
  readonly y: Tensor
}
type Step = (v: Values) => Tensor

/** A tensor as one axis. */
const flat = (x: Tensor): Tensor => x.reshape([-1])

/** Numbers of an axis, as they stand along it in a shape. */
const along = (x: Tensor, d: number): Tensor =>
  arange(x.shape[d] ?? 0).reshape(x.shape.map((n, i) => (i === d ? n : 1)))

/** A random step; what it draws depends on ranks alone, so that it is the same step at all extents. */
function step(rng: Rng): { readonly kind: number; readonly run: Step } {
  const [kind, a, c] = [rng.int(0, 24), rng.int(0, 2 ** 20), 1 + rng.int(0, 4)]
  return { kind, run: stepOf(kind, a, c) }
}

function stepOf(kind: number, a: number, c: number): Step {
  const own = (x: Tensor): number => makeRng(a).int(0, x.shape.length - 1)
  switch (kind) {
    case 0:
      return ({ x }) => x.add(flat(x).argmax(0).astype('f32').mul(1e-3))
    case 1:
      return ({ x }) => {
        const joined = x.reshape([x.shape[0] ?? 1, -1])
        return x.mul(
          joined
            .argmin(1)
            .astype('f32')
            .mul(1e-3)
            .add(1)
            .reshape(x.shape.map((n, i) => (i === 0 ? n : 1))),
        )
      }
    case 2:
      return ({ x }) => x.add(random.uniform(random.key(a), x.shape))
    case 3:
      return ({ x }) => where(random.bernoulli(random.key(a), 0.7, x.shape), x, 0)
    case 4:
      return ({ x }) =>
        x
          .mul(8)
          .astype('i32')
          .cumsum(own(x))
          .astype('f32')
          .mul(1 / 64)
    case 5:
      return ({ x }) =>
        mod(bitwiseXor(x.mul(8).astype('i32'), along(x, own(x)).astype('i32')), 7)
          .astype('f32')
          .sub(x)
    case 6:
      return ({ x }) => x.sub(flat(x).sum().mul(1e-3))
    case 7:
      return ({ x }) => x.mul(0.5).add(flat(tanh(x)).mean())
    case 8:
      return ({ x }) => {
        const d = own(x)
        const [n = 1] = [x.shape[d]]
        return x.take(arange(n, undefined, 1, 'i32').mul(c), d)
      }
    case 9:
      return ({ x }) => x.slice(...x.shape.map((_, i): [number, null] | null => (i === own(x) ? [1, null] : null)))
    case halving:
      return ({ x }) => {
        const d = own(x)
        return x.slice(...x.shape.map((_, i): [null, null, number] | null => (i === d ? [null, null, 2] : null)))
      }
    case 11:
      return ({ x }) => concat([flat(x), flat(x).slice([0, 1]).neg()])
    case 12:
      return ({ x }) => (x.shape.length > 1 ? x.flatten(x.shape.length - 2) : x)
    case 13:
      return ({ x }) => (x.shape.length > 2 ? x.flatten(0, 1) : x)
    case 14:
      return ({ x, y }) => {
        const scores = x.reshape([-1, 1]).mul(y.sum(1)).mul(0.1)
        return softmax(scores, -1).matmul(y).mean(1).reshape(x.shape)
      }
    case 15:
      return ({ x, y }) => concat([x, x.mul(0).add(y.mean())], own(x))
    case 16:
      return ({ x, y }) => (x.shape.at(-1) === width && x.shape.length > 1 ? x.matmul(y.transpose()).mul(0.2) : x)
    case 17:
      return ({ x }) => {
        if (x.shape.length < 2) return x
        const scores = x.matmul(x.swapaxes(-1, -2)).mul(0.05)
        return softmax(scores, -1).matmul(x)
      }
    case 18:
      return ({ x }) => x.roll(1, own(x))
    case 19:
      return ({ x }) => x.max(own(x), { keepdims: true }).add(x.mul(0.25))
    case 20:
      return ({ x }) => stack([x, x.neg()], own(x)).reshape([...x.shape.slice(0, -1), -1])
    case 21:
      return ({ x }) =>
        x.add(
          along(x, own(x))
            .mul(-1)
            .add(x.shape[own(x)] ?? 0)
            .mul(0.01),
        )
    case 22:
      return ({ x }) => where(along(x, own(x)).lessEqual(along(x, 0)), x, exp(x.abs().neg()))
    case 23:
      return ({ x }) => concat([zeros([0, ...x.shape.slice(1)]), x, x.slice([0, 0])], 0)
    default:
      return ({ x }) => x.astype('f16').mul(1.5).cumsum(own(x)).astype('f32').mul(0.1)
  }
}

/** Steps that jump where a value that is rounded otherwise crosses a boundary: searches, truncation, half precision. */
const jumping = new Set([0, 1, 4, 5, 24])

/** The program of a seed; `isSmooth`: rounding otherwise changes little. */
export function randomWideOpen(seed: number): OpenCase & { readonly isSmooth: boolean } {
  const rng = makeRng(seed)
  const chosen = Array.from({ length: 2 + rng.int(0, 3) }, () => step(rng))
  const steps = chosen.map((s) => s.run)
  const ends = rng.int(0, 4)
  const f = (x: Tensor, y: Tensor): Tensor | Tensor[] => {
    const z = steps.reduce((v, s) => s({ x: v, y }), x)
    switch (ends) {
      case 0:
        return z
      case 1:
        return [z, z.sum(0)]
      case 2:
        return [z.mean(), flat(z).argmax(0), z.greater(0.5).astype('i32').sum()]
      case 3:
        return [z.mul(16).astype('i32').sum(-1), flat(z).norm()]
      default:
        return concat([flat(z), flat(y), tensor([1, 2])])
    }
  }
  const trace = ([b = 1, n = 1, m = 1]: readonly number[]): Graph =>
    traceFunction(f, [spec([b, n, width]), spec([m, width])]).graph
  const halves = chosen.some((s) => s.kind === halving)
  return {
    dimensions,
    samples: halves ? ofQuotients : samples,
    trace,
    isSmooth: chosen.every((s) => !jumping.has(s.kind)),
  }
}
