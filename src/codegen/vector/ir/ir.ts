/**
 * The vector IR: a function as statements over virtual registers, whose operands are expression trees. It is what a loop schedule becomes on
 * a CPU, whatever its instructions: width, masks and registers are data, and every operation is named by its meaning. A target prints it.
 *
 * Integers wrap. A lane's arithmetic is that of its scalar type. Comparisons give 0 or 1, of vectors a mask. Addresses are bytes in one memory
 * of 32 bits; offsets are constants, not negative.
 */
import type { Type } from './types.ts'

/** A virtual register; as an expression, what it holds then. Registers of one number stand in one place, one after another. */
export interface Register {
  readonly kind: 'register'
  readonly type: Type
  readonly index: number
}

/** Of one operand, in the operand's type. `nearest` rounds ties to even; `extend8` and `extend16` extend the sign of the low bits of an i32. */
export type UnaryOp = 'neg' | 'abs' | 'ceil' | 'floor' | 'trunc' | 'nearest' | 'sqrt' | 'not' | 'extend8' | 'extend16'

/**
 * Of two operands of one type, in that type. `_s` reads integers as signed, `_u` as unsigned. `min` and `max` give NaN for one, and order zeros;
 * `pmin` is `b < a ? b : a`, `pmax` is `a < b ? b : a`. `andnot` is a and not b. Shifts of scalars count modulo the width.
 */
export type BinaryOp =
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'min'
  | 'max'
  | 'pmin'
  | 'pmax'
  | 'div_s'
  | 'div_u'
  | 'rem_s'
  | 'rem_u'
  | 'min_s'
  | 'min_u'
  | 'max_s'
  | 'max_u'
  | 'and'
  | 'or'
  | 'xor'
  | 'andnot'
  | 'shl'
  | 'shr_s'
  | 'shr_u'
  | 'rotl'

export type CompareOp =
  | 'eq'
  | 'ne'
  | 'lt'
  | 'le'
  | 'gt'
  | 'ge'
  | 'lt_s'
  | 'lt_u'
  | 'le_s'
  | 'le_u'
  | 'gt_s'
  | 'gt_u'
  | 'ge_s'
  | 'ge_u'

/**
 * How memory becomes lanes: `plain`, as it stands; `8_s` to `16_u`, each element widened from so many bits; `splat`, one element in all lanes;
 * `low`, the low 4 bytes, zeros above.
 */
export type LoadForm = 'plain' | '8_s' | '8_u' | '16_s' | '16_u' | 'splat' | 'low'

/** How a value becomes memory: as it stands, or the low bits of an integer. */
export type StoreForm = 'plain' | '8' | '16'

/** A function outside the program, of scalars. */
export interface External {
  readonly name: string
  readonly params: readonly Type[]
  readonly result: Type
}

