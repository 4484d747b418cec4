/** Programs with graphs inside, and the same programs written out: what control flow is tested on. */
import * as c from '../../src/compose/index.ts'
import { param } from '../../src/graph/build.ts'
import type { CustomRule, Graph, Node } from '../../src/graph/node.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { Program } from './support.ts'

export interface Type {
  readonly shape: readonly number[]
  readonly dtype?: DType
}

/** A graph of its own from a function of its parameters; float64 unless told. */
export function inner(types: readonly Type[], build: (...xs: Node[]) => readonly Node[]): Graph {
  const params = types.map((t, i) => param(i, t.shape, t.dtype ?? 'f64'))
  return { params, outputs: build(...params), effects: [] }
}

const element = (x: Node, i: number): Node => c.reshape(c.sliceAxis(x, 0, i, i + 1), x.shape.slice(1))

export interface LoopSpec {
  readonly length: number
  readonly reverse?: boolean
  /** Constants, carries, one element of each sequence -> next carries, elements. */
  readonly body: Graph
  readonly consts: number
  readonly carries: number
}

/** A loop on inputs, in the order of its roles. */
export function looped({ body, length, reverse = false, consts, carries }: LoopSpec): (...xs: Node[]) => Node[] {
  return (...xs) => {
    const r = c.loopNodes(
      body,
      { length, reverse },
      xs.slice(0, consts),
      xs.slice(consts, consts + carries),
      xs.slice(consts + carries),
    )
    return [...r.carries, ...r.sequences]
  }
}

/** The same without a loop. */
export function unrolled(spec: LoopSpec, apply: (g: Graph, args: readonly Node[]) => readonly Node[]) {
  return (...xs: Node[]): Node[] => {
    const { body, length, reverse = false, consts, carries } = spec
    let carry = xs.slice(consts, consts + carries)
    const made: Node[][] = body.outputs.slice(carries).map(() => [])
    for (let k = 0; k < length; k++) {
      const i = reverse ? length - 1 - k : k
      const outputs = apply(body, [
        ...xs.slice(0, consts),
        ...carry,
        ...xs.slice(consts + carries).map((x) => element(x, i)),
      ])
      carry = outputs.slice(0, carries)
      outputs.slice(carries).forEach((y, m) => {
        made[m]?.splice(reverse ? 0 : k, 0, y)
      })
    }
    return [...carry, ...made.map((ys) => c.stack(ys))]
  }
}

/** A recurrent layer: two constants (one of them a matrix), a carry, a counter, a sequence. */
export const recurrent = (length: number, reverse = false): LoopSpec => ({
  length,
  reverse,
  consts: 2,
  carries: 2,
  body: inner(
    [{ shape: [3, 3] }, { shape: [3] }, { shape: [3] }, { shape: [], dtype: 'i32' }, { shape: [3] }],
    (w, b, h, n, x) => {
      const next = c.tanh(c.add(c.add(c.matmul(c.expandDims(h, 0), c.exp(w)), x), b))
      const row = c.reshape(next, [3])
      return [row, c.add(n, 1), c.mul(row, c.cast(n, 'f64')), c.sum(c.mul(x, x))]
    },
  ),
})

export const recurrentInputs: Program['inputs'] = [
  { shape: [3, 3], lo: -2, hi: -0.5 },
  { shape: [3] },
  { shape: [3] },
  { shape: [], dtype: 'i32', lo: 0, hi: 3 },
]

/** A power series in x with a carry that gets its tangent on the way only. */
export const growing: LoopSpec = {
  length: 4,
  consts: 1,
  carries: 3,
  body: inner([{ shape: [2] }, { shape: [2] }, { shape: [2] }, { shape: [] }], (x, a, b, k) => [
    c.add(c.mul(b, 0.5), 1),
    c.add(c.mul(x, a), c.mul(b, k)),
    c.add(k, 1),
  ]),
}

/** Branches of different residuals: one of both operands, one of the second alone. */
export const branches = {
  first: inner([{ shape: [3] }, { shape: [2, 3] }], (x, y) => [c.mul(c.exp(x), c.sum(c.mul(y, y), 0)), c.sum(y)]),
  second: inner([{ shape: [3] }, { shape: [2, 3] }], (x, y) => [
    c.mul(x, 2),
    c.add(c.sum(c.unary('sin', y)), c.sum(c.unary('sigmoid', c.mul(y, y)))),
  ]),
}

/** Doubles a vector until its sum of squares reaches a bound. */
export const doubling = {
  test: inner([{ shape: [] }, { shape: [3] }], (bound, x) => [c.compare('lt', c.sum(c.mul(x, x)), bound)]),
  body: inner([{ shape: [] }, { shape: [3] }], (bound, x) => [c.add(c.mul(x, 2), c.mul(bound, 0.125))]),
}

const yes = (x: Node): Node => c.compare('gt', x, 0)

/** A condition in a loop in a condition. */
export function nested(test: Node, x: Node, y: Node): readonly Node[] {
  const step = inner([{ shape: [3] }, { shape: [3] }, { shape: [3] }], (k, h, s) => {
    const [a] = c.condNodes(
      yes(c.sum(h)),
      [h, s, k],
      inner([{ shape: [3] }, { shape: [3] }, { shape: [3] }], (p, q, r) => [c.mul(c.unary('sin', p), c.add(q, r))]),
      inner([{ shape: [3] }, { shape: [3] }, { shape: [3] }], (p, q) => [c.sub(c.mul(q, q), p)]),
    )
    return a === undefined ? [] : [a, c.mul(a, s)]
  })
  const loop = inner([{ shape: [3] }, { shape: [4, 3] }], (h, s) => {
    const r = c.loopNodes(step, { length: 4 }, [c.exp(c.mul(h, 0.3))], [h], [s])
    return [...r.carries, c.sum(r.sequences[0] ?? h)]
  })
  const plain = inner([{ shape: [3] }, { shape: [4, 3] }], (h, s) => [c.mul(h, h), c.sum(s)])
  return c.condNodes(yes(test), [x, y], loop, plain)
}

const three: readonly Type[] = [{ shape: [3] }, { shape: [3] }, { shape: [3], dtype: 'i32' }]
const line: Type = { shape: [3] }

/** exp(x) y n and n + 1, with its true derivative as a rule of either kind. */
export const scaled: { readonly body: Graph; readonly jvp: CustomRule; readonly vjp: CustomRule } = {
  body: inner(three, (x, y, n) => [c.mul(c.mul(c.exp(x), y), n), c.add(n, 1)]),
  jvp: {
    kind: 'jvp',
    name: 'scaled',
    graph: inner([...three, line, line], (x, y, n, s, t) => {
      const e = c.mul(c.exp(x), n)
      return [c.mul(e, y), c.add(n, 1), c.add(c.mul(c.mul(e, y), s), c.mul(e, t))]
    }),
  },
  vjp: {
    kind: 'vjp',
    name: 'scaled',
    forward: inner(three, (x, y, n) => {
      const e = c.mul(c.exp(x), n)
      return [c.mul(e, y), c.add(n, 1), e, y]
    }),
    backward: inner([line, line, line], (e, y, u) => [c.mul(u, c.mul(e, y)), c.mul(u, e)]),
  },
}
