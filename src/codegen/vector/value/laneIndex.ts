/** Index expressions and predicates over the four lanes of a vector axis; addresses of elements and of lanes. */

import {
  type Atom,
  addConst,
  asConstant,
  type Expr,
  type Range,
  rangeOf,
  strideOf,
  sub,
  substitute,
  type Term,
  valuesOf,
} from '../../../affine/expr.ts'
import { type Bound, boundKey, type Predicate } from '../../../affine/predicate.ts'
import { InternalError } from '../../../diagnostics/errors.ts'
import { startOf } from '../../../kernel/axes.ts'
import { operandsOf } from '../../../kernel/ir.ts'
import { backStep } from '../../../schedule/loop/nest/position.ts'
import { type DType, isWide } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Register, Expr as Value } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { copyReg, emitConst, emitScalarOp, emitSplat, laneOf, makeReg, type Reg, read } from './lanes.ts'
import type { Point } from './point.ts'
import { type Index, withTerms } from './scope.ts'

/** An address: a register plus a constant. */
export interface Address {
  readonly local: Register
  readonly offset: number
}

/** How an expression changes over the four lanes of copy `j`. */
export type LanePattern =
  /** `at` is lane 0's expression, less `extra`. */
  | { readonly kind: 'affine'; readonly at: Expr; readonly extra: number; readonly stride: number }
  | { readonly kind: 'lanes'; readonly lanes: readonly Expr[] }
  /** It depends on data that differs between lanes. */
  | { readonly kind: 'data' }

export function lanePattern(values: Point, e: Expr, j: number): LanePattern {
  const v = values.vector
  if (v === undefined) return { kind: 'affine', at: e, extra: 0, stride: 0 }
  if (operandsOf({ kind: 'index', expr: e }).some((id) => values.varies(id))) return { kind: 'data' }
  const stride = strideOf(e, v.name)
  if (stride !== undefined) return { kind: 'affine', at: e, extra: 4 * j * stride, stride }
  const lanes = [0, 1, 2, 3].map((l) => atLane(values, e, j, l))
  const [first = e] = lanes
  const steps = lanes.map((l) => asConstant(sub(l, first)))
  const [, step] = steps
  if (step !== undefined && steps.every((s, i) => s === i * step))
    return { kind: 'affine', at: first, extra: 0, stride: step }
  return { kind: 'lanes', lanes }
}

/** The lanes of a pattern that is the same in every step. */
export function knownLanes(p: LanePattern): readonly number[] | undefined {
  if (p.kind === 'data') return undefined
  if (p.kind === 'affine') {
    const at = asConstant(p.at)
    return at === undefined ? undefined : [0, 1, 2, 3].map((l) => at + p.extra + l * p.stride)
  }
  const lanes = p.lanes.map(asConstant)
  return lanes.every((v) => v !== undefined) ? lanes : undefined
}

const mostAligned = 64

/** The largest power of two, at most `most`, that divides a number. */
export const powerIn = (n: number, most = mostAligned): number => (n % most === 0 ? most : n & -n)

/** A power of two, at most 64, that divides an expression at the first lane of every step. */
export function alignmentOf(values: Point, e: Expr): number {
  const v = values.vector
  let least = powerIn(e.offset)
  for (const { atom, coef } of e.terms) {
    let own = 1
    if (atom.kind === 'axis') {
      const block = startOf(atom.name)
      if (atom.name === v?.name) own = v.unit
      else if (block !== undefined) own = powerIn(values.axes.view(block).aligned)
    }
    least = Math.min(least, powerIn(powerIn(coef) * own))
  }
  return least
}

/**
 * The address of `base + e + extra + offset`; what is constant goes into the offset where no partial sum can be negative, and of what points backwards all
 * but whole steps, so that neighbours share one register.
 */
export function addressOf(values: Point, base: Register, e: Expr, extra: number, offset = 0): Address {
  const rest = e.offset + extra
  const back = rangeOf(e).lo >= e.offset ? Math.min(0, Math.floor(rest / backStep) * backStep) : rest
  const local = values.scope.index(addConst(e, back - e.offset), base)
  if (typeof local === 'number') throw new InternalError('an address without a base')
  return { local, offset: offset + rest - back }
}

/** Addresses of the four lanes of copy `j`, over which the expression changes as `p` says. */
export function laneAddresses(
  values: Point,
  base: Register,
  e: Expr,
  p: LanePattern,
  j: number,
  offset: number,
  depth: number,
): Address[] {
  if (p.kind === 'lanes') return p.lanes.map((l) => addressOf(values, base, l, 0, offset))
  if (p.kind === 'affine') {
    if (p.stride >= 0)
      return [0, 1, 2, 3].map((l) => plus(addressOf(values, base, p.at, p.extra, offset), l * p.stride))
    const end = addressOf(values, base, p.at, p.extra + 3 * p.stride, offset)
    return [0, 1, 2, 3].map((l) => plus(end, (3 - l) * -p.stride))
  }
  return [0, 1, 2, 3].map((l) => ({ local: laneLocal(values, e, j, l, depth, base), offset }))
}

