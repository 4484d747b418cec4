/**
 * Scopes of emission. A scope knows under which layout code runs, which axes are at a definite block or chunk, and where the values
 * computed so far are held.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import { startOf } from '../../../kernel/axes.ts'
import type { KernelParam, LetStmt, ValueId } from '../../../kernel/ir.ts'
import { type Phase, reachesBeyond } from '../../../schedule/simt/access/place.ts'
import type { StreamPlan } from '../../../schedule/simt/fold/onlineSums.ts'
import { type AxisLayout, apartOf, type Layout, registersOf, spanOf } from '../../../schedule/simt/layout/layout.ts'
import type { AxisInfo, Part } from '../../../schedule/simt/part/part.ts'
import type { Swizzle } from '../../../schedule/simt/storage/swizzle.ts'
import {
  add,
  and,
  type Block,
  bin,
  cast,
  type Ex,
  eq,
  int,
  lit,
  lt,
  mul,
  type SharedArray,
  sub,
  uint,
  v,
} from '../ir/ir.ts'
import type { Lanes, Registers } from '../ir/registers.ts'
import { swizzled } from '../memory/swizzle.ts'
import type { Accumulator, Stream } from '../reduce/open.ts'
import type { Unit } from '../unit.ts'

/** A tile in a shared array, row-major over axes by their index in the program's range. */
export interface SharedTile {
  readonly kind: 'shared'
  readonly array: SharedArray
  readonly axes: readonly string[]
  readonly strides: readonly number[]
  /** Where the tile begins in the array (a ring of tiles). */
  readonly offset?: Ex
  /** Places other than by the strides: tiles for warp groups. */
  readonly swizzle?: Swizzle
  /** Rows of halves for matrices, along the depth or across it. */
  readonly rows?: { readonly pitch: number; readonly depthLast: boolean }
}

/** The columns of a product as fragments: words of a register array, a run of the depth for each column. */
export interface Fragments {
  readonly kind: 'fragments'
  readonly name: string
  /** Words of a column's run. */
  readonly run: number
  /** Whether the two numbers of a word are four apart in a run of eight of the depth, else neighbours. */
  readonly apart: boolean
}

/** Where a value is. */
export type Held =
  | { readonly kind: 'scalar'; readonly value: Ex }
  /** A register array over axes of a layout, row-major over (repeat, vector) of each. */
  | {
      readonly kind: 'registers'
      readonly registers: Registers
      readonly layout: Layout
      readonly axes: readonly string[]
    }
  | SharedTile
  | Fragments
  /** Values of a register array of a layout in the thread's own cells, at one repeat of an axis. */
  | {
      readonly kind: 'cells'
      readonly array: SharedArray
      readonly layout: Layout
      readonly axes: readonly string[]
      readonly axis: string
      readonly rep: Ex
    }
  /** Not held: what bits of a position say is computed wherever it is read. */
  | { readonly kind: 'position'; readonly let: LetStmt }

/** The range of an axis that the program holds now. */
export interface AxisRange {
  readonly start: Ex
  readonly end: Ex
}

export const tid: Ex = v('i32', 'tid')

/**
 * In a loop whose loads are made early into registers, a condition that holds always, which its compiler cannot know: stores behind
 * it keep the compiler from moving the loads down to where they are used. Undefined elsewhere.
 */
export const behindLoads = ({ unit }: Scope): Ex | undefined =>
  unit.wordsAhead.size > 0 ? bin('>=', unit.program, int(0)) : undefined

/** The digit of the thread number that some bits make. */
export function digitOf(bits: readonly number[]): Ex {
  let out: Ex = int(0)
  let at = 0
  while (at < bits.length) {
    const low = bits[at] ?? 0
    let n = 1
    while (bits[at + n] === low + n) n++
    const digit = bin('&', bin('>>', tid, uint(low)), int(2 ** n - 1))
    out = bin('|', bin('<<', digit, uint(at)), out)
    at += n
  }
  return out
}

