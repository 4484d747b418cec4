/**
 * Locals that are never needed at once share a slot. A baseline compiler keeps the state of every local at every branch, so a function of
 * thousands of them takes a time that grows with their square.
 *
 * Code is seen as marks in order: reads and writes of locals, and the structure around them. A local is needed from its first mark to its
 * last. Loops stretch that: what is written before a loop and used in it is needed until the loop ends, and what some path may read before
 * it writes (its first write stands in a block that does not hold all of its marks) is needed throughout the loops it stands in. A local's
 * value is undefined until it is set (`FunctionBuilder.local`).
 */
import { InternalError } from '../../../diagnostics/errors.ts'

const codeOfKind = { get: 0, set: 1, tee: 2, loop: 3, block: 4, else: 5, end: 6 } as const
export type MarkKind = keyof typeof codeOfKind

/** What `Marks.data` has of a mark's kind and local is this many bits of kind, and above them the local. */
export const kindBits = 3
const kindMask = (1 << kindBits) - 1

/** Marks in the order of the code: for each its position in bytes, its kind, and its local (-1: it has none). */
export class Marks {
  length = 0
  /** Locals below this number have marks. */
  locals = 0
  /** Two numbers a mark: its position, and its kind with its local above it (`kindBits`). Loops over marks, of which there are thousands, read them here. */
  data = new Int32Array(64)

  private reserve(marks: number): void {
    const need = 2 * (this.length + marks)
    if (need <= this.data.length) return
    const grown = new Int32Array(Math.max(need, 2 * this.data.length))
    grown.set(this.data.subarray(0, 2 * this.length))
    this.data = grown
  }

  add(at: number, kind: MarkKind, local = -1): void {
    if (2 * this.length === this.data.length) this.reserve(1)
    if (local >= this.locals) this.locals = local + 1
    const i = 2 * this.length++
    this.data[i] = at
    this.data[i + 1] = (local << kindBits) | codeOfKind[kind]
  }

  /** The last mark becomes another. */
  replace(kind: MarkKind): void {
    const i = 2 * this.length - 1
    this.data[i] = ((this.data[i] ?? 0) & ~kindMask) | codeOfKind[kind]
  }

  /** Appends marks of code that stands some bytes further on. */
  append(other: Marks, by: number): void {
    this.reserve(other.length)
    const { data } = this
    const from = 2 * this.length
    const n = 2 * other.length
    data.set(other.data.subarray(0, n), from)
    for (let i = from; i < from + n; i += 2) data[i] = (data[i] ?? 0) + by
    this.length += other.length
    this.locals = Math.max(this.locals, other.locals)
  }
}

/** Regions of code by number, outer ones first; -1 is the function. Those that are no loops may be left out. */
class Regions {
  private readonly loops: boolean[] = []
  private readonly begins: number[] = []
  private readonly ends: number[] = []
  private readonly outers: number[] = []
  /** The innermost region that may be left out around each, or itself. */
  readonly arms: number[] = []
  /** The innermost open one. */
  open = -1

  enter(isLoop: boolean, begin: number): void {
    const outer = this.open
    this.outers.push(outer)
    this.open = this.loops.push(isLoop) - 1
    this.arms.push(isLoop ? (this.arms[outer] ?? -1) : this.open)
    this.begins.push(begin)
    this.ends.push(Number.POSITIVE_INFINITY)
  }

  leave(end: number): void {
    if (this.open < 0) return
    this.ends[this.open] = end
    this.open = this.outers[this.open] ?? -1
  }

  begin(region: number): number {
    return this.begins[region] ?? Number.NEGATIVE_INFINITY
  }

  end(region: number): number {
    return this.ends[region] ?? Number.POSITIVE_INFINITY
  }

  /** The outermost loop around a region (or itself) that does not hold a mark; -1: none. */
  outermostLoop(region: number, without: number): number {
    const { loops, begins, ends, outers } = this
    let found = -1
    for (let r = region; r >= 0; r = outers[r] ?? -1)
      if (loops[r] === true && !((begins[r] ?? 0) <= without && without <= (ends[r] ?? 0))) found = r
    return found
  }
}

/** From which mark to which each local is needed. Columns, an entry a local in the order of their first marks: there are thousands. */
interface Spans {
  readonly count: number
  readonly locals: Int32Array
  readonly first: Int32Array
  readonly last: Int32Array
}

