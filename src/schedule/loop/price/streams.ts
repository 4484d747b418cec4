/**
 * Bytes that the streams of a schedule bring from each memory. A stream is an access with the loops around it; what it touches inside some of
 * them is its footprint, in cache lines. Where the footprints of all streams of a nest inside a loop fit a memory, nothing leaves
 * that memory while the loop runs, so beyond it the stream costs its footprint each time the loop around begins anew.
 */
import { type Expr, strideOf, valuesOf } from '../../../affine/expr.ts'
import { cacheLine, type LoopMachine, pageBytes } from '../../../target/loops.ts'
import type { Memory } from '../../../target/machine.ts'
import { namedAxes } from '../ir/tile.ts'

/** A loop around what is priced: its axis, how many rounds it has, and how many indices each goes on by (one unless given). */
export interface Around {
  readonly axis: string
  readonly count: number
  readonly every?: number
}

export const timesOf = (around: readonly Around[]): number => around.reduce((n, { count }) => n * count, 1)

export interface Stream {
  /** Which memory it is: streams of one key in a part touch the same bytes. */
  readonly key: string
  /** Bytes of one element. */
  readonly unit: number
  /** Bytes of all that it may touch. */
  readonly most: number
  /** Loops around it, outermost first, those of the grid among them; bytes from one index to the next. */
  readonly loops: readonly StreamLoop[]
  /** How many of them are the grid's. */
  readonly gridLoops: number
  /** Accesses that run side by side, in one nest. */
  readonly nest: number
  /** Loops that streams may be apart by: those further in run in blocks that use what they touch many times, as products do. */
  readonly apart: number
}

interface StreamLoop {
  readonly count: number
  readonly stride: number
}

/** An access as a stream: at `position` (bytes), inside loops. Indices that are values may be anywhere. */
export function streamOf(
  key: string,
  position: Expr,
  { unit, most }: Pick<Stream, 'unit' | 'most'>,
  around: readonly Around[],
  { gridLoops, nest, apart }: Pick<Stream, 'gridLoops' | 'nest' | 'apart'>,
  reach: (id: number) => ReadonlySet<string>,
): Stream {
  const names = namedAxes([position])
  const anywhere = new Set<string>()
  for (const id of valuesOf(position)) for (const a of reach(id)) anywhere.add(a)
  const loops = around.map(({ axis, count, every = 1 }) => {
    if (anywhere.has(axis)) return { count, stride: Number.POSITIVE_INFINITY }
    const stride = names.has(axis) ? strideOf(position, axis) : 0
    // Divided indices: neighbours mostly, a row apart now and then.
    return { count, stride: every * Math.abs(stride ?? unit) }
  })
  return { key, unit, most, loops, gridLoops, nest, apart }
}

/** A stream of a packed format: positions count elements. */
export function packedStream(
  ...[key, position, size, around, standing, reach]: Parameters<typeof streamOf>
): ReturnType<typeof streamOf> {
  const s = streamOf(key, position, { ...size, unit: 1 }, around, standing, reach)
  return { ...s, unit: size.unit, loops: s.loops.map((l) => ({ ...l, stride: l.stride * size.unit })) }
}

const footprints = new WeakMap<Stream, number[]>()

/** Bytes of the lines that a stream touches in its loops from number `from` on. Each memory asks for them. */
export function footprint(s: Stream, from: number): number {
  let known = footprints.get(s)
  if (known === undefined) {
    known = []
    footprints.set(s, known)
  }
  const have = known[from]
  if (have !== undefined) return have
  const bytes = bytesFrom(s, from)
  known[from] = bytes
  return bytes
}

function bytesFrom({ loops, unit, most }: Stream, from: number): number {
  const inside = loops.slice(from).filter((l) => l.stride > 0 && l.count > 1)
  let [run, runs] = [unit, 1]
  for (const { count, stride } of inside.sort((a, b) => a.stride - b.stride))
    if (stride <= Math.max(run, cacheLine)) run += stride * (count - 1)
    else runs *= count
  return Math.min(runs * Math.max(run, runs > 1 ? cacheLine : run), Math.max(most, unit))
}

