/**
 * Float arithmetic of the oracle: every elementwise operation in double precision, to about one ulp of a double, with elementary functions of
 * our own, which give the same bits on every engine, or with those of the engine, which take a fifth of the time.
 */
import { type Approximated, approximated, approximations, tailTerms } from './approximations.ts'
import * as exponential from './exponential.ts'
import type { Algebra } from './formula.ts'
import { type BinaryName, scalarInfo } from './ops.ts'
import * as trigonometric from './trigonometric.ts'
import { series } from './twofold.ts'

/** The same bits on every engine. */
const ownFunctions = { ...exponential, ...trigonometric }

type Elementary = typeof ownFunctions

/** The engine's, but for pow: that of V8 errs by hundreds of units in the last place at great exponents, and none is C99's. */
const engineFunctions: Elementary = {
  exp: Math.exp,
  expm1: Math.expm1,
  log: Math.log,
  log1p: Math.log1p,
  sin: Math.sin,
  cos: Math.cos,
  tan: Math.tan,
  asin: Math.asin,
  acos: Math.acos,
  atan: Math.atan,
  sinh: Math.sinh,
  cosh: Math.cosh,
  tanh: Math.tanh,
  asinh: Math.asinh,
  acosh: Math.acosh,
  atanh: Math.atanh,
  atan2: Math.atan2,
  pow: exponential.pow,
}

const anchor = 2 ** 52

/** Nearest whole number, ties to even; keeps the sign of zero. */
export function roundHalfEven(x: number): number {
  if (!(Math.abs(x) < anchor)) return x
  const r = Math.abs(x) + anchor - anchor
  return x < 0 || Object.is(x, -0) ? -r : r
}

const twoOverSqrtPi = 2 / Math.sqrt(Math.PI)

type ApproximatedBinary = Extract<Approximated, BinaryName>
type ApproximatedUnary = Exclude<Approximated, ApproximatedBinary>
const isBinary = (op: Approximated): op is ApproximatedBinary => scalarInfo(op).arity === 2

/** Every operation of floats, made of these elementary functions. */
function operationsOf(elementary: Elementary) {
  const { exp, log, pow, atan2, ...elementaryUnary } = elementary

  /** erf by the series 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1)/(2n+1)!! (Abramowitz & Stegun 7.1.6): all terms have one sign. */
  function erfSeries(x: number): number {
    const xx = x * x
    let term = x
    let sum = x
    for (let n = 1; n < 40; n++) {
      term *= (2 * xx) / (2 * n + 1)
      const next = sum + term
      if (next === sum) break
      sum = next
    }
    return twoOverSqrtPi * exp(-xx) * sum
  }

  /** The error function: beyond 1 it is close to 1, and what it lacks a small number. */
  function erf(x: number): number {
    const a = Math.abs(x)
    if (a < 1) return erfSeries(x)
    if (a > 6) return Math.sign(x)
    const t = 1 / (1 + a / 2)
    const r = 1 - (exp(-a * a) * t * series(t, tailTerms.above)) / series(t, tailTerms.below)
    return x < 0 ? -r : r
  }

  /** 1 / (1 + exp(-x)), without overflow on either side. */
  function sigmoid(x: number): number {
    if (x >= 0) return 1 / (1 + exp(-x))
    const e = exp(x)
    return e / (1 + e)
  }

  const doubles: Algebra<number, boolean> = {
    wide: true,
    lit: (x) => x,
    let: (x) => x,
    add: (a, b) => a + b,
    sub: (a, b) => a - b,
    mul: (a, b) => a * b,
    div: (a, b) => a / b,
    fma: (a, b, c) => a * b + c,
    neg: (a) => -a,
    abs: Math.abs,
    sqrt: Math.sqrt,
    round: roundHalfEven,
    exp,
    log,
    erf,
    lt: (a, b) => a < b,
    eq: (a, b) => a === b,
    isnan: Number.isNaN,
    isinf: (a) => Math.abs(a) === Number.POSITIVE_INFINITY,
    select: (m, a, b) => (m ? a : b),
  }

  /** Approximated functions by their formulas for f64. */
  const approximatedUnary = Object.fromEntries(
    approximated
      .filter((op) => !isBinary(op))
      .map((op) => [op, (x: number) => approximations[op].formula(doubles, x, x)]),
  ) as Record<ApproximatedUnary, (x: number) => number>
  const approximatedBinary = Object.fromEntries(
    approximated
      .filter(isBinary)
      .map((op) => [op, (x: number, y: number) => approximations[op].formula(doubles, x, y)]),
  ) as Record<ApproximatedBinary, (x: number, y: number) => number>

  return {
    unary: {
      neg: (x: number) => -x,
      abs: Math.abs,
      sign: Math.sign,
      floor: Math.floor,
      ceil: Math.ceil,
      round: roundHalfEven,
      trunc: Math.trunc,
      sqrt: Math.sqrt,
      rsqrt: (x: number) => 1 / Math.sqrt(x),
      exp,
      log,
      ...elementaryUnary,
      erf,
      sigmoid,
      ...approximatedUnary,
    },
    binary: {
      add: (a: number, b: number) => a + b,
      sub: (a: number, b: number) => a - b,
      mul: (a: number, b: number) => a * b,
      div: (a: number, b: number) => a / b,
      rem: (a: number, b: number) => a % b,
      pow,
      max: (a: number, b: number) => Math.max(a, b),
      min: (a: number, b: number) => Math.min(a, b),
      atan2,
      ...approximatedBinary,
    },
  } as const
}

/** Unary operations float -> float, and binary ones float x float -> float. */
export const { unary: floatUnary, binary: floatBinary } = operationsOf(ownFunctions)
/** The same by the engine's elementary functions: results differ from engine to engine in the last places. */
export const { unary: engineUnary, binary: engineBinary } = operationsOf(engineFunctions)

/** The error function. */
export const { erf } = floatUnary

/** Comparisons of numbers; every one but `ne` is false on NaN. */
export const compareNumbers = {
  eq: (a: number, b: number) => a === b,
  ne: (a: number, b: number) => a !== b,
  lt: (a: number, b: number) => a < b,
  le: (a: number, b: number) => a <= b,
  gt: (a: number, b: number) => a > b,
  ge: (a: number, b: number) => a >= b,
} as const
export type CompareName = keyof typeof compareNumbers
