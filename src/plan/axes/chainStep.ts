/** How much of the axis that its products share a chain takes at once. */
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import type { Body } from '../body/body.ts'
import { type ChainRole, stagedOperands, widthsOf } from './chain.ts'

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
  const [tile, ...tiles] = role.tiles
  const [sum, ...sums] = role.sums
  if (long === undefined || role.parts !== undefined || tile === undefined || sum === undefined) return shared
  if (tiles.length > 0 || sums.length > 0) return shared
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const width = Math.max(...widthsOf(role, lets, extents))
  if (long.shared + width > (hasBeside(body, role) ? long.columnsBeside : long.columns)) return shared
  const extent = Math.max(...role.shared.map((t) => extents.get(t) ?? 1))
  const reach = (step: number): number => Math.ceil(extent / step) * step
  return reach(long.shared) <= mostBeyond * reach(shared) ? long.shared : shared
}

/** Whether something stands along the shared axes beside the products and what is made of them: masks, biases, positions. */
function hasBeside({ lets: all }: Body, role: ChainRole): boolean {
  const lets = new Map(all.map((l) => [l.id, l]))
  const staged = ancestorsOf(
    [...role.tiles, ...role.sums].flatMap((id) => stagedOperands(lets.get(id), role, lets)),
    lets,
  )
  const isOfTile = (id: number): boolean => [...ancestorsOf([id], lets)].some((of) => role.tiles.includes(of))
  return all.some((l) => l.axes.some((t) => role.shared.includes(t)) && !staged.has(l.id) && !isOfTile(l.id))
}
