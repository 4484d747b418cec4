/**
 * Values that are computed where they are used, once for each nest that uses them: a few operations on scalars and indices, which
 * cost less than the registers that would keep them.
 */
import type { ValueId } from '../../../kernel/ir.ts'
import type { Part } from '../part/part.ts'
import { keyOf, type Pending } from './nests.ts'
import type { PointStep, Token } from './sequence.ts'

/** The steps whose values are computed again, by value; `isKept`: values that something other than steps of a nest needs. */
export function rematerialised(
  part: Part,
  steps: readonly Pending[],
  isKept: (id: ValueId) => boolean,
): Map<Token, PointStep> {
  const out = new Map<Token, PointStep>()
  const users = new Map<Token, Pending[]>()
  for (const s of steps) for (const t of s.needs) users.set(t, [...(users.get(t) ?? []), s])
  for (const s of steps) {
    if (s.kind !== 'point' || s.gives === undefined) continue
    const l = part.lets.get(s.gives)
    if (l === undefined || s.wide === true || s.loops.length === 0 || !part.isCheap(l)) continue
    const key = keyOf(s)
    // Accumulators of a chain of products leave few registers: not for conditions on values along fewer axes.
    const operandAxes = part.isChain && l.dtype === 'bool' ? part.axesOf(l.id).length - 1 : 0
    const isFree = (t: Token): boolean => {
      const other = out.get(t)
      return other === undefined ? t >= 0 && part.axesOf(t).length <= operandAxes : keyOf(other) === key
    }
    const mine = users.get(l.id) ?? []
    if (mine.length === 0 || isKept(l.id) || !s.needs.every(isFree)) continue
    if (mine.every((u) => keyOf(u) === key)) out.set(l.id, s)
  }
  return out
}

/** Such steps that steps of a nest need, operands first. */
export function rematerialisedFor(run: readonly PointStep[], again: ReadonlyMap<Token, PointStep>): PointStep[] {
  const out = new Set<PointStep>()
  const visit = (s: PointStep): void => {
    for (const t of s.needs) {
      const f = again.get(t)
      if (f === undefined || out.has(f)) continue
      visit(f)
      out.add(f)
    }
  }
  for (const s of run) visit(s)
  return [...out]
}
