/**
 * How threads merge their partial results of folds: by bits of the thread number, those of a warp's lanes, of a block's warps, of a
 * cluster's blocks; which folds exchange together, and which of two sets of slots they take.
 */
import { axis, type Expr } from '../../../affine/expr.ts'
import { typeOfExpr } from '../../../kernel/indexType.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import { isArgCombiner } from '../../../scalar/ops.ts'
import type { Place } from '../access/place.ts'
import type { Part } from '../part/part.ts'
import { type RegisterType, registerBytes, registerType } from '../storage/registerType.ts'
import type { SharedMemory } from '../storage/sharedMemory.ts'
import { combinerOf, foldDType } from './folds.ts'

/** A fold with the thread bits that it runs over, by how far they reach. */
export interface FoldExchange {
  readonly let: LetStmt
  readonly lanes: readonly number[]
  readonly warps: readonly number[]
  readonly blocks: readonly number[]
  /** Bits of the block's threads that the fold keeps apart, but for those that agree now. */
  readonly rest: readonly number[]
  /** Greatest and least floats travel as integers of the same order. */
  readonly asKeys: boolean
}

/** Exchanges of folds that end together. */
export interface ExchangePlan {
  readonly folds: readonly FoldExchange[]
  /** Folds that exchange in their block, each group at once. */
  readonly inBlock: readonly {
    readonly folds: readonly FoldExchange[]
    readonly slots: '' | '_other'
    /** Rounds in which threads exchange what they have, as many registers at a time as there are slots for. */
    readonly rounds: number
  }[]
  /** Those that exchange among blocks. */
  readonly amongBlocks: readonly FoldExchange[]
}

/** Where an arg-fold finds a value. */
export function positionOf(part: Part, { op }: LetStmt): Expr {
  const along = op.kind === 'reduce' ? (op.axes[0] ?? '') : ''
  const given = op.kind === 'reduce' ? op.position : undefined
  return given ?? axis(along, Math.max(2, part.axis(along).extent))
}

/** Slots of one fold: the types of values and positions, and registers of a thread. */
interface Kinds {
  readonly value: RegisterType
  readonly position: RegisterType | undefined
  readonly registers: number
}

function kindsOf(at: Place, f: FoldExchange): Kinds {
  const isArg = isArgCombiner(combinerOf(f.let))
  const { part } = at
  return {
    value: f.asKeys ? 'i32' : registerType(foldDType(part, f.let)),
    position: isArg ? typeOfExpr(positionOf(part, f.let)) : undefined,
    registers: at.registers(part.axesOf(f.let.id)),
  }
}

/** Whether lanes are all of a warp and the machine has an instruction that folds integers over it. */
const foldsLanes = ({ setting: { machine } }: Place, lanes: readonly number[]): boolean =>
  lanes.length > 0 && lanes.length === machine.laneBits && machine.foldsLanes

/**
 * Greatest and least floats travel as integers, NaN beyond all, where that costs less than maxima of floats: some languages' say
 * nothing of NaN, and a warp may fold integers in one instruction.
 */
