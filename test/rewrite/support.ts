/** What rewrite tests share: evaluating a graph by the oracle, comparing results, drawing small programs. */

import { makeNode, param } from '../../src/graph/build.ts'
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { evaluateGraph, type Rounding, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement } from '../../src/scalar/host.ts'
import type { Scalar } from '../../src/scalar/ops.ts'
import { type DType, isFloat } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { type Shape, sizeOf } from '../../src/types/shape.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { specialData, specialValue, tameData } from '../random/values.ts'

/** Evaluates nodes of literals: what the compiler passes as `fold`. */
export const foldIn =
  (rounding: Rounding) =>
  (node: Node): HostArray => {
    const [value] = evaluateGraph({ params: [], outputs: [node], effects: [] }, [], { rounding })
    if (value === undefined) throw new Error('no value')
    return toHostArray(value)
  }

/** All outputs as host arrays. */
export const evaluate = (graph: Graph, inputs: readonly HostArray[], rounding: Rounding): HostArray[] =>
  evaluateGraph(graph, inputs, { rounding }).map(toHostArray)

const show = (v: Scalar): string => (Object.is(v, -0) ? '-0' : String(v))

/** The first difference of two results as text; undefined when every element is the same bits (any NaN equals any other). */
export function bitDifference(want: HostArray, got: HostArray, dtype: DType): string | undefined {
  if (want.length !== got.length) return `${got.length} elements instead of ${want.length}`
  for (let i = 0; i < want.length; i++) {
    const [a, b] = [readElement(want, dtype, i), readElement(got, dtype, i)]
    if (!Object.is(a, b)) return `element ${i}: ${show(a)} became ${show(b)}`
  }
  return undefined
}

const tolerances: Partial<Record<DType, number>> = { f64: 1e-9, f32: 1e-5, f16: 2e-2, bf16: 1e-1 }

/** The first difference beyond rounding: relative to the largest magnitude of the result. */
export function roundingDifference(
  want: HostArray,
  got: HostArray,
  dtype: DType,
  absolute?: number,
): string | undefined {
  if (!isFloat(dtype)) return bitDifference(want, got, dtype)
  if (want.length !== got.length) return `${got.length} elements instead of ${want.length}`
  const all = Array.from({ length: want.length }, (_, i) => Number(readElement(want, dtype, i)))
  const largest = all.reduce((m, v) => (Number.isFinite(v) ? Math.max(m, Math.abs(v)) : m), 0)
  const allowed = absolute ?? (tolerances[dtype] ?? 0) * Math.max(largest, 1e-30)
  for (let i = 0; i < all.length; i++) {
    const a = all[i] ?? 0
    const b = Number(readElement(got, dtype, i))
    if (Object.is(a, b) || a === b) continue
    if (!(Math.abs(a - b) <= allowed)) return `element ${i}: ${a} became ${b}, more than ${allowed} away`
  }
  return undefined
}

/** Draws one small program: parameters are numbered as they are asked for. */
export class Draw {
  readonly rng: Rng
  readonly params: NodeOf<'param'>[] = []

  constructor(seed: number) {
    this.rng = makeRng(seed)
  }

  param(shape: Shape, dtype: DType = 'f32'): Node {
    const p = param(this.params.length, shape, dtype)
    this.params.push(p)
    return p
  }

  /** An extent: often 1, sometimes 0, never large. */
  extent(least = 0): number {
    return this.rng.pick([0, 1, 1, 2, 3, 4, 5, 7].filter((d) => d >= least))
  }

  /** A shape of the given rank (or of 0 to 3). */
  shape(rank = this.rng.int(0, 3), least = 0): number[] {
    return Array.from({ length: rank }, () => this.extent(least))
  }

  axis(rank: number): number {
    return this.rng.int(0, rank - 1)
  }

  perm(rank: number): number[] {
    return this.rng.shuffle(Array.from({ length: rank }, (_, i) => i))
  }

  full(shape: Shape, dtype: DType, value: Scalar = specialValue(this.rng, dtype)): Node {
    return makeNode('full', [], { shape, dtype, value })
  }

  constant(shape: Shape, dtype: DType = 'f32', tame = false): Node {
    const n = sizeOf(shape)
    const data = tame ? tameData(this.rng, dtype, n, 0.5, 2) : specialData(this.rng, dtype, n)
    return makeNode('constant', [], { data, shape, dtype })
  }

  float(): DType {
    return this.rng.pick(['f32', 'f64', 'f16', 'bf16'] as const)
  }

  integer(): DType {
    return this.rng.pick(['i8', 'i16', 'i32', 'i64', 'u8', 'u16', 'u32', 'u64'] as const)
  }

  number(): DType {
    return this.rng.chance(0.6) ? this.float() : this.integer()
  }

  any(): DType {
    return this.rng.chance(0.1) ? 'bool' : this.number()
  }

  graph(...outputs: readonly Node[]): Graph {
    return { params: this.params, outputs, effects: [] }
  }

  /** Inputs with every special value, or moderate positive ones. */
  inputs(tame: boolean): HostArray[] {
    return this.params.map((p) => {
      const n = sizeOf(p.shape)
      if (p.attrs.dtype === 'bool') return specialData(this.rng, 'bool', n)
      return tame ? tameData(this.rng, p.dtype, n, 0.5, 2) : specialData(this.rng, p.dtype, n)
    })
  }
}

export const empty = (dtype: DType): HostArray => hostArray(dtype, 0)

/** A program in which a rule fires for most seeds. */
export type Example = (d: Draw) => Graph