export type Expr =
  | Register
  /** In every lane, or lane by lane. */
  | { readonly kind: 'const'; readonly type: Type; readonly value: number | bigint | readonly number[] }
  | { readonly kind: 'unary'; readonly type: Type; readonly op: UnaryOp; readonly a: Expr }
  | { readonly kind: 'binary'; readonly type: Type; readonly op: BinaryOp; readonly a: Expr; readonly b: Expr }
  /** Whether an integer is zero. */
  | { readonly kind: 'isZero'; readonly type: Type; readonly a: Expr }
  | { readonly kind: 'compare'; readonly type: Type; readonly op: CompareOp; readonly a: Expr; readonly b: Expr }
  /** All lanes of integers by one count below their width. */
  | {
      readonly kind: 'shift'
      readonly type: Type
      readonly op: 'shl' | 'shr_s' | 'shr_u'
      readonly a: Expr
      readonly count: Expr
    }
  /** `a` where the condition (an i32, or a mask) holds, else `b`; both are evaluated. */
  | { readonly kind: 'select'; readonly type: Type; readonly condition: Expr; readonly a: Expr; readonly b: Expr }
  /** a b + c, or c - a b, rounded once: of machines that have it. */
  | {
      readonly kind: 'fma'
      readonly type: Type
      readonly negated: boolean
      readonly a: Expr
      readonly b: Expr
      readonly c: Expr
    }
  /** Of a multiple of `align` bytes. */
  | {
      readonly kind: 'load'
      readonly type: Type
      readonly form: LoadForm
      readonly address: Expr
      readonly offset: number
      readonly align: number
    }
  /** The vector with one lane from memory. */
  | {
      readonly kind: 'loadLane'
      readonly type: Type
      readonly a: Expr
      readonly lane: number
      readonly address: Expr
      readonly offset: number
      readonly align: number
    }
  | { readonly kind: 'splat'; readonly type: Type; readonly a: Expr }
  | { readonly kind: 'extract'; readonly type: Type; readonly a: Expr; readonly lane: number }
  | { readonly kind: 'replace'; readonly type: Type; readonly a: Expr; readonly lane: number; readonly value: Expr }
  /** Lanes of `a`, then of `b`, by number. */
  | {
      readonly kind: 'shuffle'
      readonly type: Type
      readonly a: Expr
      readonly b: Expr
      readonly lanes: readonly number[]
    }
  /** Bytes of a table of 16 by number; beyond it 0. */
  | { readonly kind: 'lookup'; readonly type: Type; readonly a: Expr; readonly indices: Expr }
  /**
   * The value in another type: rounded to nearest, or truncated and saturated (NaN: 0). `signed` says how integers are read or made. Where the
   * result has fewer lanes they are the low ones, or the `high` ones; where it has more, the others are zero.
   */
  | {
      readonly kind: 'convert'
      readonly type: Type
      readonly a: Expr
      readonly signed: boolean
      readonly high: boolean
    }
  /** Two masks as one over lanes of half the width, `a` first. */
  | { readonly kind: 'pack'; readonly type: Type; readonly a: Expr; readonly b: Expr }
  /** The sums of the products of each two neighbours of eight lanes of 16 bits: four of 32. */
  | { readonly kind: 'dotPairs'; readonly type: Type; readonly a: Expr; readonly b: Expr }
  /** A mask's lanes as bits of an i32, lane 0 lowest. */
  | { readonly kind: 'bits'; readonly type: Type; readonly a: Expr }
  /** Whether any lane of a mask holds. */
  | { readonly kind: 'any'; readonly type: Type; readonly a: Expr }
  /** The same bits in another type: of a mask, all ones or zeros a lane; as a mask, whose lanes are promised to be that. */
  | { readonly kind: 'view'; readonly type: Type; readonly a: Expr }
  | { readonly kind: 'call'; readonly type: Type; readonly callee: External; readonly args: readonly Expr[] }
  /** One of two by a condition; the other is not evaluated. */
  | {
      readonly kind: 'branch'
      readonly type: Type
      readonly condition: Expr
      readonly a: Expr
      readonly b: Expr
    }
  /** A value behind statements. */
  | { readonly kind: 'let'; readonly type: Type; readonly body: readonly Statement[]; readonly value: Expr }
  /** Whatever the register holds: it may be read. */
  | { readonly kind: 'undefined'; readonly type: Type }

/** What `leave` leaves. */
export interface Label {
  readonly id: number
}

export type Statement =
  | { readonly kind: 'assign'; readonly register: Register; readonly value: Expr }
  | {
      readonly kind: 'store'
      readonly form: StoreForm
      readonly address: Expr
      readonly value: Expr
      readonly offset: number
      readonly align: number
    }
  /** One lane of a vector. */
  | {
      readonly kind: 'storeLane'
      readonly address: Expr
      readonly value: Expr
      readonly lane: number
      readonly offset: number
      readonly align: number
    }
  | {
      readonly kind: 'if'
      readonly condition: Expr
      readonly body: readonly Statement[]
      readonly otherwise: readonly Statement[] | undefined
    }
  /** `for (counter = from; counter < to; counter += step)`, of signed i32s; `to` is evaluated in every round. */
  | {
      readonly kind: 'for'
      readonly counter: Register
      readonly from: Expr
      readonly to: Expr
      readonly step: number
      readonly body: readonly Statement[]
    }
  /** The body, again while the condition behind it holds. */
  | { readonly kind: 'repeat'; readonly body: readonly Statement[]; readonly condition: Expr }
  /** The body, until the condition before it holds. */
  | { readonly kind: 'until'; readonly condition: Expr; readonly body: readonly Statement[] }
  /** Statements that `leave` may leave. */
  | { readonly kind: 'scope'; readonly label: Label; readonly body: readonly Statement[] }
  | { readonly kind: 'leave'; readonly label: Label; readonly condition: Expr }
  /** Bytes from one place to another, which may overlap. */
  | { readonly kind: 'copy'; readonly to: Expr; readonly from: Expr; readonly bytes: Expr }
  /** Another function of the program. */
  | { readonly kind: 'run'; readonly callee: VectorFunction; readonly args: readonly Expr[] }

/** A function without result. */
export interface VectorFunction {
  readonly name: string
  readonly params: readonly Register[]
  readonly body: readonly Statement[]
  /** Functions outside the program, in the order they were first asked for. */
  readonly externals: readonly External[]
}

/** What a machine gives: what code for it may hold. */
export interface VectorMachine {
  /** Bytes of a vector register. */
  readonly width: number
  /** Whether it multiplies and adds with one rounding. */
  readonly hasMultiplyAdd: boolean
}
