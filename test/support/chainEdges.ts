/** Chains at the edges: rows that masks hide whole, by minus infinity or by finite numbers, and scores that are infinite or NaN, for every device that has chains. */
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, trace } from '../compile/support.ts'

const [queries, keys, width] = [72, 80, 16]

export interface EdgeCase {
  readonly name: string
  readonly options: c.AttentionOptions
  /** What the mask, if the case has one, or an operand holds in places of its own. */
  readonly set: (operands: Operands) => void
  /** Rows that the graph makes NaN. */
  readonly isNaN: (query: number) => boolean
}

interface Operands {
  readonly query: (row: number, value: number) => void
  readonly value: (row: number, value: number) => void
  readonly mask: (row: number, value: number) => void
}

const none = (): boolean => false
const hidden = (by: number): EdgeCase => ({
  name: `a row hidden by ${by}`,
  options: {},
  set: (o) => o.mask(3, by),
  isNaN: (q) => by === Number.NEGATIVE_INFINITY && q === 3,
})

export const edgeCases: readonly EdgeCase[] = [
  {
    name: 'rows hidden by their positions',
    options: { causalOffset: -6, causal: true },
    set: () => {},
    isNaN: (q) => q < 6,
  },
  {
    name: 'a window beyond the keys',
    options: { causalOffset: 20, window: 5 },
    set: () => {},
    isNaN: (q) => q + 20 - 5 >= keys - 1,
  },
  hidden(Number.NEGATIVE_INFINITY),
  ...[-1e4, -65504, -1e6, -1e9, -1e12, -1e30, -3.4028234663852886e38].map(hidden),
  {
    name: 'every score raised by 1e9',
    options: {},
    set: (o) => Array.from({ length: queries }, (_, i) => o.mask(i, 1e9)),
    isNaN: none,
  },
  { name: 'an infinite score', options: {}, set: (o) => o.mask(5, Number.POSITIVE_INFINITY), isNaN: (q) => q === 5 },
  { name: 'a NaN score', options: {}, set: (o) => o.mask(5, Number.NaN), isNaN: (q) => q === 5 },
  { name: 'an infinite query', options: {}, set: (o) => o.query(7, Number.POSITIVE_INFINITY), isNaN: (q) => q === 7 },
  {
    name: 'a NaN query',
    options: { causal: true, causalOffset: 0 },
    set: (o) => o.query(70, Number.NaN),
    isNaN: (q) => q === 70,
  },
  { name: 'a NaN value that all see', options: {}, set: (o) => o.value(79, Number.NaN), isNaN: () => true },
]

export const edgeGraph = (dtype: DType, { options }: EdgeCase): Graph =>
  trace(
    [
      { shape: [queries, width], dtype },
      { shape: [keys, width], dtype },
      { shape: [keys, width], dtype },
      { shape: [queries, keys] },
    ],
    (p) => {
      const [q, k, v, m] = p as [Node, Node, Node, Node]
      return c.attention(q, k, v, { ...options, mask: m })
    },
  )

/** Operands of a case, and what its rows are. */
export function edgeData(graph: Graph, { set }: EdgeCase): HostArray[] {
  let s = 9
  const inputs = graph.params.map((p, i) => {
    const data = hostArray(p.dtype, sizeOf(p.shape))
    for (let j = 0; j < data.length; j++) {
      s = (Math.imul(s, 1664525) + 1013904223) >>> 0
      writeElement(data, p.dtype, j, i === 3 ? 0 : (2 * s) / 2 ** 32 - 1)
    }
    return data
  })
  const fill = (param: number, columns: number) => (row: number, value: number) => {
    for (let j = 0; j < columns; j++)
      writeElement(at(inputs, param), at(graph.params, param).dtype, row * columns + j, value)
  }
  set({ query: fill(0, width), value: fill(2, width), mask: fill(3, keys) })
  return inputs
}

/** The first place where results are not what the reference makes of the operations one by one, rounded to their dtypes; or where NaN is not what the case says. */
export function edgeProblem(
  x: EdgeCase,
  graph: Graph,
  inputs: readonly HostArray[],
  got: HostArray,
): string | undefined {
  const dtype = graph.outputs[0]?.dtype ?? 'f32'
  const want = at(evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray), 0)
  const loose = { f32: 2e-5, f16: 2e-3 }[String(dtype)] ?? 2e-2
  for (let i = 0; i < want.length; i++) {
    const [a, e] = [Number(readElement(got, dtype, i)), Number(readElement(want, dtype, i))]
    const hasNaN = x.isNaN(Math.floor(i / width))
    if (Number.isNaN(a) !== hasNaN || Number.isNaN(e) !== hasNaN || Math.abs(a - e) > loose)
      return `${x.name}: ${a} at ${i}, not ${e}`
  }
  return undefined
}
