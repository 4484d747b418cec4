/**
 * The schedule of a kernel part on one core, as a value: in which order its loops run, along which axis lanes go, what stands in scratch
 * memory and where. `scheduleLoops` makes it, `verifyLoopSchedule` holds it to its part, code generation follows it and decides nothing
 * of what is in it.
 */
import type { Expr } from '../../../affine/expr.ts'
import type { Bound, Predicate } from '../../../affine/predicate.ts'
import type { FoldedCarry } from '../../../kernel/carried.ts'
import type { Carry, KernelParam, KernelPart, LetStmt, LoopStmt, ValueId } from '../../../kernel/ir.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import type { Joined } from './joined.ts'
import type { Product } from './product.ts'
import type { Fold, Root } from './steps.ts'
import type { Axes, Tile } from './tile.ts'

export interface LoopSchedule {
  /** What is scheduled: the part, rewritten as loops want it. */
  readonly part: KernelPart
  readonly axes: Axes
  readonly body: LevelSchedule
  /** Bytes of scratch memory that a thread needs. */
  readonly scratch: number
}

/** The statements of a part or of a loop's body, as steps that run one after another. */
export interface LevelSchedule {
  /** Single elements that are loaded before all else: a store may overwrite their memory. */
  readonly early: readonly ValueId[]
  readonly steps: readonly LoopStep[]
}

export type LoopStep = NestSchedule | CopySchedule | ProductSchedule | ScanSchedule | BlockSchedule

/** Loops around the points of a space: folds, stores, values written to scratch. */
export interface NestSchedule {
  readonly kind: 'nest'
  readonly roots: readonly Root[]
  readonly folded: readonly string[]
  /** Loops, outermost first: kept axes stand before folded ones. */
  readonly order: readonly string[]
  readonly vector: string | undefined
  /** Axes that one loop goes along. */
  readonly joined?: Joined
  /** Groups of four lanes a step of the vector axis takes. */
  readonly copies: number
  /**
   * Values that the groups of a step compute one after another, all groups of one before any of the next, operands first: each of them is a long chain of
   * instructions, and the groups' chains fill each other's waiting. All else is computed group by group.
   */
  readonly inTurn: readonly ValueId[]
  /**
   * Folded axes run outside the vector axis, accumulators stand in the results' tiles: rows far apart are read whole, one
   * after another, instead of a few columns of each at a time.
   */
  readonly inMemory: boolean
  /** Reads along the vector axis to bring into the cache before its loop runs. */
  readonly fetch: readonly Fetch[]
  readonly cut: Cut | undefined
  /** Where each fold's result stands; a fold without kept axes has a register. */
  readonly results: ReadonlyMap<ValueId, Tile>
  /** The places of the totals' tree of each fold that accumulates in memory. */
  readonly totals: ReadonlyMap<ValueId, readonly Tile[]>
  /** How the one sum of the nest slides along its innermost kept axis, inside the lanes. */
  readonly slide?: Slide
  /** How many folds at most one innermost loop takes; those left have loops of their own, one after another inside the loops around. */
  readonly foldsAtOnce?: number
  /** The steps along lanes, the innermost loop, that ask for no bounds. */
  readonly inner?: InnerSteps
}

/** Whole steps of the lanes' axis, from an index to another, in which operands' bounds hold wherever those of the loops around them do. */
export interface InnerSteps {
  readonly from: number
  readonly to: number
  readonly where: Predicate
  /** What each fold takes there. */
  readonly operands: ReadonlyMap<ValueId, readonly ValueId[]>
}

/** Windows under way along an axis: in its round j, what stands at place j of the operands is added to the windows j, j - 1 to j - `lag`, and the last of them leaves. */
export interface Slide {
  readonly axis: string
  readonly taps: string
  /** The axis of lanes, and all loops of the nest: other axes, lanes, `axis`, what is folded. */
  readonly lanes: string
  readonly order: readonly string[]
  /** The axis of places: as long as `axis` and `lag` more. */
  readonly walked: string
  readonly lag: number
  /** What a round adds: of the window that leaves first, to that which enters. */
  readonly terms: readonly SlideTerm[]
  /** A round's terms of a window are added up by themselves first, so that no window adds all of its terms one upon another. */
  readonly apart: boolean
  /** The rounds in which all windows are there, as they are where no bound of an operand asks. */
  readonly inner: InnerRounds | undefined
  /** Sums may be computed twice: the last lanes with some before them, where they are no whole group. */
  readonly overlaps: boolean
}