export class Scope {
  readonly unit: Unit
  readonly part: Part
  readonly layout: Layout
  /** First element of the thread at repeat 0, by axis: present where the axis is at a definite chunk. */
  readonly bases: ReadonlyMap<string, Ex>
  readonly ranges: ReadonlyMap<string, AxisRange>
  readonly held: Map<ValueId, Held>
  /** Folds that are open, tiles that have room, and streams under way (by anchor). */
  readonly accumulators: Map<ValueId, Accumulator>
  readonly tiles: Map<ValueId, SharedTile>
  readonly streams: Map<ValueId, Stream>
  /** Chunked axes inside whose loop this scope stands need no check for the tail. */
  readonly exact: ReadonlySet<string>
  /** The loop over chunks that this scope stands in, if its values go nowhere else. */
  readonly phase: Phase | undefined

  constructor(
    unit: Unit,
    part: Part,
    layout: Layout,
    bases: ReadonlyMap<string, Ex>,
    ranges: ReadonlyMap<string, AxisRange>,
    held: Map<ValueId, Held>,
    exact: ReadonlySet<string> = new Set(),
    phase?: Phase,
    open: Pick<Scope, 'accumulators' | 'tiles' | 'streams'> = {
      accumulators: new Map(),
      tiles: new Map(),
      streams: new Map(),
    },
  ) {
    this.unit = unit
    this.part = part
    this.layout = layout
    this.bases = bases
    this.ranges = ranges
    this.held = held
    this.exact = exact
    this.phase = phase
    this.accumulators = new Map(open.accumulators)
    this.tiles = new Map(open.tiles)
    this.streams = new Map(open.streams)
  }

  range(axis: string): AxisRange {
    const of = this.ranges.get(axis)
    if (of !== undefined) return of
    return { start: lit(this.part.axis(axis).type, 0), end: this.endOf(axis) }
  }

  /** The extent of an axis in this launch. */
  endOf(axis: string): Ex {
    return extentOf(this.unit, this.part.axis(axis))
  }

  param(name: string): KernelParam {
    return this.unit.param(name)
  }

  /** A scope inside, with values of its own. */
  child(change: {
    readonly layout?: Layout
    readonly bases?: ReadonlyMap<string, Ex>
    readonly ranges?: ReadonlyMap<string, AxisRange>
    readonly exact?: ReadonlySet<string>
    readonly phase?: Phase | undefined
  }): Scope {
    return new Scope(
      this.unit,
      this.part,
      change.layout ?? this.layout,
      change.bases ?? this.bases,
      change.ranges ?? this.ranges,
      new Map(this.held),
      change.exact ?? this.exact,
      change.phase ?? this.phase,
      this,
    )
  }

  /** Opens axes that are not chunked: their bases, as named values. */
  openWhole(axes: Iterable<string>, out: Block): Scope {
    const bases = new Map(this.bases)
    for (const name of axes) {
      const a = this.layout.find(name)
      if (a === undefined || a.chunks > 1) continue
      bases.set(name, this.baseOf(a, this.range(name).start, out))
    }
    return this.child({ bases })
  }

  /** The first element of this thread in a chunk that starts at `start`. */
  baseOf(a: AxisLayout, start: Ex, out: Block): Ex {
    const value = add(cast(this.part.axis(a.name).type, start), mul(threadOf(a), int(a.vec)))
    if (value.k === 'lit') return value
    const name = this.unit.name(`${a.name}0`)
    out.push({ k: 'let', name, value })
    return v(value.type, name)
  }

  /** Whether a register of the axis may lie beyond the program's range. */
  needsCheck(axis: string): boolean {
    return reachesBeyond(this, axis)
  }

  /** True on one thread of those that hold the same points of some axes. */
  owner(axes: Iterable<string>): Ex | undefined {
    const used = new Set(this.layout.bitsOf(axes))
    let mask = 0
    for (let b = 1, i = 0; b < this.layout.threads; b *= 2, i++) if (!used.has(i)) mask |= b
    return mask === 0 ? undefined : eq(bin('&', tid, int(mask)), int(0))
  }

  /** A fold that is open. */
  accumulator({ id }: { readonly id: ValueId }): Accumulator {
    const acc = this.accumulators.get(id)
    invariant(acc !== undefined, `the fold %${id} is not open`)
    return acc
  }

  /** A tile that has room. */
  tile({ id }: { readonly id: ValueId }): SharedTile {
    const tile = this.tiles.get(id)
    invariant(tile !== undefined, `the tile %${id} has no room`)
    return tile
  }

