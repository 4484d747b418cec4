/** How accesses to memory go: single elements, aligned groups side by side, runs that leave gaps; and who makes calls for random bits. */
import type { Expr } from '../../../affine/expr.ts'
import { type Predicate, predicateKey } from '../../../affine/predicate.ts'
import { drawsAt } from '../../../kernel/draws.ts'
import type { KernelParam, LetStmt, StoreStmt, ValueId } from '../../../kernel/ir.ts'
import { elementsPerCall, isRandomDType } from '../../../scalar/threefry.ts'
import type { Layout } from '../layout/layout.ts'
import { isSideBySide, runAlong, variesAlong } from '../part/contiguity.ts'
import { flatIndex, isUniform, type Run, repeatsOf } from '../part/facts.ts'
import type { Part } from '../part/part.ts'
import { elementBits } from '../storage/words.ts'
import type { Place } from './place.ts'

/** An access to a parameter. */
export interface Access {
  readonly param: string
  readonly index: readonly Expr[]
  readonly mask: Predicate
  readonly maskValue?: ValueId
}

/** How an access goes side by side: `n` elements at a time along `axis`. */
export interface Group {
  readonly axis: string
  readonly n: number
  /** A group is inside the range of the axis whole or not at all. */
  readonly whole: boolean
  /** Each element stands for so many indices in a row; one unless given. */
  readonly repeats?: number
}

interface Where {
  readonly part: Part
  readonly layout: Layout
  param(name: string): KernelParam
  needsCheck(axis: string): boolean
}

/** The widest aligned group of an access over some axes. */
export function groupOf(at: Where, access: Access, axes: readonly string[]): Group | undefined {
  const { part, layout } = at
  const p = at.param(access.param)
  const bits = elementBits(p)
  if (bits > 32) return undefined
  const flat = flatIndex(access.index, p.shape)
  for (const axis of axes) {
    const a = layout.find(axis)
    if (a === undefined || a.vec === 1) continue
    if (access.maskValue !== undefined && variesAlong(part, axis)(access.maskValue)) continue
    for (let n = a.vec; n > 1; n /= 2) {
      if (n * bits > 128 || (n * bits < 32 && !(bits < 8 && n * bits === 8))) continue
      if (isSideBySide(part, flat, access.mask, axis, n)) return { axis, n, whole: isWhole(at, axis, n) }
    }
  }
  return undefined
}

/** Bits of one store of a thread, and those of a group of which the lanes of a fragment write half a sector of memory. */
const [storeBits, narrowBits] = [128, 32]

/**
 * Lanes that put a store's groups together, where neighbouring threads hold neighbouring narrow groups of each repeat: they exchange what they hold of as
 * many repeats, so that each writes the groups of one repeat side by side. One where they do not.
 */
export function exchangingLanes(at: Place, access: Access, { axis, n }: Group): number {
  const { part, layout, setting } = at
  const { laneBits } = setting.machine
  const p = at.param(access.param)
  const { vec, reps, bits, pairAbove } = layout.axis(axis)
  if (n * elementBits(p) !== narrowBits || vec !== n || pairAbove !== undefined || access.maskValue !== undefined)
    return 1
  const lanes = storeBits / narrowBits
  const isNear = bits.length >= Math.log2(lanes) && bits.slice(0, Math.log2(lanes)).every((b, i) => b === i)
  if (!isNear || reps % lanes !== 0 || laneBits === 0 || layout.threads < 2 ** laneBits) return 1
  const run = n * lanes
  const isRun = isSideBySide(part, flatIndex(access.index, p.shape), access.mask, axis, run) && isWhole(at, axis, run)
  return isRun ? lanes : 1
}

/** The widest group of a load whose elements repeat along one of some axes: those of weights in few bits, and their scales. */
export function repeatedGroupOf(at: Where, access: Access, axes: readonly string[]): Group | undefined {
  const { part, layout } = at
  const p = at.param(access.param)
  const bits = elementBits(p)
  if (bits < 8 || bits > 32) return undefined
  const flat = flatIndex(access.index, p.shape)
  for (const axis of axes) {
    const vec = layout.find(axis)?.vec ?? 1
    const along = variesAlong(part, axis)
    if (access.maskValue !== undefined && along(access.maskValue)) continue
    for (let n = vec; n > 1; n /= 2) {
      if (!part.canGroup(axis, n) || !isWhole(at, axis, n)) continue
      const repeats = repeatsOf(flat, axis, n, part.alignment, along)
      if (repeats === undefined || repeats < 2 || !isUniform(access.mask, axis, n, part.alignment, along)) continue
      const elements = n / repeats
      if (elements > 1 && (elements * bits < 16 || elements * bits > 128)) continue
      return { axis, n, whole: true, repeats }
    }
  }
  return undefined
}

