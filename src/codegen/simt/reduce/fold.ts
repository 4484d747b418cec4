/**
 * Folds: registers first, in the order of the nest; then threads (exchange.ts). Every thread ends with the result. The tree is
 * fixed, so results are the same from run to run. In strict mode float sums have no thread bits: every thread folds in order, by
 * chunks of 1024 (docs/numerics.md, "Modes").
 */

import { axis, flatten, strideOf, sub as subExpr, zero } from '../../../affine/expr.ts'
import { invariant } from '../../../diagnostics/errors.ts'
import { foldAxes } from '../../../kernel/folds.ts'
import { typeOfExpr, typeUpTo } from '../../../kernel/indexType.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import { combinerIdentity, extreme, isArgCombiner } from '../../../scalar/ops.ts'
import { strictChunk } from '../../../scalar/summation.ts'
import { type ExchangePlan, positionOf } from '../../../schedule/simt/fold/exchange.ts'
import { combinerOf, type FoldPlan, foldDType, onlyWhere } from '../../../schedule/simt/fold/folds.ts'
import type { AxisInfo } from '../../../schedule/simt/part/part.ts'
import { type DType, isFloat } from '../../../types/dtype.ts'
import {
  add,
  and,
  type Block,
  bin,
  cast,
  type Ex,
  eq,
  int,
  isYes,
  lit,
  mul,
  regType,
  select,
  type Type,
  v,
  when,
} from '../ir/ir.ts'
import { declare, forRegisters, type Lanes, type Registers, registerAt, registerIndex } from '../ir/registers.ts'
import type { Point } from '../nest/point.ts'
import { extentOf, type Held, inside, type Scope } from '../nest/scope.ts'
import { beatsEx, castEx, constant, mergeEx, roundTo, scalarEx } from '../scalar/arith.ts'
import { exchange } from './exchange.ts'
import type { Accumulator } from './open.ts'
import { declareRunning, type EachElement, isPlain, makeRunning, startRunning, termOf, wholeOf } from './running.ts'
import { declareTotals, foldTotals, makeTotals, pushTotals, type Totals } from './totals.ts'

function identityOf(acc: Accumulator): Ex {
  const c = combinerOf(acc.let)
  if (isArgCombiner(c)) return constant(acc.dtype, extreme(acc.dtype, c === 'argmax' ? 'least' : 'greatest'))
  return constant(acc.dtype, combinerIdentity(c, acc.dtype))
}

export function makeAccumulator(scope: Scope, { let: l, kept, levels }: FoldPlan): Accumulator {
  const { part, unit } = scope
  const length = scope.registers(kept)
  const c = combinerOf(l)
  const dtype = foldDType(part, l)
  const make = (wish: string, type: Type): Registers => ({ name: unit.name(wish), type, length })
  const isTotal = l.op.kind === 'reduce' && isFloat(dtype) && (c === 'sum' || c === 'prod')
  const values = make(`${l.op.kind === 'dot' ? 'dot' : c}_${l.id}`, regType(dtype))
  return {
    let: l,
    kept,
    dtype,
    values,
    positions: isArgCombiner(c) ? make(`at_${l.id}`, typeOfExpr(positionOf(part, l))) : undefined,
    totals: isTotal ? totalsOf(scope, l, regType(dtype), length) : undefined,
    running:
      levels === undefined || !isTotal ? undefined : makeRunning(values, c, dtype, levels, (wish) => unit.name(wish)),
  }
}

/** In strict mode, the tree of a fold of more than a chunk. */
function totalsOf({ part, unit }: Scope, l: LetStmt, type: Type, length: number): Totals | undefined {
  const folded = foldAxes(l).reduce((n, a) => n * part.axis(a).size, 1)
  if (unit.mode !== 'strict' || folded <= strictChunk) return undefined
  return makeTotals((wish) => unit.name(wish), `total_${l.id}`, type, length, Math.ceil(folded / strictChunk))
}

/** Whether the fold continues a dot's accumulator from its start, rather than adding it at the end. */
const startsFrom = (scope: Scope, l: LetStmt): boolean => scope.layout.bitsOf(scope.part.sharedFoldAxes(l)).length === 0

/** Declares and initialises. */
export function openAccumulator(scope: Scope, acc: Accumulator, point: (lanes: Lanes) => Point, out: Block): void {
  declare(acc.values, out)
  if (acc.positions !== undefined) declare(acc.positions, out)
  if (acc.totals !== undefined) declareTotals(acc.totals, out)
  const { running } = acc
  const isApart = running !== undefined && !isPlain(running)
  if (isApart) declareRunning(running, out)
  const counts = acc.totals?.counts
  const op = acc.let.op
  const start = op.kind === 'dot' && op.acc !== undefined && startsFrom(scope, acc.let) ? op.acc : undefined
  forRegisters(scope, acc.kept, out, (lanes, body) => {
    const i = registerIndex(scope.layout, acc.kept, lanes)
    const value = start === undefined ? identityOf(acc) : point(lanes).read(start)
    if (isApart) startRunning(running, i, body)
    else body.push({ k: 'assign', to: registerAt(acc.values, i), value })
    if (acc.positions !== undefined)
      body.push({ k: 'assign', to: registerAt(acc.positions, i), value: lit(acc.positions.type, -1) })
    if (counts !== undefined) body.push({ k: 'assign', to: registerAt(counts, i), value: int(0) })
  })
}

