/** Folds whose accumulators stand in their results' tiles, and the tiles of their chunks' totals. */
import { invariant } from '../../../diagnostics/errors.ts'
import { combinerOp } from '../../../scalar/ops.ts'
import { accumulatorDType, type Fold } from '../../../schedule/loop/ir/steps.ts'
import type { Tile } from '../../../schedule/loop/ir/tile.ts'
import type { Block } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { emitCast } from '../math/cast.ts'
import { laneReader } from '../value/access.ts'
import { emitConst, emitFma, emitScalarOp, type Reg, releaseReg } from '../value/lanes.ts'
import { emitTileStore } from '../value/store.ts'
import type { Values } from '../value/values.ts'
import { identityOf, sameClass } from './fold.ts'

/** What a fold in memory starts from at copy `j`: the value it continues, or the identity. */
export function startOfFold(values: Values, fold: Fold, j: number): Reg {
  if (fold.acc !== undefined) return values.lanes(fold.acc, j)
  const dtype = accumulatorDType(fold)
  return values.scope.keep(0, `start:${fold.combiner}:${dtype}`, () =>
    emitConst(values.f, dtype, 4, identityOf(fold, dtype)),
  )
}

/** Folds copy `j` of the current point into the fold's tile. */
export function stepInTile(values: Values, fold: Fold, tile: Tile, j: number): void {
  const { f, env, scope } = values
  const { combiner } = fold
  invariant(combiner !== 'argmax' && combiner !== 'argmin', 'arg-folds stand in registers')
  const dtype = accumulatorDType(fold)
  const args = fold.args.map((a) => values.lanes(a, j))
  const index = values.axes.tileIndex(tile)
  const read = laneReader(values, values.scratch, index, tile.offset, tile.dtype, j, scope.depth, false)
  let next: Reg | undefined
  scope.here(() => {
    const acc: Reg = { ...read.whole(), dtype }
    const [a, b] = args.map((x) => (sameClass(x.dtype, dtype) ? { ...x, dtype } : emitCast(f, env, dtype, x)))
    invariant(a !== undefined, 'a fold without operand')
    next =
      b === undefined ? emitScalarOp(f, env, combinerOp[combiner], dtype, dtype, [acc, a]) : emitFma(f, env, a, b, acc)
    releaseReg(f, acc)
  })
  invariant(next !== undefined, 'nothing was folded')
  emitTileStore(values, tile, next, j)
  const done = next
  scope.here(() => releaseReg(f, done))
}

/**
 * The tree of the chunks' totals of a fold in memory (src/scalar/summation.ts): the running chunk stands in the fold's tile, each place of
 * the tree in a tile like it. `columns` loops over the vector axis.
 */
export class TotalsInMemory {
  private readonly values: Values
  private readonly fold: Fold
  private readonly tile: Tile
  private readonly places: readonly Tile[]
  private readonly columns: (body: (j: number) => void) => void
  private readonly count: Register

  constructor(
    values: Values,
    fold: Fold,
    tile: Tile,
    places: readonly Tile[],
    columns: (body: (j: number) => void) => void,
  ) {
    const { f, scope } = values
    this.values = values
    this.fold = fold
    this.tile = tile
    this.places = places
    this.columns = columns
    this.count = f.register(T.i32)
    scope.here(() => f.assign(this.count, 0))
  }

  /** The loop over the columns in a frame of its own. */
  private each(body: (j: number) => void): Block {
    const { scope } = this.values
    scope.push()
    this.columns(body)
    return scope.pop().block
  }

  private read(tile: Tile, j: number): Reg {
    const { values } = this
    const { scope } = values
    const index = values.axes.tileIndex(tile)
    const read = laneReader(values, values.scratch, index, tile.offset, tile.dtype, j, scope.depth, false)
    let out: Reg | undefined
    scope.here(() => {
      out = { ...read.whole(), dtype: accumulatorDType(this.fold) }
    })
    invariant(out !== undefined, 'nothing was read')
    return out
  }

  /** The running chunk with the first places folded before it. */
  private withPlaces(places: readonly Tile[], j: number): Reg {
    const { f, env, scope } = this.values
    const { combiner } = this.fold
    invariant(combiner === 'sum' || combiner === 'prod', 'other folds have no totals')
    let x = this.read(this.tile, j)
    for (const place of places) {
      const before = this.read(place, j)
      scope.here(() => {
        const next = emitScalarOp(f, env, combinerOp[combiner], x.dtype, x.dtype, [before, x])
        releaseReg(f, before, x)
        x = next
      })
    }
    return x
  }

  /** Whether a place is taken. */
  private bit(place: number): Expr {
    return X.and(this.count, 2 ** place)
  }

  /** Takes the running chunk, which begins anew. */
  push(): void {
    const { values, places } = this
    const { f, scope } = values
    const kept = places.map((place, n) =>
      this.each((j) => {
        const x = this.withPlaces(places.slice(0, n), j)
        emitTileStore(values, place, x, j)
        scope.here(() => releaseReg(f, x))
        const dtype = accumulatorDType(this.fold)
        const none = scope.keep(0, `none:${this.fold.combiner}:${dtype}`, () =>
          emitConst(f, dtype, 4, identityOf(this.fold, dtype)),
        )
        emitTileStore(values, this.tile, none, j)
      }),
    )
    const carry = (n: number): void => {
      const code = kept[n]
      invariant(code !== undefined, `no place ${n}`)
      if (n === places.length - 1) f.splice(code)
      else
        f.if(
          this.bit(n),
          () => carry(n + 1),
          () => f.splice(code),
        )
    }
    scope.here(() => {
      carry(0)
      f.assign(this.count, X.add(this.count, 1))
    })
  }

  /** Folds all totals into the running chunk. */
  finish(): void {
    const { values } = this
    const { f, scope } = values
    this.places.forEach((place, n) => {
      const code = this.each((j) => {
        const x = this.withPlaces([place], j)
        emitTileStore(values, this.tile, x, j)
        scope.here(() => releaseReg(f, x))
      })
      scope.here(() => f.if(this.bit(n), () => f.splice(code)))
    })
  }
}
