/**
 * Expressions over vectors of four 32-bit lanes or two of 64 bits, so that formulas read as formulas: operations take lanes as what they compute on
 * (floats, integers, bits), whatever made them. `let` evaluates once into a temporary. Temporaries go back to the pool with `done`.
 */
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { BinaryOp, Expr, Register, UnaryOp } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import type { Env } from '../value/reg.ts'

/** A vector. */
export type Ex = Expr

/** A function of f64 scalars, for rare operands. */
export type Exact = (args: readonly Expr[]) => Expr

const scratch = new DataView(new ArrayBuffer(4))

/** Bits of an f32 as an i32. */
export function f32Bits(x: number): number {
  scratch.setFloat32(0, x)
  return scratch.getInt32(0)
}

export class Vector {
  readonly f: Builder
  /** Fused multiply-add is available and allowed. */
  readonly fused: boolean
  /** Lanes of f64; of f32 otherwise. */
  readonly wide: boolean
  private readonly env: Env
  private readonly floatType: T.Type
  private readonly integerType: T.Type
  private readonly temps: Register[]

  constructor(f: Builder, env: Env, wide = false, temps: Register[] = []) {
    this.f = f
    this.env = env
    this.temps = temps
    this.fused = env.hasMultiplyAdd && env.mode === 'fast'
    this.wide = wide
    this.floatType = wide ? T.f64x2 : T.f32x4
    this.integerType = wide ? T.i64x2 : T.i32x4
  }

  /** Lanes of f64 whose multiply-adds round twice, with the temporaries of this vector. */
  doubles(): Vector {
    return new Vector(this.f, { ...this.env, hasMultiplyAdd: false }, true, this.temps)
  }

  /** The value, computed once here. */
  let(x: Ex): Ex {
    const l = this.f.keep(x)
    this.temps.push(l)
    return l
  }

  /** A value that may be overwritten later. */
  letMutable(x: Ex): { readonly get: Ex; readonly set: (x: Ex) => void } {
    const l = this.f.keep(x)
    this.temps.push(l)
    return { get: l, set: (y) => this.f.assign(l, y) }
  }

  /** Each lane of f32 operands through a function of f64 scalars. */
  lanewise(args: readonly Ex[], exact: Exact): Ex {
    let out = this.c(0)
    for (let lane = 0; lane < 4; lane++) {
      const elements = args.map((x) => X.convert(T.f64, X.extract(X.view(T.f32x4, x), lane)))
      out = X.replace(out, lane, X.convert(T.f32, exact(elements)))
    }
    return out
  }

  /** Gives all temporaries back. */
  done(): void {
    this.f.release(...this.temps)
    this.temps.length = 0
  }

  /** The value in a fresh register of the caller's; temporaries go back. */
  result(x: Ex): Register {
    const l = this.f.keep(x)
    this.done()
    return l
  }

  /** An operation on float lanes. */
  float(op: UnaryOp, a: Ex): Ex {
    return X.unary(op, a, this.floatType)
  }

  private floats(op: BinaryOp, a: Ex, b: Ex): Ex {
    return X.binary(op, a, b, this.floatType)
  }

  private integers(op: BinaryOp, a: Ex, b: Ex): Ex {
    return X.binary(op, a, b, this.integerType)
  }

  /** A float in every lane. */
  c(x: number): Ex {
    return X.constant(this.floatType, x)
  }

  /** An integer in every lane. */
  i(n: number | bigint): Ex {
    return X.constant(this.integerType, this.wide ? BigInt(n) : Number(n))
  }

  add = (a: Ex, b: Ex): Ex => this.floats('add', a, b)
  sub = (a: Ex, b: Ex): Ex => this.floats('sub', a, b)
  mul = (a: Ex, b: Ex): Ex => this.floats('mul', a, b)
  div = (a: Ex, b: Ex): Ex => this.floats('div', a, b)
  /** NaN where an operand is. */
  min = (a: Ex, b: Ex): Ex => this.floats('min', a, b)
  abs = (a: Ex): Ex => this.float('abs', a)
  neg = (a: Ex): Ex => this.float('neg', a)
  sqrt = (a: Ex): Ex => this.float('sqrt', a)
  trunc = (a: Ex): Ex => this.float('trunc', a)
  and = (a: Ex, b: Ex): Ex => X.bitwise('and', a, b)
  or = (a: Ex, b: Ex): Ex => X.bitwise('or', a, b)
  xor = (a: Ex, b: Ex): Ex => X.bitwise('xor', a, b)
  /** a and not b. */
  andnot = (a: Ex, b: Ex): Ex => X.bitwise('andnot', a, b)
  iadd = (a: Ex, b: Ex): Ex => this.integers('add', a, b)
  isub = (a: Ex, b: Ex): Ex => this.integers('sub', a, b)
  imin = (a: Ex, b: Ex): Ex => this.integers('min_s', a, b)
  imax = (a: Ex, b: Ex): Ex => this.integers('max_s', a, b)
  lt = (a: Ex, b: Ex): Ex => X.compare('lt', a, b, this.floatType)
  gt = (a: Ex, b: Ex): Ex => X.compare('gt', a, b, this.floatType)
  eq = (a: Ex, b: Ex): Ex => X.compare('eq', a, b, this.floatType)
  ne = (a: Ex, b: Ex): Ex => X.compare('ne', a, b, this.floatType)
  ilt = (a: Ex, b: Ex): Ex => X.compare('lt_s', a, b, this.integerType)
  igt = (a: Ex, b: Ex): Ex => X.compare('gt_s', a, b, this.integerType)
  ige = (a: Ex, b: Ex): Ex => X.compare('ge_s', a, b, this.integerType)
  shl = (a: Ex, n: number): Ex => X.shift('shl', a, n, this.integerType)
  shrS = (a: Ex, n: number): Ex => X.shift('shr_s', a, n, this.integerType)
  shrU = (a: Ex, n: number): Ex => X.shift('shr_u', a, n, this.integerType)
  /** The lesser of x and a bound; NaN stays. One instruction, unlike `min`. */
  atMost = (x: Ex, bound: Ex): Ex => this.floats('pmin', x, bound)
  /** The greater of x and a bound; NaN stays. */
  atLeast = (x: Ex, bound: Ex): Ex => this.floats('pmax', x, bound)
  /** Lanes of `a` where the mask is set, of `b` elsewhere. */
  select = (mask: Ex, a: Ex, b: Ex): Ex => X.select(mask, a, b)
  /** Whether any lane of a mask is set, as an i32. */
  any = (mask: Ex): Ex => X.any(mask)

  /** a * b + c, rounded once where the machine does and the mode lets it. */
  fma(a: Ex, b: Ex, c: Ex): Ex {
    return this.fused ? X.fma(this.floatType, a, b, c) : this.add(this.mul(a, b), c)
  }

  /** c - a * b. */
  fnma(a: Ex, b: Ex, c: Ex): Ex {
    return this.fused ? X.fma(this.floatType, a, b, c, true) : this.sub(c, this.mul(a, b))
  }

  /** Horner's scheme: coefficients from the highest power down. `x` is evaluated for each. */
  poly(x: Ex, coefficients: readonly number[]): Ex {
    const [head = 0, ...rest] = coefficients
    return rest.reduce<Ex>((acc, k) => this.fma(acc, x, this.c(k)), this.c(head))
  }

  /** Sign bit of x. */
  signOf = (x: Ex): Ex => this.and(x, this.i(this.wide ? -(2n ** 63n) : -0x80000000))
}
