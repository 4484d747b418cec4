/** Programs in which the rules on views and broadcasts fire. */
import { makeNode } from '../../../src/graph/build.ts'
import type { Node, OpName } from '../../../src/graph/node.ts'
import type { Shape } from '../../../src/types/shape.ts'
import type { Draw, Example } from '../support.ts'

const make = makeNode

export const reshape = (x: Node, shape: Shape): Node => make('reshape', [x], { shape })
export const permute = (x: Node, perm: readonly number[]): Node => make('permute', [x], { perm })
export const broadcast = (x: Node, shape: Shape, dims: readonly number[]): Node =>
  make('broadcast', [x], { shape, dims })

/** The shape with axes of extent 1 put in at random. */
export function withUnits(d: Draw, shape: Shape): number[] {
  const out: number[] = []
  for (const n of shape) {
    if (d.rng.chance(0.5)) out.push(1)
    out.push(n)
  }
  if (d.rng.chance(0.5) || out.length === shape.length) out.push(1)
  return out
}

/** A slice of a random part of each axis. */
export function someSlice(d: Draw, x: Node): Node {
  const start = x.shape.map((n) => d.rng.int(0, Math.floor(n / 2)))
  const limit = x.shape.map((n, i) => d.rng.int(Math.min(n, (start[i] ?? 0) + 1), n))
  return make('slice', [x], { start, limit, step: x.shape.map(() => d.rng.int(1, 2)) })
}

export function someFlip(d: Draw, x: Node): Node {
  return make('flip', [x], { axes: x.shape.flatMap((_, i) => (d.rng.chance(0.6) ? [i] : [])) })
}

export function somePad(d: Draw, x: Node, interior: boolean, value = 1.5): Node {
  return make('pad', [x], {
    low: x.shape.map(() => d.rng.int(0, 2)),
    high: x.shape.map(() => d.rng.int(0, 2)),
    interior: x.shape.map(() => (interior ? d.rng.int(0, 2) : 0)),
    value,
  })
}

/** A broadcast of a fresh parameter that repeats along at least one new axis, in ascending or any order. */
export function someBroadcast(
  d: Draw,
  options: { ascending?: boolean; dtype?: Node['dtype']; least?: number } = {},
): Node {
  const rank = d.rng.int(0, 2)
  const core = Array.from({ length: rank }, () => d.rng.int(2, 4))
  const outRank = rank + d.rng.int(1, 2)
  const places = d.perm(outRank).slice(0, rank)
  const dims = options.ascending === false ? places : [...places].sort((a, b) => a - b)
  const shape = Array.from({ length: outRank }, (_, i) => core[dims.indexOf(i)] ?? d.rng.int(options.least ?? 1, 4))
  return broadcast(d.param(core, options.dtype ?? d.any()), shape, dims)
}

const core = (d: Draw, rank = 3): number[] => Array.from({ length: rank }, () => d.rng.int(2, 4))

