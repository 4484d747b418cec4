/** Programs in which the rules on ops with graphs inside fire. */
import { condNodes, customNodes, loopNodes, whileNodes } from '../../../src/compose/control.ts'
import { makeNode, param } from '../../../src/graph/build.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { type DType, isFloat } from '../../../src/types/dtype.ts'
import type { Draw, Example } from '../support.ts'

const make = makeNode
const shape = [3]

/** A graph over `count` vectors. */
function inner(count: number, dtype: DType, build: (...xs: Node[]) => readonly Node[]): Graph {
  const params = Array.from({ length: count }, (_, i) => param(i, shape, dtype))
  return { params, outputs: build(...params), effects: [] }
}

const add = (a: Node, b: Node): Node => make('add', [a, b], {})
const mul = (a: Node, b: Node): Node => make('mul', [a, b], {})
/** x + x*x twice: common subexpressions that stand apart. */
const twice = (x: Node): Node => add(add(x, mul(x, x)), add(x, mul(x, x)))

/** A counter that starts at zero; the loop runs while it is below `steps`. */
function counted(steps: number, dtype: DType, vectors: number, build: (...xs: Node[]) => readonly Node[]) {
  const counter = (): Node => param(0, [], 'i32')
  const number = (value: number): Node => make('full', [], { value, shape: [], dtype: 'i32' })
  const graph = (make: (n: Node, xs: Node[]) => readonly Node[]): Graph => {
    const n = counter()
    const xs = Array.from({ length: vectors }, (_, i) => param(i + 1, shape, dtype))
    return { params: [n, ...xs] as Graph['params'], outputs: make(n, xs), effects: [] }
  }
  const test = graph((n) => [make('lt', [n, number(steps)], {})])
  const body = graph((n, xs) => [add(n, number(1)), ...build(...xs)])
  return (init: readonly Node[]): Node[] => whileNodes(test, body, [], [number(0), ...init])
}

const test = (d: Draw): Node => d.param([], 'bool')

export const regionExamples: Readonly<Record<string, Example>> = {
  'inline-custom': (d) => {
    const dtype = d.number()
    const body = inner(2, dtype, (x, y) => [add(x, y), mul(x, y), twice(x)])
    const tangents = (x: Node, y: Node, s: Node, t: Node): Node[] => [add(s, t), add(mul(x, t), mul(s, y)), add(s, s)]
    const graph = isFloat(dtype)
      ? inner(4, dtype, (x, y, s, t) => [add(x, y), mul(x, y), twice(x), ...tangents(x, y, s, t)])
      : body
    const rule = { kind: 'jvp', name: 'mine', graph } as const
    return d.graph(...customNodes(body, rule, [d.param(shape, dtype), d.param(shape, dtype)]).slice(d.rng.int(0, 2)))
  },
  'cond-of-literal': (d) => {
    const dtype = d.number()
    const value = make('full', [], { value: d.rng.chance(0.5), shape: [], dtype: 'bool' })
    const then = inner(2, dtype, (x, y) => [add(x, y), x])
    const otherwise = inner(2, dtype, (x, y) => [mul(x, y), y])
    return d.graph(...condNodes(value, [d.param(shape, dtype), d.param(shape, dtype)], then, otherwise))
  },
  'while-never': (d) => {
    const dtype = d.number()
    const never = inner(2, dtype, () => [make('full', [], { value: false, shape: [], dtype: 'bool' })])
    const body = inner(2, dtype, (x, y) => [add(x, y), x])
    return d.graph(...whileNodes(never, body, [], [d.param(shape, dtype), d.param(shape, dtype)]))
  },
  'short-loop': (d) => {
    const dtype = d.number()
    const length = d.rng.int(0, 2)
    const body = inner(3, dtype, (c, h, x) => [add(mul(c, h), x), add(h, x), x])
    const r = loopNodes(
      body,
      { length, reverse: d.rng.chance(0.5) },
      [d.param(shape, dtype)],
      [d.param(shape, dtype)],
      [d.param([length, 3], dtype)],
    )
    return d.graph(...r.carries, ...r.sequences)
  },
  'region-unused': (d) => {
    const dtype = d.number()
    const read = (xs: readonly Node[]): Graph => {
      const kept = xs.filter(() => d.rng.chance(0.6))
      return d.graph(...(kept.length === 0 ? xs.slice(0, 1) : kept))
    }
    const [a, b, c] = [d.param(shape, dtype), d.param(shape, dtype), d.param(shape, dtype)]
    const zero = make('full', [], { value: 0, shape, dtype: 'f32' })
    switch (d.rng.int(0, 2)) {
      case 0: {
        const then = inner(4, dtype, (x, y, z, w) => [add(x, y), z, mul(y, w), add(x, y)])
        const otherwise = inner(4, dtype, (x, y, z, w) => [mul(x, y), z, w, mul(x, y)])
        return read(condNodes(test(d), [a, b, c, dtype === 'f32' ? zero : b], then, otherwise))
      }
      case 1: {
        // The second vector never changes, the third serves nothing but itself.
        const run = counted(d.rng.int(0, 3), dtype, 3, (x, y, z) => [add(x, y), y, mul(z, z)])
        return read(run([a, b, c]).slice(1))
      }
      default: {
        const length = d.rng.int(0, 3)
        const body = inner(6, dtype, (k, l, h, same, s, t) => [add(mul(h, k), s), same, mul(s, l), t, mul(s, l), k])
        const s = d.param([length, 3], dtype)
        const r = loopNodes(
          body,
          { length, reverse: d.rng.chance(0.5) },
          [a, d.rng.chance(0.5) ? a : b],
          [b, c],
          [s, d.rng.chance(0.5) ? s : d.param([length, 3], dtype)],
        )
        return read([...r.carries, ...r.sequences])
      }
    }
  },
  'cond-inside': (d) => {
    const dtype = d.number()
    const then = inner(1, dtype, (x) => [twice(x)])
    const otherwise = inner(1, dtype, (x) => [mul(x, x)])
    return d.graph(...condNodes(test(d), [d.param(shape, dtype)], then, otherwise))
  },
  'while-inside': (d) => {
    const dtype = d.number()
    return d.graph(...counted(2, dtype, 1, (x) => [twice(x)])([d.param(shape, dtype)]).slice(1))
  },
  'loop-inside': (d) => {
    const dtype = d.number()
    const inmost = inner(2, dtype, (x, h) => [add(h, twice(x))])
    const body = inner(2, dtype, (h, x) => loopNodes(inmost, { length: 2 }, [x], [h], []).carries)
    return d.graph(
      ...loopNodes(
        body,
        { length: 2, reverse: d.rng.chance(0.5) },
        [],
        [d.param(shape, dtype)],
        [d.param([2, 3], dtype)],
      ).carries,
    )
  },
}
