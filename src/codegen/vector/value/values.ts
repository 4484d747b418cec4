/**
 * Evaluation of tile values at the current point of a loop nest: one element where nothing varies along the vector axis, four
 * elements a copy where it does. Each value is computed once in the outermost frame its operands allow.
 */

import type { Expr } from '../../../affine/expr.ts'
import { InternalError, invariant } from '../../../diagnostics/errors.ts'
import type { KernelParam, TileOp, ValueId } from '../../../kernel/ir.ts'
import { operandsOf } from '../../../kernel/ir.ts'
import { expressionsOf } from '../../../kernel/walk.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import { combinerIdentity } from '../../../scalar/ops.ts'
import { isRandomDType } from '../../../scalar/threefry.ts'
import { type Axes, type Def, namedAxes, type Tile } from '../../../schedule/loop/ir/tile.ts'
import { inlineOperands, Reach } from '../../../schedule/loop/tiles/places.ts'
import { holdsInteger, isWide } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { emitCast, emitSaturated } from '../math/cast.ts'
import { emitRoundTo } from '../math/half.ts'
import { laneReader, loadElement, loadLanes } from './access.ts'
import { addressOf, constantLanes, exprElement, exprLanes, predicateElement, predicateLanes } from './laneIndex.ts'
import { copyReg, type Env, emitConst, emitFma, emitLoadConvert, emitScalarOp, emitSplat, type Reg } from './lanes.ts'
import { LaneValues } from './laneValues.ts'
import type { Access, Point, VectorAxis } from './point.ts'
import { randomElement, randomLanes } from './random.ts'
import { part, read as readReg, regClass } from './reg.ts'
import type { Scope } from './scope.ts'

/** Where a value stands once it has been computed: a register in a frame, or a tile in scratch. */
export type Home =
  | { readonly kind: 'register'; readonly reg: Reg; readonly depth: number }
  | { readonly kind: 'tile'; readonly tile: Tile; readonly depth: number; readonly round: boolean }
  /** Four lanes at the current point; `tile` only names the axes that they vary along. */
  | { readonly kind: 'lanes'; readonly reg: Reg; readonly depth: number; readonly tile: Tile }

/** A value of 64 bits, held to bounds. */
interface HeldTo {
  readonly of: ValueId
  readonly lo: number
  readonly hi: number
}

export class Values implements Point {
  readonly scope: Scope
  readonly env: Env
  readonly params: ReadonlyMap<string, KernelParam>
  private readonly definitions: ReadonlyMap<ValueId, Def>
  readonly homes = new Map<ValueId, Home>()
  axes: Axes
  vector: VectorAxis | undefined
  private readonly known = new LaneValues(this, (id) => (this.homes.has(id) ? undefined : this.def(id)))
  private depths = new Map<ValueId, number>()
  private depthVersion = -1
  private readonly reach: Reach
  private readonly base: (param: string) => Register
  readonly scratch: Register

  constructor(
    scope: Scope,
    env: Env,
    params: ReadonlyMap<string, KernelParam>,
    definitions: ReadonlyMap<ValueId, Def>,
    axes: Axes,
    base: (param: string) => Register,
    scratch: Register,
  ) {
    this.scope = scope
    this.env = env
    this.params = params
    this.definitions = definitions
    this.axes = axes
    this.base = base
    this.scratch = scratch
    this.reach = new Reach(
      (id) => this.def(id),
      (id) => {
        const home = this.homes.get(id)
        return home?.kind === 'register' ? home.kind : home?.tile
      },
    )
    scope.valueDepth = (id) => this.depth(id)
    scope.valueIndex = (id) => this.asIndex(id)
  }

  get f() {
    return this.scope.f
  }

  def(id: ValueId): Def {
    const d = this.definitions.get(id)
    if (d === undefined) throw new InternalError(`value %${id} is not defined`)
    return d
  }

  setHome(id: ValueId, home: Home): void {
    this.homes.set(id, home)
    this.reach.forget()
    this.depthVersion = -1
  }

