/** Float arithmetic of the oracle: every elementwise operation in double precision, to about one ulp of a double. */

const twoOverSqrtPi = 2 / Math.sqrt(Math.PI)

/** erf by the series 2/sqrt(pi) exp(-x^2) sum 2^n x^(2n+1)/(2n+1)!! (Abramowitz & Stegun 7.1.6): all terms have one sign. */
function erfSeries(x: number): number {
  const xx = x * x
  let term = x
  let sum = x
  for (let n = 1; n < 200; n++) {
    term *= (2 * xx) / (2 * n + 1)
    const next = sum + term
    if (next === sum) break
    sum = next
  }
  return twoOverSqrtPi * Math.exp(-xx) * sum
}

/** erfc for x >= 2 by its continued fraction (Abramowitz & Stegun 7.1.14), evaluated from the far end. */
function erfcFraction(x: number): number {
  let f = x
  for (let k = 60; k >= 1; k--) f = x + k / 2 / f
  return Math.exp(-x * x) / (Math.sqrt(Math.PI) * f)
}

/** The error function. */
export function erf(x: number): number {
  const a = Math.abs(x)
  if (a < 2.5) return erfSeries(x)
  if (a > 6) return Math.sign(x)
  const r = 1 - erfcFraction(a)
  return x < 0 ? -r : r
}

/** 1 - erf(x) without cancellation. */
export function erfc(x: number): number {
  if (x >= 2) return x > 27.5 ? 0 : erfcFraction(x)
  return x < -6 ? 2 : 1 - erfSeries(x)
}

/** 1 / (1 + exp(-x)), without overflow on either side. */
export function sigmoid(x: number): number {
  if (x >= 0) return 1 / (1 + Math.exp(-x))
  const e = Math.exp(x)
  return e / (1 + e)
}

const anchor = 2 ** 52

/** Nearest whole number, ties to even; keeps the sign of zero. */
export function roundHalfEven(x: number): number {
  if (!(Math.abs(x) < anchor)) return x
  const r = Math.abs(x) + anchor - anchor
  return x < 0 || Object.is(x, -0) ? -r : r
}

/** pow as C99 has it, where ECMAScript differs: pow(1, y) = 1 for every y, pow(-1, +-inf) = 1. */
export function pow(x: number, y: number): number {
  if (x === 1 || (x === -1 && Math.abs(y) === Number.POSITIVE_INFINITY)) return 1
  return x ** y
}

/** Unary operations float -> float. */
export const floatUnary = {
  neg: (x: number) => -x,
  abs: Math.abs,
  sign: Math.sign,
  floor: Math.floor,
  ceil: Math.ceil,
  round: roundHalfEven,
  trunc: Math.trunc,
  sqrt: Math.sqrt,
  rsqrt: (x: number) => 1 / Math.sqrt(x),
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
  erf,
  sigmoid,
} as const

/** Binary operations float x float -> float. */
export const floatBinary = {
  add: (a: number, b: number) => a + b,
  sub: (a: number, b: number) => a - b,
  mul: (a: number, b: number) => a * b,
  div: (a: number, b: number) => a / b,
  rem: (a: number, b: number) => a % b,
  pow,
  max: (a: number, b: number) => Math.max(a, b),
  min: (a: number, b: number) => Math.min(a, b),
  atan2: (a: number, b: number) => Math.atan2(a, b),
} as const

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
