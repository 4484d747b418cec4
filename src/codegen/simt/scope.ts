/**
 * The state of emission: names, shared arrays, and scopes. A scope knows under which layout code runs, which axes are at a
 * definite block or chunk, and where the values computed so far are held.
 */
import { invariant } from '../../diagnostics/errors.ts'
import { startOf } from '../../kernel/axes.ts'
import type { KernelParam, LetStmt, NumericsMode, TileOp, ValueId } from '../../kernel/ir.ts'
import {
  add,
  and,
  type Block,
  bin,
  type Ex,
  elem,
  eq,
  int,
  lt,
  mul,
  type SharedArray,
  sub,
  type Type,
  uint,
  v,
} from './ir.ts'
import { type AxisLayout, type Layout, registersOf, spanOf, threadsOf } from './layout.ts'
import type { Limits, Part } from './part.ts'
import { type Swizzle, swizzled } from './swizzle.ts'
import type { Upcoming } from './upcoming.ts'

/** What a dialect can do, as far as it changes the code that is made. */
export interface Dialect {
  readonly name: 'cuda' | 'wgsl'
  /** Single bytes and half words are addressable. */
  readonly bytes: boolean
  /** Addresses beyond 32 bits. */
  readonly wideIndex: boolean
  readonly f64: boolean
  /** Its compiler evaluates functions of constants in arithmetic of its own. */
  readonly foldsConstants: boolean
}

export type LoadStmt = LetStmt & { readonly op: Extract<TileOp, { kind: 'load' }> }

/** A load whose groups of `n` elements along an axis a thread copies before they are needed (ahead.ts). */
export interface LoadAhead {
  readonly let: LoadStmt
  readonly axis: string
  readonly n: number
  /** Words of a group, groups of a thread. */
  readonly words: number
  readonly groups: number
  /** Where the copies are: by slot of the ring, group and thread. */
  readonly array: SharedArray
}

/** Loads ahead under a layout. */
export interface LoadsAhead {
  readonly layout: Layout
  readonly loads: readonly LoadAhead[]
  /** The slot of the block that is computed now. */
  readonly slot: Ex
}

/** A stage that is computed from loads ahead, under a layout of its own. */
export interface Ahead extends LoadsAhead {
  readonly stage: LetStmt
}

/** A load whose words a thread has in registers, by group (pipeline.ts). */
export interface WordsAhead extends Omit<LoadAhead, 'array'> {
  readonly registers: Registers
}

/** Names and shared memory of one kernel. */
export class Unit {
  readonly dialect: Dialect
  readonly limits: Limits
  readonly mode: NumericsMode
  readonly params: ReadonlyMap<string, KernelParam>
  readonly shared: SharedArray[] = []
  /** Blocks that run a program together. */
  readonly cluster: number
  /** Whether the kernel has loops: exchanges between blocks inside have no fixed number. */
  loops = false
  /** Exchanges between the blocks so far, and between warps that share one of two sets of slots. */
  exchanges = 0
  blockExchanges = 0
  /** Most bytes of shared memory. */
  sharedBytes = Number.POSITIVE_INFINITY
  /** The program whose rows are asked for early. */
  upcoming: Upcoming | undefined
  /** Whether a parameter may share memory with another. */
  readonly mayAlias: (param: string) => boolean
  /** Code that goes between the start of a product and the wait for it, by the product. */
  readonly meanwhile = new Map<ValueId, Block>()
  /** Stages of the current loop whose loads were copied ahead; the one that is computed now. */
  readonly aheads = new Map<ValueId, Ahead>()
  ahead: LoadsAhead | undefined
  /** Whether loops may load ahead; loads of the current loop whose words were loaded one iteration early. */
  loadsAhead = true
  wordsAhead: ReadonlyMap<ValueId, WordsAhead> = new Map()
  private readonly names = new Set<string>()

  constructor(
    dialect: Dialect,
    limits: Limits,
    mode: NumericsMode,
    params: readonly KernelParam[],
    reserved: Iterable<string>,
    mayAlias: (param: string) => boolean = () => false,
    cluster = 1,
  ) {
    this.cluster = cluster
    this.mayAlias = mayAlias
    this.dialect = dialect
    this.limits = limits
    this.mode = mode
    this.params = new Map(params.map((p) => [p.name, p]))
    for (const n of reserved) this.names.add(n)
    for (const p of params) this.names.add(p.name)
  }

