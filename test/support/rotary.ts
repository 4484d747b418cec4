/** Programs around rotary embeddings: rows that are normalised whole and used in pieces, and their derivatives. */
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, type Input } from '../compile/support.ts'

export interface Rotary {
  readonly name: string
  /** Inputs for tokens, heads and elements a head. */
  readonly inputs: (tokens: number, heads: number, width: number) => readonly Input[]
  readonly build: (p: readonly Node[]) => Node | Node[]
  /** Parameters that derivatives are taken in. */
  readonly wrt: readonly number[]
}

const f32 = (x: Node): Node => c.cast(x, 'f32')

/** RMSNorm over the last axis, in f32. */
export const rmsNorm = (x: Node, w: Node): Node => {
  const h = f32(x)
  return c.mul(c.mul(h, c.unary('rsqrt', c.add(c.mean(c.mul(h, h), -1, true), 1e-6))), f32(w))
}

const halves = (x: Node): [Node, Node] => {
  const d = x.shape.at(-1) ?? 0
  return [c.sliceAxis(x, -1, 0, d / 2), c.sliceAxis(x, -1, d / 2, d)]
}

const rotateHalves = (x: Node, cos: Node, sin: Node): Node => c.rotate(x, cos, sin)
const rotatePairs = (x: Node, cos: Node, sin: Node): Node => c.rotate(x, cos, sin, true)

/** Only the first half of a row is turned. */
const rotatePartly = (x: Node, cos: Node, sin: Node): Node => {
  const [first, rest] = halves(x)
  return c.concat([c.rotate(first, cos, sin), rest], -1)
}

const inputs =
  (dtype: DType, angles: (d: number) => number): Rotary['inputs'] =>
  (t, h, d) => [
    { shape: [t, h, d], dtype },
    { shape: [d], dtype },
    { shape: [t, 1, angles(d)] },
    { shape: [t, 1, angles(d)] },
  ]

const withNorm = (turn: (x: Node, cos: Node, sin: Node) => Node) => (p: readonly Node[]) =>
  c.cast(turn(rmsNorm(at(p, 0), at(p, 1)), at(p, 2), at(p, 3)), at(p, 0).dtype)

export const rotaries = (dtype: DType): readonly Rotary[] => {
  const half = inputs(dtype, (d) => d / 2)
  const quarter = inputs(dtype, (d) => Math.floor(d / 4))
  const without =
    (i: Rotary['inputs']): Rotary['inputs'] =>
    (t, h, d) =>
      i(t, h, d).filter((_, k) => k !== 1)
  const alone = (turn: (x: Node, cos: Node, sin: Node) => Node) => (p: readonly Node[]) =>
    c.cast(turn(f32(at(p, 0)), at(p, 1), at(p, 2)), at(p, 0).dtype)
  return [
    { name: 'norm, halves', inputs: half, build: withNorm(rotateHalves), wrt: [0, 1] },
    { name: 'norm, pairs', inputs: half, build: withNorm(rotatePairs), wrt: [0, 1] },
    { name: 'norm, partly', inputs: quarter, build: withNorm(rotatePartly), wrt: [0, 1] },
    { name: 'halves', inputs: without(half), build: alone(rotateHalves), wrt: [0] },
    { name: 'pairs', inputs: without(half), build: alone(rotatePairs), wrt: [0] },
    { name: 'partly', inputs: without(quarter), build: alone(rotatePartly), wrt: [0] },
    {
      name: 'norm, gate',
      inputs: (t, h, d) => half(t, h, d).slice(0, 2),
      build: (p) => {
        const [a, b] = halves(rmsNorm(at(p, 0), at(p, 1)))
        return c.cast(c.mul(c.silu(a), b), at(p, 0).dtype)
      },
      wrt: [0, 1],
    },
    {
      name: 'norm, two results',
      inputs: (t, h, d) => half(t, h, d).slice(0, 2),
      build: (p) => halves(rmsNorm(at(p, 0), at(p, 1))).map((x) => c.cast(x, at(p, 0).dtype)),
      wrt: [0, 1],
    },
  ]
}
