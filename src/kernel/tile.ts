/** Tiles of the interpreter: dense arrays over the indices a program holds, and walks over their points. */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import { type Expr, evaluate } from '../index/expr.ts'
import { holds, type Predicate } from '../index/predicate.ts'
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
  readonly sizes: readonly number[]
  readonly count: number
  private readonly program: Program
  private readonly slots: ReadonlyMap<string, number>
  private readonly starts: readonly number[]
  private readonly local: number[]
  private readonly axisAt: (name: string) => number
  private readonly valueAt: (id: ValueId) => number
  private readonly readers = new Map<ValueId, () => Scalar>()

  constructor(program: Program, axes: readonly string[]) {
    const extents = axes.map((a) => program.extent(a))
    this.program = program
    this.sizes = extents.map((e) => e.size)
    this.starts = extents.map((e) => e.start)
    this.count = this.sizes.reduce((n, s) => n * s, 1)
    this.slots = new Map(axes.map((a, i) => [a, i]))
    this.local = axes.map(() => 0)
    this.axisAt = (name) => this.coordinate(name)
    this.valueAt = (id) => Number(this.reader(id)())
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

  /** The global index of an axis, or the start of its block, at the current point. */
  private coordinate(name: string): number {
    const of = startOf(name)
    if (of !== undefined) return this.program.extent(of).start
    const i = this.slots.get(name)
    if (i !== undefined) return (this.starts[i] ?? 0) + (this.local[i] ?? 0)
    const { start, size } = this.program.extent(name)
    invariant(size <= 1, `a point has no coordinate along ${name}`)
    return start
  }

  /** Position inside an axis' range at the current point. */
  private offset(axis: string): number {
    return this.coordinate(axis) - this.program.extent(axis).start
  }

  /** Reads a tile at the current point (made once a value). */
  reader(id: ValueId): () => Scalar {
    const have = this.readers.get(id)
    if (have !== undefined) return have
    const tile = this.program.tile(id)
    const strides = rowMajorStrides(tile.sizes)
    const steps: { readonly slot: number; readonly stride: number }[] = []
    tile.axes.forEach((a, i) => {
      const slot = this.slots.get(a)
      const stride = strides[i] ?? 0
      if (slot !== undefined) steps.push({ slot, stride })
      else invariant((tile.sizes[i] ?? 0) <= 1, `%${id} varies along ${a}, which the statement does not hold`)
    })
    const read = (): Scalar => {
      let at = 0
      for (const { slot, stride } of steps) at += (this.local[slot] ?? 0) * stride
      return elementOf(tile, at, id)
    }
    this.readers.set(id, read)
    return read
  }

  /** Reads a tile at other coordinates along some of its axes (relative to the axes' ranges). */
  readAt(id: ValueId, index: Readonly<Record<string, Expr>>): Scalar {
    const tile = this.program.tile(id)
    const strides = rowMajorStrides(tile.sizes)
    let at = 0
    tile.axes.forEach((a, i) => {
      const e = index[a]
      const x = e === undefined ? this.offset(a) : this.evaluate(e)
      if (x < 0 || x >= (tile.sizes[i] ?? 0))
        throw new InternalError(`coordinate ${x} along ${a} is outside the tile %${id} of ${tile.sizes[i]}`)
      at += x * (strides[i] ?? 0)
    })
    return elementOf(tile, at, id)
  }

  evaluate(e: Expr): number {
    return evaluate(e, this.axisAt, this.valueAt)
  }

  holds(p: Predicate): boolean {
    return holds(p, this.axisAt, this.valueAt)
  }
}

function elementOf(tile: Tile, at: number, id: ValueId): Scalar {
  const v = tile.data[at]
  invariant(v !== undefined, `element ${at} of %${id} is not there`)
  return v
}