/** Folds one point. */
export function accumulate(acc: Accumulator, p: Point, out: Block): void {
  const { scope, lanes } = p
  const l = acc.let
  const op = l.op
  const i = registerIndex(scope.layout, acc.kept, lanes)
  const { running } = acc
  const to = running === undefined ? registerAt(acc.values, i) : termOf(running, i, termNumber(p, l))
  const valid = inside(scope, scope.part.spreadOnly(foldAxes(l)), lanes)
  const always = isYes(valid)
  if (op.kind === 'dot') {
    const wide = (id: number): Ex => castFor(scope.part.dtypeOf(id), acc.dtype, p.read(id))
    const product = scalarEx('mul', acc.dtype, acc.dtype, [wide(op.a), wide(op.b)], 'fast')
    const next = scalarEx('add', acc.dtype, acc.dtype, [to, product], 'fast')
    out.push(...when(valid, [{ k: 'assign', to, value: next }]))
    return
  }
  invariant(op.kind === 'reduce', 'only folds accumulate')
  const x = p.read(op.arg)
  const { combiner } = op
  if (isArgCombiner(combiner)) {
    invariant(acc.positions !== undefined, 'an arg-fold without positions')
    const q = registerAt(acc.positions, i)
    const position = cast(acc.positions.type, p.expr(positionOf(scope.part, l)))
    const value = scope.unit.name(`x_${l.id}`)
    const place = scope.unit.name(`p_${l.id}`)
    out.push({ k: 'let', name: value, value: x }, { k: 'let', name: place, value: position })
    const [vx, vp] = [v(x.type, value), v(position.type, place)]
    // Selected, not branched around, so that loads of the points that follow need not wait.
    const taken = scope.unit.name(`wins_${l.id}`)
    out.push({
      k: 'let',
      name: taken,
      value: and(
        beatsEx(combiner, op.last === true, { value: vx, at: vp }, { value: to, at: q }, ascends(p, l)),
        valid,
      ),
    })
    const wins = v('bool', taken)
    out.push({ k: 'assign', to, value: select(wins, vx, to) }, { k: 'assign', to: q, value: select(wins, vp, q) })
    return
  }
  if (scope.unit.mode === 'strict') closeStrictChunk(acc, p, i, valid, out)
  const only = combiner === 'sum' ? onlyWhere(scope.part, op.arg) : undefined
  const where = only === undefined ? undefined : and(valid, p.read(only.where))
  // A sum that starts at 0 is never -0, so that adding 0 changes nothing.
  if (where?.k === 'lit' && where.value !== true) return
  // A branch that a device takes for both outcomes: where that is a choice, it stays one.
  if (only !== undefined && where !== undefined && scope.unit.machine.hasPredication) {
    out.push(...when(where, [{ k: 'assign', to, value: mergeEx(combiner, acc.dtype, to, p.read(only.value)) }]))
    return
  }
  const step = always ? x : select(valid, x, identityOf(acc))
  out.push({ k: 'assign', to, value: mergeEx(combiner, acc.dtype, to, step) })
}

/** Whether a thread meets the terms of an arg-fold by their positions: along one axis, whose chunks are walked from the first. */
function ascends({ scope: { part } }: Point, l: LetStmt): boolean {
  const [along, ...others] = part.spreadOnly(foldAxes(l))
  return along === undefined || (others.length === 0 && (strideOf(positionOf(part, l), along) ?? 0) > 0)
}

/** The number of a point among those of a fold that a thread holds at once. */
export const termNumber = ({ scope: { layout }, lanes }: Point, l: LetStmt): Ex =>
  registerIndex(
    layout,
    layout.spread(foldAxes(l)).map((a) => a.name),
    lanes,
  )

const castFor = (from: DType, to: DType, x: Ex): Ex => (regType(from) === regType(to) ? x : castEx(from, to, x))

