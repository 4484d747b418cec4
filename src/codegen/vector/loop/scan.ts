/** Scans: running folds along one axis, other axes outside it; four or more side by side where the tile allows. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import { combinerIdentity, combinerOp } from '../../../scalar/ops.ts'
import { fastChunkOf, strictChunk } from '../../../scalar/summation.ts'
import type { ScanSchedule } from '../../../schedule/loop/ir/schedule.ts'
import type { Tile } from '../../../schedule/loop/ir/tile.ts'
import { computeDType, isFloat } from '../../../types/dtype.ts'
import { emitRoundTo } from '../math/half.ts'
import { assignReg, emitConst, emitScalarOp, type Reg, releaseReg } from '../value/lanes.ts'
import { emitTileStore } from '../value/store.ts'
import type { Values } from '../value/values.ts'
import { countedLoop } from './loops.ts'
import { scanInLanes } from './scanInLanes.ts'
import { Totals } from './totals.ts'
import { vectorLoop } from './vectorLoop.ts'

/** Runs the scan into its tile, which becomes the value's place. */
export function emitScan(values: Values, { stmt: s, tile, outer, vector, copies }: ScanSchedule): void {
  const level = values.scope.depth
  const nest = (i: number): void => {
    const a = outer[i]
    if (a !== undefined) countedLoop(values, a, () => nest(i + 1))
    else if (vector === undefined) run(values, s, tile)
    else if (s.op.kind === 'scan' && s.op.axis === vector) scanInLanes(values, s.op, s.dtype, tile, copies)
    else vectorLoop(values, vector, copies, () => run(values, s, tile))
  }
  nest(0)
  values.setHome(s.id, { kind: 'tile', tile, depth: level, round: false })
}

/**
 * The loop along the scanned axis. Sums and products of floats run chunk by chunk: what stands before a chunk is folded with every value
 * of it (src/scalar/summation.ts).
 */
function run(values: Values, s: LetStmt, tile: Tile): void {
  const { op } = s
  invariant(op.kind === 'scan', 'not a scan')
  const { f, env, scope } = values
  const dtype = computeDType(s.dtype)
  const copies = values.vector?.copies ?? 1
  const lanes = values.vector === undefined ? 1 : 4
  const identity = combinerIdentity(op.combiner, dtype)
  const fresh = (): Reg[] => {
    const regs: Reg[] = []
    scope.here(() => {
      for (let j = 0; j < copies; j++) {
        const r = emitConst(f, dtype, lanes, identity)
        regs.push({ dtype, lanes: r.lanes, parts: r.parts })
      }
    })
    return regs
  }
  const running = fresh()
  const n = values.axes.view(op.axis).max
  const chunk = env.mode === 'strict' ? strictChunk : fastChunkOf(n)
  const { combiner } = op
  const chunked = isFloat(dtype) && n > chunk && (combiner === 'sum' || combiner === 'prod')
  const before = chunked ? fresh() : undefined
  const most = Math.ceil(n / chunk)
  const totals = chunked ? new Totals(values, combiner, dtype, lanes, { side: copies, most, identity }) : undefined
  const closeChunk = (): void =>
    scope.here(() => {
      if (before === undefined || totals === undefined) return
      totals.push(running)
      const none = emitConst(f, dtype, lanes, identity)
      for (const r of running) assignReg(f, r, none)
      const all = totals.with(running)
      before.forEach((to, j) => {
        const from = all[j]
        if (from !== undefined) assignReg(f, to, from)
      })
      releaseReg(f, none, ...all)
    })
  const write = (acc: Reg, j: number): void => {
    let whole = acc
    const first = before?.[j]
    if (first !== undefined)
      scope.here(() => {
        whole = emitScalarOp(f, env, combinerOp[combiner], dtype, dtype, [first, acc])
      })
    let out: Reg = { ...whole, dtype: s.dtype }
    if (env.mode === 'strict' && isFloat(s.dtype))
      scope.here(() => {
        out = emitRoundTo(f, env, s.dtype, whole)
      })
    emitTileStore(values, tile, out, j)
    if (whole !== acc) scope.here(() => releaseReg(f, whole))
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
  const blocks = chunked ? { rounds: chunk, after: closeChunk } : undefined
  countedLoop(values, op.axis, round, op.reverse, blocks)
}
