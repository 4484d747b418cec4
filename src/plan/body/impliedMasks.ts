/**
 * Masks of loads that a choice implies: where a mask fails, a choice takes the other value, and what is read instead of zero is never seen. Halves
 * of packed weights, joined along a new axis, are so read once, without tests, and what windows of padded data share is read once for all of their
 * places. A choice of zero where a value is zero already is none.
 */
import * as ix from '../../affine/expr.ts'
import type { Bound, Predicate } from '../../affine/predicate.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { expressionsOf, liveLets, renameOperands } from '../../kernel/walk.ts'
import { type Body, storeExpressions } from './body.ts'

/** The body with such masks dropped, and loads that have become alike made once. */
export function withoutImpliedMasks(given: Body): Body {
  if (!given.lets.some(({ op }) => op.kind === 'predicate')) return given
  const body = withoutRepeatedChoices(given)
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const uses = usesOf(body)
  const unmasked = new Set<ValueId>()
  const between = new Set<ValueId>()
  /** Looks for loads under a value that one choice alone takes, where a bound holds. */
  const drop = (root: ValueId, holds: Predicate): void => {
    const stack = [root]
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      const l = lets.get(id)
      if (l === undefined || uses.get(id) !== 1) continue
      if (l.op.kind === 'scalar') {
        between.add(id)
        stack.push(...new Set(l.op.args))
      } else if (
        l.op.kind === 'load' &&
        l.op.maskValue === undefined &&
        implies(holds, l.op.mask) &&
        isInside(body, l.op.param, l.op.index)
      )
        unmasked.add(id)
    }
  }
  for (const { op } of body.lets) {
    if (op.kind !== 'scalar' || op.op !== 'select') continue
    const [condition = -1, yes = -1, no = -1] = op.args
    const test = lets.get(condition)?.op
    if (test?.kind !== 'predicate') continue
    drop(yes, test.predicate)
    const [bound, another] = test.predicate
    const rest = bound === undefined || another !== undefined ? undefined : complement(bound)
    if (rest !== undefined) drop(no, [rest])
  }
  keepAlike(body, unmasked)
  if (unmasked.size === 0) return body
  const made = new Map<string, ValueId>()
  const renamed = new Map<ValueId, ValueId>()
  const axesOf = new Map<ValueId, readonly string[]>()
  /** Axes that a mask alone had are gone, also from what is between the load and the choice. */
  const narrowed = (l: LetStmt, op: LetStmt['op']): readonly string[] => {
    if (!between.has(l.id) && !unmasked.has(l.id)) return l.axes
    const have =
      op.kind === 'load'
        ? new Set(op.index.flatMap((e) => [...ix.axesOf(e)]))
        : new Set(operandsOf(op).flatMap((id) => axesOf.get(id) ?? []))
    return l.axes.filter((a) => have.has(a))
  }
  const out = body.lets.flatMap((l): LetStmt[] => {
    const op = renameOperands(l.op, (id) => renamed.get(id) ?? id)
    const axes = narrowed(l, op)
    axesOf.set(l.id, axes)
    if (op.kind !== 'load' || !unmasked.has(l.id)) return [{ ...l, op, axes }]
    const key = [keyOf(l), ...axes].join('|')
    const have = made.get(key)
    if (have !== undefined) {
      renamed.set(l.id, have)
      return []
    }
    made.set(key, l.id)
    return [{ ...l, axes, op: { ...op, mask: [] } }]
  })
  return { ...body, lets: out }
}

/** What tells loads without masks apart. */
const keyOf = ({ op, dtype }: LetStmt): string =>
  op.kind === 'load' ? [op.param, ...op.index.map((e) => e.key), dtype].join('|') : ''

/** Leaves of some loads those that become alike without their masks, or have fewer axes: others would only read what nobody sees. */
function keepAlike(body: Body, unmasked: Set<ValueId>): void {
  const times = new Map<string, number>()
  const loads = body.lets.filter((l) => unmasked.has(l.id))
  for (const l of loads) times.set(keyOf(l), (times.get(keyOf(l)) ?? 0) + 1)
  for (const l of loads) if (times.get(keyOf(l)) === 1 && !hasAxesOfMaskAlone(l)) unmasked.delete(l.id)
}

