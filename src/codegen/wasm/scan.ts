/** Scans: running folds along one axis, other axes outside it; four or more side by side where the tile allows. */
import { invariant } from '../../diagnostics/errors.ts'
import type { LetStmt } from '../../kernel/ir.ts'
import { combinerIdentity, combinerOp } from '../../scalar/ops.ts'
import { computeDType, isFloat } from '../../types/dtype.ts'
import { assignReg, emitConst, emitScalarOp, type Reg, releaseReg } from './lanes.ts'
import { countedLoop } from './loops.ts'
import { emitRoundTo } from './math/half.ts'
import { vectorLoop } from './nest.ts'
import { emitTileStore } from './store.ts'
import type { Tile } from './tile.ts'
import type { Values } from './values.ts'

/** Runs the scan into its tile, which becomes the value's place. */
export function emitScan(values: Values, s: LetStmt, tile: Tile): void {
  const { op } = s
  invariant(op.kind === 'scan', 'not a scan')
  const level = values.scope.depth
  const varying = values.axes.varying(s.axes)
  const last = varying.at(-1)
  const vector = last !== undefined && last !== op.axis && values.axes.view(last).max >= 4 ? last : undefined
  const outer = varying.filter((a) => a !== op.axis && a !== vector)
  const copies = vector === undefined ? 1 : values.axes.view(vector).max >= 16 ? 4 : 1
  const nest = (i: number): void => {
    const a = outer[i]
    if (a !== undefined) countedLoop(values, a, () => nest(i + 1))
    else if (vector !== undefined) vectorLoop(values, vector, copies, () => run(values, s, tile))
    else run(values, s, tile)
  }
  nest(0)
  values.setHome(s.id, { kind: 'tile', tile, depth: level, round: false })
}

/** The loop along the scanned axis. */
function run(values: Values, s: LetStmt, tile: Tile): void {
  const { op } = s
  invariant(op.kind === 'scan', 'not a scan')
  const { f, env, scope } = values
  const dtype = computeDType(s.dtype)
  const copies = values.vector?.copies ?? 1
  const running: Reg[] = []
  scope.here(() => {
    for (let j = 0; j < copies; j++) {
      const { lanes, locals } = emitConst(
        f,
        dtype,
        values.vector === undefined ? 1 : 4,
        combinerIdentity(op.combiner, dtype),
      )
      running.push({ dtype, lanes, locals })
    }
  })
  const write = (acc: Reg, j: number): void => {
    let out: Reg = { ...acc, dtype: s.dtype }
    if (env.mode === 'strict' && isFloat(s.dtype))
      scope.here(() => {
        out = emitRoundTo(f, env, s.dtype, acc)
      })
    emitTileStore(values, tile, out, j)
  }
  const round = (): void =>
    running.forEach((acc, j) => {
      const x = values.at(op.arg, j)
      if (op.exclusive) write(acc, j)
      scope.here(() => {
        const next = emitScalarOp(f, env, combinerOp[op.combiner], dtype, dtype, [acc, { ...x, dtype }])
        assignReg(f, acc, next)
        releaseReg(f, next)
      })
      if (!op.exclusive) write(acc, j)
    })
  countedLoop(values, op.axis, round, op.reverse)
}
