/** Machines as data: what the planner, the schedules and the code generators know of what programs run on. */
import { invariant } from '../diagnostics/errors.ts'
import type { DType } from '../types/dtype.ts'
import type { Precision, ProductDType } from '../types/product.ts'
import type { LoopMachine } from './loops.ts'
import type { Prices } from './prices.ts'
import type { SimtMachine } from './simt.ts'

/** A library of matrix products on a machine. */
export interface LibraryInfo {
  readonly name: string
  /** Operations a second of a large product, by the dtype of its operands. */
  readonly rate: Readonly<Record<ProductDType | 'tf32', number>>
  /** The share of that rate where lines of a matrix, their lengths and their places, are multiples of so many bytes: the largest that fits counts. Products of f32 in f32 have all of it. */
  readonly shares: readonly { readonly bytes: number; readonly share: number }[]
  /** A product may be calls for the part of it whose lines are whole and for the rest: not where extents vary. */
  readonly cuts: boolean
  /** Rows, and columns, that its blocks have at least, however few there are. */
  readonly leastRows: number
  /** The share of its rate that a call reaches for what is left of a product beside its part of whole lines: little is read again. */
  readonly restShare: number
  /** Seconds of a call beside its work. */
  readonly launch: number
  /** Products of fewer operations are kernels. */
  readonly leastFlops: number
  /** Products (by `productKey`) that it was found to have no algorithm for, and why. */
  readonly refused?: ReadonlyMap<string, string>
}

/** A memory of a machine. */
export interface Memory {
  /** Bytes of operands that stay in it from one use to the next. */
  readonly bytes: number
  /** Bytes a second that stream between it and what computes. */
  readonly bandwidth: number
}

