/**
 * What is known of lanes before the code runs: integers that bits of a position decide, the same in every step of the vector
 * axis, and copies whose lanes are equal (neighbours that share a word of random bits). Neither is computed at run time.
 */
import type { Expr } from '../../../affine/expr.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import { evalScalar } from '../../../scalar/eval.ts'
import { type Scalar, type ScalarOp, scalarInfo } from '../../../scalar/ops.ts'
import type { Def } from '../../../schedule/loop/ir/tile.ts'
import { knownLanes, lanePattern } from './laneIndex.ts'
import type { Point, VectorAxis } from './point.ts'
import { regClass } from './reg.ts'

/** Integers of at most 32 bits, by lane. */
export type Known = readonly number[]

export class LaneValues {
  private readonly point: Point
  /** A value's definition where it is computed at its point: it stands nowhere yet. */
  private readonly inline: (id: ValueId) => Def | undefined
  private vector: VectorAxis | undefined
  private readonly values = new Map<string, Known | undefined>()
  private readonly copies = new Map<string, number>()

  constructor(point: Point, inline: (id: ValueId) => Def | undefined) {
    this.point = point
    this.inline = inline
  }

  /** The lanes of copy `j`, where they are the same in every step. */
  of(id: ValueId, j: number): Known | undefined {
    this.renew()
    const key = `${id}.${j}`
    if (!this.values.has(key)) this.values.set(key, this.evaluate(id, j))
    return this.values.get(key)
  }

  /** The first copy whose lanes equal those of copy `j`. */
  first(id: ValueId, j: number): number {
    this.renew()
    const key = `${id}.${j}`
    const found = this.copies.get(key)
    if (found !== undefined) return found
    const same = this.comparison(id, j)
    let first = 0
    while (first < j && !same(first)) first++
    this.copies.set(key, first)
    return first
  }

  /** The operand that an operation in copy `j` is equal to: the others are zeros of a sum, or ones of a product. */
  operandOf(op: ScalarOp, args: readonly ValueId[], j: number): ValueId | undefined {
    const { terms, factors } = scalarInfo(op)
    const [parts, neutral] = terms === undefined ? [factors, 1] : [terms, 0]
    return args.find(
      (_, p) =>
        parts?.[p] === 1 &&
        args.every((other, q) => q === p || this.of(other, j)?.every((v) => v === neutral) === true),
    )
  }

  /** Each vector axis has steps of its own. */
  private renew(): void {
    if (this.vector === this.point.vector) return
    this.vector = this.point.vector
    this.values.clear()
    this.copies.clear()
  }

  private evaluate(id: ValueId, j: number): Known | undefined {
    const def = this.inline(id)
    if (def?.op === undefined || regClass(def.dtype) !== 'int') return undefined
    const { op, dtype } = def
    if (op.kind === 'const') return [0, 1, 2, 3].map(() => Number(op.value))
    if (op.kind === 'index')
      return knownLanes(lanePattern(this.point, op.expr, j))?.map((v) =>
        Number(evalScalar('cast', v < 0 ? 'i32' : 'u32', dtype, [v])),
      )
    if (op.kind !== 'scalar' || !['free', 'simple'].includes(scalarInfo(op.op).cost)) return undefined
    const args: Known[] = []
    for (const arg of op.args) {
      const known = this.of(arg, j)
      if (known === undefined) return undefined
      args.push(known)
    }
    const last = op.args.at(-1)
    const operand = last === undefined ? undefined : this.inline(last)?.dtype
    if (operand === undefined) return undefined
    const lane = (l: number): Scalar[] => args.map((a) => a[l] ?? 0)
    return [0, 1, 2, 3].map((l) => Number(evalScalar(op.op, operand, dtype, lane(l))))
  }

  /** Whether the lanes of an earlier copy equal those of copy `j`. */
  private comparison(id: ValueId, j: number): (earlier: number) => boolean {
    if (!this.point.varies(id)) return () => true
    const op = this.inline(id)?.op
    const known = this.of(id, j)
    if (known !== undefined) return (i) => this.of(id, i)?.every((v, l) => v === known[l]) === true
    if (op?.kind === 'random' && !this.point.varies(op.k0) && !this.point.varies(op.k1)) {
      const own = this.placeOf(op.index, j)
      return (i) => own !== undefined && own === this.placeOf(op.index, i)
    }
    if (op?.kind !== 'scalar') return () => false
    const own = op.args.map((arg) => this.first(arg, j))
    return (i) => op.args.every((arg, a) => own[a] === this.first(arg, i))
  }

  /** What tells the lanes of an expression in a copy from those in another. */
  private placeOf(e: Expr, j: number): string | undefined {
    const pattern = lanePattern(this.point, e, j)
    if (pattern.kind === 'data') return undefined
    return pattern.kind === 'lanes'
      ? pattern.lanes.map((l) => l.key).join()
      : `${pattern.at.key}+${pattern.extra}+${pattern.stride}`
  }
}