export const viewExamples: Readonly<Record<string, Example>> = {
  'reshape-same': (d) => {
    const x = d.param(d.shape(), d.any())
    return d.graph(reshape(x, x.shape))
  },
  'reshape-reshape': (d) => {
    const x = d.param([4, 6], d.any())
    return d.graph(reshape(reshape(x, [2, 12]), d.rng.pick([[24], [4, 6], [8, 3, 1]])))
  },
  'reshape-constant': (d) => d.graph(reshape(d.constant([3, 4], d.any()), [2, 6])),
  'permute-identity': (d) => d.graph(permute(d.param([2, 3, 0], d.any()), [0, 1, 2])),
  'permute-permute': (d) => d.graph(permute(permute(d.param(core(d), d.any()), d.perm(3)), d.perm(3))),
  'permute-of-units': (d) => d.graph(permute(d.param([3, 1, 2], d.any()), [1, 0, 2])),
  'permute-without-units': (d) =>
    d.graph(
      permute(
        d.param([3, 1, 2], d.any()),
        d.rng.pick([
          [2, 1, 0],
          [1, 2, 0],
        ]),
      ),
    ),
  'slice-canonical': (d) =>
    d.graph(make('slice', [d.param([8, 5], d.any())], { start: [1, 0], limit: [8, 5], step: [3, 9] })),
  'slice-whole': (d) => {
    const x = d.param(d.shape(2, 1), d.any())
    return d.graph(make('slice', [x], { start: x.shape.map(() => 0), limit: x.shape, step: x.shape.map(() => 1) }))
  },
  'slice-slice': (d) => d.graph(someSlice(d, someSlice(d, d.param([9, 7, 4], d.any())))),
  'slice-of-concat': (d) => {
    const dtype = d.any()
    const x = make('concat', [d.param([3, 4], dtype), d.param([3, 0], dtype), d.param([3, 5], dtype)], { axis: 1 })
    const start = d.rng.pick([0, 1, 4, 6])
    return d.graph(make('slice', [x], { start: [1, start], limit: [3, start + 3], step: [1, d.rng.int(1, 2)] }))
  },
  'slice-of-pad': (d) => {
    const x = make('pad', [d.param([4, 3], d.float())], { low: [2, 1], high: [3, 0], interior: [0, 0], value: -0 })
    const start = d.rng.pick([0, 2, 3, 6])
    return d.graph(make('slice', [x], { start: [start, 1], limit: [start + 2, 4], step: [1, 2] }))
  },
  'flip-of-units': (d) =>
    d.graph(make('flip', [d.param([3, 1, 2], d.any())], { axes: d.rng.pick([[1], [], [0, 1], [2, 0]]) })),
  'flip-flip': (d) => d.graph(someFlip(d, someFlip(d, d.param(core(d), d.any())))),
  'pad-nothing': (d) => {
    const x = d.param(d.shape(), d.float())
    const none = x.shape.map(() => 0)
    return d.graph(make('pad', [x], { low: none, high: none, interior: none, value: 0 }))
  },
  'pad-interior-of-unit': (d) =>
    d.graph(make('pad', [d.param([1, 3], d.float())], { low: [1, 0], high: [0, 1], interior: [2, 1], value: 0 })),
  'pad-pad': (d) => d.graph(somePad(d, somePad(d, d.param(d.shape(2), d.float()), true), false)),
  'concat-of-one': (d) => d.graph(make('concat', [d.param(d.shape(2), d.any())], { axis: 1 })),
  'concat-of-concat': (d) => {
    const dtype = d.any()
    const part = (): Node => d.param([d.extent(), 3], dtype)
    const inner = make('concat', [part(), part()], { axis: 0 })
    return d.graph(make('concat', [part(), inner, d.param([2, 3], dtype), inner], { axis: 0 }))
  },
  'concat-of-neighbours': (d) => {
    const x = d.param([6, 3], d.any())
    const piece = (from: number, to: number): Node =>
      make('slice', [x], { start: [from, 0], limit: [to, 2], step: [1, 1] })
    const value = x.dtype === 'bool' ? true : x.dtype.endsWith('64') && x.dtype !== 'f64' ? 7n : 7
    return d.graph(
      make(
        'concat',
        [piece(0, 2), piece(2, 5), d.full([1, 2], x.dtype, value), d.full([2, 2], x.dtype, value), piece(1, 4)],
        { axis: 0 },
      ),
    )
  },
  'window-of-one': (d) => {
    const x = d.param([2, 7, 3], d.any())
    return d.graph(
      make('window', [x], { axis: d.axis(3), size: 1, stride: d.rng.int(1, 3), dilation: d.rng.int(1, 2) }),
    )
  },
  'window-once': (d) =>
    d.graph(make('window', [d.param([2, 6], d.any())], { axis: 1, size: 3, stride: 3, dilation: 2 })),
  'window-tiles': (d) =>
    d.graph(make('window', [d.param([d.rng.int(6, 9), 2], d.any())], { axis: 0, size: 3, stride: 3, dilation: 1 })),
}