/** A machine. Every record is written out in full: none inherits another's numbers. */
export interface Machine {
  readonly name: string
  /** Memories from the nearest to the farthest, which holds everything. */
  readonly memories: readonly Memory[]
  /** The share of arithmetic and of moving data, whichever takes less, that goes on behind the other. */
  readonly overlap: number
  /** Multiply-adds (counted as two operations) a second in a matrix product. */
  readonly matrixRate: number
  /** The same of operands that are not 16-bit floats, where matrix units take only those; `matrixRate` unless given. */
  readonly plainMatrixRate?: number
  /** A unit for the products of one dtype of 16 bits alone: their rate, and the depth of one step. */
  readonly oneDtypeUnit?: { readonly dtype: DType; readonly rate: number; readonly depth: number }
  /** The same of f32 operands that may be cut to tf32; as of others unless given. */
  readonly tf32MatrixRate?: number
  /** The same of f32 operands that are multiplied as sums of two numbers of tf32. */
  readonly tf32x3MatrixRate?: number
  /** The same of integers that fit 16 bits, where register blocks serve products of integers. */
  readonly integerMatrixRate?: number
  /** How f32 is multiplied in contractions of fast mode that do not say, nor their program. */
  readonly precision: Precision
  /** What operations cost. */
  readonly prices: Prices
  /** Seconds from one kernel to the next. */
  readonly launch: number
  /** Seconds from a kernel to its finishing stage. Absent: folds are cut wherever programs would be too few. */
  readonly stageLaunch?: number
  /** Most bytes of one value in memory, and of a program's intermediate values together: what addresses and bindings reach. */
  readonly mostBytes: { readonly value: number; readonly arena: number }
  /** Bits that positions in a kernel have: of elements, indices along axes, numbers of programs. */
  readonly positionBits: 32 | 64
  /** Buffers a kernel may bind. */
  readonly maxBuffers: number
  /** Most statements of one kernel (code size). */
  readonly maxStatements: number
  /** The same of a union of independent kernels: it may bind more where parameters stand in a table. */
  readonly maxUnionBuffers: number
  readonly maxUnionStatements: number
  /** A result that is written over what its kernel reads, of the same dtype and shape, is one binding with it. */
  readonly joinsOverwritten: boolean
  /** Inputs and results of one 32-bit value that a union may read beside its buffers. */
  readonly valueBuffers: number
  /** Loops may have as many steps, and their elements as many bytes, as a launch says; else they are written out beforehand. */
  readonly countsLoops: boolean
  /** Parts of a union that are the same code count once: their parameters and extents stand in a table. */
  readonly sharesUnionCode: boolean
  /** Bytes of scratch a program may hold for a row that stays resident. */
  readonly rowBytes: number
  /** The same where a row must stay in one block of threads, if that is less: scans, strict sums, rows under cut reductions. */
  readonly blockRowBytes?: number
  /**
   * Bytes that a block of threads holds of the line of a scan: in registers, and in strict mode, where a thread walks it, in the memory
   * that the block shares. Longer lines are scanned in stages; absent: a program scans lines of any length.
   */
  readonly lineBytes?: { readonly fast: number; readonly strict: number }
  /**
   * Bytes that memory moves together: programs whose columns pass by a row that all share take whole lines of them. Absent: 16 columns at
   * least.
   */
  readonly memoryLine?: number
  /** Bytes that memory moves at least: programs take as few columns as fill them where that lets their rows stay resident. Absent: 16 columns. */
  readonly memorySector?: number
  /** Time of reading a row's elements once more, of that of the first time; absent where rows that do not stay resident are refused. */
  readonly rereadShare?: number
  /** Block of a matrix product a program computes: rows, columns, depth of one step. */
  readonly dotBlock: {
    readonly m: number
    readonly n: number
    readonly k: number
    /** What blocks are multiples of (the largest that is not more than the block), beyond the extent if need be: matrix units. */
    readonly grains?: readonly number[]
    /** Least seconds of a step along the depth, however little it multiplies: its block is loaded, waited for, shared. */
    readonly stepSeconds?: number
    /**
     * Seconds of bringing one element of an operand whose neighbours along the depth lie apart in memory, by its bytes, with all programs at
     * work; the same where all neighbours lie in other sectors. Absent where matrix units make no difference between the two.
     */
    readonly gatherSeconds?: { readonly 2: number; readonly 4: number; readonly far: number }
    /** Seconds of an element of a product's result that is stored into a sector of memory of its own, all programs at work. */
    readonly storeSeconds?: number
    /**
     * Seconds of an element of a tile that is computed, not copied, with all programs at work: of each load of it beyond the first, of each load with fewer
     * axes, of each division or function with fewer axes.
     */
    readonly fillSeconds?: {
      readonly computed: number
      readonly load: number
      readonly factorLoad: number
      readonly factorFunction: number
    }
    /**
     * Bytes a second that all programs together bring into the tiles of a matrix unit's operands, mostly from a cache that they share: what small blocks
     * reach, which bring each operand more often. Absent: multiplying takes longer.
     */
    readonly tileRate?: number
    /** Columns of a block where there are more than `n` of them and the grid would otherwise have too few programs. */
    readonly fewColumns?: number
    /**
     * The block of a product with no more than `rows` rows whose columns are computed on the way (weights in few bits): warps share a step's
     * depth instead of its columns, so few programs need their depth cut.
     */
    readonly deep?: {
      readonly rows: number
      readonly columns: number
      /** Of memory, for a step of one column. */
      readonly bytes: number
      /** As `stepSeconds`, of a block of which several stand on a multiprocessor, each with two steps on the way. */
      readonly stepSeconds: number
    }
    /** What rows and columns of a block are multiples of where it does not hold all of an axis (8 and 16 unless given). */
    readonly quantum?: number
  }
  /**
   * When the depth of a product with few blocks (`below` of `minPrograms`) is cut where programs are no shares of the machine: its
   * modelled seconds (less, and a finishing stage costs more than it brings), and the share of them that writing and reading partial
   * results may take. Parts until there are `fill` of `minPrograms`. Absent: parts are priced by `programShare`.
   */
  readonly depthSplit?: {
    readonly leastSeconds: number
    readonly mostTraffic: number
    readonly below: number
    readonly fill: number
  }
  /**
   * Chains of products in one kernel: rows of a program, what a step takes of the axis that they share, and how wide the depth of a tile and the
   * columns of a sum may be, which a program holds whole. Absent: kernels hold one product.
   */
  readonly chains?: {
    readonly rows: number
    readonly shared: number
    readonly width: number
    /** Only of operands that a matrix unit multiplies, whose widths are multiples of this; blocks reach beyond an extent. */
    readonly grain?: number
    /** Grains of widths beyond so many columns, whose tiles are read faster in fewer, wider panels. Absent: all are the same. */
    readonly wide?: { readonly beyond: number; readonly grain: number }
    /** A longer step of programs of one tile and one sum, whose width is within so many columns together with it, or fewer beside masks and positions. Absent: all are the same. */
    readonly long?: { readonly shared: number; readonly columns: number; readonly columnsBeside: number } | undefined
    /** Bytes of memory near the unit, for the rows of a program and two steps of everything else. Absent: they are not counted. */
    readonly bytes?: number
    /** Columns that registers hold of a row, those of a step of every tile and all of the sums. Absent: they are not counted. */
    readonly columns?: number
    /**
     * Multiplications and additions a second of halves, of widths up to `beyond` and above, there of chains of one tile and one sum and of others. Absent: those of other
     * products, which wait for their blocks' ends.
     */
    readonly rates?: {
      readonly narrow: number
      readonly beyond: number
      readonly widePair: number
      readonly wide: number
    }
    /** The share of the arithmetic between products that goes on while the unit multiplies (none unless given). */
    readonly hidden?: number
    /**
     * Bytes a second of what each step reads or writes beside its operands, for every element of its tile, which the unit waits for: where neighbours of a row lie side by
     * side in memory, and where neighbours of a column do. Absent: they are not waited for.
     */
    readonly besideRates?: { readonly along: number; readonly readAcross: number; readonly writtenAcross: number }
  }
  /**
   * The same where no matrix unit and no loops multiply: by vectors of registers, from tiles in the memory that a block of threads shares. Blocks in the order
   * of what they are worth, of which the first is taken that fits `bytes`, with the operations a second that they reach with operands that stand whole, and by slices (`vectorTiles`); columns of all results together,
   * which registers hold. Absent: there are none.
   */
  readonly vectorChains?: {
    readonly blocks: readonly {
      readonly rows: number
      readonly shared: number
      readonly rate: number
      readonly sliced: number
    }[]
    readonly bytes: number
    readonly columns: number
    /** Of those rates, where a step has several tiles, and where operands are of 16 bits. */
    readonly ofRate: { readonly severalTiles: number; readonly halves: number }
    /** The share of arithmetic that one program can use. */
    readonly share: number
  }
  /** Elements of the rows a program works on at once where it goes through many. */
  readonly rowsAtOnce: number
  /** Elements an elementwise program covers. */
  readonly elementBlock: number
  /** Bytes that it loads at most where a quarter of those elements is less: programs then write while others read. */
  readonly elementBytes?: number
  /** Rows that an elementwise program takes of tensors beside one that is the same in all rows. */
  readonly sharedRows: number
  /** Bytes that rows of tensors between kernels begin at multiples of, where products read or make them, the tensor has `least` bytes, an element `widest` at most, and what stands after a row is at most `room` of it. Absent: rows follow one another at once. */
  readonly rowAlignment?: {
    readonly bytes: number
    readonly least: number
    readonly room: number
    readonly widest: number
  }
  /** Bools between kernels are stored one bit an element. */
  readonly packBools: boolean
  /** Whether axes of products stay apart where a matrix unit would have them joined: an index divided by an extent that varies has no form. */
  readonly keepsAxes?: boolean
  /** Extents that vary: nodes are not joined in a kernel that would divide positions by a multiple of one. Absent: none does. */
  readonly undivided?: ReadonlySet<number>
  /** Bytes that intermediate buffers are aligned to in their arena. */
  readonly alignment: number
  /**
   * Steps may run side by side: an arena within so many bytes (a part of what the cache holds) keeps the places of buffers unused for some steps after
   * they died. Absent: places are used again at once.
   */
  readonly apartBytes?: number
  /** Fewest programs that keep the target busy. */
  readonly minPrograms: number
  /** Programs that go through rows of a tensor one after another: as many as run at once. Absent: however many suit the rows. */
  readonly rowPrograms?: number
  /**
   * Rows of fewer elements than `below` share a program, up to `points` elements; `sharing` times as many where they share much of
   * what they read, as long as enough programs remain.
   */
  readonly shortRows: { readonly below: number; readonly points: number; readonly sharing: number }
  /**
   * Points that a program of overlapping windows covers, which goes along them in a loop: what two windows share is read once. Absent: windows are rows as
   * others are.
   */
  readonly windowPoints?: number
  /** Windows that overlap along an axis which one thread goes along at most, reading once what they share, and threads of such a program. Absent: none does. */
  readonly slidingWindows?: { readonly most: number; readonly threads: number }
  /**
   * The shares of bandwidth and arithmetic that one program can use, a block of threads; of bandwidth down `columns` that pass by as well (as `moving`
   * unless given). Absent: a program uses all there is.
   */
  readonly programShare?: { readonly moving: number; readonly computing: number; readonly columns?: number }
  /** Columns a program of a column-wise reduction takes at least: a reduction is cut where fewer programs would remain. */
  readonly columnBlock: number
  /** The same of a finishing stage, whose partial results come from the last cache. */
  readonly partialColumns: number
  /** Matrix products by a library of the machine, in fast mode; absent where there is none. */
  readonly library?: LibraryInfo
  /** Loops on cores, where kernels are for them. */
  readonly loops?: LoopMachine
  /** Blocks of threads, where kernels are for them. */
  readonly simt?: SimtMachine
}