function spansOf(marks: Marks, params: number): Spans {
  const regions = new Regions()
  const most = Math.max(0, marks.locals - params)
  const locals = new Int32Array(most)
  const first = new Int32Array(most)
  const last = new Int32Array(most)
  const writesFirst = new Uint8Array(most)
  const arms = new Int32Array(most)
  /** The region of the last mark seen. */
  const latest = new Int32Array(most)
  /** Entries and the regions that their marks stand in, as often as those change. */
  const entries: number[] = []
  const within: number[] = []
  const spanOf = new Int32Array(most).fill(-1)
  let count = 0
  const { data, length } = marks
  for (let i = 0; i < length; i++) {
    const mark = data[2 * i + 1] ?? 0
    const code = mark & kindMask
    if (code === codeOfKind.loop || code === codeOfKind.block) regions.enter(code === codeOfKind.loop, i)
    else if (code === codeOfKind.end) regions.leave(i)
    else if (code === codeOfKind.else) {
      regions.leave(i)
      regions.enter(false, i)
    } else {
      const local = (mark >> kindBits) - params
      if (local < 0) continue
      const { open } = regions
      let s = spanOf[local] ?? -1
      if (s < 0) {
        s = count++
        locals[s] = local + params
        spanOf[local] = s
        first[s] = i
        last[s] = i
        writesFirst[s] = code === codeOfKind.get ? 0 : 1
        arms[s] = regions.arms[open] ?? -1
        latest[s] = open
      } else {
        last[s] = i
        if (latest[s] === open) continue
        latest[s] = open
      }
      entries.push(s)
      within.push(open)
    }
  }
  // What decides is where the marks stood, not what has been stretched so far.
  const begins = first.slice(0, count)
  const dominated = new Uint8Array(count)
  for (let s = 0; s < count; s++)
    if (writesFirst[s] === 1 && (last[s] ?? 0) <= regions.end(arms[s] ?? -1)) dominated[s] = 1
  for (let e = 0; e < entries.length; e++) {
    const s = entries[e] ?? 0
    const holds = dominated[s] === 1
    const loop = regions.outermostLoop(within[e] ?? -1, holds ? (begins[s] ?? 0) : Number.NEGATIVE_INFINITY)
    if (loop < 0) continue
    last[s] = Math.max(last[s] ?? 0, regions.end(loop))
    if (!holds) first[s] = Math.min(first[s] ?? 0, regions.begin(loop))
  }
  return { count, locals, first, last }
}

/** Entries in the order of their keys (below `most`), those of equal keys in the order given. */
function inOrder(entries: Int32Array, keys: Int32Array, most: number): Int32Array {
  const starts = new Int32Array(most + 1)
  for (let i = 0; i < entries.length; i++) {
    const at = (keys[entries[i] ?? 0] ?? 0) + 1
    starts[at] = (starts[at] ?? 0) + 1
  }
  for (let k = 1; k <= most; k++) starts[k] = (starts[k] ?? 0) + (starts[k - 1] ?? 0)
  const out = new Int32Array(entries.length)
  for (let i = 0; i < entries.length; i++) {
    const e = entries[i] ?? 0
    const k = keys[e] ?? 0
    const at = starts[k] ?? 0
    out[at] = e
    starts[k] = at + 1
  }
  return out
}

/** Slots of a type: how many there are, and those that are free again. */
interface Pool {
  count: number
  readonly free: number[]
}

/** By local, the slot among those of its type (`types`, of the locals behind `params`); -1: it is a parameter, or has no marks. */
export function slotsOf<T>(
  marks: Marks,
  params: number,
  types: readonly T[],
): { readonly slot: Int32Array; readonly counts: ReadonlyMap<T, number> } {
  const slot = new Int32Array(params + types.length).fill(-1)
  const pools = new Map<T, Pool>()
  const { count, locals, first, last } = spansOf(marks, params)
  const given = new Int32Array(count)
  for (let s = 0; s < count; s++) given[s] = s
  const begun = inOrder(given, first, marks.length)
  // Slots become free in the order of the last marks of their locals.
  const ended = inOrder(begun, last, marks.length)
  const poolOf = new Array<Pool | undefined>(count)
  let done = 0
  for (let i = 0; i < count; i++) {
    const s = begun[i] ?? 0
    const from = first[s] ?? 0
    for (let over = ended[done]; over !== undefined && (last[over] ?? 0) < from; over = ended[++done])
      poolOf[over]?.free.push(slot[locals[over] ?? 0] ?? 0)
    const local = locals[s] ?? 0
    const type = types[local - params]
    if (type === undefined) throw new InternalError(`no local ${local}`)
    let pool = pools.get(type)
    if (pool === undefined) {
      pool = { count: 0, free: [] }
      pools.set(type, pool)
    }
    poolOf[s] = pool
    slot[local] = pool.free.pop() ?? pool.count++
  }
  return { slot, counts: new Map([...pools].map(([type, pool]) => [type, pool.count])) }
}