  param(name: string): KernelParam {
    const p = this.params.get(name)
    invariant(p !== undefined, `there is no parameter ${name}`)
    return p
  }

  name(wish: string): string {
    let name = wish
    for (let i = 2; this.names.has(name); i++) name = `${wish}_${i}`
    this.names.add(name)
    return name
  }

  /** A shared array of its own. */
  share(
    wish: string,
    type: Type,
    length: number,
    like: Pick<SharedArray, 'half' | 'align' | 'pitch'> = {},
  ): SharedArray {
    const a: SharedArray = { name: this.name(wish), type, length: Math.max(1, length), ...like }
    this.shared.push(a)
    return a
  }

  /** A shared array for partial results, used by one exchange after another. */
  scratch(type: Type, length: number, which = ''): SharedArray {
    const name = `partial${which}_${type}`
    const at = this.shared.findIndex((a) => a.name === name)
    const have = this.shared[at]
    if (have === undefined) {
      this.names.add(name)
      const a = { name, type, length }
      this.shared.push(a)
      return a
    }
    const a = { ...have, length: Math.max(have.length, length) }
    this.shared[at] = a
    return a
  }
}

/** A register array; one register is a plain variable. */
export interface Registers {
  readonly name: string
  readonly type: Type
  readonly length: number
}

export const registerAt = (r: Registers, index: Ex): Ex =>
  r.length === 1 ? v(r.type, r.name) : elem(r.type, r.name, index)

export function declare(r: Registers, out: Block): void {
  if (r.length === 1) out.push({ k: 'var', name: r.name, type: r.type, value: undefined })
  else out.push({ k: 'array', name: r.name, type: r.type, length: r.length })
}

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

/** The range of an axis that the program holds now. */
export interface AxisRange {
  readonly start: Ex
  readonly end: Ex
}

export const tid: Ex = v('i32', 'tid')

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
  /** Chunked axes inside whose loop this scope stands need no check for the tail. */
  readonly exact: ReadonlySet<string>

  constructor(
    unit: Unit,
    part: Part,
    layout: Layout,
    bases: ReadonlyMap<string, Ex>,
    ranges: ReadonlyMap<string, AxisRange>,
    held: Map<ValueId, Held>,
    exact: ReadonlySet<string> = new Set(),
  ) {
    this.unit = unit
    this.part = part
    this.layout = layout
    this.bases = bases
    this.ranges = ranges
    this.held = held
    this.exact = exact
  }

  range(axis: string): AxisRange {
    const of = this.ranges.get(axis)
    if (of !== undefined) return of
    return { start: int(0), end: int(this.part.axis(axis).extent) }
  }

  /** Axes cut into chunks whose loop is not open. */
  isChunked = (axis: string): boolean => !this.bases.has(axis) && (this.layout.find(axis)?.chunks ?? 1) > 1

  /** A scope inside, with values of its own. */
  child(change: {
    readonly layout?: Layout
    readonly bases?: ReadonlyMap<string, Ex>
    readonly ranges?: ReadonlyMap<string, AxisRange>
    readonly exact?: ReadonlySet<string>
  }): Scope {
    return new Scope(
      this.unit,
      this.part,
      change.layout ?? this.layout,
      change.bases ?? this.bases,
      change.ranges ?? this.ranges,
      new Map(this.held),
      change.exact ?? this.exact,
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
    const value = add(start, mul(digitOf(a.bits), int(a.vec)))
    if (value.k === 'lit') return value
    const name = this.unit.name(`${a.name}0`)
    out.push({ k: 'let', name, value })
    return v('i32', name)
  }

  /** Whether a register of the axis may lie beyond the program's range. */
  needsCheck(axis: string): boolean {
    const a = this.layout.find(axis)
    if (a === undefined || this.exact.has(axis)) return false
    return this.part.axis(axis).tail || a.chunks * spanOf(a) !== a.size
  }

  /** True on one thread of those that hold the same points of some axes. */
  owner(axes: Iterable<string>): Ex | undefined {
    const used = new Set(this.layout.bitsOf(axes))
    let mask = 0
    for (let b = 1, i = 0; b < this.layout.threads; b *= 2, i++) if (!used.has(i)) mask |= b
    return mask === 0 ? undefined : eq(bin('&', tid, int(mask)), int(0))
  }

  /** Registers of a tile over axes. */
  registers(axes: Iterable<string>): number {
    return this.layout.spread(axes).reduce((n, a) => n * registersOf(a), 1)
  }
}

