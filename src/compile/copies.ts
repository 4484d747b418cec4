/** Copies that need not be made: what a copy alone still reads is computed where the copy would stand. */
import type { ProgramStep } from '../runtime/program.ts'
import { renameStep, touched } from './steps.ts'

/**
 * Steps without the copies out of a buffer that may be renamed (`mayMove`), nothing touches after the copy, and into one that nothing
 * touched before it: the steps before write there. A scatter into zeros so has no pass over the zeros.
 * `moved` are the buffers that no step names any more, `home` is where the elements of a buffer stand.
 */
export function withoutCopies(
  steps: readonly ProgramStep[],
  mayMove: (from: number, to: number) => boolean,
): {
  readonly steps: readonly ProgramStep[]
  readonly moved: ReadonlySet<number>
  readonly home: (b: number) => number
} {
  if (!steps.some((s) => s.kind === 'copy')) return { steps, moved: new Set(), home: (b) => b }
  const first = new Map<number, number>()
  const last = new Map<number, number>()
  steps.forEach((s, i) => {
    for (const b of touched(s)) {
      if (!first.has(b)) first.set(b, i)
      last.set(b, i)
    }
  })
  const moved = new Map<number, number>()
  const dropped = new Set<ProgramStep>()
  steps.forEach((s, i) => {
    if (s.kind !== 'copy' || first.get(s.from) === i || last.get(s.from) !== i || first.get(s.to) !== i) return
    if (!mayMove(s.from, s.to)) return
    moved.set(s.from, s.to)
    dropped.add(s)
  })
  /** Where a buffer's elements stand in the end: a copy of a copy is no copy either. */
  const home = (b: number): number => {
    let at = b
    for (let next = moved.get(at); next !== undefined; next = moved.get(at)) at = next
    return at
  }
  const left = dropped.size === 0 ? steps : steps.filter((s) => !dropped.has(s)).map((s) => renameStep(s, home))
  return { steps: left, moved: new Set(moved.keys()), home }
}