  openStream({ anchor }: StreamPlan): Stream {
    const stream = this.streams.get(anchor.id)
    invariant(stream !== undefined, `the stream of %${anchor.id} is not open`)
    return stream
  }

  /** Registers of a tile over axes. */
  registers(axes: Iterable<string>): number {
    return this.layout.spread(axes).reduce((n, a) => n * registersOf(a), 1)
  }
}

/** The extent of an axis in this launch. */
export const extentOf = (unit: Unit, { extent, open, type }: AxisInfo): Ex =>
  open === undefined ? lit(type, extent) : cast(type, unit.launched(open))

/** The vector of an axis that a thread begins with, among those of its first repeats. */
function threadOf({ bits, pairAbove: below = bits.length }: AxisLayout): Ex {
  const above = bits.slice(below)
  return above.length === 0
    ? digitOf(bits)
    : add(digitOf(bits.slice(0, below)), mul(digitOf(above), int(2 ** (below + 1))))
}

/** The index at which a repeat begins, relative to the first. */
function repeatOf(a: AxisLayout, rep: Ex): Ex {
  const { repeats, pairs } = apartOf(a)
  if (pairs === 2 * repeats) return mul(rep, int(repeats))
  return add(mul(bin('>>', rep, uint(1)), int(pairs)), mul(bin('&', rep, int(1)), int(repeats)))
}

/** The index of an axis at a point, as a global index. */
export function coordinate(scope: Scope, axis: string, lanes: Lanes): Ex {
  const of = startOf(axis)
  if (of !== undefined) return scope.range(of).start
  const a = scope.layout.find(axis)
  if (a === undefined) return scope.range(axis).start
  const base = scope.bases.get(axis)
  invariant(base !== undefined, `axis ${axis} is at no definite chunk`)
  const at = lanes.get(axis)
  if (at === undefined) {
    return base
  }
  return add(base, add(repeatOf(a, at.rep), at.lane))
}

/** The index of an axis at a point among those that the program holds now. */
export const placeIn = (scope: Scope, axis: string, lanes: Lanes): Ex =>
  cast('i32', sub(coordinate(scope, axis, lanes), scope.range(axis).start))

/** Whether the point lies inside the program's range along an axis; undefined where it always does. */
export function insideAlong(scope: Scope, axis: string, lanes: Lanes): Ex | undefined {
  if (!scope.needsCheck(axis)) return undefined
  const at = lanes.get(axis)
  // Of a vector that is inside whole or not at all one test serves all lanes.
  const lane = at !== undefined && isWholeVector(scope, axis) ? new Map([[axis, { ...at, lane: int(0) }]]) : lanes
  return lt(coordinate(scope, axis, lane), scope.range(axis).end)
}

function isWholeVector(scope: Scope, axis: string): boolean {
  const vec = scope.layout.find(axis)?.vec ?? 1
  const { multiple, alignment } = scope.part.axis(axis)
  return vec > 1 && multiple % vec === 0 && alignment % vec === 0
}

export const inside = (scope: Scope, axes: Iterable<string>, lanes: Lanes): Ex =>
  and(...[...axes].map((a) => insideAlong(scope, a, lanes)))

/** Whether a point lies in the tile along an axis whose threads reach beyond it; undefined where none does. */
export function withinTile(scope: Scope, axis: string, lanes: Lanes): Ex | undefined {
  const a = scope.layout.find(axis)
  if (a === undefined || a.chunks * spanOf(a) <= a.size) return undefined
  return lt(placeIn(scope, axis, lanes), int(a.size))
}

/** The place of a point in a shared array. */
export function sharedIndex(scope: Scope, held: SharedTile, at: (axis: string) => Ex | undefined, lanes: Lanes): Ex {
  let out: Ex = held.offset ?? int(0)
  const indexOf = (axis: string): Ex => cast('i32', at(axis) ?? placeIn(scope, axis, lanes))
  const [outer, inner] = held.axes
  if (held.swizzle !== undefined && outer !== undefined && inner !== undefined)
    return add(out, swizzled(held.swizzle, indexOf(outer), mul(indexOf(inner), int(held.strides[1] ?? 1))))
  held.axes.forEach((axis, i) => {
    const index = indexOf(axis)
    out = add(out, mul(index, int(held.strides[i] ?? 0)))
  })
  return out
}