/**
 * The rounds of windows that slide in which every window is there, at places `lag` behind the index of an axis of their own. Operands' bounds that hold in all of
 * them are left out, and so are those that are the same in all of them and must hold: where one does not, rounds are as others are.
 */
export interface InnerRounds {
  readonly walked: string
  readonly terms: readonly SlideTerm[]
  readonly where: Predicate
}

/** A term: its factors, at places or at taps, of the window that is so far behind the round. */
export interface SlideTerm {
  readonly behind: number
  readonly factors: readonly ValueId[]
}

/** A contiguous read of a parameter: its byte position; of every index of `rows`, one after another, where the axis is inside the lanes. */
export interface Fetch {
  readonly param: string
  readonly position: Expr
  readonly unit: number
  readonly rows?: string
}

/** Where folded loops are cut, so that chunks end there: at a loop, after so many rounds of it, so many times in all. */
export interface Cut {
  readonly depth: number
  readonly rounds: number
  readonly pushes: number
}

/** Memory copied into a tile, as runs or transposed in registers. */
export interface CopySchedule {
  readonly kind: 'copy'
  readonly root: Extract<Root, { kind: 'keep' }>
  readonly source: CopySource
  readonly space: readonly string[]
  /** Contiguous in the tile. */
  readonly along: Run
  /** Contiguous in memory, where that is another run. */
  readonly across: Run | undefined
}

/** Loads with the padding that they share. */
export interface CopySource {
  readonly pieces: readonly CopyPiece[]
  readonly mask: Predicate
  readonly other: Scalar
}

/** Memory that is copied: all of it, or where an axis is within a bound. */
export interface CopyPiece {
  readonly param: KernelParam
  readonly position: Expr
  readonly where: Bound | undefined
}

/** Axes that make one run, innermost first: the strides of the run on both sides, in bytes. */
export interface Run {
  readonly axes: readonly string[]
  readonly from: number
  readonly to: number
}

export interface ProductSchedule {
  readonly kind: 'product'
  readonly product: Product
  readonly tile: Tile
  /** Accumulators start at zero; else from what stands in the tile. */
  readonly fresh: boolean
  /** Rows of a block of accumulators, the largest first. */
  readonly blocks: readonly number[]
  /** Rows that go with one block of columns after another, of a product of short integers; the others go over all columns block by block. */
  readonly rowsAtOnce: number
  /** Where the second operand is packed by pairs, so much of the depth at a time. */
  readonly pairs: { readonly tile: Tile; readonly depth: number } | undefined
}

export interface ScanSchedule {
  readonly kind: 'scan'
  readonly stmt: LetStmt
  readonly tile: Tile
  readonly outer: readonly string[]
  readonly vector: string | undefined
  readonly copies: number
}

/** Blocks of an axis in order, with what is carried from one to the next. */
export interface BlockSchedule {
  readonly kind: 'loop'
  readonly stmt: LoopStmt
  /** The axes inside. */
  readonly axes: Axes
  /** State of single elements. */
  readonly registers: readonly Carry[]
  readonly tiles: readonly TileCarry[]
  /** What writes the first states into their tiles. */
  readonly fills: readonly (NestSchedule | CopySchedule)[]
  /** Totals of what is folded from block to block: log2 of the iterations after which each level's is taken. */
  readonly closes: readonly number[]
  readonly carried: readonly CarriedTotals[]
  readonly body: LevelSchedule
}

export interface TileCarry {
  readonly carry: Carry
  readonly tile: Tile
  /** Where the body's end writes the next state: the tile itself where no other reader is left, else one beside it. */
  readonly write: Tile | undefined
  /** The product that accumulates in the tile. */
  readonly product: ValueId | undefined
}

export interface CarriedTotals extends FoldedCarry {
  /** One a level, where the state stands in a tile; else registers. */
  readonly tiles: readonly Tile[] | undefined
}

/** The steps of a schedule, those of loops' bodies included. */
export function* stepsOf(level: LevelSchedule): Generator<LoopStep> {
  for (const step of level.steps) {
    yield step
    if (step.kind !== 'loop') continue
    yield* step.fills
    yield* stepsOf(step.body)
  }
}

export const foldsOf = (nest: NestSchedule): Fold[] => nest.roots.flatMap((r) => (r.kind === 'fold' ? [r.fold] : []))
