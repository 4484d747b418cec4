/**
 * Chains of products where no matrix unit multiplies their operands: by vectors of registers, from tiles in the memory that a block of
 * threads shares (schedule/simt/part/vectorChain.ts). What fits there decides the blocks.
 */
import { foldAxes, isFoldOrScan } from '../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import { sliceFor, type TiledChain, tileBytes } from '../../schedule/simt/part/slices.ts'
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
type VectorBlock = NonNullable<Machine['vectorChains']>['blocks'][number]
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
  { vectorChains: machine, simt }: Machine,
  blocksOf: (role: ChainRole) => { readonly grid: readonly Blocked[]; readonly loops: readonly Blocked[] },
): { readonly ok: true; readonly blocks: Blocks } | Refused {
  const lets = new Map(all.map((l) => [l.id, l]))
  if (machine === undefined || simt === undefined || !isForVectors(role, lets, extents)) return noVectors
  const tiled = tiledChain(role, lets, extents)
  const found = machine.blocks.flatMap((block) => {
    const { rows, shared, rate } = block
    const { grid, loops } = blocksOf({ ...role, vectors: { rows, shared, rate } })
    const held = (blocks: readonly Blocked[], axes: readonly string[]): number =>
      blocks.reduce((n, b) => (axes.includes(b.axis) ? n * covered(b.block, lanes) : n), 1)
    const step = loops.reduce((n, b) => (role.shared.includes(b.axis) ? n * b.block : n), 1)
    const chain = tiled(held(grid, role.rows), held(loops, role.shared), step)
    const slice = sliceFor(chain, simt)
    const isLong = grid.some((b) => role.rows.includes(b.axis) && b.block >= lanes)
    if (!isLong || tileBytes(chain, simt, slice) > machine.bytes) return []
    return [{ rows, shared, rate: rateOf(chain, block, slice !== undefined, machine.blocks) }]
  })
  const [depths, columns] = [depthsOf(role, lets, extents), columnsOf(role, lets, extents)]
  const wide = columns.reduce((n, c) => n + c, 0)
  const [blocks] = wide > machine.columns ? [] : found
  return blocks === undefined
    ? refuse(
        'chain-too-wide',
        `${Math.max(0, ...depths, ...columns)} indices of a product, which a program would hold whole, do not fit the memory that its threads share`,
      )
    : { ok: true, blocks: { ...blocks, rate: blocks.rate * rateShare(role, lets, machine.ofRate) } }
}

/** The rate of a chain by a block: that of the block of no more rows that has as few shared indices, and a share of it where rows are fewer than any has. */
function rateOf(
  { rows, shared }: TiledChain,
  block: VectorBlock,
  isSliced: boolean,
  blocks: readonly VectorBlock[],
): number {
  const fewest = Math.min(...blocks.flatMap((b) => (b.shared >= shared ? b.shared : [])))
  const { rate, sliced } = blocks.find((b) => b.shared === fewest && b.rows <= block.rows) ?? block
  return (isSliced ? sliced : rate) * Math.min(1, rows / Math.min(...blocks.map((b) => b.rows)))
}

const statementsOf = (ids: readonly ValueId[], lets: Lets): LetStmt[] => ids.flatMap((id) => lets.get(id) ?? [])

const depthsOf = ({ tiles }: ChainRole, lets: Lets, extents: ReadonlyMap<string, number>): number[] =>
  statementsOf(tiles, lets).map((l) => pointsOf(extents, foldAxes(l)))

const columnsOf = ({ sums, columns }: ChainRole, lets: Lets, extents: ReadonlyMap<string, number>): number[] =>
  statementsOf(sums, lets).map((l) =>
    pointsOf(
      extents,
      columns.filter((t) => l.axes.includes(t)),
    ),
  )

/** A chain as its tiles stand, by the rows and shared indices that a block covers, and the indices that it has: the depth of its sums. */
function tiledChain(
  role: ChainRole,
  lets: Lets,
  extents: ReadonlyMap<string, number>,
): (rows: number, shared: number, step: number) => TiledChain {
  const most = (t: string): number => covered(extents.get(t) ?? 1, lanes * columnThreads)
  const isAlong = (id: ValueId): boolean => lets.get(id)?.axes.some((t) => role.shared.includes(t)) === true
  const isOwn = (id: ValueId): boolean => lets.get(id)?.axes.some((t) => role.rows.includes(t)) === true
  // What follows from no fold can be computed again, slice by slice.
  const isFree = (id: ValueId): boolean =>
    statementsOf([...ancestorsOf([id], lets)], lets).every((l) => !isFoldOrScan(l))
  const operandsOfDot = (l: LetStmt): readonly ValueId[] => (l.op.kind === 'dot' ? [l.op.a, l.op.b] : [])
  const tiles = statementsOf(role.tiles, lets).map((l) => ({
    depth: pointsOf(extents, foldAxes(l)),
    operands: operandsOfDot(l).map((id) => ({ isAlong: isAlong(id), isFree: isFree(id) })),
  }))
  const sums = statementsOf(role.sums, lets).map((l) => ({
    span: role.columns.filter((t) => l.axes.includes(t)).reduce((n, t) => n * most(t), 1),
    operands: operandsOfDot(l).map((id) => ({ isOwn: isOwn(id), isFree: isFree(id) })),
  }))
  const isFolded = [...lets.values()].some((l) => l.op.kind === 'reduce')
  return (rows, shared, step) => ({
    rows,
    shared,
    isFolded,
    products: [
      ...tiles.map((p) => ({
        depth: p.depth,
        operands: p.operands.map((o) => ({ span: o.isAlong ? shared : rows, isFree: o.isFree })),
      })),
      ...sums.map((p) => ({
        depth: step,
        operands: p.operands.map((o) => ({ span: o.isOwn ? rows : p.span, isFree: o.isFree })),
      })),
    ],
  })
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
