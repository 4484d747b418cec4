/** What loops on a core cost beside the prices of operations: accesses by how they stand, steps and ends of loops, chains of folds. */

/** Bytes that memory moves together, near every core that engines run on. */
export const cacheLine = 64

/** Bytes of a page of memory. */
export const pageBytes = 4096

/** Lanes of a vector, bytes, and seconds. */
export interface LoopMachine {
  /** Bytes of the memory right beside the core: what stays in it costs no more than the access. */
  readonly nearest: number
  /** Values of 32 bits that one vector operation takes: an operation on a single value costs as much as on so many. */
  readonly lanes: number
  /** A vector of 16 bytes that stands as it is read or written. */
  readonly whole: number
  /** A vector that is put together from two, or turned around. */
  readonly shuffled: number
  /** A lane at an address of its own: at a stride, or found by an expression; and one at an index that is a value. */
  readonly strided: number
  readonly gathered: number
  /** One element, in a loop without lanes or outside the lanes. */
  readonly single: number
  /** A division or remainder of an index by no power of two, a lane. */
  readonly divided: number
  /** Asking which lanes a mask allows. */
  readonly masked: number
  /** One more round of a loop, entering and leaving it, and the step of it that is not whole. */
  readonly round: number
  readonly entry: number
  readonly partial: number
  /** Leaving a loop of more rounds than the processor foresees, and how many those are. */
  readonly leave: number
  readonly predicted: number
  /** From one value of an accumulator to the next, however little is folded. */
  readonly chain: number
  /** Folding the lanes of an accumulator into one. */
  readonly merge: number
  /** From an operand to its result, in what the operation takes where the unit always has another one to do. */
  readonly latency: number
  /** Seconds of work that the processor looks ahead over: what waits longer than that for a result leaves the units idle. */
  readonly window: number
  /** Bytes of the memories that are the core's own. */
  readonly own: number
  /** A line from beyond them on another page than the lines before, which nothing has asked for early. */
  readonly late: number
  /** The same of a line from the farthest memory. */
  readonly lateFar: number
  /** Lines of a run that come so where it begins on another page: those after them are asked for early. */
  readonly lateRun: number
  /** Runs side by side that are asked for early, each by itself. */
  readonly followed: number
  /** The share of accesses and loops, or of operations, whichever take less, that goes on behind the other. */
  readonly beside: number
  /** The same of what comes from the nearest memory of the record. */
  readonly nearOverlap: number
  /** A program of the grid beside its loops. */
  readonly program: number
}

/** What each number of it is: bytes, lanes, rounds and additions are counts, others shares or seconds. */
export const loopUnits: Readonly<Record<keyof LoopMachine, 'count' | 'share' | 'seconds'>> = {
  nearest: 'count',
  lanes: 'count',
  whole: 'seconds',
  shuffled: 'seconds',
  strided: 'seconds',
  gathered: 'seconds',
  single: 'seconds',
  divided: 'seconds',
  masked: 'seconds',
  round: 'seconds',
  entry: 'seconds',
  partial: 'seconds',
  leave: 'seconds',
  predicted: 'count',
  chain: 'seconds',
  merge: 'seconds',
  latency: 'count',
  window: 'seconds',
  own: 'count',
  late: 'seconds',
  lateFar: 'seconds',
  lateRun: 'count',
  followed: 'count',
  beside: 'share',
  nearOverlap: 'share',
  program: 'seconds',
}

/** Bytes of one of several results that stand right beside the core from one loop to the next. */
export const nearBytes = ({ nearest }: Pick<LoopMachine, 'nearest'>): number => nearest / 2
