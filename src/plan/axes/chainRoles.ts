/** Roles of a body around a chain of products, and the blocks of its programs. */
import { foldAxes, isFoldOrScan } from '../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import { type Analysis, isAligned } from './analysis.ts'
import { tooManyBound } from './bindings.ts'
import { type ChainRole, chainForm, chainRole, stagedOperands, widthsOf } from './chain.ts'
import { cutShared, partAxis } from './chainParts.ts'
import { chainStep } from './chainStep.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { bySpacing, programsOf } from './gridAxes.ts'
import { type Blocked, blockRole } from './matrixBlocks.ts'
import { isForMatrixUnit } from './matrixRole.ts'
import type { Roles } from './roles.ts'
import { oneStage } from './stages.ts'
import { vectorBlocks } from './vectorChains.ts'
import { visibleOf, visibleShare } from './visible.ts'

/** The roles around some products, or why no kernel holds them. */
export function chainRoles(
  a: Analysis,
  products: readonly MatrixRole[],
): { readonly ok: true; readonly roles: Roles } | Refused {
  const { body, target, mode, extents, lets, row, reduced, parallel } = a
  // Strict sums beside two products would be taken block by block.
  if ((target.chains === undefined && target.vectorChains === undefined) || mode === 'strict')
    return refuse('two-contractions', 'a kernel holds one matrix product')
  const found = chainRole(lets, products)
  if (!found.ok) return found
  const blocked = blockedRole(a, found.role)
  if (!blocked.ok) return blocked
  const { role } = blocked
  const form = chainForm(body, role)
  if (!form.ok) return form
  if (!body.stores.every((s) => s.pieces === undefined && isAligned(a, s, [...role.batch, ...role.rows])))
    return refuse('unaligned-output', 'a result would be stored by several programs')
  const roles = { kind: 'chain', extents, row, reduced, parallel, splitBy: undefined } as const
  const cut = cutShared(a, role, chainBlocks(body, role, extents, target).grid)
  if (cut === undefined) return { ok: true, roles: { ...roles, chain: role, stages: oneStage } }
  const { parts, stages } = cut
  const over = tooManyBound(body, stages, target)
  return over ?? { ok: true, roles: { ...roles, chain: { ...role, parts }, stages } }
}

/** A role with what multiplies it: a matrix unit or loops where the target has chains of theirs, else vectors of registers. */
function blockedRole(a: Analysis, role: ChainRole): { readonly ok: true; readonly role: ChainRole } | Refused {
  const { body, target, extents, lets } = a
  const { chains } = target
  if (target.vectorChains !== undefined && (chains?.grain === undefined || !isForUnit(a, role, chains.grain))) {
    const found = vectorBlocks(body, role, extents, target, (r) => chainBlocks(body, r, extents, target))
    return found.ok ? { ok: true, role: { ...role, vectors: found.blocks } } : found
  }
  if (chains === undefined) return refuse('two-contractions', 'a kernel holds one matrix product')
  const wide = Math.max(...widthsOf(role, lets, extents))
  if (wide > chains.width)
    return refuse(
      'chain-too-wide',
      `a program would hold ${wide} indices of a product whole, the target takes ${chains.width}`,
    )
  if (chains.grain !== undefined && !isForUnit(a, role, chains.grain))
    return refuse('two-contractions', 'a kernel holds one matrix product, or two that a matrix unit multiplies')
  const { bytes = Number.POSITIVE_INFINITY, columns = Number.POSITIVE_INFINITY } = chains
  const staged = stagedBytes(body, role, extents, chains, leastRows(chains))
  const held = columnsHeld(body, role, extents, chains)
  if (staged > bytes || held > columns)
    return refuse(
      'chain-too-wide',
      `a program would hold ${staged} bytes of operands and ${held} columns of results, the target takes ${bytes} and ${columns}`,
    )
  return { ok: true, role }
}

/**
 * Whether a matrix unit takes all products: of one axis a role but for rows and what is shared, in whole grains, of operands that no fold of rows stands in front of,
 * with no folds beside them of what a step brings: each thread would make them for all columns that it holds a row of.
 */
