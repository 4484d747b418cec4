/**
 * Layouts: how the indices of an axis that a program holds are spread over its threads. An axis of `chunks` chunks runs over
 * (chunk, repeat, thread, vector): index = ((chunk * reps + repeat) * threads + thread) * vec + lane. The two halves of a matrix
 * instruction's rows are repeats that stand between digits of the thread (`pairAbove`). A tile over some axes lies in registers, repeated
 * over the threads of the axes it lacks.
 */
import { powerFrom } from '../../../affine/powers.ts'
import { invariant } from '../../../diagnostics/errors.ts'

export interface AxisLayout {
  readonly name: string
  /** Indices a program holds at a time. */
  readonly size: number
  /** Neighbouring indices in one thread. */
  readonly vec: number
  /** Bits of the thread number that spread the axis, lowest digit first. */
  readonly bits: readonly number[]
  /** Register repeats. */
  readonly reps: number
  /** Bits of the thread below the last digit of the repeats, which then are even: pairs of repeats stand above so many bits, below the rest. */
  readonly pairAbove?: number
  /** Passes of a loop over the rest; 1 where the program holds the whole axis at once. */
  readonly chunks: number
}

export const threadsOf = (a: AxisLayout): number => 2 ** a.bits.length
/** Registers of a tile along the axis. */
export const registersOf = (a: AxisLayout): number => a.vec * a.reps
/** Indices covered by one chunk. */
export const spanOf = (a: AxisLayout): number => a.vec * a.reps * threadsOf(a)

/** Neighbouring repeats of an axis lie so many indices apart, and pairs of them. */
export const apartOf = (a: AxisLayout): { readonly repeats: number; readonly pairs: number } => ({
  repeats: a.vec * 2 ** (a.pairAbove ?? a.bits.length),
  pairs: 2 * a.vec * threadsOf(a),
})

/** Vectors and thread bits that an instruction asks for along an axis. */
export type ForcedAxis = Pick<AxisLayout, 'vec' | 'bits' | 'pairAbove'>

export class Layout {
  readonly axes: ReadonlyMap<string, AxisLayout>
  readonly threads: number

  constructor(axes: ReadonlyMap<string, AxisLayout>, threads: number) {
    this.axes = axes
    this.threads = threads
  }

  /** Points that axes other than `names` are spread over, of each that they have. */
  paddingBeside(names: ReadonlySet<string>): number {
    return [...this.axes.values()].reduce((n, a) => (names.has(a.name) ? n : (n * spanOf(a) * a.chunks) / a.size), 1)
  }

  /** The layout of an axis; undefined for a scalar one. */
  find(name: string): AxisLayout | undefined {
    return this.axes.get(name)
  }

  axis(name: string): AxisLayout {
    const a = this.axes.get(name)
    invariant(a !== undefined, `axis ${name} has no layout`)
    return a
  }

  /** The axes among some that are spread, in the layout's order. */
  spread(names: Iterable<string>): AxisLayout[] {
    const set = new Set(names)
    return [...this.axes.values()].filter((a) => set.has(a.name))
  }

  /** Thread bits of axes. */
  bitsOf(names: Iterable<string>): number[] {
    return this.spread(names)
      .flatMap((a) => a.bits)
      .sort((p, q) => p - q)
  }
}

/** A loop nest that the code of a part has: its axes with what folds there. */
export interface Nest {
  readonly axes: readonly string[]
  /** A product sum: the kept axes get blocks of registers, the folded ones are walked. */
  readonly kept?: readonly string[]
}

export interface LayoutRequest {
  /** Axes a program holds more than one index of, outermost first, with their sizes. */
  readonly sizes: ReadonlyMap<string, number>
  readonly nests: readonly Nest[]
  /** Widest vector of an axis that its accesses allow. */
  readonly vec: ReadonlyMap<string, number>
  /** Axes whose neighbours are neighbours in memory, the most traffic first. */
  readonly contiguous: readonly string[]
  /** Axes that must not be cut into chunks. */
  readonly resident: ReadonlySet<string>
  /** Axes that are walked in order by every thread. */
  readonly serial: ReadonlySet<string>
  /** Axes that something is scanned along. */
  readonly scanned: ReadonlySet<string>
  /** Axes folded somewhere; those of them that what depends on the fold needs again. */
  readonly folded: ReadonlySet<string>
  readonly rows: ReadonlySet<string>
  /** Vectors and thread bits that a matrix instruction asks for. */
  readonly forced?: ReadonlyMap<string, ForcedAxis> | undefined
  /** An axis that neighbouring threads spread; vectors of others are no longer than leave work to all threads. */
  readonly first?: string
  readonly threads: number
  /** Registers a tile may take; where a row is cut, fewer leave room for the loads of the next chunk. */
  readonly registers: number
  readonly walkedRegisters: number
}

