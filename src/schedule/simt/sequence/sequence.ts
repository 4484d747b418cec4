/**
 * What threads do, in order: the data of a scheduled statement list. Statements are *steps*; steps over the same loops of registers
 * share a nest; what runs over chunks is a *walk* with a list of its own.
 */
import type { Expr } from '../../../affine/expr.ts'
import type { Carry, LetStmt, LoopStmt, Stmt, StoreStmt, ValueId } from '../../../kernel/ir.ts'
import type { CallGroup, Group, Strided } from '../access/access.ts'
import type { LoadPlan, Turned } from '../access/loadPlan.ts'
import type { Phase } from '../access/place.ts'
import type { TilePlan } from '../access/tiles.ts'
import type { CarriedTotals } from '../fold/carriedTotals.ts'
import type { ExchangePlan } from '../fold/exchange.ts'
import type { FoldPlan } from '../fold/folds.ts'
import type { StreamPlan } from '../fold/onlineSums.ts'
import type { ScanPlan } from '../fold/scans.ts'
import type { Layout } from '../layout/layout.ts'
import type { Filter } from '../part/filter.ts'
import type { MatrixCarry } from '../part/matrixCarries.ts'
import type { Product } from '../part/product.ts'
import type { VectorProduct } from '../part/vectorProduct.ts'
import type { Windows } from '../part/windows.ts'
import type { ValueForm } from '../precision/oddFunctions.ts'
import type { OperandPrefetch } from '../prefetch/operandPrefetch.ts'
import type { Prefetch } from '../prefetch/prefetch.ts'

/** A loop of a nest: the repeats of an axis, or the lanes of its vectors. */
export interface Loop {
  readonly axis: string
  readonly over: 'rep' | 'lane'
  readonly count: number
}

export function loopsOf(layout: Layout, axis: string, without?: string): Loop[] {
  const a = layout.find(axis)
  if (a === undefined) return []
  const out: Loop[] = []
  if (a.reps > 1) out.push({ axis, over: 'rep', count: a.reps })
  if (a.vec > 1 && axis !== without) out.push({ axis, over: 'lane', count: a.vec })
  return out
}

/** What a step waits for: a value, or (below zero) the end of another step. */
export type Token = number

/** How a load goes. */
export type LoadForm =
  | { readonly kind: 'element' }
  | { readonly kind: 'group'; readonly group: Group }
  | { readonly kind: 'strided'; readonly strided: Strided }
  | { readonly kind: 'turned'; readonly turned: Turned }
  /** From what the thread copied, or has in registers, since an earlier iteration. */
  | { readonly kind: 'copied' | 'words'; readonly plan: LoadPlan }

/** What a step does at each point of its nest. */
export type PointWork =
  /** `form`: how, where it is not by its plain form. */
  | { readonly kind: 'value'; readonly let: LetStmt; readonly form?: ValueForm }
  | { readonly kind: 'load'; readonly let: LetStmt; readonly form: LoadForm }
  | { readonly kind: 'random'; readonly let: LetStmt; readonly group: CallGroup }
  | { readonly kind: 'fold'; readonly let: LetStmt }
  | { readonly kind: 'count' | 'moments'; readonly let: LetStmt; readonly stream: StreamPlan }
  /**
   * `isCoarse`: of such values it is open in which direction ties of their rounding go. `lanes`: neighbouring ones that exchange their groups of as many
   * repeats of the group's axis, all of which the step goes over (`exchangingLanes`).
   */
  | {
      readonly kind: 'store'
      readonly store: StoreStmt
      readonly group: Group | undefined
      readonly lanes: number
      readonly turned?: Turned
      readonly merges: boolean
      readonly isCoarse: boolean
    }
  | {
      readonly kind: 'interleave'
      readonly stores: readonly StoreStmt[]
      readonly strided: Strided
      readonly coarse: ReadonlySet<StoreStmt>
    }
  | { readonly kind: 'fill'; readonly tile: TilePlan; readonly of: ValueId }