function isForUnit({ lets, extents }: Analysis, role: ChainRole, grain: number): boolean {
  const isWhole = ([axis, more]: readonly string[]): boolean =>
    axis !== undefined && more === undefined && (extents.get(axis) ?? 1) % grain === 0
  const onUnit = (id: ValueId): boolean => {
    const l = lets.get(id)
    const isProduct = l?.op.kind === 'dot' && l.op.precision === undefined && isForMatrixUnit(l.op, lets)
    return isProduct && stagedOperands(l, role, lets).every(isFilled)
  }
  /** Whether the threads that fill a tile make its elements alone, by what they load and by numbers of the batch. */
  const isFilled = (id: ValueId): boolean =>
    [...ancestorsOf([id], lets)].every((of) => {
      const l = lets.get(of)
      return l === undefined || !isFoldOrScan(l) || l.axes.every((t) => role.batch.includes(t))
    })
  const isOfStep = (l: LetStmt): boolean =>
    l.op.kind === 'reduce' && l.axes.some((t) => role.shared.includes(t)) && !l.axes.some((t) => role.rows.includes(t))
  return (
    [...role.depth, ...role.columns].every((t) => isWhole([t])) &&
    [...role.tiles, ...role.sums].every(onUnit) &&
    ![...lets.values()].some(isOfStep)
  )
}

type Chains = NonNullable<Machine['chains']>

/** Rows of a program where there are few, or where memory has no room for more. */
const leastRows = ({ rows }: Chains): number => rows / 2

/** Elements that rows of a block in memory are apart beyond their own. */
const padding = 8

/** Bytes of what a matrix unit reads: operands of 16 bits, the rows of tiles, and everything else for two steps. */
function stagedBytes(
  { lets }: Body,
  role: ChainRole,
  extents: ReadonlyMap<string, number>,
  { shared }: Chains,
  rows: number,
): number {
  const byId = new Map(lets.map((l) => [l.id, l]))
  const width = (of: Pick<ChainRole, 'tiles' | 'sums'>): number =>
    widthsOf({ ...role, ...of }, byId, extents).reduce((n, w) => n + w + padding, 0)
  return 2 * (rows * width({ tiles: role.tiles, sums: [] }) + 2 * shared * width(role))
}

/** Columns of a row that stand in registers: a step of every tile, and all of every sum. */
function columnsHeld(
  { lets }: Body,
  role: ChainRole,
  extents: ReadonlyMap<string, number>,
  { shared }: Chains,
): number {
  const byId = new Map(lets.map((l) => [l.id, l]))
  return widthsOf({ ...role, tiles: [] }, byId, extents).reduce((n, w) => n + w, shared * role.tiles.length)
}

/** Axes of a chain, the one that moves most in memory first, and the blocks of its programs and of their steps. */
export interface ChainBlocks {
  readonly rows: readonly string[]
  readonly columns: readonly string[]
  readonly shared: readonly string[]
  readonly depth: readonly string[]
  readonly grid: readonly Blocked[]
  /** Loops over the shared axes, outermost first. */
  readonly loops: readonly Blocked[]
  /** A matrix unit takes blocks whole. */
  readonly whole: boolean
}

