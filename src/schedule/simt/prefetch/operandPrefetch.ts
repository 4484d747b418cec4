/**
 * Loads ahead of a product's loop: stages that only copy run ahead in a ring of tiles, and what others are computed from is copied in
 * the background, block after block, while earlier blocks are multiplied. A thread copies what it will read itself, so its copies need
 * no barrier.
 */

import { axesOf } from '../../../affine/expr.ts'
import { startOf } from '../../../kernel/axes.ts'
import type { LetStmt, LoopStmt, ValueId } from '../../../kernel/ir.ts'
import { allStmts } from '../../../kernel/walk.ts'
import { dtypeBytes } from '../../../types/dtype.ts'
import { type Access, groupOf } from '../access/access.ts'
import type { LoadPlan } from '../access/loadPlan.ts'
import { copiesArray, copyPlanOf, isPlaced, threadBytes } from '../access/loads.ts'
import type { LoadedEarly, Place } from '../access/place.ts'
import { blocksOf, groupThreads, isMany, isSplitByOneGroup, reservedBytes } from '../access/secondBlock.ts'
import { hasSplitTiles, productTile, splitTiles, tileArray } from '../access/tiles.ts'
import { ringSlots } from '../layout/launchShape.ts'
import type { Layout } from '../layout/layout.ts'
import { copiedLayout, fragmentLayout, stageLayout } from '../layout/partLayout.ts'
import type { Part } from '../part/part.ts'
import type { Product } from '../part/product.ts'
import { type CopiedStage, sameCopies } from './copiedStages.ts'

/** A stage that is computed from copied loads, under a layout of its own: into shared memory, or into fragments. */
export interface AheadStage extends LoadedEarly {
  readonly let: LetStmt
}

/** Rings of a loop: `slots` tiles, or copies of what threads will read. */
export interface OperandPrefetch {
  readonly slots: number
  /** Blocks that are on their way while one is computed; as many as slots where those are all. */
  readonly early: number
  /**
   * Threads say halfway through a block that they are through with the one before and that what they copied of the next is there; they begin the next when all
   * have. So groups of warps may be half a block apart, and one multiplies while another computes. Else they meet at the head of every block.
   */
  readonly meetsHalfway: boolean
  readonly copied: readonly CopiedStage[]
  readonly ahead: readonly AheadStage[]
  /** The product of groups of warps during which the next copies start; else they start at the head of the body. */
  readonly during: ValueId | undefined
  /** Such a product reads what was copied. */
  readonly inGroups: boolean
}

/** Most bytes of a block that loads ahead of its use. */
const mostRingBytes = 48 << 10
/** Bytes of a block beside its tiles: slots of exchanges, bounds of loops. */
const besideTiles = 1 << 10
/** Registers for the values of a stage that is loaded ahead. */
const mostRegisters = 64
/** The same where warps share the depth: a word holds several of weights in few bits. */
const registersOf = ({ warpsOfDepth }: Product): number => (warpsOfDepth === undefined ? 1 : 4) * mostRegisters