  /** Forgets where a value of a finished loop body stood. */
  dropHome(id: ValueId): void {
    this.homes.delete(id)
    this.reach.forget()
  }

  /** Axes of several indices a value really depends on. */
  reachOf(id: ValueId): ReadonlySet<string> {
    return this.reach.of(id)
  }

  /** Whether a value differs between lanes. */
  varies(id: ValueId): boolean {
    return this.vector !== undefined && this.reachOf(id).has(this.vector.name)
  }

  /** Whether an expression differs between lanes. */
  exprVaries(e: Expr): boolean {
    const v = this.vector
    if (v === undefined) return false
    return namedAxes([e]).has(v.name) || operandsOf({ kind: 'index', expr: e }).some((id) => this.varies(id))
  }

  /** The innermost frame a value depends on. */
  depth(id: ValueId): number {
    if (this.depthVersion !== this.scope.version) {
      this.depths = new Map()
      this.depthVersion = this.scope.version
    }
    const known = this.depths.get(id)
    if (known !== undefined) return known
    const home = this.homes.get(id)
    let d = 0
    if (home?.kind === 'register' || home?.kind === 'lanes') d = home.depth
    else if (home?.kind === 'tile') d = Math.max(home.depth, this.scope.exprDepth(this.axes.tileIndex(home.tile)))
    else {
      const { op } = this.def(id)
      if (op === undefined) throw new InternalError(`carried value %${id} has no place`)
      for (const e of expressionsOf(op)) d = Math.max(d, this.exprDepth(e))
      for (const i of inlineOperands(op)) d = Math.max(d, this.depth(i))
      if (op.kind === 'at') {
        const of = this.homeTile(op.of)
        d = Math.max(d, of.depth, this.scope.exprDepth(this.axes.tileIndex(of.tile, op.index)))
      }
    }
    this.depths.set(id, d)
    return d
  }

  exprDepth(e: Expr): number {
    return this.scope.exprDepth(e)
  }

  homeTile(id: ValueId): Extract<Home, { kind: 'tile' }> {
    const home = this.homes.get(id)
    if (home?.kind !== 'tile') throw new InternalError(`staged value %${id} has no tile`)
    return home
  }

  paramOf(name: string): KernelParam {
    const p = this.params.get(name)
    if (p === undefined) throw new InternalError(`parameter ${name} is not declared`)
    return p
  }

  baseOf(name: string): Register {
    return this.base(name)
  }

  /** The value as an i32 index (the same in all lanes). */
  private asIndex(id: ValueId): Register {
    const r = this.element(id)
    if (!isWide(r.dtype)) return part(r, 0)
    return this.scope.once(this.depth(id), `w:${id}`, () => X.convert(T.i32, readReg(r)))
  }

  /** A value that is the same in all lanes, as one element. */
  element(id: ValueId): Reg {
    const home = this.homes.get(id)
    if (home?.kind === 'register') return home.reg
    const key = `s:${id}`
    const found = this.scope.find(key)
    if (found !== undefined) return found
    return this.compute(id, key, 1, 0)
  }

  /** Four lanes of a value in copy `j`. */
  lanes(id: ValueId, j: number): Reg {
    const home = this.homes.get(id)
    if (home?.kind === 'lanes') return home.reg
    if (!this.varies(id)) return this.splat(id)
    const first = this.known.first(id, j)
    const key = `v:${id}.${first}`
    return this.scope.find(key) ?? this.compute(id, key, 4, first)
  }

  /** The value in copy `j`: four lanes under a vector axis, else one element. */
  at(id: ValueId, j: number): Reg {
    return this.vector === undefined ? this.element(id) : this.lanes(id, j)
  }

  private splat(id: ValueId): Reg {
    const key = `p:${id}`
    const found = this.scope.find(key)
    if (found !== undefined) return found
    const def = this.def(id)
    const { op } = def
    if (op?.kind === 'const' && !this.homes.has(id))
      return this.scope.keep(0, key, () => emitConst(this.f, def.dtype, 4, op.value))
    const r = this.element(id)
    return this.scope.keep(this.depth(id), key, () => emitSplat(this.f, r))
  }

