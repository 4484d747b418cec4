/**
 * Stores whose points may meet at one place (a combiner, an index from data): walked in row-major order by one thread a place.
 * Axes that lead to places of their own are spread over the threads.
 */

import { UserError } from '../../diagnostics/errors.ts'
import type { StoreStmt } from '../../kernel/ir.ts'
import { storeValues } from '../../schedule/simt/facts.ts'
import { orderedLayout } from '../../schedule/simt/partLayout.ts'
import type { Block } from './ir.ts'
import { itemsOf, type LowerItems } from './items.ts'
import type { Scope } from './scope.ts'

/** Values that an ordered store rests on and that are not computed again under its own layout. */
export const orderedNeeds = (scope: Scope, s: StoreStmt): number[] => [...scope.part.closureOf(storeValues(s)).rest]

export function lowerOrderedStore(scope: Scope, s: StoreStmt, lower: LowerItems, out: Block): void {
  const { part, unit } = scope
  const { lets, rest } = part.closureOf(storeValues(s))
  for (const id of rest)
    if (part.axesOf(id).length > 0 && scope.held.get(id)?.kind !== 'shared')
      throw new UserError(
        'E_UNSUPPORTED',
        `the store into ${s.param} may meet a place more than once and rests on folded or carried tiles`,
      )
  const nests = lets.map((l) => ({ axes: part.nestOf(l) }))
  const layout = orderedLayout(part, s, nests, unit.machine, scope.layout.threads)
  const inner = scope.child({ layout, bases: new Map() })
  for (const l of lets) inner.held.delete(l.id)
  out.push({ k: 'comment', text: `store ${s.param}, in order` })
  const open = inner.openWhole(layout.axes.keys(), out)
  lower(open, [...itemsOf(lets), { kind: 'ordered', store: s }], new Set(), out)
}