const log2Ceil = (n: number): number => (n <= 1 ? 0 : Math.ceil(Math.log2(n)))

/** Whether two axes stand in one nest. */
function meetings(nests: readonly Nest[]): (a: string, b: string) => boolean {
  const pairs = new Set<string>()
  for (const { axes } of nests) for (const a of axes) for (const b of axes) pairs.add(`${a} ${b}`)
  return (a, b) => pairs.has(`${a} ${b}`)
}

/** Lays out the axes of a part. */
export function chooseLayout(q: LayoutRequest): Layout {
  const meet = meetings(q.nests)
  const names = [...q.sizes.keys()]
  const size = (a: string): number => q.sizes.get(a) ?? 1
  const total = log2Ceil(q.threads)
  const vec = new Map<string, number>([...(q.forced ?? [])].map(([a, f]) => [a, f.vec]))
  const short = new Set(names.filter((a) => isShortRow(q, a)))
  for (const a of [...q.contiguous, ...names]) {
    if (vec.has(a)) continue
    const taken = names.some((b) => b !== a && meet(a, b) && (vec.get(b) ?? 1) > 1)
    const widest = Math.min(q.vec.get(a) ?? 1, q.first === undefined ? Number.POSITIVE_INFINITY : evenShare(q))
    const fits = !short.has(a) || size(a) % widest === 0
    vec.set(a, taken || q.serial.has(a) || !fits ? 1 : widest)
  }
  const rank = (a: string): number => {
    if (a === q.first) return -1
    const at = q.contiguous.indexOf(a)
    return at < 0 ? q.contiguous.length : at
  }
  const aside = new Set(names.filter((a) => isFoldedAside(q, a)))
  const last = (a: string): number => (aside.has(a) ? 1 : 0)
  const order = [...names].sort((a, b) => last(a) - last(b) || rank(a) - rank(b) || size(b) - size(a))
  const bits = new Map<string, readonly number[]>([...(q.forced ?? [])].map(([a, f]) => [a, f.bits]))
  for (const a of order) {
    if (q.forced?.has(a) === true) continue
    if (q.serial.has(a) || short.has(a)) {
      bits.set(a, [])
      continue
    }
    const taken = new Set(order.filter((b) => b !== a && meet(a, b)).flatMap((b) => bits.get(b) ?? []))
    let want = log2Ceil(size(a) / (vec.get(a) ?? 1))
    for (const n of q.nests) {
      if (n.kept === undefined || !n.kept.includes(a)) continue
      // A square-ish block of registers: leave threads to the other kept axes.
      const others = n.kept.filter((b) => b !== a && !bits.has(b)).reduce((p, b) => p + log2Ceil(size(b)), 0)
      if (others > 0) want = Math.min(want, Math.max(Math.ceil(total / 2), total - others))
    }
    const own: number[] = []
    for (let i = 0; i < total && own.length < want; i++) if (!taken.has(i)) own.push(i)
    bits.set(a, own)
  }
  const reps = new Map(
    names.map((a) => [a, Math.max(1, Math.ceil(size(a) / ((vec.get(a) ?? 1) * 2 ** (bits.get(a) ?? []).length)))]),
  )
  for (const a of names) if (q.serial.has(a) && !q.resident.has(a)) reps.set(a, 1)
  for (const a of q.scanned) {
    const held = reps.get(a) ?? 1
    if (q.forced?.has(a) === true || q.contiguous.includes(a) || held <= mostExchanged) continue
    const neighbours = powerFrom(held / mostExchanged)
    vec.set(a, neighbours)
    reps.set(a, Math.ceil(held / neighbours))
  }
  for (const a of names) if (passesRows(q, a) && (reps.get(a) ?? 1) > mostRowsHeld) reps.set(a, 1)
  fitRegisters(q, vec, reps)
  const axes = new Map(
    names.map((a): [string, AxisLayout] => {
      const [w, b, r] = [vec.get(a) ?? 1, bits.get(a) ?? [], reps.get(a) ?? 1]
      const pairAbove = q.forced?.get(a)?.pairAbove
      return [
        a,
        {
          name: a,
          size: size(a),
          vec: w,
          bits: b,
          reps: r,
          ...(pairAbove === undefined ? {} : { pairAbove }),
          chunks: Math.max(1, Math.ceil(size(a) / (w * r * 2 ** b.length))),
        },
      ]
    }),
  )
  return new Layout(axes, 2 ** total)
}

