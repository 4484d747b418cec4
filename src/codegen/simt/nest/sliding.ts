/** Nests that go along windows that overlap: what each place of theirs holds once, then what every window makes of it. */
import type { ValueId } from '../../../kernel/ir.ts'
import type { PointStep, SlidingNest } from '../../../schedule/simt/sequence/sequence.ts'
import { type Block, type Ex, int } from '../ir/ir.ts'
import { emitLoops, type Lanes } from '../ir/registers.ts'
import type { Scope } from './scope.ts'

/** Emits steps at a point where some values stand already; those that they give are added. */
export type EmitPoint = (steps: readonly PointStep[], lanes: Lanes, values: Map<ValueId, Ex>, out: Block) => void

export function emitSliding(
  scope: Scope,
  steps: readonly PointStep[],
  { windows, places }: SlidingNest,
  known: ReadonlyMap<ValueId, Ex>,
  emit: EmitPoint,
  out: Block,
): void {
  const { along, over } = windows
  const loops = steps[0]?.loops ?? []
  const [shared, own] = [
    steps.filter((s) => isShared(scope, s, windows)),
    steps.filter((s) => !isShared(scope, s, windows)),
  ]
  const at = loops.findIndex((l) => l.axis === over)
  const others = loops.filter((l) => l.axis !== along && l.axis !== over)
  // Terms of a window come in the order of its axes: those before the one along which windows overlap stand around.
  const outer = others.filter((l) => loops.indexOf(l) < at)
  const inner = others.filter((l) => loops.indexOf(l) > at)
  emitLoops(scope, outer, out, (around, body) => {
    for (const place of places)
      emitLoops(scope, inner, body, (within, here) => {
        const [first] = place
        if (first === undefined) return
        const lanesOf = (at: typeof first): Lanes =>
          new Map([
            ...around,
            ...within,
            [along, { rep: int(at.along), lane: int(0) }],
            [over, { rep: int(at.over), lane: int(0) }],
          ])
        const values = new Map(known)
        emit(shared, lanesOf(first), values, here)
        for (const window of place) emit(own, lanesOf(window), new Map(values), here)
      })
  })
}

/** Whether a step gives what all windows of a place read: it depends on the place, or on neither axis. */
function isShared({ part }: Scope, { gives }: PointStep, { along, over, shared }: SlidingNest['windows']): boolean {
  if (gives === undefined) return false
  const axes = part.axesOf(gives)
  return shared.has(gives) || !(axes.includes(along) || axes.includes(over))
}
