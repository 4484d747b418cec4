/** How much of the axis that its products share a chain takes at once. */
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import type { Body } from '../body/body.ts'
import { type ChainRole, isPair, lateOf, stagedOperands, widthsOf } from './chain.ts'

type Chains = NonNullable<Machine['chains']>

/** What blocks may reach further beyond the extent with long steps than with others. */
const mostBeyond = 1.05

/** Indices of the shared axis that a step takes: more where registers have room for them, since folds and what is carried are once a step. */
export function chainStep(
  body: Body,
  role: ChainRole,
  extents: ReadonlyMap<string, number>,
  { shared, long }: Chains,
): number {
  if (long === undefined || role.parts !== undefined || !isPair(role)) return shared
  const extent = Math.max(...role.shared.map((t) => extents.get(t) ?? 1))
  const reach = (step: number): number => Math.ceil(extent / step) * step
  if (reach(long.shared) > mostBeyond * reach(shared)) return shared
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const columns = long.shared + Math.max(...widthsOf(role, lets, extents))
  if (columns > long.columns || (columns > long.columnsBeside && hasBeside(body, role, lets))) return shared
  return long.shared
}

/** Whether something stands along the shared axes beside the products and what is made of them: masks, biases, positions. */
function hasBeside(body: Body, role: ChainRole, lets: ReadonlyMap<ValueId, LetStmt>): boolean {
  const staged = ancestorsOf(
    [...role.tiles, ...role.sums].flatMap((id) => stagedOperands(lets.get(id), role, lets)),
    lets,
  )
  const made = lateOf(body, new Set(role.tiles))
  const isOwn = (id: ValueId): boolean => staged.has(id) || role.tiles.includes(id) || made.has(id)
  return body.lets.some((l) => l.axes.some((t) => role.shared.includes(t)) && !isOwn(l.id))
}