const plus = (a: Address, n: number): Address => ({ local: a.local, offset: a.offset + n })

/** Runs `body` for the lanes below the limit of a partial step; lane 0 is always valid. */
export function forValidLanes(values: Point, body: (lane: number) => void): void {
  const { f } = values
  const limit = values.vector?.limit
  if (limit === undefined) {
    for (let lane = 0; lane < 4; lane++) body(lane)
    return
  }
  f.scope((done) => {
    for (let lane = 0; lane < 4; lane++) {
      if (lane > 0) f.leave(done, X.compare('le_s', limit, lane))
      body(lane)
    }
  })
}

/** The expression (plus a base) at one lane, where it depends on data. */
export function laneLocal(values: Point, e: Expr, j: number, lane: number, depth: number, base?: Register): Register {
  const { scope, f } = values
  const fixed: Term[] = []
  const moving: Term[] = []
  for (const t of e.terms) (values.exprVaries(withTerms([t], 0)) ? moving : fixed).push(t)
  const start: Index = scope.index(withTerms(fixed, e.offset), base)
  return scope.once(depth, `l:${base?.index ?? ''}:${e.key}@${j}.${lane}`, () =>
    moving.reduce<Value>((sum, t) => {
      const at = f.inline(() => atomLane(values, t.atom, j, lane, depth))
      return X.add(sum, t.coef === 1 ? at : X.mul(at, t.coef))
    }, X.asExpr(start)),
  )
}

function atomLane(values: Point, a: Atom, j: number, lane: number, depth: number): Value {
  const { scope } = values
  switch (a.kind) {
    case 'axis': {
      const at = X.asExpr(scope.axisPosition(a.name))
      return 4 * j + lane > 0 ? X.add(at, 4 * j + lane) : at
    }
    case 'value': {
      const r = values.lanes(a.id, j)
      const x = laneOf(r, lane)
      return isWide(r.dtype) ? X.convert(T.i32, x) : x
    }
    case 'div':
    case 'mod': {
      const of = laneLocal(values, a.of, j, lane, depth)
      return scope.quotient(a.kind, of, a.by, rangeOf(a.of).lo >= 0)
    }
    case 'scaled':
      return X.mul(laneLocal(values, a.of, j, lane, depth), scope.axisPosition(a.by))
  }
}

const indexDType = (e: Expr): DType => (rangeOf(e).lo >= 0 ? 'u32' : 'i32')

/** The value of an expression as one element. */
export function exprElement(values: Point, e: Expr): Reg {
  const at = values.scope.index(e)
  if (typeof at !== 'number') return { dtype: indexDType(e), lanes: 1, parts: [at] }
  return values.scope.keep(0, `c:${at}`, () => emitConst(values.f, indexDType(e), 1, at))
}

/** Known integers in the four lanes, made once: steps of different lengths know different ones of a value. */
export function constantLanes(values: Point, dtype: DType, lanes: readonly number[]): Reg {
  const { f, scope } = values
  const [l0 = 0, l1 = l0, l2 = l0, l3 = l0] = lanes
  const key = `k:${dtype}:${lanes.join()}`
  return scope.find(key) ?? scope.keep(0, key, () => makeReg(f, dtype, 4, () => X.constant(T.i32x4, [l0, l1, l2, l3])))
}

/** The value of an expression in each lane of copy `j`. */
export function exprLanes(values: Point, e: Expr, j: number): Reg {
  const { f, scope } = values
  const dtype = indexDType(e)
  const key = `x:${e.key}.${j}`
  const found = scope.find(key)
  if (found !== undefined) return found
  if (!values.exprVaries(e)) {
    const one = exprElement(values, e)
    return scope.keep(scope.exprDepth(e), key, () => emitSplat(f, one))
  }
  const depth = scope.exprDepth(e)
  const p = lanePattern(values, e, j)
  const known = knownLanes(p)
  if (known !== undefined) return constantLanes(values, dtype, known)
  if (p.kind === 'affine') {
    const at = scope.index(p.at)
    return scope.keep(depth, key, () =>
      makeReg(f, dtype, 4, () => {
        const [x, s] = [p.extra, p.stride]
        return X.add(X.splat(T.i32x4, at), X.constant(T.i32x4, [x, x + s, x + 2 * s, x + 3 * s]))
      }),
    )
  }
  const lanes: Index[] =
    p.kind === 'lanes' ? p.lanes.map((l) => scope.index(l)) : [0, 1, 2, 3].map((l) => laneLocal(values, e, j, l, depth))
  return scope.keep(depth, key, () =>
    makeReg(f, dtype, 4, () => {
      const [first = 0, ...others] = lanes
      return others.reduce<Value>((all, l, i) => X.replace(all, i + 1, l), X.splat(T.i32x4, first))
    }),
  )
}

