/**
 * A scan whose lanes go along the scanned axis. Each group of four folds what stands before in it by two shuffles (Hillis and Steele's scan of
 * four elements), then what came before the group; the running fold itself takes one step a group. Not for strict sums, whose order is fixed.
 */
import type { TileOp } from '../../../kernel/ir.ts'
import { combinerIdentity, combinerOp } from '../../../scalar/ops.ts'
import { fastChunkOf } from '../../../scalar/summation.ts'
import type { Tile } from '../../../schedule/loop/ir/tile.ts'
import { computeDType, type DType, isFloat } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import { emitRoundTo } from '../math/half.ts'
import { assignReg, emitConst, emitScalarOp, makeReg, type Reg, releaseReg } from '../value/lanes.ts'
import { partType, read } from '../value/reg.ts'
import { emitTileStore } from '../value/store.ts'
import type { Values } from '../value/values.ts'
import { Totals } from './totals.ts'
import { vectorLoop, vectorLoopBackward } from './vectorLoop.ts'

type Scan = Extract<TileOp, { kind: 'scan' }>
type Pick4 = readonly [number, number, number, number]

/** Lanes of two vectors, one after the other (0 to 7): a group moved on by one, by two, and its last element in all lanes. */
const forward = { one: [0, 4, 5, 6], two: [0, 1, 4, 5], last: [3, 3, 3, 3] } as const
const backward = { one: [1, 2, 3, 4], two: [2, 3, 4, 5], last: [0, 0, 0, 0] } as const

export function scanInLanes(values: Values, op: Scan, result: DType, tile: Tile, copies: number): void {
  const { f, env, scope } = values
  const { combiner, reverse, exclusive, axis } = op
  const dtype = computeDType(result)
  const identity = combinerIdentity(combiner, dtype)
  const moves = reverse ? backward : forward
  const fresh = (): Reg => {
    const r = emitConst(f, dtype, 4, identity)
    return { dtype, lanes: r.lanes, parts: r.parts }
  }
  const fold = (before: Reg, x: Reg): Reg => emitScalarOp(f, env, combinerOp[combiner], dtype, dtype, [before, x])
  const shuffled = (a: Reg, b: Reg, lanes: Pick4): Reg =>
    makeReg(f, dtype, 4, () => X.shuffle(partType(dtype, 4), read(a), read(b), lanes))
  /** A group moved on, what enters it being nothing. */
  const moved = (x: Reg, lanes: Pick4): Reg => (reverse ? shuffled(x, none, lanes) : shuffled(none, x, lanes))

  const n = values.axes.view(axis).max
  const steps = Math.floor(n / (4 * copies))
  const rounds = Math.max(1, Math.floor(fastChunkOf(n) / copies) - 1)
  const isTotal = isFloat(dtype) && (combiner === 'sum' || combiner === 'prod') && steps > rounds
  const [none, running, before] = scope.here(() => [fresh(), fresh(), isTotal ? fresh() : undefined] as const)
  const totals =
    before === undefined || (combiner !== 'sum' && combiner !== 'prod')
      ? undefined
      : new Totals(values, combiner, dtype, 4, { side: 1, most: Math.ceil(steps / rounds) + 1, identity })

  /** The chunk ends: its total goes into the tree, and all totals stand before the next one. */
  const closeChunk = (): void =>
    scope.here(() => {
      if (before === undefined || totals === undefined) return
      totals.push([running])
      assignReg(f, running, none)
      const all = totals.with([running])
      for (const whole of all) assignReg(f, before, whole)
      releaseReg(f, ...all)
    })

  const group = (j: number): void => {
    const x = values.lanes(op.arg, j)
    const mask = reverse ? values.vector?.mask : undefined
    const out = scope.here(() => {
      const own: Reg[] = []
      const keep = (r: Reg): Reg => {
        own.push(r)
        return r
      }
      const valid: Reg =
        mask === undefined
          ? { ...x, dtype }
          : keep(makeReg(f, dtype, 4, () => X.select(read(mask), read(x), read(none))))
      const pairs = keep(fold(keep(moved(valid, moves.one)), valid))
      const group = keep(fold(keep(moved(pairs, moves.two)), pairs))
      let whole = keep(fold(running, exclusive ? keep(moved(group, moves.one)) : group))
      const next = keep(fold(running, keep(shuffled(group, group, moves.last))))
      assignReg(f, running, next)
      if (before !== undefined) whole = keep(fold(before, whole))
      const rounded = env.mode === 'strict' && isFloat(result) ? keep(emitRoundTo(f, env, result, whole)) : whole
      releaseReg(f, ...own.filter((r) => r !== rounded))
      return { ...rounded, dtype: result }
    })
    emitTileStore(values, tile, out, j)
    scope.here(() => releaseReg(f, out))
  }
  const step = (): void => {
    const count = values.vector?.copies ?? 1
    for (let i = 0; i < count; i++) group(reverse ? count - 1 - i : i)
  }
  const loop = reverse ? vectorLoopBackward : vectorLoop
  loop(values, axis, copies, step, totals === undefined ? undefined : { rounds, after: closeChunk })
}
