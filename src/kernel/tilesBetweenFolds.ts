/** How many values of rows a program holds at once, between one fold of them and the next. */
import { scalarInfo } from '../scalar/ops.ts'
import { foldAxes, isFold } from './folds.ts'
import { type LetStmt, operandsOf, type ValueId } from './ir.ts'

/** Whether a value is better computed again than kept: a few operations on scalars and indices. */
export function isCheap({ op }: LetStmt): boolean {
  if (op.kind === 'scalar') return ['free', 'simple'].includes(scalarInfo(op.op).cost)
  return op.kind === 'const' || op.kind === 'index' || op.kind === 'predicate'
}

/**
 * Most values along `rows` that are computed before a fold and used again after it; what is cheap to compute again is none. `stored`: the values that each
 * store needs.
 */
export function tilesBetweenFolds(
  lets: readonly LetStmt[],
  stored: readonly (readonly ValueId[])[],
  rows: ReadonlySet<string>,
): number {
  const tiles = new Set(lets.flatMap((l) => (l.axes.some((a) => rows.has(a)) ? [l.id] : [])))
  const cheap = new Set<ValueId>()
  for (const l of lets) if (isCheap(l) && operandsOf(l.op).every((o) => !tiles.has(o) || cheap.has(o))) cheap.add(l.id)
  const after = (fold: ValueId): Set<ValueId> => {
    const out = new Set([fold])
    for (const l of lets) if (operandsOf(l.op).some((o) => out.has(o))) out.add(l.id)
    return out
  }
  let most = 1
  for (const fold of lets) {
    if (!isFold(fold) || !foldAxes(fold).some((a) => rows.has(a))) continue
    const later = after(fold.id)
    const held = new Set<ValueId>()
    const use = (ids: readonly ValueId[]): void => {
      for (const id of ids) if (tiles.has(id) && !later.has(id) && !cheap.has(id)) held.add(id)
    }
    // What it folds itself is there for an element at a time.
    for (const l of lets) if (later.has(l.id) && l.id !== fold.id) use(operandsOf(l.op))
    for (const values of stored) if (values.some((id) => later.has(id))) use(values)
    most = Math.max(most, held.size)
  }
  return most
}
