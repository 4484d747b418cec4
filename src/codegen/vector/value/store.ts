/** Stores of tile values into parameters and scratch tiles: contiguous, strided, scattered, masked, combined. */
import { asConstant, type Expr, flatten } from '../../../affine/expr.ts'
import type { StoreStmt, ValueId } from '../../../kernel/ir.ts'
import { roundTo } from '../../../scalar/cast.ts'
import { combinerOp, scalarInfo } from '../../../scalar/ops.ts'
import type { Tile } from '../../../schedule/loop/ir/tile.ts'
import { bytePosition } from '../../../schedule/loop/nest/position.ts'
import { type DType, dtypeBytes } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { maskBits, maskElement, maskVaries } from './access.ts'
import { addressOf, forValidLanes, laneAddresses, laneLocal, lanePattern } from './laneIndex.ts'
import {
  assignReg,
  emitExtractLane,
  emitLaneStore,
  emitLoadConvert,
  emitScalarOp,
  emitScatterHalves,
  emitStoreConvert,
  emitStoreLanes,
  type Reg,
  releaseReg,
} from './lanes.ts'
import { bitRun, storeBits, storePackedLane, storeWholeBits } from './packed.ts'
import { isHalf, read } from './reg.ts'
import type { Values } from './values.ts'

/** Emits a store of copy `j` into the innermost frame; the value must have been computed. */
export function emitStore(values: Values, s: StoreStmt, j: number): void {
  const { f, scope } = values
  const value = storedValue(values, s, j)
  const depth = scope.depth
  const masked = s.mask.length > 0 || s.maskValue !== undefined
  const vector = values.vector !== undefined
  if (!masked && storeBitRun(values, s, value, j)) return
  const varying = masked && vector && maskVaries(values, s)
  const write = writer(values, s, value, j, depth, varying)
  if (!masked) {
    scope.here(write.whole)
    return
  }
  if (!varying) {
    const condition = maskElement(values, s, depth)
    scope.here(() => f.if(condition, write.whole))
    return
  }
  const bits = maskBits(values, s, j, depth)
  scope.here(() => {
    f.if(X.compare('eq', bits, 15), write.whole, () => {
      for (let lane = 0; lane < 4; lane++) f.if(X.and(bits, 1 << lane), () => write.lane(lane))
    })
  })
}

/**
 * A value as a store takes it: what is of half precision is rounded there, so a cast to it has nothing to do, unless it is combined first or stands in a
 * place of its own, where what it was made of may have been overwritten.
 */
function storedValue(values: Values, { value: id, combiner }: StoreStmt, j: number): Reg {
  const { op, dtype } = values.def(id)
  const isHere = combiner === undefined && !values.homes.has(id)
  if (isHere && op?.kind === 'scalar' && op.op === 'cast' && isHalf(dtype)) {
    const [from] = op.args
    if (from !== undefined && values.def(from).dtype === 'f32') return { ...values.at(from, j), dtype }
  }
  return { ...values.at(id, j), exact: isExact(values, id) }
}

/** Whether a value of half precision has no more bits than its dtype: it is chosen among values that were read as they are stored. */
function isExact(values: Values, id: ValueId): boolean {
  const { dtype } = values.def(id)
  if (!isHalf(dtype)) return false
  const found = new Set([id])
  for (const at of found) {
    const { op } = values.def(at)
    if (op?.kind === 'load') {
      const p = values.paramOf(op.param)
      if (p.dtype !== dtype || p.format !== 'plain' || !Object.is(roundTo(dtype, op.other), op.other)) return false
    } else if (op?.kind === 'const') {
      if (!Object.is(roundTo(dtype, op.value), op.value)) return false
    } else if (op?.kind === 'scalar' && scalarInfo(op.op).chooses === true) {
      for (const arg of op.op === 'select' ? op.args.slice(1) : op.args) found.add(arg)
    } else return false
  }
  return true
}

/** Stores copy `j` where its elements are consecutive bits; copies that fill bytes together wait for the last of them. */
function storeBitRun(values: Values, s: StoreStmt, value: Reg, j: number): boolean {
  const { scope } = values
  const p = values.paramOf(s.param)
  const run = s.combiner === undefined ? bitRun(values, p, s.index, j) : undefined
  if (run === undefined) return false
  const base = values.baseOf(s.param)
  if (run.copies === 1) scope.here(() => storeBits(values, p, base, run, value))
  else if (j === run.copies - 1) {
    const all = Array.from({ length: run.copies }, (_, i) => values.at(s.value, i))
    scope.here(() => storeWholeBits(values, p, base, run, all))
  }
  return true
}

interface Writer {
  readonly whole: () => void
  readonly lane: (lane: number) => void
}

function writer(values: Values, s: StoreStmt, value: Reg, j: number, depth: number, guarded: boolean): Writer {
  const p = values.paramOf(s.param)
  const base = values.baseOf(s.param)
  if (p.format !== 'plain') return packedWriter(values, s, value, j, depth)
  const position = bytePosition(p, s.index)
  if (s.combiner !== undefined) return combiningWriter(values, s, position, value, j, depth, guarded)
  return plainWriter(values, base, position, 0, value, j, depth, guarded)
}