/** What a step does that stands alone. */
export type BlockWork =
  | { readonly kind: 'open'; readonly let: LetStmt }
  /** `inBackground`: threads go on, and wait for it where it ends. */
  | { readonly kind: 'matrixProduct'; readonly product: Product; readonly inBackground: boolean }
  | VectorProductWork
  | { readonly kind: 'scan'; readonly let: LetStmt; readonly plan: ScanPlan }
  | { readonly kind: 'move'; readonly stream: StreamPlan }
  | { readonly kind: 'barrier' }
  /** A thread is through with the block before, and what it copied of the next is there (`meetsHalfway`). */
  | { readonly kind: 'halfway' }
  /** A tile is filled: everyone may read it. Products meet themselves, for both of their operands at once. */
  | { readonly kind: 'filled'; readonly let: LetStmt; readonly meets: boolean }
  | StageWork
  | OrderedWork
  | LoopWork

/** A product from tiles that are read in vectors. */
export interface VectorProductWork {
  readonly kind: 'vectorProduct'
  readonly product: VectorProduct
  /** The filling of those that it stages by slices, for one slice. */
  readonly fills: readonly StageWork[]
}

/** The filling of a tile under a layout of its own. */
export interface StageWork {
  readonly kind: 'stage'
  readonly let: LetStmt
  readonly layout: Layout
  readonly tile: TilePlan
  /** What it is computed from was copied ahead. */
  readonly isAhead: boolean
  readonly body: Sequence
}

/** A store whose points may meet, walked in order under a layout of its own. */
export interface OrderedWork {
  readonly kind: 'ordered'
  readonly store: StoreStmt
  readonly layout: Layout
  readonly body: Sequence
}

/** A kernel loop. */
export interface LoopWork {
  readonly kind: 'loop'
  readonly loop: LoopStmt
  /** It has one block: there is no loop. */
  readonly isSingle: boolean
  /** Every block is whole. */
  readonly isWhole: boolean
  /** Threads meet at its head, since what it stages is read by all. */
  readonly meets: boolean
  readonly operands: OperandPrefetch | undefined
  readonly prefetch: Prefetch | undefined
  /** Sums that it carries in more than one accumulator. */
  readonly totals: readonly CarriedTotals[]
  /** Sums that stand in matrices of subgroups: they come to registers behind it. */
  readonly onMatrices: readonly MatrixCarry[]
  /** Sums of which every warp carries its share of the depth: they are put together behind it, through shared memory. */
  readonly shares: readonly Carry[]
  readonly body: Sequence
}

/** Code at each point of a nest. */
export interface PointStep {
  readonly kind: 'point'
  readonly work: PointWork
  /** Loops of the nest, outermost first. */
  readonly loops: readonly Loop[]
  readonly needs: readonly Token[]
  /** The value computed at each point, if the step computes one. */
  readonly gives?: ValueId
  /** Its registers are written lane by lane. */
  readonly wide?: boolean
  /** It shares nests with its like alone. */
  readonly like?: string
  /** Available once the nest is done. */
  readonly after: readonly Token[]
  /** Lower goes first among ready steps. */
  readonly rank: number
  readonly name: string
}

/** A condition that holds for one index of an axis: `index`, at some point of this thread, is what the value `number` says. */
export interface Seldom {
  readonly id: ValueId
  readonly axis: string
  readonly index: LetStmt
  readonly number: ValueId
}

/**
 * What holds all over most blocks: that no block of some axes is cut by the axis' end, and conditions that do where some numbers, by
 * where the block starts, are not negative.
 */
export interface Usual {
  readonly axes: readonly string[]
  readonly ids: readonly ValueId[]
  readonly numbers: readonly Expr[]
}

/** A nest that goes along windows that overlap: what they share is computed once for every place of theirs, the rest for each window. */
export interface SlidingNest {
  readonly windows: Windows
  /** Places of windows along the axis that they fold with the one they move along, in the order of the terms of each. */
  readonly places: readonly WindowPlace[]
}