/** Whether aligned groups of `n` indices are inside the range of an axis whole or not at all. */
export function isWhole(at: Where, axis: string, n: number): boolean {
  const { multiple, role, alignment } = at.part.axis(axis)
  return (multiple % n === 0 && (role !== 'loop' || alignment % n === 0)) || !at.needsCheck(axis)
}

/** Groups of `n` indices of `axis`, and where they lie: 2 or 4 elements apart. */
export interface Strided extends Run {
  readonly axis: string
  readonly n: number
}

/** How an access goes in runs along one of some axes. */
export function stridedOf(at: Where, access: Access, axes: readonly string[]): Strided | undefined {
  const { part, layout } = at
  const p = at.param(access.param)
  const bits = elementBits(p)
  if (bits < 8 || bits > 32) return undefined
  const flat = flatIndex(access.index, p.shape)
  for (const axis of axes) {
    const a = layout.find(axis)
    if (a === undefined) continue
    if (access.maskValue !== undefined && variesAlong(part, axis)(access.maskValue)) continue
    for (let n = a.vec; n >= 1; n /= 2) {
      const run = runAlong(part, flat, access.mask, axis, n, bits)
      if (run !== undefined && isWhole(at, axis, n)) return { axis, n, ...run }
    }
  }
  return undefined
}

/** Where and when an access takes place, but for its position. */
export const guardOf = (a: Access, axes: readonly string[]): string =>
  `${a.param}|${predicateKey(a.mask)}|${a.maskValue ?? ''}|${axes.join()}`

/** Stores that wait for those that fill the gaps of their runs. */
export class Gaps {
  private readonly waiting = new Map<string, { readonly s: Strided; readonly stores: Map<number, StoreStmt> }>()

  /** Takes a store that goes in runs; when it is the last of its runs, all of them by residue. */
  take(store: StoreStmt, axes: readonly string[], s: Strided): 'waits' | readonly StoreStmt[] {
    const key = [guardOf(store, axes), s.base.key, s.axis, s.n, s.stride].join('|')
    const have = this.waiting.get(key) ?? { s, stores: new Map<number, StoreStmt>() }
    have.stores.set(s.residue, store)
    this.waiting.set(key, have)
    if (have.stores.size < s.stride) return 'waits'
    this.waiting.delete(key)
    return [...have.stores].sort(([a], [b]) => a - b).map(([, x]) => x)
  }

  /** Stores whose gaps nothing fills. */
  rest(): StoreStmt[] {
    const out = [...this.waiting.values()].flatMap((w) => [...w.stores.values()])
    this.waiting.clear()
    return out
  }
}

/** Neighbours that share a call of the generator: `n` at a time along `axis`, of which each `repeat` read one element of the call. */
export interface CallGroup {
  readonly axis: string
  readonly n: number
  readonly repeat: number
  /**
   * An axis of which threads hold an even number of repeats, where neighbouring threads share calls: of the calls of two repeats
   * each makes one, and they exchange words.
   */
  readonly exchanged: string | undefined
}

/** The widest groups of elements whose calls a thread can share. */
export function callGroupOf(at: Place, l: LetStmt): CallGroup | undefined {
  const { op, dtype } = l
  if (op.kind !== 'random' || !isRandomDType(dtype)) return undefined
  const { part, layout } = at
  const { position, repeat } = drawsAt(op.index)
  const inCall = repeat * elementsPerCall(dtype)
  for (const axis of part.axesOf(l.id)) {
    const vec = layout.find(axis)?.vec ?? 1
    const along = variesAlong(part, axis)
    if (vec === 1 || along(op.k0) || along(op.k1)) continue
    for (let n = Math.min(vec, inCall); n > 1; n /= 2) {
      if (!isSideBySide(part, position, [], axis, n)) continue
      const isShared = 2 * n <= inCall && isSideBySide(part, position, [], axis, 2 * n)
      return { axis, n, repeat, exchanged: isShared ? exchangedOf(at, l, axis, n) : undefined }
    }
  }
  return undefined
}

function exchangedOf({ part, layout, setting }: Place, l: LetStmt, axis: string, n: number): string | undefined {
  const { vec, bits } = layout.axis(axis)
  const { laneBits } = setting.machine
  if (vec !== n || bits[0] !== 0 || laneBits === 0 || layout.threads < 2 ** laneBits || l.op.kind !== 'random')
    return undefined
  const keys = [l.op.k0, l.op.k1]
  return part.axesOf(l.id).find((a) => (layout.find(a)?.reps ?? 1) % 2 === 0 && !keys.some(variesAlong(part, a)))
}