function plainWriter(
  values: Values,
  base: Register,
  e: Expr,
  offset: number,
  value: Reg,
  j: number,
  depth: number,
  guarded: boolean,
): Writer {
  const { f, env } = values
  const bytes = dtypeBytes(value.dtype)
  const limit = values.vector?.limit
  if (values.vector === undefined) {
    const at = addressOf(values, base, e, 0, offset)
    const whole = (): void => emitStoreConvert(f, env, value, at.local, at.offset)
    return { whole, lane: whole }
  }
  const pattern = lanePattern(values, e, j)
  const contiguous = pattern.kind === 'affine' && pattern.stride === bytes ? pattern : undefined
  const addresses = contiguous === undefined || guarded ? laneAddresses(values, base, e, pattern, j, offset, depth) : []
  const lane = (l: number): void => {
    const at = addresses[l]
    if (at !== undefined) emitLaneStore(f, env, value, l, at.local, at.offset)
  }
  if (contiguous === undefined) {
    const each = (body: (l: number) => void): void => forValidLanes(values, body)
    const whole = isHalf(value.dtype)
      ? () => emitScatterHalves(f, env, value, addresses, each)
      : () => forValidLanes(values, lane)
    return { whole, lane }
  }
  const at = addressOf(values, base, contiguous.at, contiguous.extra, offset)
  if (limit === undefined) return { whole: () => emitStoreConvert(f, env, value, at.local, at.offset), lane }
  const whole = (): void => {
    f.if(
      X.compare('eq', limit, 4),
      () => emitStoreConvert(f, env, value, at.local, at.offset),
      () => emitStoreLanes(f, env, value, limit, at.local, at.offset),
    )
  }
  return { whole, lane }
}

/** Combines with what stands there: consecutive places at once, others lane by lane in order, since lanes may meet in one place. */
function combiningWriter(
  values: Values,
  s: StoreStmt,
  e: Expr,
  value: Reg,
  j: number,
  depth: number,
  guarded: boolean,
): Writer {
  const { f, env } = values
  const op = combinerOp[s.combiner ?? 'sum']
  const base = values.baseOf(s.param)
  const { dtype } = value
  if (values.vector === undefined) {
    const at = addressOf(values, base, e, 0)
    const whole = (): void => {
      const have = emitLoadConvert(f, env, dtype, 1, at.local, at.offset)
      const next = emitScalarOp(f, env, op, dtype, dtype, [have, value])
      emitStoreConvert(f, env, next, at.local, at.offset)
      releaseReg(f, have, next)
    }
    return { whole, lane: whole }
  }
  const { limit } = values.vector
  const pattern = lanePattern(values, e, j)
  const contiguous = pattern.kind === 'affine' && pattern.stride === dtypeBytes(dtype) ? pattern : undefined
  const isLaneByLane = contiguous === undefined || guarded || limit !== undefined
  const each = isLaneByLane ? laneAddresses(values, base, e, pattern, j, 0, depth) : []
  const lane = (l: number): void => {
    const at = each[l]
    if (at === undefined) return
    const have = emitLoadConvert(f, env, dtype, 1, at.local, at.offset)
    const mine = emitExtractLane(f, value, l)
    const next = emitScalarOp(f, env, op, dtype, dtype, [have, mine])
    emitStoreConvert(f, env, next, at.local, at.offset)
    releaseReg(f, have, mine, next)
  }
  const one = (): void => forValidLanes(values, lane)
  if (contiguous === undefined) return { whole: one, lane }
  const at = addressOf(values, base, contiguous.at, contiguous.extra)
  const all = (): void => {
    const have = emitLoadConvert(f, env, dtype, value.lanes, at.local, at.offset)
    const next = emitScalarOp(f, env, op, dtype, dtype, [have, value])
    emitStoreConvert(f, env, next, at.local, at.offset)
    releaseReg(f, have, next)
  }
  return { whole: limit === undefined ? all : () => f.if(X.compare('eq', limit, 4), all, one), lane }
}

function packedWriter(values: Values, s: StoreStmt, value: Reg, j: number, depth: number): Writer {
  const p = values.paramOf(s.param)
  const base = values.baseOf(s.param)
  const e = flatten(s.index, p.shape)
  if (values.vector === undefined) {
    const at = values.scope.index(e)
    const whole = (): void => storePackedLane(values, p, base, at, value, 0)
    return { whole, lane: whole }
  }
  const at = [0, 1, 2, 3].map((l) => asConstant(e) ?? laneLocal(values, e, j, l, depth))
  const lane = (l: number): void => storePackedLane(values, p, base, at[l] ?? 0, value, l)
  return { whole: () => forValidLanes(values, lane), lane }
}

/** How a register of a value's dtype stands in a scratch tile. */
function asTile(values: Values, r: Reg, dtype: DType): Reg {
  if (r.dtype === 'bool' && r.lanes === 1) {
    // One element is 0 or 1; in a tile, as in vectors, true is all ones.
    const wide = values.f.register(T.i32)
    values.f.assign(wide, X.sub(0, read(r)))
    return { dtype: 'i32', lanes: 1, parts: [wide] }
  }
  return { dtype, lanes: r.lanes, parts: r.parts }
}

/** Writes a value of copy `j` into a tile at the current point. */
export function emitTileStore(values: Values, tile: Tile, value: Reg, j: number): void {
  const { scope } = values
  const depth = scope.depth
  let r = value
  scope.here(() => {
    r = asTile(values, value, tile.dtype)
  })
  const write = plainWriter(values, values.scratch, values.axes.tileIndex(tile), tile.offset, r, j, depth, false)
  scope.here(write.whole)
}

/** Overwrites a register with another. */
export function emitAssign(values: Values, to: Reg, from: Reg): void {
  values.scope.here(() => assignReg(values.f, to, from))
}