/** The rings of a loop whose every stage copies or can be computed from copies; `before`: statements outside that are computed inside. */
export function operandPrefetchOf(at: Place, s: LoopStmt, before: readonly LetStmt[]): OperandPrefetch | undefined {
  const { part, setting } = at
  const stages = [...allStmts(s.body)].flatMap((t) => (t.kind === 'let' && t.op.kind === 'stage' ? [t] : []))
  if (stages.length === 0 || before.length > 0 || s.body.some((t) => t.kind === 'loop')) return undefined
  const all: CopiedStage[] = []
  const computed: LetStmt[] = []
  const ahead: AheadStage[] = []
  for (const l of stages) {
    const copy = copiedStage(at, l)
    if (copy !== undefined) all.push(copy)
    else computed.push(l)
  }
  const copied = sameCopies(part, all)
  for (const l of computed) {
    const plan = fragmentStage(at, l, s.axis, copied) ?? aheadStage(at, l, s.axis)
    if (plan === undefined) return undefined
    ahead.push(plan)
  }
  const tileBytes = (l: LetStmt): number =>
    2 * (part.productOn(l.id)?.halves ?? 1) * part.axesOf(l.id).reduce((n, a) => n * part.axis(a).size, 1)
  const bytes =
    copied.reduce((n, c) => n + tileBytes(c.let), 0) +
    ahead.reduce((n, p) => n + threadBytes(p.loads) * p.layout.threads, 0)
  if (ahead.length > 0 && bytes > mostRingBytes) return undefined
  const halfway = halfwayOf(at, ahead)
  const most = ringSlots(at.setting.together) + (halfway ? 1 : 0)
  const each =
    copied.reduce((n, c) => n + 2 * c.tile.length, 0) +
    ahead.reduce((n, p) => n + threadBytes(p.loads) * p.layout.threads, 0)
  const [product, ...others] = new Set(stages.flatMap((l) => part.productOn(l.id) ?? []))
  const split = product !== undefined && hasSplitTiles(product) ? 2 * splitTiles(product).length : 0
  const once = ahead.reduce((n, p) => n + (p.asFragments === true ? 0 : tileBytes(p.let)), at.shared.tileBytes + split)
  const room =
    Math.floor((setting.machine.maxSharedBytes + reservedBytes) / setting.together) - reservedBytes - besideTiles
  const fits = (slots: number): boolean => once + slots * each <= room
  if (ahead.length > 0 && !fits(2)) return undefined
  const longest = [most, most - 1].find((n) => n > 2 && fits(n)) ?? 2
  // A loop of as few blocks as there are slots begins with all of them on their way.
  const blocks = halfway ? Number.POSITIVE_INFINITY : mostBlocks(part, s)
  const slots = Math.min(leavesRoom(at, [...copied, ...ahead], tileBytes) ? 2 : longest, blocks)
  const meetsHalfway = halfway && slots > 2
  for (const c of copied) at.shared.share(tileArray(c.tile, slots))
  if (meetsHalfway) at.shared.slots('u64', 1, '_halfway')
  for (const a of ahead) for (const x of a.loads) at.shared.share(copiesArray(x, a.layout, slots))
  const during = product?.groups !== undefined && others.length === 0 ? product.dot : undefined
  const early = slots === blocks ? blocks : slots - (meetsHalfway ? 2 : 1)
  const inGroups = product?.groups !== undefined && product.split !== true
  return { slots, early, meetsHalfway, copied, ahead, inGroups, during }
}

/** Most blocks that a loop goes over, as far as that is known, and two at least. */
const mostBlocks = (part: Part, { axis, block, from, to }: LoopStmt): number =>
  from === undefined && to === undefined
    ? Math.max(2, Math.ceil(part.axis(axis).extent / block))
    : Number.POSITIVE_INFINITY

/** Whether several groups of warps have much to do between the products of a loop that only copies its operands. */
function halfwayOf({ part, layout }: Place, ahead: readonly AheadStage[]): boolean {
  const inGroups = part.chain?.tiles.every((p) => p.groups !== undefined) === true
  return inGroups && ahead.length === 0 && layout.threads > groupThreads
}

/**
 * Whether a ring of two leaves room on a multiprocessor for a second block where a longer one does not, and there are programs for it: of products whose
 * operands one group of warps splits, which waits most of the time, and of those whose warps share the depth of a step.
 */
function leavesRoom(
  at: Place,
  stages: readonly (CopiedStage | AheadStage)[],
  tileBytes: (l: LetStmt) => number,
): boolean {
  const { setting, part, layout } = at
  const [product, other] = new Set(stages.flatMap((s) => part.productOn(s.let.id) ?? []))
  if (product === undefined || other !== undefined || !isMany(at)) return false
  const isOneGroup = isSplitByOneGroup(layout, product)
  if (!isOneGroup && product.warpsOfDepth === undefined) return false
  const each = stages.reduce(
    (n, s) => n + ('tile' in s ? 2 * s.tile.length : threadBytes(s.loads) * s.layout.threads),
    0,
  )
  const tiles = stages.reduce((n, s) => n + ('tile' in s || s.asFragments === true ? 0 : tileBytes(s.let)), 0)
  // Beside the ring: tiles of split operands, or what warps put together.
  const beside = isOneGroup
    ? 2 * splitTiles(product).length
    : 4 * product.rowSize * product.columnSize * (product.warpsOfDepth ?? 1)
  const once = tiles + beside
  const blocks = (slots: number): number => blocksOf(once + slots * each, setting.machine)
  return blocks(ringSlots(setting.together)) < 2 && blocks(2) >= 2
}