/** Repeats of a scan whose totals threads exchange at once: of more indices, which are no neighbours in memory, a thread has several in a row. */
export const mostExchanged = 8

/** Whether an axis is folded (a window's) wherever it stands beside others that have points for all threads: their folds need no exchange then. */
function isFoldedAside(q: LayoutRequest, axis: string): boolean {
  if (!q.folded.has(axis) || q.rows.has(axis)) return false
  const kept = (n: Nest): number =>
    n.axes.reduce((p, a) => (q.folded.has(a) && !q.rows.has(a) ? p : p * (q.sizes.get(a) ?? 1)), 1)
  return q.nests.every((n) => !n.axes.includes(axis) || kept(n) === 1 || kept(n) >= q.threads)
}

/** Elements of a row that a thread may hold whole. */
const mostOfShortRow = 8

/** Whether an axis has rows so short that threads hold them whole: shared by a power of two of threads, some would have nothing; and there are rows for all. */
function isShortRow(q: LayoutRequest, axis: string): boolean {
  const size = q.sizes.get(axis) ?? 1
  if (!q.rows.has(axis) || q.forced?.has(axis) === true || size > mostOfShortRow || powerFrom(size) === size)
    return false
  const rows = (n: Nest): number => n.axes.reduce((p, a) => (a === axis ? p : p * (q.sizes.get(a) ?? 1)), 1)
  return q.nests.every((n) => !n.axes.includes(axis) || rows(n) === 1 || rows(n) >= q.threads)
}

/** The longest vector with which every thread has one of the points, four at least. */
function evenShare(q: LayoutRequest): number {
  const points = [...q.sizes.values()].reduce((n, size) => n * size, 1)
  return Math.max(4, 2 ** Math.floor(Math.log2(points / q.threads)))
}

/** Rows that a thread holds parts of at once; those of more pass one by one, whose registers serve the next. */
const mostRowsHeld = 4

/** Whether a thread holds, along an axis, parts of rows that are folded and read again. */
const passesRows = (q: LayoutRequest, a: string): boolean =>
  !q.folded.has(a) &&
  !q.resident.has(a) &&
  q.nests.some((n) => n.kept === undefined && n.axes.includes(a) && n.axes.some((r) => q.rows.has(r)))

/** Cuts axes into chunks until every nest's tiles fit; repeats are evened out over the chunks. */
function fitRegisters(q: LayoutRequest, vec: ReadonlyMap<string, number>, reps: Map<string, number>): void {
  const cost = (a: string): number => (q.rows.has(a) ? 2 : q.folded.has(a) ? 1 : 0)
  for (const n of q.nests) {
    const registers = (): number => n.axes.reduce((p, a) => p * (vec.get(a) ?? 1) * (reps.get(a) ?? 1), 1)
    const candidates = n.axes
      .filter((a) => !q.resident.has(a) && (reps.get(a) ?? 1) > 1)
      .sort((a, b) => cost(a) - cost(b) || (reps.get(b) ?? 1) - (reps.get(a) ?? 1))
    const limit = q.registers * (n.kept === undefined ? 1 : 2)
    for (const a of candidates) {
      const have = reps.get(a) ?? 1
      if (registers() <= limit) break
      const room = q.rows.has(a) ? Math.min(limit, q.walkedRegisters) : limit
      const most = Math.max(1, Math.floor((room * have) / registers()))
      const passes = Math.ceil(have / most)
      reps.set(a, Math.ceil(have / passes))
    }
  }
}
