/** The kernels that a body becomes: one, or where reductions are cut a main kernel and a finishing stage. */
import { operandsOf, type ValueId } from '../kernel/ir.ts'
import { ancestorsOf } from '../kernel/walk.ts'
import type { Body, BodyStore } from './body.ts'
import { follows } from './split.ts'

export interface Stage {
  /** What it evaluates, in dependence order. */
  readonly lets: Body['lets']
  readonly stores: readonly BodyStore[]
  /** Partial results: of these reductions, stored by the main kernel and loaded by the finishing stage. */
  readonly partials: readonly ValueId[]
  /** What the main kernel's partial results are computed from. */
  readonly folded: readonly ValueId[]
}

/** The kernels of a body whose reductions in `split` end as partial results. */
export function stagesOf(body: Body, split: ReadonlySet<ValueId>): { readonly main: Stage; readonly finish?: Stage } {
  if (split.size === 0) return { main: { lets: body.lets, stores: body.stores, partials: [], folded: [] } }
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const late = new Set(body.lets.flatMap((l) => (split.has(l.id) || follows(l, split, lets) ? [l.id] : [])))
  const [early, after] = [new Map(lets), new Map(lets)]
  for (const id of late) early.delete(id)
  for (const id of split) after.delete(id)
  const partials = [...split]
  const folded = partials.flatMap((id) => {
    const l = lets.get(id)
    return l === undefined ? [] : operandsOf(l.op)
  })
  const among = (values: Iterable<ValueId>, of: typeof early): Body['lets'] => {
    const need = ancestorsOf(values, of)
    return body.lets.filter((l) => of.has(l.id) && need.has(l.id))
  }
  const stores = (isLate: boolean): BodyStore[] => body.stores.filter((s) => late.has(s.value) === isLate)
  const values = (of: readonly BodyStore[]): ValueId[] => of.map((s) => s.value)
  const [own, ends] = [stores(false), stores(true)]
  return {
    main: { lets: among([...values(own), ...folded], early), stores: own, partials, folded },
    finish: { lets: among(values(ends), after), stores: ends, partials, folded: [] },
  }
}