/** Strict: every 1024 indices the running sum is a total. */
function closeStrictChunk(acc: Accumulator, p: Point, i: Ex, valid: Ex, out: Block): void {
  const { totals } = acc
  if (totals === undefined) return
  const at = positionInFold(p, foldAxes(acc.let))
  const none = lit(at.type, 0)
  const begins = and(bin('!=', at, none), eq(bin('&', at, lit(at.type, strictChunk - 1)), none))
  // Behind the end of an open axis a position is that of another point.
  const isOpen = foldAxes(acc.let).some((a) => p.scope.part.axis(a).open !== undefined)
  const first = isOpen ? and(valid, begins) : begins
  const [sum, count] = [registerAt(acc.values, i), registerAt(totals.counts, i)]
  const body: Block = []
  pushTotals(totals, totalOf(acc), acc.dtype, count, (to, emit) => emit(i, sum, to), body)
  body.push({ k: 'assign', to: sum, value: identityOf(acc) }, { k: 'assign', to: count, value: add(count, int(1)) })
  out.push({ k: 'if', cond: first, body, otherwise: [] })
}

/** The number of a point among all that a fold is of, in order: of open axes that stand whole, those of this launch count. */
function positionInFold(p: Point, axes: readonly string[]): Ex {
  const { part, unit } = p.scope
  const infos = axes.map((a) => part.axis(a))
  const sizes = infos.map((a) => a.size)
  const relative = infos.map(({ name, extent }) => subExpr(axis(name, extent), axis(`${name}.start`, extent)))
  const isWhole = ({ open, size, extent }: AxisInfo): boolean => open !== undefined && size === extent
  if (!infos.slice(1).some(isWhole)) return p.expr(flatten(relative, sizes))
  const type = typeUpTo(sizes.reduce((n, s) => n * s, 1))
  return infos.reduce(
    (at: Ex, info, i) => {
      const size = isWhole(info) ? cast(type, extentOf(unit, info)) : lit(type, info.size)
      return add(mul(at, size), cast(type, p.expr(relative[i] ?? zero)))
    },
    lit(type, 0),
  )
}

const totalOf = (acc: Accumulator): 'sum' | 'prod' => (combinerOf(acc.let) === 'prod' ? 'prod' : 'sum')

/** Each element of a fold that a thread holds. */
export const eachKept =
  (scope: Scope, kept: readonly string[]): EachElement =>
  (out, emit) =>
    forRegisters(scope, kept, out, (lanes, body) => emit(registerIndex(scope.layout, kept, lanes), body))

/** Folds what a fold's accumulators hold into its values. */
export function gather(scope: Scope, acc: Accumulator, out: Block): void {
  const { totals, running } = acc
  if (running !== undefined && !isPlain(running))
    eachKept(scope, acc.kept)(out, (i, body) =>
      body.push({ k: 'assign', to: registerAt(acc.values, i), value: wholeOf(running, i) }),
    )
  if (totals === undefined) return
  eachKept(scope, acc.kept)(out, (i, body) => {
    const own = registerAt(totals.counts, i)
    foldTotals(totals, totalOf(acc), acc.dtype, own, (to, emit) => emit(i, registerAt(acc.values, i), to), body)
  })
}

/** Merges the threads' partial results, which were gathered, and gives where the results are held. */
export function closeAccumulators(
  scope: Scope,
  accs: readonly Accumulator[],
  plan: ExchangePlan,
  point: (lanes: Lanes) => Point,
  out: Block,
): Held[] {
  exchange(scope, accs, plan, out)
  return accs.map((acc) => finish(scope, acc, point, out))
}

/** Rounding, the accumulator a dot starts from, positions in their dtype. */
function finish(scope: Scope, acc: Accumulator, point: (lanes: Lanes) => Point, out: Block): Held {
  const l = acc.let
  const held = (registers: Registers): Held => ({ kind: 'registers', registers, layout: scope.layout, axes: acc.kept })
  const each = (emit: (i: Ex, lanes: Lanes, body: Block) => void): void =>
    forRegisters(scope, acc.kept, out, (lanes, body) => emit(registerIndex(scope.layout, acc.kept, lanes), lanes, body))
  if (acc.positions !== undefined) {
    const { positions } = acc
    const t = regType(l.dtype)
    const result: Registers = { name: scope.unit.name(`arg_${l.id}`), type: t, length: positions.length }
    declare(result, out)
    each((i, _, body) => {
      const at = registerAt(positions, i)
      const known = select(bin('<', at, int(0)), int(0), at)
      const value = castEx(known.type === 'i64' ? 'i64' : 'i32', l.dtype, known)
      body.push({ k: 'assign', to: registerAt(result, i), value })
    })
    return held(result)
  }
  const op = l.op
  if (op.kind === 'dot' && op.acc !== undefined && !startsFrom(scope, l)) {
    const from = op.acc
    each((i, lanes, body) => {
      const to = registerAt(acc.values, i)
      body.push({
        k: 'assign',
        to,
        value: scalarEx('add', acc.dtype, acc.dtype, [point(lanes).read(from), to], 'fast'),
      })
    })
  }
  if (scope.unit.mode === 'strict' && acc.dtype !== l.dtype)
    each((i, _, body) => {
      const to = registerAt(acc.values, i)
      body.push({ k: 'assign', to, value: roundTo(l.dtype, to) })
    })
  return held(acc.values)
}