/** Whether lo <= x < hi, of an i32 or of lanes, where x is known to be in a range: by one comparison, with what it may exceed or by the unsigned distance from lo. */
function within(x: Value, { lo, hi }: Bound, range: Range): Value {
  const constant = (n: number): Value => X.constant(x.type, n | 0)
  if (hi <= lo || range.hi < lo || range.lo >= hi) return X.constant(X.compare('eq', x, x).type, 0)
  if (range.lo >= lo)
    return range.hi < hi
      ? X.constant(X.compare('eq', x, x).type, x.type.lanes > 1 ? -1 : 1)
      : X.compare('lt_s', x, constant(hi))
  if (range.hi < hi) return X.compare('gt_s', x, constant(lo - 1))
  const from = lo === 0 ? x : X.sub(x, constant(lo))
  return X.compare('lt_u', from, constant(Math.min(hi - lo, 0xffffffff)))
}

/** What an expression may be; anything that an i32 holds, where data says. */
const spanOf = (e: Expr): Range => (valuesOf(e).size === 0 ? rangeOf(e) : { lo: -(2 ** 31), hi: 2 ** 31 - 1 })

/** Whether all bounds hold, as one element; every bound is the same in all lanes. */
export function predicateElement(values: Point, p: Predicate, depth: number): Reg {
  const { f, scope } = values
  const at = p.map((b) => scope.index(b.expr))
  return scope.keep(depth, `q:${p.map(boundKey).join()}`, () =>
    makeReg(f, 'bool', 1, () =>
      p.reduce<Value>((all, b, i) => {
        const holds = within(X.asExpr(at[i] ?? 0), b, spanOf(b.expr))
        return i === 0 ? holds : X.and(all, holds)
      }, X.int(1)),
    ),
  )
}

/** Whether all bounds hold, in each lane of copy `j`; computed in the frame the bounds depend on, whoever asks first. */
export function predicateLanes(values: Point, p: Predicate, j: number): Reg {
  const { f, scope, env } = values
  const depth = depthOf(values, p)
  const key = `Q:${p.map(boundKey).join()}.${j}`
  const found = scope.find(key)
  if (found !== undefined) return found
  // What is the same in all lanes is one, and outside the loop over them.
  const fixed = p.filter((b) => !values.exprVaries(b.expr))
  const holds = p.filter((b) => values.exprVaries(b.expr)).map((b) => boundLanes(values, b, j))
  if (fixed.length > 0) {
    const at = depthOf(values, fixed)
    const own = `F:${fixed.map(boundKey).join()}`
    const one = (): Reg => {
      const element = predicateElement(values, fixed, at)
      return scope.keep(at, own, () => emitSplat(f, element))
    }
    holds.unshift(scope.find(own) ?? one())
  }
  return scope.keep(depth, key, () => {
    const [first, ...others] = holds
    let all = first === undefined ? emitConst(f, 'bool', 4, true) : others.length === 0 ? copyReg(f, first) : first
    for (const h of others) all = emitScalarOp(f, env, 'and', 'bool', 'bool', [all, h])
    return all
  })
}

/** Whether a bound that varies along the lanes holds, in each lane of copy `j`: bounds on one expression and more of it compare the same lanes. */
function boundLanes(values: Point, b: Bound, j: number): Reg {
  const { f, scope } = values
  const { offset } = b.expr
  const moved = offset === 0 ? b : { expr: addConst(b.expr, -offset), lo: b.lo - offset, hi: b.hi - offset }
  const key = `B:${boundKey(moved)}.${j}`
  const found = scope.find(key)
  if (found !== undefined) return found
  const x = exprLanes(values, moved.expr, j)
  return scope.keep(values.exprDepth(b.expr), key, () =>
    makeReg(f, 'bool', 4, () => within(read(x), moved, spanOf(moved.expr))),
  )
}

export const depthOf = (values: Point, p: Predicate): number =>
  p.reduce((d, b) => Math.max(d, values.exprDepth(b.expr)), 0)

/** An expression with the vector axis moved to lane `lane` of copy `j`. */
function atLane(values: Point, e: Expr, j: number, lane: number): Expr {
  const v = values.vector
  if (v === undefined) return e
  const at = values.axes.inStep(v.name, v.unit, 4 * j + lane)
  return substitute(e, (a) => (a.kind === 'axis' && a.name === v.name ? at : undefined))
}