/** f of as many operands as it takes. */
function elementwise(d: Draw, operand: () => Node): Node {
  const op: OpName = d.rng.pick(['add', 'mul', 'max', 'neg', 'exp', 'select', 'lt'] as const)
  if (op === 'select') return make('select', [make('lt', [operand(), operand()], {}), operand(), operand()], {})
  const arity = op === 'neg' || op === 'exp' ? 1 : 2
  return make<OpName>(op, Array.from({ length: arity }, operand), {}) as Node
}

export const broadcastExamples: Readonly<Record<string, Example>> = {
  'broadcast-squeeze': (d) => d.graph(broadcast(d.param([3, 1, 2, 1], d.any()), [3, 4, 1, 2, 5], [0, 1, 3, 4])),
  'broadcast-identity': (d) =>
    d.graph(
      d.rng.chance(0.5)
        ? broadcast(d.param([3, 2], d.any()), [3, 2], [0, 1])
        : broadcast(d.param([3, 2], d.any()), [3, 1, 2], [0, 2]),
    ),
  'broadcast-broadcast': (d) => {
    const x = someBroadcast(d, { ascending: false })
    return d.graph(
      broadcast(
        x,
        [...x.shape, 3],
        x.shape.map((_, i) => i),
      ),
    )
  },
  'broadcast-ascending': (d) =>
    d.graph(
      d.rng.chance(0.5)
        ? broadcast(d.param([2, 3], d.any()), [3, 2], [1, 0])
        : broadcast(d.param([2, 3, 4], d.any()), [4, 5, 2, 3], [2, 3, 0]),
    ),
  'unit-reshape-of-broadcast': (d) => {
    const x = someBroadcast(d, { least: 2 })
    return d.graph(reshape(x, withUnits(d, x.shape)))
  },
  'permute-of-broadcast': (d) => {
    const x = someBroadcast(d)
    return d.graph(permute(x, d.perm(x.shape.length)))
  },
  'slice-of-broadcast': (d) => d.graph(someSlice(d, someBroadcast(d))),
  'flip-of-broadcast': (d) => d.graph(someFlip(d, someBroadcast(d))),
  'broadcast-past-elementwise': (d) => {
    const dtype = d.rng.pick(['f32', 'f16', 'f64'] as const)
    const rank = d.rng.int(0, 2)
    const inner = core(d, rank)
    const dims = Array.from({ length: rank }, (_, i) => i + 1)
    const operand = (): Node => {
      if (d.rng.chance(0.2)) return d.full([3, ...inner], dtype)
      return broadcast(d.param(inner, dtype), [3, ...inner], dims)
    }
    return d.graph(elementwise(d, operand))
  },
  'unit-reshape-past-elementwise': (d) => {
    const dtype = d.rng.pick(['f32', 'bf16', 'f64'] as const)
    const inner = core(d, d.rng.int(1, 3))
    const shape = withUnits(d, inner)
    const lastCore = shape.length - 1 - [...shape].reverse().findIndex((n) => n !== 1)
    let first = true
    const operand = (): Node => {
      const roll = first ? 1 : d.rng.unit()
      first = false
      if (roll < 0.2) return d.full(shape, dtype)
      if (roll < 0.4) return broadcast(d.param([inner.at(-1) ?? 1], dtype), shape, [lastCore])
      return reshape(d.param(inner, dtype), shape)
    }
    return d.graph(elementwise(d, operand))
  },
  'div-by-broadcast': (d) => {
    const y = someBroadcast(d, { dtype: d.rng.pick(['f32', 'f64'] as const) })
    return d.graph(make('div', [d.param(y.shape, y.dtype), y], {}))
  },
}
