/** Totals of the sums and products that a loop carries, in fast mode (src/kernel/carried.ts): tiles or registers like those they are carried in. */
import { combinerIdentity, combinerOp } from '../../../scalar/ops.ts'
import type { Tile } from '../../../schedule/loop/ir/tile.ts'
import { computeDType } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Expr, Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { assignReg, emitConst, emitScalarOp, type Reg, releaseReg } from '../value/lanes.ts'
import type { Values } from '../value/values.ts'

type Combiner = 'sum' | 'prod'

/** What a loop carries, and the totals of each level above it. */
interface CarriedFold {
  /** The first is the state; emits code that folds `below` into the level above it, and clears it. */
  close(below: number): void
  /** Emits code that folds all totals before the state. */
  finish(): void
}

/** A fold that is carried in a tile; emits empty totals into the innermost frame. */
export function carriedInTile(values: Values, combiner: Combiner, levels: readonly Tile[]): CarriedFold {
  const { f, scratch } = values
  const type = levels[0]?.dtype === 'f64' ? T.f64x2 : T.f32x4
  const eachVector = (body: (at: Register) => void): void => {
    const [at, end] = [f.register(T.i32), f.register(T.i32)]
    f.assign(end, X.add(scratch, levels[0]?.bytes ?? 0))
    f.for(at, scratch, end, 16, () => body(at))
    f.release(at, end)
  }
  const clear = (tile: Tile | undefined, at: Register): void => {
    const none = Number(combinerIdentity(combiner, type === T.f64x2 ? 'f64' : 'f32'))
    f.store(at, X.constant(type, none), tile?.offset ?? 0, 4)
  }
  const fold = (before: Tile | undefined, to: Tile | undefined, at: Register): void => {
    const total = (t: Tile | undefined): Expr => X.load(type, at, t?.offset ?? 0, 4)
    f.store(at, X.binary(combiner === 'sum' ? 'add' : 'mul', total(before), total(to)), to?.offset ?? 0, 4)
  }
  values.scope.here(() => {
    for (const t of levels.slice(1)) eachVector((at) => clear(t, at))
  })
  return {
    close: (below) =>
      eachVector((at) => {
        fold(levels[below], levels[below + 1], at)
        clear(levels[below], at)
      }),
    finish: () =>
      eachVector((at) => {
        for (const t of levels.slice(1)) fold(t, levels[0], at)
      }),
  }
}

/** A fold that is carried in a register; emits `totals` empty ones into the innermost frame. */
export function carriedInRegister(values: Values, combiner: Combiner, state: Reg, totals: number): CarriedFold {
  const { f, env, scope } = values
  const { lanes } = state
  const dtype = computeDType(state.dtype)
  const none = (): Reg => emitConst(f, dtype, lanes, combinerIdentity(combiner, dtype))
  const levels: Reg[] = [state]
  scope.here(() => {
    for (let i = 0; i < totals; i++) {
      const { parts } = none()
      levels.push({ dtype, lanes, parts })
    }
  })
  const fold = (before: Reg | undefined, to: Reg | undefined): void => {
    if (before === undefined || to === undefined) return
    const next = emitScalarOp(f, env, combinerOp[combiner], dtype, dtype, [before, to])
    assignReg(f, to, next)
    releaseReg(f, next)
  }
  return {
    close(below) {
      fold(levels[below], levels[below + 1])
      const [from, empty] = [levels[below], none()]
      if (from !== undefined) assignReg(f, from, empty)
      releaseReg(f, empty)
    },
    finish() {
      for (const t of levels.slice(1)) fold(t, state)
    },
  }
}

/** Counts a loop's iterations, in the innermost frame; gives what ends one (`closes`: log2 of those after which each level's total is taken). */
export function countRounds(values: Values, closes: readonly number[], folds: readonly CarriedFold[]): () => void {
  const { f, scope } = values
  const count = f.register(T.i32)
  scope.here(() => f.assign(count, 0))
  const close = (level: number): void => {
    const every = closes[level]
    if (every === undefined) return
    f.if(X.isZero(X.and(count, 2 ** every - 1)), () => {
      for (const fold of folds) fold.close(level)
      close(level + 1)
    })
  }
  return () => {
    f.assign(count, X.add(count, 1))
    close(0)
  }
}