function travelsAsKeys(at: Place, l: LetStmt, lanes: readonly number[]): boolean {
  const c = combinerOf(l)
  if (registerType(foldDType(at.part, l)) !== 'f32' || (c !== 'max' && c !== 'min')) return false
  return !at.setting.machine.ordersNaN || foldsLanes(at, lanes)
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

/** The exchange of a fold, if threads share it. */
function exchangeOf(at: Place, l: LetStmt): FoldExchange | undefined {
  const { layout, setting } = at
  const { laneBits } = setting.machine
  const blockBits = Math.log2(layout.threads / setting.cluster)
  const bits = layout.bitsOf(at.part.sharedFoldAxes(l))
  if (bits.length === 0) return undefined
  const lanes = bits.filter((b) => b < laneBits)
  const warps = bits.filter((b) => b >= laneBits && b < blockBits)
  const rest = range(0, blockBits).filter((b) => !lanes.includes(b) && !warps.includes(b))
  const blocks = bits.filter((b) => b >= blockBits)
  return { let: l, lanes, warps, blocks, rest, asKeys: travelsAsKeys(at, l, lanes) }
}

/** The exchanges of folds that end together. */
export function exchangePlanOf(at: Place, folds: readonly LetStmt[]): ExchangePlan {
  const { shared } = at
  const all = folds.flatMap((l) => exchangeOf(at, l) ?? [])
  const near = all.filter((s) => s.blocks.length === 0 && s.warps.length > 0)
  const amongBlocks = all.filter((s) => s.blocks.length > 0)
  const room = near.length === 0 ? 0 : slotsRoom(at)
  const inBlock = batches(at, near, room).map((batch) => {
    const slots = roomOf(at, batch) <= mostTwice && shared.turns++ % 2 === 1 ? '_other' : ''
    const rounds = roundsOf(at, batch, room)
    const slotsOf = (f: FoldExchange, { registers }: Kinds): number =>
      Math.ceil(registers / rounds) * 2 ** (f.rest.length + f.warps.length)
    takeSlots(at, shared, slots, batch, slotsOf)
    return { folds: batch, slots, rounds } as const
  })
  if (amongBlocks.length > 0) takeLandings(at, shared, amongBlocks)
  return { folds: all, inBlock, amongBlocks }
}

/** Bytes of slots of which there are two sets, so that an exchange does not wait until the one before it is read. */
const mostTwice = 1024

/** Bytes of folds' slots in their block. */
function roomOf(at: Place, folds: readonly FoldExchange[]): number {
  return folds.reduce((n, f) => {
    const { value, position, registers } = kindsOf(at, f)
    const bytes = registerBytes(value) + (position === undefined ? 0 : registerBytes(position))
    return n + 2 ** (f.rest.length + f.warps.length) * registers * bytes
  }, 0)
}

/** Bytes of the slots of each type that the folds of a part use, of which the shared memory has room beside tiles. */
function slotsRoom(at: Place): number {
  const types = new Set<string>()
  for (const l of at.part.lets.values()) {
    const f = l.op.kind === 'reduce' || l.op.kind === 'dot' ? exchangeOf(at, l) : undefined
    if (f === undefined || f.blocks.length > 0 || f.warps.length === 0) continue
    const { value, position } = kindsOf(at, f)
    types.add(value)
    if (position !== undefined) types.add(`at ${position}`)
  }
  return (at.setting.machine.maxSharedBytes - at.shared.tileBytes) / Math.max(1, types.size)
}

/** Rounds in which folds exchange: one, but for a single fold whose slots have no room at once. */
function roundsOf(at: Place, [fold, ...others]: readonly FoldExchange[], room: number): number {
  if (fold === undefined || others.length > 0) return 1
  const { registers } = kindsOf(at, fold)
  const atOnce = Math.max(1, Math.floor((registers * Math.max(1, room)) / roomOf(at, [fold])))
  return Math.ceil(registers / atOnce)
}

/** Folds that exchange together: all of them, where there is room for their slots at once. */
function batches(at: Place, folds: readonly FoldExchange[], most: number): FoldExchange[][] {
  const out: FoldExchange[][] = []
  let room = Number.POSITIVE_INFINITY
  for (const fold of folds) {
    const own = roomOf(at, [fold])
    room += own
    if (room > most) {
      out.push([])
      room = own
    }
    out.at(-1)?.push(fold)
  }
  return out
}

/** Takes slots for several folds at once. */
function takeSlots(
  at: Place,
  shared: SharedMemory,
  which: string,
  folds: readonly FoldExchange[],
  lengthOf: (f: FoldExchange, kinds: Kinds) => number,
): void {
  const used = new Map<string, number>()
  const take = (type: RegisterType, suffix: string, length: number): void => {
    const key = `${suffix}_${type}`
    const first = used.get(key) ?? 0
    used.set(key, first + length)
    shared.slots(type, first + length, suffix)
  }
  for (const f of folds) {
    const kinds = kindsOf(at, f)
    const length = lengthOf(f, kinds)
    take(kinds.value, which, length)
    if (kinds.position !== undefined) take(kinds.position, `${which}_at`, length)
  }
}

/** Of so many partial results of blocks a thread folds all it keeps; of more, each result is folded once a block. */
export const mostFolded = 16

/** Slots from one result's partial results to the next one's: odd, so that banks differ. */
export const pitchOf = (members: number, results: number): number => (results > 1 ? members + 1 : members)

/** Slots that the results of all folds of a part take where they land: what any exchange takes is less. */
export function landingRoom(at: Pick<Place, 'part' | 'layout' | 'registers'>, blockBits: number): number {
  let room = 0
  for (const l of at.part.lets.values()) {
    if (l.op.kind !== 'reduce' && l.op.kind !== 'dot') continue
    const bits = at.layout.bitsOf(at.part.sharedFoldAxes(l))
    const rest = blockBits - bits.filter((b) => b < blockBits).length
    room += at.registers(at.part.axesOf(l.id)) * 2 ** (rest + bits.filter((b) => b >= blockBits).length)
  }
  return room
}

function takeLandings(at: Place, shared: SharedMemory, folds: readonly FoldExchange[]): void {
  const { hasLoops, cluster } = at.setting
  const round = shared.exchanges++
  shared.slots('u64', 2, '_meetings')
  const resultsOf = (f: FoldExchange, { registers }: Kinds): number => 2 ** f.rest.length * registers
  const landed = (f: FoldExchange, k: Kinds): number => resultsOf(f, k) * 2 ** f.blocks.length
  takeSlots(
    at,
    shared,
    '',
    folds.filter((f) => f.warps.length > 0),
    (f, k) => resultsOf(f, k) * pitchOf(2 ** f.warps.length, resultsOf(f, k)),
  )
  if (!hasLoops) takeSlots(at, shared, round % 2 === 0 ? '_even' : '_odd', folds, landed)
  else {
    takeSlots(at, shared, '_landing', folds, landed)
    const room = landingRoom(at, Math.log2(at.layout.threads / cluster))
    for (const f of folds) {
      const { value, position } = kindsOf(at, f)
      shared.slots(value, 2 * room, '_landing')
      if (position !== undefined) shared.slots(position, 2 * room, '_landing_at')
    }
  }
  const isWhole = (f: FoldExchange): boolean => kindsOf(at, f).registers * 2 ** f.blocks.length > mostFolded
  takeSlots(at, shared, '_whole', folds.filter(isWhole), resultsOf)
}