  private compute(id: ValueId, key: string, lanes: 1 | 4, j: number): Reg {
    const d = this.depth(id)
    const home = this.homes.get(id)
    if (home?.kind === 'tile')
      return this.readTile(home, this.axes.tileIndex(home.tile), this.def(id).dtype, d, key, lanes, j)
    const { op, dtype } = this.def(id)
    if (op === undefined) throw new InternalError(`carried value %${id} has no place`)
    const { f, env, scope } = this
    const known = lanes === 4 ? this.known.of(id, j) : undefined
    if (known !== undefined) return constantLanes(this, dtype, known)
    const operand = (i: ValueId): Reg => (lanes === 4 ? this.lanes(i, j) : this.element(i))
    switch (op.kind) {
      case 'const':
        return scope.keep(d, key, () => emitConst(f, dtype, lanes, op.value))
      case 'index': {
        const raw = lanes === 4 ? exprLanes(this, op.expr, j) : exprElement(this, op.expr)
        return scope.keep(Math.max(d, 0), key, () => emitCast(f, env, dtype, raw))
      }
      case 'predicate':
        return lanes === 4
          ? scope.keep(d, key, () => copyReg(f, predicateLanes(this, op.predicate, j)))
          : scope.keep(d, key, () => copyReg(f, predicateElement(this, op.predicate, d)))
      case 'load': {
        const access: Access = { ...op, depth: d, key }
        return lanes === 4 ? loadLanes(this, access, dtype, j) : loadElement(this, access, dtype)
      }
      case 'scalar': {
        const equal = lanes === 4 && regClass(dtype) === 'int' ? this.known.operandOf(op.op, op.args, j) : undefined
        // What stands in a place of its own may be overwritten before this value is read.
        if (equal !== undefined && !this.homes.has(equal)) return this.lanes(equal, j)
        const held =
          lanes === 4 && op.op === 'cast' && regClass(dtype) === 'int' ? this.heldTo(op.args, dtype) : undefined
        if (held !== undefined) {
          const x = this.lanes(held.of, j)
          return scope.keep(d, key, () => emitSaturated(f, dtype, x, held.lo, held.hi))
        }
        const args = op.args.map(operand)
        const last = op.args.at(-1)
        const [first] = args
        invariant(last !== undefined && first !== undefined, `${op.op} without operands`)
        if (op.loose === true && env.mode === 'fast') return scope.keep(d, key, () => copyReg(f, first, dtype))
        return scope.keep(d, key, () => emitScalarOp(f, env, op.op, this.def(last).dtype, dtype, args))
      }
      case 'random': {
        invariant(isRandomDType(dtype), 'random bits are unsigned')
        return lanes === 4 ? randomLanes(this, op, dtype, d, key, j) : randomElement(this, op, dtype, d, key)
      }
      case 'reduce':
        return this.single(op, dtype, d, key, lanes, j)
      case 'scan': {
        const arg = operand(op.arg)
        return scope.keep(d, key, () =>
          op.exclusive ? emitConst(f, dtype, lanes, combinerIdentity(op.combiner, dtype)) : copyReg(f, arg),
        )
      }
      case 'dot': {
        const cast = (i: ValueId): Reg => {
          const r = operand(i)
          return r.dtype === dtype ? r : this.scope.keep(d, `${key}c${i}`, () => emitCast(f, env, dtype, r))
        }
        const [a, b] = [cast(op.a), cast(op.b)]
        const acc = op.acc === undefined ? undefined : operand(op.acc)
        return scope.keep(d, key, () => emitFma(f, env, a, b, acc ?? emitConst(f, dtype, lanes, zeroOf(dtype))))
      }
      case 'stage':
        return scope.keep(d, key, () => copyReg(f, operand(op.of), dtype))
      case 'at': {
        const tile = this.homeTile(op.of)
        return this.readTile(tile, this.axes.tileIndex(tile.tile, op.index), dtype, d, key, lanes, j)
      }
    }
  }

