/** Sums whose errors show: inputs that a long chain of additions gets wrong, and results measured in units of the promised bound. */

import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'

/** Inputs by name, from the number of elements. */
export const inputs = {
  /** One, then what it swallows one by one: any accumulator that begins with it errs by all it takes. */
  'one before many': (n: number) => Float32Array.from({ length: n }, (_, i) => (i === 0 ? 1 : 2 ** -24)),
  ones: (n: number) => new Float32Array(n).fill(1),
  /** The same number, whose sum is rounded the same way each time. */
  'one third': (n: number) => new Float32Array(n).fill(1 / 3),
  'near 10,000': (n: number) => {
    const random = makeRandom()
    return Float32Array.from({ length: n }, () => 10_000 + 2 * random() - 1)
  },
  'alternating signs': (n: number) => {
    const random = makeRandom()
    return Float32Array.from({ length: n }, (_, i) => (i % 2 === 0 ? 1 : -1) * (1 + random()))
  },
} as const satisfies Readonly<Record<string, (n: number) => Float32Array>>

export type InputName = keyof typeof inputs
export const inputNames = Object.keys(inputs).filter((s): s is InputName => s in inputs)

function makeRandom(): () => number {
  let state = 12345
  return () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
}

/** A sum or running sum of a tensor along an axis, or of all of it. */
export interface Summing {
  readonly shape: readonly number[]
  readonly axis: number | undefined
  readonly running?: { readonly reverse?: boolean; readonly exclusive?: boolean }
}

export const nameOf = ({ shape, axis, running }: Summing): string =>
  `${running === undefined ? 'sum' : 'running sum'} of [${shape}]${axis === undefined ? '' : ` along ${axis}`}`

export const graphOf = ({ shape, axis, running }: Summing): Graph =>
  withContext(() => {
    const x = param(0, shape, 'f32')
    const y = running === undefined ? c.sum(x, axis) : c.cumsum(x, axis ?? 0, running)
    return { params: [x], outputs: [y], effects: [] }
  })

/** The greatest error of a result in units of 4 log2(n) 2^-24 sum|x|, n terms along the axis. */
export function errorOf({ shape, axis, running }: Summing, x: Float32Array, got: ArrayLike<unknown>): number {
  const n = axis === undefined ? sizeOf(shape) : (shape[axis] ?? 1)
  const inner = axis === undefined ? 1 : sizeOf(shape.slice(axis + 1))
  const outer = sizeOf(shape) / (n * inner)
  const unit = 4 * Math.log2(n) * 2 ** -24
  let worst = 0
  const check = (value: number, exact: number, magnitude: number): void => {
    const error = magnitude === 0 ? Math.abs(value - exact) : Math.abs(value - exact) / (unit * magnitude)
    worst = Number.isNaN(error) ? Number.POSITIVE_INFINITY : Math.max(worst, error)
  }
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      let [sum, magnitude] = [0, 0]
      for (let k = 0; k < n; k++) {
        const at = (o * n + (running?.reverse === true ? n - 1 - k : k)) * inner + i
        const before = [sum, magnitude] as const
        sum += x[at] ?? 0
        magnitude += Math.abs(x[at] ?? 0)
        if (running === undefined) continue
        if (running.exclusive === true) check(Number(got[at]), ...before)
        else check(Number(got[at]), sum, magnitude)
      }
      if (running === undefined) check(Number(got[o * inner + i]), sum, magnitude)
    }
  return worst
}

/** What the definition of strict mode gives. */
export function strictOf(graph: Graph, x: Float32Array): HostArray {
  const [y] = evaluateGraph(graph, [x], { rounding: 'strict' }).map(toHostArray)
  if (y === undefined) throw new Error('no result')
  return y
}
