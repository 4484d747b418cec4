/** One point of a loop nest: reading values there, index expressions and predicates, and pointwise operations. */

import { type Atom, type Expr, rangeOf, type Term } from '../../../affine/expr.ts'
import type { Predicate } from '../../../affine/predicate.ts'
import { InternalError, invariant } from '../../../diagnostics/errors.ts'
import { atomRange, indexType, splitSum, typeOfExpr } from '../../../kernel/indexType.ts'
import type { LetStmt, TileOp, ValueId } from '../../../kernel/ir.ts'
import { elementsPerCall, isRandomDType, type RandomDType } from '../../../scalar/threefry.ts'
import { add, and, bin, call, cast, type Ex, int, lit, lt, mul, shared, type Type, uint } from '../ir/ir.ts'
import { type Lanes, type Registers, registerAt, registerIndex, withLane, withRepeat } from '../ir/registers.ts'
import { constant, scalarEx } from '../scalar/arith.ts'
import { coordinate, type Held, type Scope, sharedIndex, tid } from './scope.ts'

/** Points of neighbouring lanes. */
export interface LaneGroup {
  readonly first: Point
  readonly last: Point
  readonly points: readonly Point[]
}

export class Point {
  readonly scope: Scope
  readonly lanes: Lanes
  /** Values computed at this very point. */
  readonly here: Map<ValueId, Ex>

  constructor(scope: Scope, lanes: Lanes, here: Map<ValueId, Ex> = new Map()) {
    this.scope = scope
    this.lanes = lanes
    this.here = here
  }

  /** The points of the lanes of an axis's vectors, in groups of `n`. */
  laneGroups(axis: string, n: number): LaneGroup[] {
    const at = (lane: number): Point => new Point(this.scope, withLane(this.lanes, axis, lane), this.here)
    const groups = Math.ceil(this.scope.layout.axis(axis).vec / n)
    return Array.from({ length: groups }, (_, g) => {
      const points = Array.from({ length: n }, (_, i) => at(g * n + i))
      return { first: at(g * n), points, last: at(g * n + n - 1) }
    })
  }

  /** The point of a repeat of an axis. */
  atRepeat(axis: string, rep: number): Point {
    return new Point(this.scope, withRepeat(this.lanes, axis, rep), this.here)
  }

  /** The register of this point in an array over some axes. */
  registerOf(to: Registers, axes: readonly string[]): Ex {
    return registerAt(to, registerIndex(this.scope.layout, axes, this.lanes))
  }

  read(id: ValueId): Ex {
    const own = this.here.get(id)
    if (own !== undefined) return own
    const held = this.scope.held.get(id)
    if (held !== undefined) return this.readHeld(held)
    // A position is computed where it is read, maybe before the literals that it is made of stand.
    const literal = this.scope.part.lets.get(id)
    invariant(literal?.op.kind === 'const', `%${id} is not held`)
    return this.pointwise(literal)
  }

  private isUnderLayout(h: Extract<Held, { kind: 'registers' }>): boolean {
    return h.layout === this.scope.layout || h.axes.length === 0
  }

  private readHeld(h: Held): Ex {
    invariant(h.kind !== 'fragments', 'fragments are read by products alone')
    switch (h.kind) {
      case 'scalar':
        return h.value
      case 'position':
        return this.pointwise(h.let)
      case 'registers':
        invariant(this.isUnderLayout(h), `${h.registers.name} lies under another layout`)
        return registerAt(h.registers, registerIndex(h.layout, h.axes, this.lanes))
      case 'cells': {
        const { rep, lane } = this.lanes.get(h.axis) ?? { rep: int(0), lane: int(0) }
        const place = { rep: add(h.rep, rep), lane }
        const at = registerIndex(h.layout, h.axes, new Map([...this.lanes, [h.axis, place]]))
        return shared(h.array, add(mul(at, int(h.layout.threads)), tid))
      }
      case 'shared':
        return shared(
          h.array,
          sharedIndex(this.scope, h, () => undefined, this.lanes),
        )
    }
  }

  /** A staged tile at other coordinates. */
  readAt(id: ValueId, index: Readonly<Record<string, Expr>>): Ex {
    const held = this.scope.held.get(id)
    invariant(held?.kind === 'shared', `%${id} is not staged`)
    const at = (axis: string): Ex | undefined => {
      const e = index[axis]
      return e === undefined ? undefined : this.expr(e)
    }
    return shared(held.array, sharedIndex(this.scope, held, at, this.lanes))
  }

  /** Value of an index expression: of the type that its intervals ask for. */
  expr(e: Expr): Ex {
    const type = typeOfExpr(e)
    if (type === 'i32') return this.sum(e.offset, e.terms)
    invariant(this.scope.unit.dialect.wideIndex, 'an index beyond 32 bits')
    const { wide, narrow } = splitSum(e.terms)
    const parts = wide.map((t) => mul(cast('i64', this.atom(t.atom)), lit('i64', t.coef)))
    if (narrow.length > 0) parts.push(cast('i64', this.sum(0, narrow)))
    if (e.offset !== 0 || parts.length === 0) parts.push(lit('i64', e.offset))
    return parts.reduce(add)
  }

  /** A sum in the types of its terms. */
  private sum(offset: number, terms: readonly Term[]): Ex {
    let out: Ex = int(offset)
    let first = true
    for (const { atom, coef } of terms) {
      const term = mul(this.atom(atom), int(coef))
      out = first && offset === 0 ? term : add(out, term)
      first = false
    }
    return out
  }