  /** What `min(max(x, lo), hi)` of i64 holds to bounds, where a shorter integer has both: it stands in no place of its own. */
  private heldTo([arg]: readonly ValueId[], to: Reg['dtype']): HeldTo | undefined {
    const scalar = (id: ValueId | undefined, name: 'max' | 'min'): readonly ValueId[] | undefined => {
      const def = id === undefined || this.homes.has(id) ? undefined : this.def(id)
      return def?.dtype === 'i64' && def.op?.kind === 'scalar' && def.op.op === name ? def.op.args : undefined
    }
    const literal = (id: ValueId | undefined): number | undefined => {
      const op = id === undefined || this.homes.has(id) ? undefined : this.def(id).op
      return op?.kind === 'const' ? Number(op.value) : undefined
    }
    const [above, most] = scalar(arg, 'min') ?? []
    const [of, fewest] = scalar(above, 'max') ?? []
    const [lo, hi] = [literal(fewest), literal(most)]
    if (of === undefined || lo === undefined || hi === undefined || lo > hi) return undefined
    const isIn = (d: Reg['dtype']): boolean => holdsInteger(d, lo) && holdsInteger(d, hi)
    return isIn(to) && isIn('i32') ? { of, lo, hi } : undefined
  }

  /** A reduction over axes of one index. */
  private single(
    op: Extract<TileOp, { kind: 'reduce' }>,
    dtype: Reg['dtype'],
    d: number,
    key: string,
    lanes: 1 | 4,
    j: number,
  ): Reg {
    const { f, env, scope } = this
    if (op.combiner === 'argmax' || op.combiner === 'argmin') {
      const position = op.position
      if (position === undefined) return scope.keep(d, key, () => emitConst(f, dtype, lanes, isWide(dtype) ? 0n : 0))
      const raw = lanes === 4 ? exprLanes(this, position, j) : exprElement(this, position)
      return scope.keep(d, key, () => emitCast(f, env, dtype, raw))
    }
    const arg = lanes === 4 ? this.lanes(op.arg, j) : this.element(op.arg)
    const { combiner } = op
    if (combiner !== 'sum' || env.mode !== 'strict') return scope.keep(d, key, () => copyReg(f, arg, dtype))
    return scope.keep(d, key, () =>
      emitScalarOp(f, env, 'add', dtype, dtype, [emitConst(f, dtype, lanes, combinerIdentity('sum', dtype)), arg]),
    )
  }

  private readTile(
    home: Extract<Home, { kind: 'tile' }>,
    index: Expr,
    dtype: Reg['dtype'],
    d: number,
    key: string,
    lanes: 1 | 4,
    j: number,
  ): Reg {
    const { f, env, scope } = this
    const { offset, dtype: stored } = home.tile
    let read: () => Reg
    if (lanes === 4) read = laneReader(this, this.scratch, index, offset, stored, j, d, false).whole
    else {
      const at = addressOf(this, this.scratch, index, 0, offset)
      read = () => emitLoadConvert(f, env, stored, 1, at.local, at.offset)
    }
    const r = scope.keep(d, `${key}t`, read)
    if (dtype === 'bool' && lanes === 1)
      return this.scope.keep(d, key, () =>
        emitScalarOp(this.f, this.env, 'ne', 'i32', 'bool', [r, emitConst(this.f, 'i32', 1, 0)]),
      )
    const named: Reg = { dtype, lanes, parts: r.parts }
    if (!home.round) {
      this.scope.frame(d).regs.set(key, named)
      return named
    }
    return this.scope.keep(d, key, () => emitRoundTo(this.f, this.env, dtype, named))
  }
}

const zeroOf = (d: Reg['dtype']): Scalar => (isWide(d) ? 0n : 0)