function copiedStage(at: Place, l: LetStmt): CopiedStage | undefined {
  const { part, setting } = at
  const product = part.productOn(l.id)
  if (l.op.kind !== 'stage' || product === undefined) return undefined
  const load = part.lets.get(l.op.of)
  if (load?.op.kind !== 'load' || !Object.is(load.op.other, 0) || dtypeBytes(load.dtype) !== 2 * product.halves)
    return undefined
  if (at.param(load.op.param).dtype !== load.dtype) return undefined
  if (at.param(load.op.param).format !== 'plain' || !isPlaced(at, load.op)) return undefined
  // What is copied needs no registers.
  const machine = { ...setting.machine, registers: Number.POSITIVE_INFINITY }
  const layout = stageLayout(part, l, machine, at.layout.threads)
  if ([...layout.axes.values()].some((a) => a.chunks > 1)) return undefined
  const group = groupOf(at.inside({ layout, open: new Set() }), load.op, part.axesOf(l.id))
  const n = 8 / product.halves
  const isAgain = isReadAgain(at, load.op)
  const inGroups = group?.n === n && layout.axis(group.axis).vec === n
  if (inGroups && (product.halves === 1 || product.split || group.axis === product.depth))
    return {
      bytes: 16,
      ...(group.whole ? {} : { cut: group.axis }),
      isAgain,
      let: l,
      load: { ...load, op: load.op },
      layout,
      tile: productTile(at, l, layout, product),
      also: [],
    }
  if (product.halves === 1) return undefined
  const single = copiedLayout(part, l, product, machine, at.layout.threads)
  return {
    bytes: 4,
    isAgain,
    let: l,
    load: { ...load, op: load.op },
    layout: single,
    tile: productTile(at, l, single, product),
    also: [],
  }
}

/** Whether the points of a load are more than the elements there are: windows that overlap. */
function isReadAgain({ part, setting }: Place, { param, index }: Access): boolean {
  const shape = setting.params.get(param)?.shape ?? []
  const axes = new Set(index.flatMap((e) => [...axesOf(e)]))
  const points = [...axes].reduce((n, a) => n * (startOf(a) === undefined ? part.axis(a).extent : 1), 1)
  return points > 1.5 * shape.reduce((n, e) => n * e, 1)
}

/** What can be copied ahead for a stage of a loop over an axis, if all that varies along it can. */
function aheadStage(at: Place, l: LetStmt, axis: string): AheadStage | undefined {
  const { part, setting } = at
  const product = part.productOn(l.id)
  if (l.op.kind !== 'stage' || !part.ownStages.has(l.id) || product === undefined) return undefined
  const layout = stageLayout(part, l, { ...setting.machine, registers: registersOf(product) }, at.layout.threads)
  if ([...layout.axes.values()].some((a) => a.chunks > 1)) return undefined
  const loads = copiesOf(at, l, axis, layout)
  return loads === undefined ? undefined : { let: l, layout, loads }
}

/**
 * The same for columns of a product that are computed as fragments, where they are multiplied: that saves a trip through shared memory. Rows stand in
 * a tile whose depth lies side by side, since a thread reads runs of it.
 */
function fragmentStage(at: Place, l: LetStmt, axis: string, copied: readonly CopiedStage[]): AheadStage | undefined {
  const { part, setting } = at
  const product = part.productOn(l.id)
  if (l.op.kind !== 'stage' || product === undefined || !part.ownStages.has(l.id)) return undefined
  const rows = copied.find((c) => c.let.id === product.a)
  if (rows?.bytes !== 16 || rows.tile.axes.at(-1) !== product.depth) return undefined
  const layout = fragmentLayout(part, l, at.layout, { ...setting.machine, registers: registersOf(product) })
  const loads = layout === undefined ? undefined : copiesOf(at, l, axis, layout)
  if (layout === undefined || loads?.every((x) => x.axis === product.depth) !== true) return undefined
  return { let: l, layout, loads, asFragments: true }
}

/** The copies that a stage is computed from under a layout, if all that varies along an axis can be copied. */
function copiesOf(at: Place, l: LetStmt, axis: string, layout: Layout): readonly LoadPlan[] | undefined {
  const { part } = at
  if (l.op.kind !== 'stage') return undefined
  const inner = at.inside({ layout, open: new Set() })
  const loads: LoadPlan[] = []
  for (const x of part.closureOf([l.op.of]).lets) {
    if (x.op.kind !== 'load' || !part.axesOf(x.id).includes(axis)) continue
    const load = isPlaced(at, x.op) ? copyPlanOf(inner, x) : undefined
    if (load === undefined) return undefined
    loads.push(load)
  }
  return loads.length === 0 ? undefined : loads
}