/** The blocks of a chain: whole rows of a program's share, as even as they come. */
export function chainBlocks(
  body: Body,
  role: ChainRole,
  extents: ReadonlyMap<string, number>,
  { chains: given, dotBlock, minPrograms }: Machine,
): ChainBlocks {
  const chains = role.vectors === undefined ? given : undefined
  const { rows: most } = role.vectors ?? chains ?? { rows: dotBlock.m }
  const ofLoop = chains === undefined ? dotBlock.k : chainStep(body, role, extents, chains)
  const step = role.vectors?.shared ?? ofLoop
  const extent = (axis: string): number => extents.get(axis) ?? 1
  const outermost = (axes: readonly string[]): string[] => bySpacing(body, axes).reverse()
  const whole = chains?.grain !== undefined
  /** With the axis last of which a matrix unit's blocks are: the innermost that they cover in the fewest steps. */
  const blockLast = (axes: string[], block: number): string[] => {
    const steps = (axis: string): number => Math.ceil(extent(axis) / block) / extent(axis)
    const [best] = whole ? axes.toReversed().sort((p, q) => steps(p) - steps(q)) : []
    return best === undefined ? axes : [...axes.filter((a) => a !== best), best]
  }
  const rows = blockLast(outermost(role.rows), most)
  const shared = blockLast(outermost(role.shared), step)
  const [columns, depth] = [outermost(role.columns), outermost(role.depth)]
  const programs = pointsOf(extents, role.batch) * Math.ceil(pointsOf(extents, rows) / most)
  const share = programs >= minPrograms ? most : Math.max(most / 2, Math.ceil((programs * most) / minPrograms))
  const quantum = role.vectors === undefined ? (dotBlock.quantum ?? 8) : 4
  const last = rows.at(-1)
  const fits = (n: number, rows: number): boolean =>
    chains?.bytes === undefined || n * stagedBytes(body, role, extents, chains, rows) <= chains.bytes
  // Of few programs, half as many rows in each: where two then stand on a multiprocessor, or half of these would have none.
  const isHalved = !fits(1, most) || (share < most && (fits(2, most / 2) || 8 * programs <= minPrograms))
  // A matrix unit's blocks are of the innermost axis, and beyond its extent if need be.
  const blocks = whole
    ? rows.map((axis) => ({ axis, block: axis === last ? (isHalved ? most / 2 : most) : 1 }))
    : blockRole(rows, extent, share, quantum)
  const parts = role.parts === undefined ? [] : [{ axis: partAxis(role.parts), block: 1 }]
  // Vectors and their threads cover a step whole, so uneven ones take no longer.
  const loops = whole
    ? shared.map((axis) => ({ axis, block: axis === shared.at(-1) ? step : 1 }))
    : role.vectors !== undefined
      ? shared.map((axis) => ({ axis, block: Math.min(step, extent(axis)) }))
      : blockRole(shared, extent, step, quantum)
  return {
    rows,
    columns,
    shared,
    depth,
    grid: [...role.batch.map((axis) => ({ axis, block: 1 })), ...parts, ...blocks],
    loops: loops.filter((l, i) => l.block < extent(l.axis) || i === loops.length - 1),
    whole,
  }
}

/** Programs of a chain: blocks of rows in every batch, for every part of the shared axis. */
export const chainPrograms = (
  body: Body,
  role: ChainRole,
  extents: ReadonlyMap<string, number>,
  target: Machine,
): number => programsOf(chainBlocks(body, role, extents, target).grid, extents) * (role.parts?.parts ?? 1)

/**
 * How often the statements along the shared axes are evaluated, a point of their axes: as far as blocks of rows see them, and what lacks rows
 * once for every block of rows.
 */
export function chainRepeats(
  body: Body,
  role: ChainRole,
  extents: ReadonlyMap<string, number>,
  target: Machine,
): Map<ValueId, number> {
  const { grid, loops } = chainBlocks(body, role, extents, target)
  const blocks = programsOf(grid, extents) / pointsOf(extents, role.batch)
  const form = chainForm(body, role)
  const visible = form.ok ? visibleOf(form, { grid, loops }, extents) : { from: [], to: [] }
  const share = visibleShare(visible, grid, extents, extents.get(loops.at(-1)?.axis ?? '') ?? 1)
  const repeats = (l: LetStmt): number => {
    const own = [...l.axes, ...foldAxes(l)]
    if (!own.some((t) => role.shared.includes(t))) return 1
    // What is the same for several indices of the batch is computed for each of them.
    const each = pointsOf(
      extents,
      role.batch.filter((t) => !own.includes(t)),
    )
    if (!l.axes.some((t) => role.rows.includes(t))) return each * share * blocks
    return (
      each *
      share *
      programsOf(
        grid.filter((g) => role.rows.includes(g.axis) && !l.axes.includes(g.axis)),
        extents,
      )
    )
  }
  return new Map(body.lets.map((l) => [l.id, repeats(l)]))
}
