/**
 * Conditions that hold seldom: an index that equals a number does so for one index of an axis, so that the nest of all other threads
 * has no such condition.
 */
import { strideOf, valuesOf } from '../../../affine/expr.ts'
import type { ValueId } from '../../../kernel/ir.ts'
import type { Layout } from '../layout/layout.ts'
import type { Part } from '../part/part.ts'
import type { PointStep, Seldom, Token } from './sequence.ts'

/** The steps of a run that a value bears upon, with the cheap ones that serve them alone; `later`: values needed after the run. */
export function stepsOn(
  part: Part,
  run: readonly PointStep[],
  id: ValueId,
  later: (id: ValueId) => boolean,
): readonly PointStep[] {
  const on = new Set<PointStep>()
  const values = new Set<Token>()
  const add = (s: PointStep): void => {
    on.add(s)
    if (s.gives !== undefined) values.add(s.gives)
  }
  for (const s of run) if (s.gives === id || s.needs.some((t) => values.has(t))) add(s)
  for (const s of [...run].reverse()) {
    const l = s.gives === undefined ? undefined : part.lets.get(s.gives)
    if (l === undefined || on.has(s) || s.wide === true || later(l.id) || !part.isCheap(l)) continue
    const users = run.filter((u) => u.needs.includes(l.id))
    if (users.length > 0 && users.every((u) => on.has(u))) add(s)
  }
  return run.filter((s) => on.has(s))
}

/** Most tests that are worth leaving conditions out. */
const mostTests = 8

/** A condition of a nest that holds for one index of an axis. */
export function seldomOf(part: Part, layout: Layout, run: readonly PointStep[]): Seldom | undefined {
  for (const s of run) {
    const op = s.gives === undefined ? undefined : part.lets.get(s.gives)?.op
    if (s.gives === undefined || op?.kind !== 'scalar' || op.op !== 'eq') continue
    for (const [value, number] of [op.args, [...op.args].reverse()]) {
      const index = value === undefined ? undefined : part.lets.get(value)
      if (index?.op.kind !== 'index' || number === undefined || part.axesOf(number).length > 0) continue
      if (part.dtypeOf(number) !== 'i32' || valuesOf(index.op.expr).size > 0) continue
      const [axis, second] = part.axesOf(s.gives)
      const a = axis === undefined || second !== undefined ? undefined : layout.find(axis)
      if (a === undefined || strideOf(index.op.expr, a.name) !== 1) continue
      if (a.reps <= mostTests && a.reps * a.vec >= mostTests) return { id: s.gives, axis: a.name, index, number }
    }
  }
  return undefined
}