/** A place in windows: the repeats of the two axes for which it is the same. */
export type WindowPlace = readonly { readonly along: number; readonly over: number }[]

/** A loop nest of registers. */
export interface NestEntry {
  readonly kind: 'nest'
  readonly steps: readonly PointStep[]
  /** Values that lie in register arrays afterwards. */
  readonly arrays: readonly ValueId[]
  /** The nest is there twice: with this condition, and without it for threads where it does not hold. */
  readonly seldom: Seldom | undefined
  /** The nest is there twice: without these conditions for blocks where all of them hold, and with them. */
  readonly usual: Usual | undefined
  readonly sliding?: SlidingNest
}

/** Folds whose partial results threads exchange together. */
export interface CloseEntry {
  readonly kind: 'close'
  readonly folds: readonly LetStmt[]
  readonly exchange: ExchangePlan
  /** Streams that they leave, by fold. */
  readonly streams: ReadonlyMap<ValueId, StreamPlan>
  /** Of a product in the background that is waited for: how many that began after it may go on. */
  readonly later?: number
}

/** A loop over the chunks of axes, the outermost first. */
export interface WalkEntry {
  readonly kind: 'walk'
  readonly over: readonly string[]
  /** From the last chunk of the only axis: what the walk before read last is in the caches. */
  readonly isBackward: boolean
  readonly phase: Phase | undefined
  readonly items: readonly Item[]
  /** Where whole chunks end, if the last one is not whole and has code of its own, without tests for the end in the others. */
  readonly wholeUntil: number | undefined
  /** The points of the outermost axis that are walked, where not all are. */
  readonly filter: Filter | undefined
  readonly prefetch: readonly LoadPlan[] | undefined
  readonly body: Sequence
  readonly tail: Sequence | undefined
}

/** Nests as a loop over an axis' repeats, or several of them at a time, which are chunks inside. */
export interface RolledEntry {
  readonly kind: 'rolled'
  readonly axis: string
  /** The layout inside. */
  readonly layout: Layout
  /** Values along the axis that stand in the threads' own cells of shared memory, which nothing else takes any more. */
  readonly kept: readonly ValueId[]
  readonly nests: readonly NestEntry[]
}

export type Entry =
  | RolledEntry
  | NestEntry
  | { readonly kind: 'block'; readonly work: BlockWork }
  | CloseEntry
  | WalkEntry

/** What a list sets up before its entries, in order. */
export type Preparation =
  | { readonly kind: 'fold'; readonly plan: FoldPlan }
  | { readonly kind: 'tile'; readonly tile: TilePlan }
  /** What bits of a position say is computed wherever it is read. */
  | { readonly kind: 'position'; readonly let: LetStmt }

/** A statement list as threads run it. */
export interface Sequence {
  readonly prepare: readonly Preparation[]
  readonly entries: readonly Entry[]
}

/** Work of a statement list, as it goes into loops. */
export type Item =
  | { readonly kind: 'stmt'; readonly stmt: Stmt }
  /** A fold's part inside a loop over chunks. */
  | { readonly kind: 'accumulate'; readonly let: LetStmt }
  /** The same of a fold that is the anchor of streaming sums: the chunk's, and the sums moved to it. */
  | { readonly kind: 'stream'; readonly stream: StreamPlan }
  /** A sum that some of those carry beside them, which takes a chunk in when the others have moved. */
  | { readonly kind: 'moments'; readonly let: LetStmt; readonly stream: StreamPlan }
  /** The writing of a staged tile. */
  | { readonly kind: 'fill'; readonly tile: TilePlan; readonly of: ValueId }
  /** A store whose points may meet, under a layout that walks them in order. */
  | { readonly kind: 'ordered'; readonly store: StoreStmt }

export const itemsOf = (stmts: readonly Stmt[]): Item[] => stmts.map((stmt) => ({ kind: 'stmt', stmt }))