/**
 * Lines of so many that a stream brings after it went on at another page than before, in the order of its loops; not told where values say
 * where, or where loops run in blocks.
 */
function lateLines({ loops, unit, apart }: Stream, bytes: number, { followed, lateRun }: LoopMachine): number {
  if (apart < loops.length) return 0
  const moving = loops.filter((l) => l.stride > 0 && l.count > 1)
  let run = unit
  for (const { count, stride } of moving.reverse()) {
    if (stride > Math.max(run, cacheLine)) {
      if (!Number.isFinite(stride)) return 0
      if (count <= followed) continue
      const lines = Math.ceil(run / cacheLine)
      return ((bytes / cacheLine) * Math.min(1, stride / pageBytes) * Math.min(lines, lateRun)) / lines
    }
    run += stride * (count - 1)
  }
  return 0
}

const product = (loops: readonly StreamLoop[]): number => loops.reduce((n, l) => n * l.count, 1)

/**
 * Seconds of bringing the streams of a part from the memories that hold them, beyond the nearest bytes beside the core; `held`: bytes that
 * stay from one run to the next. Lines from beyond the core's own memories come late on each page that is not the next, most of all from the farthest.
 */
export function streamSeconds(
  streams: readonly Stream[],
  held: number,
  memories: readonly Memory[],
  loops: LoopMachine,
): { readonly near: number; readonly far: number } {
  let [near, far, paid, inside] = [0, 0, 0, loops.nearest]
  for (const [i, { bytes, bandwidth }] of memories.entries()) {
    if (held <= inside) break
    const { bytes: brought, late } = missed(streams, inside, loops)
    const seconds = brought * (1 / bandwidth - paid)
    if (i === 0) near = seconds
    else far += seconds
    if (i === memories.length - 1) far += late * (loops.lateFar - loops.late)
    paid = 1 / bandwidth
    inside = bytes
  }
  if (held > loops.own) near += missed(streams, loops.own, loops).late * loops.late
  return { near, far }
}

/** Bytes that streams bring from beyond a memory of so many, and how many lines of them come late. */
function missed(streams: readonly Stream[], bytes: number, machine: LoopMachine): Missed {
  const byNest = new Map<number, Stream[]>()
  for (const s of streams) {
    const have = byNest.get(s.nest)
    if (have === undefined) byNest.set(s.nest, [s])
    else have.push(s)
  }
  const byKey = new Map<string, Missed>()
  const keep = distinct(streams, (s) => footprint(s, s.gridLoops)) <= bytes
  for (const own of byNest.values()) {
    const depth = Math.max(...own.map((s) => s.apart))
    let d = 0
    let touched = distinct(own, (s) => footprint(s, d))
    while (d < depth && touched > bytes) {
      d++
      touched = distinct(own, (s) => footprint(s, d))
    }
    const from = touched > bytes ? d : Math.max(0, d - 1)
    for (const s of own) {
      const each = product(s.loops.slice(0, from)) * footprint(s, from)
      const most = product(s.loops) * cacheLine
      const moved = Math.min(each, most)
      const late = lateLines(s, moved, machine)
      const before = byKey.get(s.key) ?? { bytes: 0, late: 0 }
      // In a program whose bytes all fit, a later nest finds what an earlier one read.
      const both = keep ? Math.max : (a: number, b: number): number => a + b
      byKey.set(s.key, { bytes: both(before.bytes, moved), late: both(before.late, late) })
    }
  }
  const all = [...byKey.values()]
  return { bytes: all.reduce((n, m) => n + m.bytes, 0), late: all.reduce((n, m) => n + m.late, 0) }
}

interface Missed {
  readonly bytes: number
  readonly late: number
}

/** The sum over streams of different keys. */
function distinct(streams: readonly Stream[], of: (s: Stream) => number): number {
  const byKey = new Map<string, number>()
  for (const s of streams) byKey.set(s.key, Math.max(byKey.get(s.key) ?? 0, of(s)))
  return [...byKey.values()].reduce((n, b) => n + b, 0)
}