/** Whether a load's mask has axes that its index lacks. */
function hasAxesOfMaskAlone({ op, axes }: LetStmt): boolean {
  if (op.kind !== 'load') return false
  const read = new Set(op.index.flatMap((e) => [...ix.axesOf(e)]))
  return axes.some((a) => !read.has(a))
}

/** The body without choices of zero where a value, by its own mask or choice, is zero already. */
function withoutRepeatedChoices(body: Body): Body {
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const isZero = (id: ValueId | undefined): boolean => {
    const op = id === undefined ? undefined : lets.get(id)?.op
    return op?.kind === 'const' && Object.is(op.value, 0)
  }
  const inIndices = new Set(
    [...body.lets.flatMap((l) => expressionsOf(l.op)), ...body.stores.flatMap(storeExpressions)].flatMap((e) => [
      ...ix.valuesOf(e),
    ]),
  )
  /** Of values that are zero where a predicate fails, that predicate. */
  const within = new Map<ValueId, Predicate>()
  const same = new Map<ValueId, ValueId>()
  const out = body.lets.flatMap((l): LetStmt[] => {
    const op = renameOperands(l.op, (id) => same.get(id) ?? id)
    if (op.kind === 'load' && Object.is(op.other, 0)) within.set(l.id, op.mask)
    if (op.kind === 'scalar' && op.op === 'select') {
      const [condition = -1, yes = -1, no] = op.args
      const test = lets.get(condition)?.op
      if (test?.kind === 'predicate' && isZero(no)) {
        const have = within.get(yes) ?? []
        if (implies(have, test.predicate) && lets.get(yes)?.dtype === l.dtype && !inIndices.has(l.id)) {
          same.set(l.id, yes)
          return []
        }
        within.set(l.id, [...have, ...test.predicate])
      }
    }
    return [{ ...l, op }]
  })
  if (same.size === 0) return body
  const stores = body.stores.map((s) => ({ ...s, value: same.get(s.value) ?? s.value }))
  const roots = stores.flatMap((s) => [s.value, ...storeExpressions(s).flatMap((e) => [...ix.valuesOf(e)])])
  return { ...body, lets: liveLets(out, roots), stores }
}

/** How often each value is read; what indices, masks and stores read counts twice, so that it is never one choice's alone. */
function usesOf(body: Body): ReadonlyMap<ValueId, number> {
  const uses = new Map<ValueId, number>()
  const count = (id: ValueId, times: number): void => {
    uses.set(id, (uses.get(id) ?? 0) + times)
  }
  for (const { op } of body.lets) {
    for (const id of operandsOf(op)) count(id, op.kind === 'load' ? 2 : 1)
    for (const e of expressionsOf(op)) for (const id of ix.valuesOf(e)) count(id, 2)
  }
  for (const s of body.stores) {
    count(s.value, 2)
    for (const e of storeExpressions(s)) for (const id of ix.valuesOf(e)) count(id, 2)
  }
  return uses
}

/** The part of a bound's range where it fails, if that is one piece. */
function complement({ expr, lo, hi }: Bound): Bound | undefined {
  const range = ix.rangeOf(expr)
  if (lo <= range.lo && hi <= range.hi) return { expr, lo: hi, hi: range.hi + 1 }
  return hi > range.hi && lo > range.lo ? { expr, lo: range.lo, hi: lo } : undefined
}

/** Whether a mask holds wherever a predicate does. */
const implies = (holds: Predicate, mask: Predicate): boolean =>
  mask.length > 0 && mask.every((m) => holds.some((b) => m.expr.key === b.expr.key && m.lo <= b.lo && m.hi >= b.hi))

/** Whether an index is inside a tensor wherever its axes go. */
function isInside(body: Body, param: string, index: readonly ix.Expr[]): boolean {
  const shape = body.loads.get(param)?.shape
  return (
    shape !== undefined &&
    index.every((e, d) => ix.valuesOf(e).size === 0 && ix.rangeOf(e).lo >= 0 && ix.rangeOf(e).hi < (shape[d] ?? 0))
  )
}
