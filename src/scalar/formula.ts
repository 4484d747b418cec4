/**
 * What approximations of special functions are written in: arithmetic over values of some kind. Each code generator, the oracle and
 * the prices bring a kind of their own (numbers, vectors, lines of code, costs), so a formula is written once.
 */
import type { UnaryName } from './ops.ts'

/** Values T, conditions M. A value that is used more than once goes through `let`. */
export interface Algebra<T, M> {
  /** Computed in f64, with the coefficients for it; f32 otherwise. */
  readonly wide: boolean
  readonly lit: (value: number) => T
  readonly let: (x: T) => T
  readonly add: (a: T, b: T) => T
  readonly sub: (a: T, b: T) => T
  readonly mul: (a: T, b: T) => T
  readonly div: (a: T, b: T) => T
  /** a * b + c, rounded once or twice. */
  readonly fma: (a: T, b: T, c: T) => T
  readonly neg: (a: T) => T
  readonly abs: (a: T) => T
  readonly sqrt: (a: T) => T
  /** To the nearest whole number, ties to even. */
  readonly round: (a: T) => T
  readonly exp: (a: T) => T
  readonly log: (a: T) => T
  readonly erf: (a: T) => T
  readonly lt: (a: T, b: T) => M
  readonly eq: (a: T, b: T) => M
  readonly isnan: (a: T) => M
  readonly isinf: (a: T) => M
  /** Both choices are computed; the other may be NaN. */
  readonly select: (m: M, a: T, b: T) => T
}

/** A function of one operand (`y` is `x` then) or two. */
export type Formula = <T, M>(a: Algebra<T, M>, x: T, y: T) => T

/** Horner's scheme, highest power first. `x` has gone through `let`. */
export function poly<T, M>(a: Algebra<T, M>, x: T, coefficients: readonly number[]): T {
  const [head = 0, ...rest] = coefficients
  return rest.reduce((sum, k) => a.fma(sum, x, a.lit(k)), a.lit(head))
}

/** Coefficients for f32 and f64. */
export interface Coefficients {
  readonly narrow: readonly number[]
  readonly wide: readonly number[]
}

export const polyOf = <T, M>(a: Algebra<T, M>, x: T, c: Coefficients): T => poly(a, x, a.wide ? c.wide : c.narrow)

/** The nearest value in [low, high]; NaN stays. */
export function clamp<T, M>(a: Algebra<T, M>, x: T, low: number, high: number): T {
  const y = a.let(a.select(a.lt(x, a.lit(low)), a.lit(low), x))
  return a.let(a.select(a.lt(a.lit(high), y), a.lit(high), y))
}

/** What derivatives are written in: terms of a graph. */
export interface Terms<T> {
  readonly mul: (a: T, b: T | number) => T
  readonly div: (a: T | number, b: T) => T
  readonly neg: (a: T) => T
  readonly unary: (op: UnaryName, a: T) => T
}

/** A partial derivative, of the result and the operands. */
export type Partial = <T>(t: Terms<T>, out: T, x: T, y: T) => T

export interface ErrorBound {
  /** Units in the last place of the exact result, for f32. */
  readonly ulp: number
  /** An absolute error also allowed (near zeros of periodic functions). */
  readonly absolute?: number
  /** Magnitude of the first operand up to which the bound is promised; everywhere, if absent. */
  readonly within?: number
}
