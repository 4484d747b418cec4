/**
 * Expressions over v128 values: an expression is code that pushes its value, so formulas read as formulas; `let` evaluates
 * once into a temporary. Temporaries go back to the pool with `done`.
 */
import type { FunctionBuilder, Local, WasmOp } from '../binary/builder.ts'
import type { Env } from '../value/reg.ts'

/** Code that pushes one v128 (or i32 for shift counts). */
export type Ex = () => void

const scratch = new DataView(new ArrayBuffer(4))

/** Bits of an f32 as an i32. */
export function f32Bits(x: number): number {
  scratch.setFloat32(0, x)
  return scratch.getInt32(0)
}

export class Vector {
  readonly f: FunctionBuilder
  /** Fused multiply-add is available and allowed. */
  readonly fused: boolean
  private readonly temps: Local[] = []

  constructor(f: FunctionBuilder, env: Env) {
    this.f = f
    this.fused = env.relaxed && env.mode === 'fast'
  }

  of(l: Local): Ex {
    return () => this.f.get(l)
  }

  /** The value, computed once here. */
  let(x: Ex): Ex {
    x()
    const l = this.f.toLocal('v128')
    this.temps.push(l)
    return this.of(l)
  }

  /** A value that may be overwritten later. */
  letMutable(x: Ex): { readonly get: Ex; readonly set: (x: Ex) => void } {
    x()
    const l = this.f.toLocal('v128')
    this.temps.push(l)
    return {
      get: this.of(l),
      set: (y) => {
        y()
        this.f.set(l)
      },
    }
  }

  /** Each lane of f32 operands through code that turns f64 values on the stack into one. */
  lanewise(args: readonly Ex[], exact: () => void): Ex {
    return () => {
      this.f.f32x4Const(0)
      for (let lane = 0; lane < 4; lane++) {
        for (const x of args) {
          x()
          this.f.lane('f32x4.extract_lane', lane)
          this.f.op('f64.promote_f32')
        }
        exact()
        this.f.op('f32.demote_f64')
        this.f.lane('f32x4.replace_lane', lane)
      }
    }
  }

  /** Gives all temporaries back. */
  done(): void {
    this.f.release(...this.temps)
    this.temps.length = 0
  }

  /** The value in a fresh local of the caller's; temporaries go back. */
  result(x: Ex): Local {
    x()
    const l = this.f.toLocal('v128')
    this.done()
    return l
  }

  op(name: WasmOp, ...args: readonly Ex[]): Ex {
    return () => {
      for (const a of args) a()
      this.f.op(name)
    }
  }

  private shift(name: WasmOp, x: Ex, count: number): Ex {
    return () => {
      x()
      this.f.i32Const(count)
      this.f.op(name)
    }
  }

  /** f32 constant in every lane. */
  c(x: number): Ex {
    return () => this.f.f32x4Const(x)
  }

  /** i32 constant in every lane. */
  i(n: number): Ex {
    return () => this.f.i32x4Const(n)
  }

  /** f64 constant in both lanes. */
  d(x: number): Ex {
    return () => this.f.f64x2Const(x)
  }

  add = (a: Ex, b: Ex): Ex => this.op('f32x4.add', a, b)
  sub = (a: Ex, b: Ex): Ex => this.op('f32x4.sub', a, b)
  mul = (a: Ex, b: Ex): Ex => this.op('f32x4.mul', a, b)
  div = (a: Ex, b: Ex): Ex => this.op('f32x4.div', a, b)
  abs = (a: Ex): Ex => this.op('f32x4.abs', a)
  neg = (a: Ex): Ex => this.op('f32x4.neg', a)
  sqrt = (a: Ex): Ex => this.op('f32x4.sqrt', a)
  and = (a: Ex, b: Ex): Ex => this.op('v128.and', a, b)
  or = (a: Ex, b: Ex): Ex => this.op('v128.or', a, b)
  xor = (a: Ex, b: Ex): Ex => this.op('v128.xor', a, b)
  /** a and not b. */
  andnot = (a: Ex, b: Ex): Ex => this.op('v128.andnot', a, b)
  iadd = (a: Ex, b: Ex): Ex => this.op('i32x4.add', a, b)
  isub = (a: Ex, b: Ex): Ex => this.op('i32x4.sub', a, b)
  lt = (a: Ex, b: Ex): Ex => this.op('f32x4.lt', a, b)
  gt = (a: Ex, b: Ex): Ex => this.op('f32x4.gt', a, b)
  eq = (a: Ex, b: Ex): Ex => this.op('f32x4.eq', a, b)
  ne = (a: Ex, b: Ex): Ex => this.op('f32x4.ne', a, b)
  shl = (a: Ex, n: number): Ex => this.shift('i32x4.shl', a, n)
  shrS = (a: Ex, n: number): Ex => this.shift('i32x4.shr_s', a, n)
  shrU = (a: Ex, n: number): Ex => this.shift('i32x4.shr_u', a, n)
  /** The lesser of x and a bound; NaN stays. One instruction, unlike f32x4.min. */
  atMost = (x: Ex, bound: Ex): Ex => this.op('f32x4.pmin', x, bound)
  /** The greater of x and a bound; NaN stays. */
  atLeast = (x: Ex, bound: Ex): Ex => this.op('f32x4.pmax', x, bound)
  /** Bits of `a` where the mask is set, of `b` elsewhere. */
  select = (mask: Ex, a: Ex, b: Ex): Ex => this.op('v128.bitselect', a, b, mask)

  /** a * b + c, rounded once where the engine does and the mode lets it. */
  fma(a: Ex, b: Ex, c: Ex): Ex {
    return this.fused ? this.op('f32x4.relaxed_madd', a, b, c) : this.add(this.mul(a, b), c)
  }

  /** c - a * b. */
  fnma(a: Ex, b: Ex, c: Ex): Ex {
    return this.fused ? this.op('f32x4.relaxed_nmadd', a, b, c) : this.sub(c, this.mul(a, b))
  }

  /** Horner's scheme: coefficients from the highest power down. `x` is evaluated for each. */
  poly(x: Ex, coefficients: readonly number[]): Ex {
    const [head = 0, ...rest] = coefficients
    return rest.reduce<Ex>((acc, k) => this.fma(acc, x, this.c(k)), this.c(head))
  }

  /** Sign bit of x. */
  signOf = (x: Ex): Ex => this.and(x, this.i(-0x80000000))
}
