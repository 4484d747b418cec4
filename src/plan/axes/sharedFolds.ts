/**
 * Folded axes that are one: two contractions over positions of the same tensors bind an axis each, and what both sum over stands in the body twice.
 * Where one name for both leaves fewer statements, both have it, so that one loop makes for all of them what they share.
 */
import * as ix from '../../affine/expr.ts'
import { foldOrScanAxes } from '../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { ancestorsOf, mapExpressions, renameOperands } from '../../kernel/walk.ts'
import { type Body, mapStore, storeExpressions } from '../body/body.ts'

/** Products from which two may sum over the same: two that do, and one that both sum over. */
const leastProducts = 3

/** A body whose folded axes have one name where that leaves fewer statements; most bodies as they are. */
export function shareFoldedAxes(body: Body): Body {
  if (body.lets.filter((l) => l.op.kind === 'dot').length < leastProducts) return body
  let shared = body
  const stored = new Set(body.stores.flatMap((s) => storeExpressions(s).flatMap((e) => [...ix.axesOf(e)])))
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const extent = (a: string): number => extents.get(a) ?? 1
  const folds = body.lets.map((l) => foldOrScanAxes(l).filter((a) => !stored.has(a)))
  // All that a fold runs along for as many, the longest for the longest, before one axis for another: of several that are one, each alone may share nothing.
  const lists = new Map(
    [...folds, ...folds.flat().map((a) => [a])]
      .filter((axes) => axes.length > 0)
      .map((axes) => [axes.join(), [...axes].sort((x, y) => extent(y) - extent(x))]),
  )
  const all = [...lists.values()]
  for (const [i, into] of all.entries())
    for (const names of all.slice(i + 1)) {
      if (names.length !== into.length || names.some((a, n) => extent(a) !== extent(into[n] ?? ''))) continue
      if (![...into, ...names].every((a) => shared.axes.some((x) => x.name === a))) continue
      if (names.some((a, n) => into.includes(a) || stand(shared, into[n] ?? '', a))) continue
      const made = withoutRepeats(names.reduce((made, a, n) => renamed(made, a, into[n] ?? ''), shared))
      if (made.lets.length < shared.lets.length) shared = made
    }
  return shared
}

/** Whether two axes stand beside each other in a statement. */
const stand = (body: Body, a: string, b: string): boolean =>
  body.lets.some((l) => {
    const axes = [...l.axes, ...foldOrScanAxes(l)]
    return (axes.includes(a) && axes.includes(b)) || (l.op.kind === 'scan' && (l.op.axis === a || l.op.axis === b))
  })

/** The body with an axis by the name of another. */
function renamed(body: Body, from: string, to: string): Body {
  const extent = body.axes.find((a) => a.name === from)?.extent ?? 1
  const map = (a: ix.Atom): ix.Expr | undefined =>
    a.kind === 'axis' && a.name === from ? ix.axis(to, extent) : undefined
  const named = (axes: readonly string[]): readonly string[] =>
    axes.includes(from) ? axes.map((a) => (a === from ? to : a)) : axes
  const lets = body.lets.map((l): LetStmt => {
    const op = mapExpressions(l.op, (e) => ix.substitute(e, map))
    const folds = op.kind === 'reduce' || op.kind === 'dot'
    return { ...l, axes: named(l.axes), op: folds ? { ...op, axes: named(op.axes) } : op }
  })
  const stores = body.stores.map((s) => mapStore(s, (e) => ix.substitute(e, map)))
  return { ...body, axes: body.axes.filter((a) => a.name !== from), lets, stores }
}

/** A value as text: the same for statements that compute the same. */
const textOf = (value: unknown): string =>
  JSON.stringify(value, (key, v: unknown) =>
    key === 'terms'
      ? undefined
      : typeof v === 'number'
        ? Object.is(v, -0)
          ? '-0'
          : String(v)
        : typeof v === 'bigint'
          ? `${v}n`
          : v,
  )

/** The body with every statement once. */
function withoutRepeats(body: Body): Body {
  const first = new Map<string, ValueId>()
  const names = new Map<ValueId, ValueId>()
  const lets: LetStmt[] = []
  for (const l of body.lets) {
    const op = renameOperands(l.op, (id) => names.get(id) ?? id)
    const key = textOf([l.dtype, [...l.axes].sort(), op])
    const have = first.get(key)
    if (have !== undefined) names.set(l.id, have)
    else {
      first.set(key, l.id)
      lets.push({ ...l, op })
    }
  }
  const stores = body.stores.map((s) => ({ ...s, value: names.get(s.value) ?? s.value }))
  const live = ancestorsOf(
    stores.map((s) => s.value),
    new Map(lets.map((l) => [l.id, l])),
  )
  return { ...body, lets: lets.filter((l) => live.has(l.id)), stores }
}
