/** What schedules of loops know of a kernel part: axes as a program sees them, value definitions, tiles and their places in scratch. */

import { add, addConst, axis, constant, type Expr, mul, type Scale, sub, visitAtoms } from '../../../affine/expr.ts'
import { gcd } from '../../../affine/gcd.ts'
import { InternalError } from '../../../diagnostics/errors.ts'
import { startOf } from '../../../kernel/axes.ts'
import type { Stmt, TileOp, ValueId } from '../../../kernel/ir.ts'
import { computeDType, type DType, isWide } from '../../../types/dtype.ts'

/** An axis inside a program: at most `max` indices at a time, starting at a multiple of `aligned` and numbering one of `counts`. */
export interface AxisView {
  readonly name: string
  readonly extent: number
  readonly max: number
  /** The block begins elsewhere than 0 in some program. */
  readonly moves: boolean
  /** A divisor of every block start. */
  readonly aligned: number
  /** The possible numbers of indices; undefined: any up to `max` that are multiples of `multiple`. */
  readonly counts: readonly number[] | undefined
  readonly multiple: number
  /** The launch scalar that ends the axis, where it is open. */
  readonly open?: string
}

/** The axes bound at a place, by name. */
export type AxisViews = ReadonlyMap<string, AxisView>

export function blockView(name: string, extent: number, block: number): AxisView {
  const rest = extent % block
  const max = Math.min(block, extent)
  const counts = rest === 0 || extent < block ? [max] : [max, rest]
  return { name, extent, max, moves: extent > block, aligned: extent > block ? block : 2 ** 30, counts, multiple: 1 }
}

export const localView = (name: string, extent: number): AxisView => ({
  name,
  extent,
  max: extent,
  moves: false,
  aligned: 2 ** 30,
  counts: [extent],
  multiple: 1,
})

/** An axis that a launch scalar ends, in blocks. */
export function openView(
  name: string,
  { by, most, multiple }: Pick<Scale, 'by' | 'most' | 'multiple'>,
  block: number,
): AxisView {
  const common = gcd(multiple, block)
  return {
    ...blockView(name, most, block),
    counts: block === 1 ? [1] : undefined,
    multiple: block < most ? common : multiple,
    open: by,
  }
}

/** Whether an axis has a multiple of n indices in every program. */
export const isMultiple = ({ counts, multiple }: AxisView, n: number): boolean =>
  counts?.every((c) => c % n === 0) ?? multiple % n === 0

/** Whether the axis takes one value in a program. */
export const isScalarAxis = (v: AxisView): boolean => v.max === 1 && v.counts?.length === 1

/** A value's definition; carried values have no operation. */
export interface Def {
  readonly id: ValueId
  readonly dtype: DType
  readonly axes: readonly string[]
  readonly op?: TileOp
}

/** The values of statements, those of loops' bodies included. */
export function definitionsOf(body: readonly Stmt[]): Map<ValueId, Def> {
  const out = new Map<ValueId, Def>()
  const walk = (stmts: readonly Stmt[]): void => {
    for (const s of stmts) {
      if (s.kind === 'let') out.set(s.id, s)
      if (s.kind !== 'loop') continue
      for (const { param, result, dtype, axes } of s.carries) {
        out.set(param, { id: param, dtype, axes })
        out.set(result, { id: result, dtype, axes })
      }
      walk(s.body)
    }
  }
  walk(body)
  return out
}

/** A tile of values in scratch memory. Strides and offset in bytes; coordinates relative to each axis' block. */
export interface Tile {
  readonly offset: number
  readonly dtype: DType
  readonly strides: ReadonlyMap<string, number>
  readonly bytes: number
}

/** Where a value stands: in a register, or a tile. */
export type Place = 'register' | Tile

/** How a value stands in a scratch tile: half floats as f32, narrow integers and bools as i32. */
export function tileDType(d: DType): DType {
  const c = computeDType(d)
  if (c === 'f32' || c === 'f64' || isWide(c)) return c
  return c === 'u8' || c === 'u16' || c === 'u32' ? 'u32' : 'i32'
}

/** Bytes in front of and behind every parameter that lie in memory: copies and products may read them, such as rows of an image above its first. */
export const readMargin = 1 << 18

/** Tiles above this many bytes are made only where there is no other way, however much they would spare: every thread has one. */
export const mostTile = 16 << 20

export const tileBytes = (d: DType): number => (d === 'f64' || isWide(d) ? 8 : 4)

export class Axes {
  readonly views: AxisViews

  constructor(views: AxisViews) {
    this.views = views
  }

  view(name: string): AxisView {
    const v = this.views.get(name)
    if (v === undefined) throw new InternalError(`axis ${name} is unknown here`)
    return v
  }

  /** Axes of several indices, in the order given. */
  varying(names: Iterable<string>): string[] {
    const out: string[] = []
    for (const a of names) {
      const v = this.views.get(a)
      if (v !== undefined && !isScalarAxis(v) && !out.includes(a)) out.push(a)
    }
    return out
  }

  with(view: AxisView): Axes {
    return new Axes(new Map([...this.views, [view.name, view]]))
  }

  /** The index along an axis relative to its block. */
  relative(name: string): Expr {
    const v = this.view(name)
    if (v.max === 1) return constant(0)
    const at = axis(name, v.extent)
    return v.moves ? sub(at, axis(`${name}.start`, v.extent)) : at
  }

  /** Row-major layout over the varying axes; the row stride in front of position `split` is rounded up to `pad` elements. */
  layout(
    names: readonly string[],
    dtype: DType,
    split?: { readonly at: string; readonly pad: number },
  ): Omit<Tile, 'offset'> {
    const unit = tileBytes(dtype)
    const strides = new Map<string, number>()
    let stride = unit
    for (const a of this.varying(names).reverse()) {
      strides.set(a, stride)
      stride *= Math.max(1, this.view(a).max)
      if (split !== undefined && a === split.at) stride = Math.ceil(stride / (split.pad * unit)) * split.pad * unit
    }
    return { dtype: tileDType(dtype), strides, bytes: stride }
  }

  /** Byte position of the current point in a tile, some coordinates given otherwise. */
  tileIndex(tile: Tile, at: Readonly<Record<string, Expr>> = {}): Expr {
    let e = constant(0)
    for (const [a, stride] of tile.strides) e = add(e, mul(at[a] ?? this.relative(a), stride))
    return e
  }

  /** The index along a vector axis `k` after the start of the current step: a multiple of the unit that all steps begin at. */
  inStep(name: string, unit: number, k: number): Expr {
    const { extent } = this.view(name)
    if (unit < 4) return addConst(axis(name, extent), k)
    return addConst(mul(axis(unitsOf(name, unit), Math.ceil(extent / unit)), unit), k)
  }
}

/** The pseudo-axis that counts the units before the current step. */
export const unitsOf = (name: string, unit: number): string => `${name}.by${unit}`

/** Names of real axes in expressions: those of several indices matter to loops. */
export function namedAxes(exprs: Iterable<Expr>): Set<string> {
  const out = new Set<string>()
  for (const e of exprs)
    visitAtoms(e, (a) => {
      if (a.kind === 'axis' && startOf(a.name) === undefined) out.add(a.name)
    })
  return out
}

/** Scratch memory of a kernel: tiles side by side. */
export class Scratch {
  /** The first bytes take words that are written to no purpose. */
  bytes = 64

  place(layout: Omit<Tile, 'offset'>): Tile {
    const offset = this.bytes
    // Whole vectors may be read and written past the last element.
    this.bytes = Math.ceil((offset + layout.bytes + 64) / 64) * 64
    return { ...layout, offset }
  }
}
