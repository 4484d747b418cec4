/** Tiles of the interpreter: dense arrays over the indices a program holds, and walks over their points. */

import { type Atom, addConst, axis, type Expr } from '../affine/expr.ts'
import type { Predicate } from '../affine/predicate.ts'
import { InternalError, invariant } from '../diagnostics/errors.ts'
import type { Scalar } from '../scalar/ops.ts'
import type { DType } from '../types/dtype.ts'
import { rowMajorStrides } from '../types/shape.ts'
import { startOf } from './axes.ts'
import type { ValueId } from './ir.ts'

/** The indices [start, start + size) of an axis that the program holds now. */
export interface Extent {
  readonly start: number
  readonly size: number
}

export interface Tile {
  readonly dtype: DType
  readonly axes: readonly string[]
  readonly sizes: readonly number[]
  /** Row-major. */
  readonly data: readonly Scalar[]
}

/** What a program holds: the current range of each axis and the tiles computed so far. */
export class Program {
  readonly extents = new Map<string, Extent>()
  readonly tiles = new Map<ValueId, Tile>()

  extent(axis: string): Extent {
    const e = this.extents.get(axis)
    invariant(e !== undefined, `axis ${axis} is not in scope`)
    return e
  }

  tile(id: ValueId): Tile {
    const t = this.tiles.get(id)
    invariant(t !== undefined, `%${id} is not defined`)
    return t
  }

  /** The only element of a tile of scalar axes. */
  scalar(id: ValueId): Scalar {
    const [v, ...more] = this.tile(id).data
    invariant(v !== undefined && more.length === 0, `%${id} is not scalar`)
    return v
  }
}

/** A walk over the points of some axes in row-major order; readers and expressions are evaluated at the current point. */
export class Points {
  readonly count: number
  private readonly program: Program
  private readonly sizes: readonly number[]
  private readonly slots: ReadonlyMap<string, number>
  private readonly starts: readonly number[]
  private readonly local: number[]

  constructor(program: Program, axes: readonly string[]) {
    const extents = axes.map((a) => program.extent(a))
    this.program = program
    this.sizes = extents.map((e) => e.size)
    this.starts = extents.map((e) => e.start)
    this.count = this.sizes.reduce((n, s) => n * s, 1)
    this.slots = new Map(axes.map((a, i) => [a, i]))
    this.local = axes.map(() => 0)
  }

  /** Moves to the point of a row-major number. */
  moveTo(n: number): void {
    let rest = n
    for (let i = this.sizes.length - 1; i >= 0; i--) {
      const size = this.sizes[i] ?? 1
      this.local[i] = rest % size
      rest = Math.floor(rest / size)
    }
  }

  /** Moves to the next point (behind the last comes the first). */
  advance(): void {
    for (let i = this.sizes.length - 1; i >= 0; i--) {
      const x = (this.local[i] ?? 0) + 1
      this.local[i] = x === this.sizes[i] ? 0 : x
      if (x !== this.sizes[i]) return
    }
  }

  /** A reader of a tile at the current point. */
  reader(id: ValueId): () => Scalar {
    const tile = this.program.tile(id)
    const strides = rowMajorStrides(tile.sizes)
    const steps: Step[] = []
    tile.axes.forEach((a, i) => {
      const slot = this.slots.get(a)
      if (slot !== undefined) steps.push({ slot, by: strides[i] ?? 0 })
      else invariant((tile.sizes[i] ?? 0) <= 1, `%${id} varies along ${a}, which the statement does not hold`)
    })
    const { local } = this
    return () => elementOf(tile, walk(0, steps, local), id)
  }

  /** A reader of a tile at other coordinates along some of its axes (relative to the axes' ranges). */
  readerAt(id: ValueId, index: Readonly<Record<string, Expr>>): () => Scalar {
    const tile = this.program.tile(id)
    const strides = rowMajorStrides(tile.sizes)
    const coordinates = tile.axes.map((a) => {
      const e = index[a]
      return this.expr(e ?? addConst(axis(a, Number.POSITIVE_INFINITY), -this.program.extent(a).start))
    })
    return () => {
      let at = 0
      for (let i = 0; i < coordinates.length; i++) {
        const x = coordinates[i]?.() ?? 0
        if (x < 0 || x >= (tile.sizes[i] ?? 0))
          throw new InternalError(
            `coordinate ${x} along ${tile.axes[i]} is outside the tile %${id} of ${tile.sizes[i]}`,
          )
        at += x * (strides[i] ?? 0)
      }
      return elementOf(tile, at, id)
    }
  }

  /** The value of an index expression at the current point. */
  expr(e: Expr): () => number {
    const steps: Step[] = []
    const others: { readonly coef: number; readonly of: () => number }[] = []
    let base = e.offset
    for (const { atom, coef } of e.terms) {
      const slot = atom.kind === 'axis' ? this.slots.get(atom.name) : undefined
      if (slot !== undefined) {
        steps.push({ slot, by: coef })
        base += coef * (this.starts[slot] ?? 0)
      } else if (atom.kind === 'axis') base += coef * this.fixedCoordinate(atom.name)
      else others.push({ coef, of: this.atom(atom) })
    }
    const { local } = this
    return () => {
      let v = walk(base, steps, local)
      for (const { coef, of } of others) v += coef * of()
      return v
    }
  }

  private atom(a: Exclude<Atom, { kind: 'axis' }>): () => number {
    if (a.kind === 'value') {
      const read = this.reader(a.id)
      return () => Number(read())
    }
    const of = this.expr(a.of)
    if (a.kind === 'scaled') throw new InternalError(`the launch scalar ${a.by} is not bound`)
    const { by } = a
    return a.kind === 'div' ? () => Math.floor(of() / by) : () => floorMod(of(), by)
  }

  /** The index of an axis that the walk does not move along: a scalar axis, or the start of a block. */
  private fixedCoordinate(name: string): number {
    const of = startOf(name)
    const { start, size } = this.program.extent(of ?? name)
    invariant(of !== undefined || size <= 1, `a point has no coordinate along ${name}`)
    return start
  }

  /** Whether a predicate holds at the current point. */
  predicate(p: Predicate): () => boolean {
    const bounds = p.map((b) => ({ lo: b.lo, hi: b.hi, of: this.expr(b.expr) }))
    return () =>
      bounds.every(({ lo, hi, of }) => {
        const v = of()
        return v >= lo && v < hi
      })
  }
}

interface Step {
  readonly slot: number
  readonly by: number
}

function walk(base: number, steps: readonly Step[], local: readonly number[]): number {
  let at = base
  for (const { slot, by } of steps) at += (local[slot] ?? 0) * by
  return at
}

const floorMod = (a: number, b: number): number => a - b * Math.floor(a / b)

function elementOf(tile: Tile, at: number, id: ValueId): Scalar {
  const v = tile.data[at]
  if (v === undefined) throw new InternalError(`element ${at} of %${id} is not there`)
  return v
}