  /** An atom in the type of its range. */
  private atom(a: Atom): Ex {
    const type = indexType(atomRange(a))
    switch (a.kind) {
      case 'axis':
        return cast(type, coordinate(this.scope, a.name, this.lanes))
      case 'value':
        return cast(type, this.read(a.id))
      case 'div':
      case 'mod':
        return this.quotient(a.kind, a.of, a.by, type)
      case 'scaled':
        return mul(cast(type, this.expr(a.of)), cast(type, this.scope.unit.launched(a.by)))
    }
  }

  /** Floor quotient or remainder by a constant; unsigned where the operand cannot be negative. */
  private quotient(kind: 'div' | 'mod', of: Expr, by: number, type: Type): Ex {
    const residue = kind === 'mod' ? this.residue(of, by) : undefined
    if (residue !== undefined) return cast(type, residue)
    const r = rangeOf(of)
    const x = this.expr(of)
    const shift = Math.log2(by)
    let y: Ex
    if (Number.isInteger(shift)) y = kind === 'div' ? bin('>>', x, uint(shift)) : bin('&', x, int(by - 1))
    else if (r.lo >= 0 && r.hi < 2 ** 32 && by < 2 ** 32)
      y = cast(type, bin(kind === 'div' ? '/' : '%', cast('u32', x), uint(by)))
    else if (r.lo >= 0) y = bin(kind === 'div' ? '/' : '%', x, lit(x.type, by))
    else y = call(x.type, `${x.type}_floor_${kind}`, x, lit(x.type, by))
    return cast(type, y)
  }

  /** The remainder of an expression by a power of two, where lanes of vectors alone decide it: known once loops are unrolled. */
  private residue(e: Expr, by: number): Ex | undefined {
    const { part, layout } = this.scope
    if (!Number.isInteger(Math.log2(by))) return undefined
    let sum: Ex = int(e.offset % by)
    for (const { atom, coef } of e.terms) {
      if (coef % by === 0) continue
      if (atom.kind !== 'axis') return undefined
      const vec = layout.find(atom.name)?.vec ?? 1
      const lane = this.lanes.get(atom.name)?.lane
      if (lane === undefined || (coef * vec) % by !== 0 || !part.canGroup(atom.name, vec)) return undefined
      sum = add(sum, mul(lane, int(coef % by)))
    }
    return bin('&', sum, int(by - 1))
  }

  /** A flattened position. */
  position(flat: Expr): Ex {
    return this.expr(flat)
  }

  predicate(p: Predicate): Ex {
    return and(
      ...p.map((b) => {
        const r = rangeOf(b.expr)
        const x = this.expr(b.expr)
        const low = r.lo >= b.lo ? undefined : bin('>=', x, int(b.lo))
        const high = r.hi < b.hi ? undefined : lt(x, int(b.hi))
        return and(low, high)
      }),
    )
  }

  /** Arguments of the generator's call that an element of random bits is in, and the element's number in the call. */
  randomCall(
    op: Extract<TileOp, { kind: 'random' }>,
    dtype: RandomDType,
  ): { readonly args: readonly Ex[]; readonly at: Ex } {
    const each = elementsPerCall(dtype)
    const shift = Math.log2(each)
    const index = this.expr(op.index)
    const wide = index.type === 'i64'
    const low = wide ? cast('u32', bin('>>', index, uint(shift))) : bin('>>', cast('u32', index), uint(shift))
    const high = wide ? cast('u32', bin('>>', index, uint(32 + shift))) : uint(0)
    return { args: [this.read(op.k0), this.read(op.k1), high, low], at: bin('&', cast('u32', index), uint(each - 1)) }
  }

  /** A pointwise operation that touches no memory. */
  pointwise(l: LetStmt): Ex {
    const { op } = l
    switch (op.kind) {
      case 'const': {
        const value = constant(l.dtype, op.value)
        const { mode, dialect } = this.scope.unit
        // A compiler that evaluates functions of constants need not round as the device does.
        const hidden = mode === 'strict' && dialect.foldsConstants && (value.type === 'f32' || value.type === 'f64')
        return hidden ? call(value.type, `${value.type}_runtime`, value) : value
      }
      case 'index': {
        const x = this.expr(op.expr)
        return scalarEx('cast', x.type === 'i64' ? 'i64' : 'i32', l.dtype, [x], this.scope.unit.mode)
      }
      case 'predicate':
        return this.predicate(op.predicate)
      case 'scalar': {
        const [first] = op.args
        const data = op.op === 'select' ? op.args[1] : first
        invariant(data !== undefined, `${op.op} without operands`)
        if (
          op.op === 'cast' &&
          ((op.loose === true && this.scope.unit.mode === 'fast') || this.scope.part.isRoundedByStores(l.id))
        ) {
          const x = this.read(data)
          if (x.type === 'f32') return x
        }
        return scalarEx(
          op.op,
          this.scope.part.dtypeOf(data),
          l.dtype,
          op.args.map((a) => this.read(a)),
          this.scope.unit.mode,
        )
      }
      case 'random': {
        invariant(isRandomDType(l.dtype), 'random bits are unsigned')
        const { args, at } = this.randomCall(op, l.dtype)
        return call('u32', `random_${l.dtype}_${op.rounds}`, ...args, at)
      }
      case 'at':
        return this.readAt(op.of, op.index)
      default:
        throw new InternalError(`${op.kind} is not pointwise`)
    }
  }
}