/** Registers of a loop nest's current point: repeat and vector lane by axis. */
export type Lanes = ReadonlyMap<string, { readonly rep: Ex; readonly lane: Ex }>

export const withLane = (lanes: Lanes, axis: string, lane: number): Lanes =>
  new Map([...lanes, [axis, { rep: lanes.get(axis)?.rep ?? int(0), lane: int(lane) }]])

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
  return add(base, add(mul(at.rep, int(threadsOf(a) * a.vec)), at.lane))
}

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
  const { extent, alignment } = scope.part.axis(axis)
  return vec > 1 && extent % vec === 0 && alignment % vec === 0
}

export const inside = (scope: Scope, axes: Iterable<string>, lanes: Lanes): Ex =>
  and(...[...axes].map((a) => insideAlong(scope, a, lanes)))

/** Whether a point lies in the tile along an axis whose threads reach beyond it; undefined where none does. */
export function withinTile(scope: Scope, axis: string, lanes: Lanes): Ex | undefined {
  const a = scope.layout.find(axis)
  if (a === undefined || a.chunks * spanOf(a) <= a.size) return undefined
  return lt(sub(coordinate(scope, axis, lanes), scope.range(axis).start), int(a.size))
}

/** Emits a statement for each register of a tile over axes, in the given order. */
export function forRegisters(
  scope: Scope,
  axes: readonly string[],
  out: Block,
  emit: (lanes: Lanes, body: Block) => void,
): void {
  const loops: Loop[] = axes.flatMap((a) => loopsOf(scope.layout, a))
  emitLoops(scope, loops, out, emit)
}

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

/** Beyond this many repetitions loops stay loops, and arrays may lie in memory. */
const mostUnrolled = 256

export function emitLoops(
  scope: Scope,
  loops: readonly Loop[],
  out: Block,
  emit: (lanes: Lanes, body: Block) => void,
): void {
  const unroll = loops.reduce((n, l) => n * l.count, 1) <= mostUnrolled
  const names = loops.map((l) => scope.unit.name(l.over === 'rep' ? `${l.axis}_r` : `${l.axis}_v`))
  const lanes = new Map<string, { rep: Ex; lane: Ex }>()
  loops.forEach((l, i) => {
    const at = lanes.get(l.axis) ?? { rep: int(0), lane: int(0) }
    lanes.set(l.axis, { ...at, [l.over]: v('i32', names[i] ?? '') })
  })
  let body: Block = []
  emit(lanes, body)
  for (let i = loops.length - 1; i >= 0; i--) {
    const l = loops[i]
    if (l === undefined) continue
    body = [{ k: 'for', name: names[i] ?? '', from: int(0), to: int(l.count), step: 1, unroll, body }]
  }
  out.push(...body)
}

/** The place of a point in a register array. */
export function registerIndex(layout: Layout, axes: readonly string[], lanes: Lanes): Ex {
  let out: Ex = int(0)
  for (const name of axes) {
    const a = layout.axis(name)
    const at = lanes.get(name)
    out = mul(out, int(registersOf(a)))
    if (at !== undefined) out = add(out, add(mul(at.rep, int(a.vec)), at.lane))
  }
  return out
}

/** The place of a point in a shared array. */
export function sharedIndex(scope: Scope, held: SharedTile, at: (axis: string) => Ex | undefined, lanes: Lanes): Ex {
  let out: Ex = held.offset ?? int(0)
  const indexOf = (axis: string): Ex => at(axis) ?? sub(coordinate(scope, axis, lanes), scope.range(axis).start)
  const [outer, inner] = held.axes
  if (held.swizzle !== undefined && outer !== undefined && inner !== undefined)
    return add(out, swizzled(held.swizzle, indexOf(outer), indexOf(inner)))
  held.axes.forEach((axis, i) => {
    const index = indexOf(axis)
    out = add(out, mul(index, int(held.strides[i] ?? 0)))
  })
  return out
}
