/**
 * Folded axes that are one: two contractions over positions of the same tensors bind an axis each, and what both sum over stands in the body twice.
 * Where one name for both leaves fewer statements, both have it, so that one loop makes for all of them what they share.
 */
import * as ix from '../../affine/expr.ts'
import { foldOrScanAxes } from '../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { liveLets, mapExpressions, renameOperands } from '../../kernel/walk.ts'
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
  let statements = new Statements(shared)
  for (const [i, into] of all.entries())
    for (const names of all.slice(i + 1)) {
      if (names.length !== into.length || names.some((a, n) => extent(a) !== extent(into[n] ?? ''))) continue
      if (!names.every((a) => statements.axes.has(a)) || !into.every((a) => statements.axes.has(a))) continue
      if (names.some((a, n) => into.includes(a) || statements.stand(into[n] ?? '', a))) continue
      const to = new Map(names.map((a, n) => [a, into[n] ?? '']))
      if (!statements.repeats(to)) continue
      const made = withoutRepeats(renamed(shared, to))
      if (made.lets.length >= shared.lets.length) continue
      shared = made
      statements = new Statements(shared)
    }
  return shared
}

/** Whether a statement runs along an axis. */
const runsAlong = (l: LetStmt, axis: string): boolean => l.axes.includes(axis) || foldOrScanAxes(l).includes(axis)

/** What is asked of a body's statements for each two axes: answered by those that run along them, since few of many do. */
class Statements {
  readonly axes: ReadonlySet<string>
  private readonly along = new Map<string, LetStmt[]>()
  private readonly texts = new Set<string>()

  constructor(body: Body) {
    this.axes = new Set(body.axes.map((a) => a.name))
    for (const l of body.lets) {
      this.texts.add(textOf(l))
      for (const a of new Set([...l.axes, ...foldOrScanAxes(l)])) {
        const have = this.along.get(a)
        if (have === undefined) this.along.set(a, [l])
        else have.push(l)
      }
    }
  }

  /** Whether two axes stand beside each other in a statement, or one of them is scanned along. */
  stand(a: string, b: string): boolean {
    const isScanned = (axis: string): boolean =>
      this.along.get(axis)?.some((l) => l.op.kind === 'scan' && l.op.axis === axis) === true
    return this.along.get(b)?.some((l) => runsAlong(l, a)) === true || isScanned(a) || isScanned(b)
  }

  /** Whether axes by other names make a statement a repeat; the first that is has operands by the names they have. */
  repeats(to: ReadonlyMap<string, string>): boolean {
    const made = new Set<string>()
    for (const l of new Set([...to.keys()].flatMap((a) => this.along.get(a) ?? []))) {
      const text = textOf(renamedLet(l, to))
      if (this.texts.has(text) || made.has(text)) return true
      made.add(text)
    }
    return false
  }
}

const atomIn =
  (to: ReadonlyMap<string, string>) =>
  (a: ix.Atom): ix.Expr | undefined => {
    const name = a.kind === 'axis' ? to.get(a.name) : undefined
    return a.kind === 'axis' && name !== undefined ? ix.axis(name, a.extent) : undefined
  }

/** A statement with axes by other names. */
function renamedLet(l: LetStmt, to: ReadonlyMap<string, string>): LetStmt {
  const named = (axes: readonly string[]): readonly string[] =>
    axes.some((a) => to.has(a)) ? axes.map((a) => to.get(a) ?? a) : axes
  const op = mapExpressions(l.op, (e) => ix.substitute(e, atomIn(to)))
  const folds = op.kind === 'reduce' || op.kind === 'dot'
  return { ...l, axes: named(l.axes), op: folds ? { ...op, axes: named(op.axes) } : op }
}

/** The body with axes by other names. */
function renamed(body: Body, to: ReadonlyMap<string, string>): Body {
  const from = [...to.keys()]
  const lets = body.lets.map((l) => (from.some((a) => runsAlong(l, a)) ? renamedLet(l, to) : l))
  const stores = body.stores.map((s) => mapStore(s, (e) => ix.substitute(e, atomIn(to))))
  return { ...body, axes: body.axes.filter((a) => !to.has(a.name)), lets, stores }
}

/** Bodies share the statements that no name changed. */
const texts = new WeakMap<LetStmt, string>()

/** A statement as text: the same for those that compute the same. */
function textOf(l: LetStmt): string {
  const have = texts.get(l)
  if (have !== undefined) return have
  const text = JSON.stringify([l.dtype, [...l.axes].sort(), l.op], (key, v: unknown) =>
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
  texts.set(l, text)
  return text
}

/** The body with every statement once. */
function withoutRepeats(body: Body): Body {
  const first = new Map<string, ValueId>()
  const names = new Map<ValueId, ValueId>()
  const lets: LetStmt[] = []
  for (const given of body.lets) {
    const l = operandsOf(given.op).some((id) => names.has(id))
      ? { ...given, op: renameOperands(given.op, (id) => names.get(id) ?? id) }
      : given
    const key = textOf(l)
    const have = first.get(key)
    if (have !== undefined) names.set(l.id, have)
    else {
      first.set(key, l.id)
      lets.push(l)
    }
  }
  const stores = body.stores.map((s) => ({ ...s, value: names.get(s.value) ?? s.value }))
  const live = liveLets(
    lets,
    stores.map((s) => s.value),
  )
  return { ...body, lets: live, stores }
}
