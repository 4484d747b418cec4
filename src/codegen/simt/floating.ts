/**
 * Values that are computed where they are used, once for each nest that uses them: a few operations on scalars and indices, which
 * cost less than the registers that would keep them. And conditions among them that hold seldom: an index that equals a number does
 * so for one index of an axis, so that the nest of all other threads has no such condition.
 */
import { strideOf, valuesOf } from '../../index/expr.ts'
import type { ValueId } from '../../kernel/ir.ts'
import { bin, cast, type Ex, int, lt, sub, uint } from './ir.ts'
import { Point } from './point.ts'
import type { Scope } from './scope.ts'
import { keyOf, type Step, type Token } from './steps.ts'

/** The steps whose values float, by value; `isKept`: values that something other than steps of a nest needs. */
export function floatingSteps(
  scope: Scope,
  steps: readonly Step[],
  isKept: (id: ValueId) => boolean,
): Map<Token, Step> {
  const { part } = scope
  const out = new Map<Token, Step>()
  const users = new Map<Token, Step[]>()
  for (const s of steps) for (const t of s.needs) users.set(t, [...(users.get(t) ?? []), s])
  for (const s of steps) {
    const l = s.gives === undefined ? undefined : part.lets.get(s.gives)
    if (l === undefined || s.kind !== 'point' || s.wide === true || s.loops.length === 0 || !part.isCheap(l)) continue
    const key = keyOf(s)
    const float = (t: Token): boolean => {
      const other = out.get(t)
      return other === undefined ? t >= 0 && part.axesOf(t).length === 0 : keyOf(other) === key
    }
    const mine = users.get(l.id) ?? []
    if (mine.length === 0 || isKept(l.id) || !s.needs.every(float)) continue
    if (mine.every((u) => u.kind === 'point' && keyOf(u) === key)) out.set(l.id, s)
  }
  return out
}

/** Floating steps that steps of a nest need, operands first. */
export function floatingFor(run: readonly Step[], floating: ReadonlyMap<Token, Step>): Step[] {
  const out = new Set<Step>()
  const visit = (s: Step): void => {
    for (const t of s.needs) {
      const f = floating.get(t)
      if (f === undefined || out.has(f)) continue
      visit(f)
      out.add(f)
    }
  }
  for (const s of run) visit(s)
  return [...out]
}

/** The steps of a run that a value bears upon, with the cheap ones that serve them alone; `later`: values needed after the run. */
export function stepsOn(
  scope: Scope,
  run: readonly Step[],
  id: ValueId,
  later: (id: ValueId) => boolean,
): readonly Step[] {
  const on = new Set<Step>()
  const values = new Set<Token>()
  const add = (s: Step): void => {
    on.add(s)
    if (s.gives !== undefined) values.add(s.gives)
  }
  for (const s of run) if (s.gives === id || s.needs.some((t) => values.has(t))) add(s)
  for (const s of [...run].reverse()) {
    const l = s.gives === undefined ? undefined : scope.part.lets.get(s.gives)
    if (l === undefined || on.has(s) || s.wide === true || later(l.id) || !scope.part.isCheap(l)) continue
    const users = run.filter((u) => u.needs.includes(l.id))
    if (users.length > 0 && users.every((u) => on.has(u))) add(s)
  }
  return run.filter((s) => on.has(s))
}

/** Most tests that are worth leaving conditions out. */
const mostTests = 8

/** A condition of a nest that holds for one index of an axis, and whether this thread's indices include it. */
export function seldomOf(scope: Scope, run: readonly Step[]): { readonly id: ValueId; readonly holds: Ex } | undefined {
  const { part, layout } = scope
  for (const s of run) {
    const op = s.gives === undefined ? undefined : part.lets.get(s.gives)?.op
    if (s.gives === undefined || op?.kind !== 'scalar' || op.op !== 'eq') continue
    for (const [index, number] of [op.args, [...op.args].reverse()]) {
      const e = index === undefined ? undefined : part.lets.get(index)?.op
      if (e?.kind !== 'index' || number === undefined || part.axesOf(number).length > 0) continue
      if (part.dtypeOf(number) !== 'i32' || valuesOf(e.expr).size > 0) continue
      const [axis, second] = part.axesOf(s.gives)
      const a = axis === undefined || second !== undefined ? undefined : layout.find(axis)
      if (a === undefined || strideOf(e.expr, a.name) !== 1 || a.reps > mostTests || a.reps * a.vec < mostTests)
        continue
      const target = new Point(scope, new Map()).read(number)
      let holds: Ex | undefined
      for (let r = 0; r < a.reps; r++) {
        const at = new Point(scope, new Map([[a.name, { rep: int(r), lane: int(0) }]])).expr(e.expr)
        const here = lt(cast('u32', sub(target, at)), uint(a.vec))
        holds = holds === undefined ? here : bin('||', holds, here)
      }
      if (holds !== undefined) return { id: s.gives, holds }
    }
  }
  return undefined
}