/** A machine of blocks of threads. */
export type SimtTarget = Machine & { readonly simt: SimtMachine }

/** Bytes a second where operands of some bytes are used again and again: of the nearest memory that holds them. */
export function bandwidthOf({ memories, name }: Pick<Machine, 'memories' | 'name'>, bytes: number): number {
  const memory = memories.find((m) => m.bytes >= bytes) ?? memories.at(-1)
  invariant(memory !== undefined, `the machine ${name} has no memory`)
  return memory.bandwidth
}

/** Bytes a second from the memory that holds everything. */
export const farBandwidth = (machine: Pick<Machine, 'memories' | 'name'>): number =>
  bandwidthOf(machine, Number.POSITIVE_INFINITY)

/** Seconds of moving some bytes once between a kernel and the memory that holds everything. */
export const movingSeconds = (bytes: number, machine: Pick<Machine, 'memories' | 'name'>): number =>
  bytes / farBandwidth(machine)

/** A machine as a program sees it that touches some bytes again and again: one memory, the nearest that holds them. */
export const atWorkingSet = (machine: Machine, bytes: number): Machine => ({
  ...machine,
  memories: [{ bytes: Number.POSITIVE_INFINITY, bandwidth: bandwidthOf(machine, bytes) }],
})

/** Seconds of work that moves data and computes, each as long as alone. */
export const together = (moving: number, computing: number, { overlap }: Pick<Machine, 'overlap'>): number =>
  Math.max(moving, computing) + (1 - overlap) * Math.min(moving, computing)
