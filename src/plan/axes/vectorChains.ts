/**
 * Chains of products where no matrix unit multiplies their operands: by vectors of registers, from tiles in the memory that a block of
 * threads shares (schedule/simt/part/vectorChain.ts). What fits there decides the blocks.
 */
import { foldAxes } from '../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes, isFloat } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { ChainRole } from './chain.ts'
import type { Blocked } from './matrixBlocks.ts'

/** Neighbours that are read at once. */
const lanes = 4
/** Threads side by side along columns at most. */
const columnThreads = 16

type Blocks = NonNullable<ChainRole['vectors']>
type Lets = ReadonlyMap<ValueId, LetStmt>

const noVectors = refuse(
  'two-contractions',
  'a kernel holds one matrix product, or some that a matrix unit or vectors of registers multiply',
)

/** The largest blocks of a chain that fit, or why vectors do not multiply it. */
export function vectorBlocks(
  { lets: all }: Pick<Body, 'lets'>,
  role: ChainRole,
  extents: ReadonlyMap<string, number>,
  { vectorChains: machine }: Machine,
  blocksOf: (role: ChainRole) => { readonly grid: readonly Blocked[]; readonly loops: readonly Blocked[] },
): { readonly ok: true; readonly blocks: Blocks } | Refused {
  const lets = new Map(all.map((l) => [l.id, l]))
  if (machine === undefined || !isForVectors(role, lets, extents)) return noVectors
  const width = (ids: readonly ValueId[], axesOf: (l: LetStmt) => readonly string[]): number[] =>
    ids.flatMap((id) => lets.get(id) ?? []).map((l) => pointsOf(extents, axesOf(l)))
  const depths = width(role.tiles, foldAxes)
  const columnsOf = (l: LetStmt): readonly string[] => role.columns.filter((t) => l.axes.includes(t))
  const columns = width(role.sums, columnsOf)
  const most = (t: string): number => covered(extents.get(t) ?? 1, lanes * columnThreads)
  const spans = role.sums.flatMap((id) => lets.get(id) ?? []).map((l) => columnsOf(l).reduce((n, t) => n * most(t), 1))
  const fits = (vectors: Blocks): boolean => {
    const { grid, loops } = blocksOf({ ...role, vectors })
    const held = (blocks: readonly Blocked[], axes: readonly string[]): number =>
      blocks.reduce((n, b) => (axes.includes(b.axis) ? n * covered(b.block, lanes) : n), 1)
    const [x, y] = [held(grid, role.rows), held(loops, role.shared)]
    const tiles = depths.reduce((n, d) => n + d * (x + y), 0)
    const sums = spans.reduce((n, span) => n + y * (span + x), 0)
    const isLong = grid.some((b) => role.rows.includes(b.axis) && b.block >= lanes)
    return isLong && 4 * (tiles + sums) + machine.exchange * x <= machine.bytes
  }
  const wide = columns.reduce((n, c) => n + c, 0)
  const blocks = wide > machine.columns ? undefined : machine.blocks.find(fits)
  return blocks === undefined
    ? refuse(
        'chain-too-wide',
        `${Math.max(0, ...depths, ...columns)} indices of a product, which a program would hold whole, do not fit the memory that its threads share`,
      )
    : { ok: true, blocks: { ...blocks, rate: blocks.rate * rateShare(role, lets, machine.ofRate) } }
}

/** What is reached of a rate: operands of 16 bits are unpacked on their way into tiles. */
function rateShare(
  { tiles, sums }: ChainRole,
  lets: Lets,
  { severalTiles, halves }: NonNullable<Machine['vectorChains']>['ofRate'],
): number {
  const isHalf = (id: ValueId): boolean => dtypeBytes(lets.get(id)?.dtype ?? 'f32') < 4
  const operands = [...tiles, ...sums].flatMap((id) => {
    const op = lets.get(id)?.op
    return op?.kind === 'dot' ? [op.a, op.b] : []
  })
  return (tiles.length > 1 ? severalTiles : 1) * (operands.some(isHalf) ? halves : 1)
}

/** Indices that vectors and threads of a power of two cover, beyond an axis if need be. */
const covered = (n: number, quantum: number): number =>
  n > quantum && quantum > lanes ? Math.ceil(n / quantum) * quantum : 2 ** Math.ceil(Math.log2(n))

/** Whether vectors read all operands: floats, each of one product, along axes that are as long as a vector. */
function isForVectors(role: ChainRole, lets: Lets, extents: ReadonlyMap<string, number>): boolean {
  const isLong = (axes: readonly string[]): boolean => axes.some((t) => (extents.get(t) ?? 1) >= lanes)
  const products = [...role.tiles, ...role.sums].flatMap((id) => lets.get(id) ?? [])
  const operands = products.flatMap(({ op }) => (op.kind === 'dot' ? [op.a, op.b] : []))
  const sides = role.sums.map((id) => role.columns.filter((t) => lets.get(id)?.axes.includes(t)))
  const isWhole = ({ id, dtype, op }: LetStmt): boolean => {
    if (op.kind !== 'dot' || dtype !== 'f32') return false
    const axes = [op.a, op.b].map((x) => lets.get(x)?.axes ?? [])
    return !role.sums.includes(id) || axes.every((x) => role.shared.every((t) => x.includes(t)))
  }
  return (
    role.shared.length === 1 &&
    [role.shared, ...sides].every(isLong) &&
    new Set(operands).size === operands.length &&
    operands.every((id) => isNarrowFloat(lets.get(id))) &&
    products.every(isWhole)
  )
}

const isNarrowFloat = (l: LetStmt | undefined): boolean =>
  l !== undefined && isFloat(l.dtype) && dtypeBytes(l.dtype) <= 4
