/**
 * What of a program follows from extents that vary: dimensions with names, and formulas in them. Plain data, which is evaluated exactly
 * in whole numbers at each launch.
 */

import { lcm } from '../affine/gcd.ts'
import { invariant } from '../diagnostics/errors.ts'
import type { DType } from '../types/dtype.ts'
import type { ProductCalls, StridedMatrix } from '../types/product.ts'

/** An extent that varies, and the values for which a program is made, inclusive. */
export interface Dimension {
  readonly name: string
  readonly least: number
  readonly most: number
}

/** A whole number times powers of dimensions: `powers[i]` of dimension i. */
interface PowerProduct {
  readonly coef: number
  readonly powers: readonly number[]
}

/** The quotient of a sum by a number, rounded down or up. */
export interface Quotient {
  readonly of: readonly PowerProduct[]
  readonly by: number
  readonly rounds: 'down' | 'up'
}

/** A whole number times powers of dimensions, and times quotients: they are dimensions too, which follow from others. */
export interface Monomial extends PowerProduct {
  /** Absent where there is none. */
  readonly quotients?: readonly Quotient[]
}

/** A sum of monomials, none of them alike. */
export type Polynomial = readonly Monomial[]

/** A whole number that follows from dimensions: a polynomial, or the quotient of one by a number, rounded down or up. */
export interface Formula {
  readonly of: Polynomial
  readonly by: number
  readonly rounds: 'down' | 'up'
}

/** A real number that follows from dimensions: `factor` times a function of a polynomial. */
export interface RealFormula {
  readonly factor: number
  readonly of: Polynomial
  readonly through: RealFunction
}

export type RealFunction = 'identity' | 'reciprocal' | 'root' | 'reciprocalRoot' | 'logarithm'

export const realFunctions: Readonly<Record<RealFunction, (x: number) => number>> = {
  identity: (x) => x,
  reciprocal: (x) => 1 / x,
  root: Math.sqrt,
  reciprocalRoot: (x) => 1 / Math.sqrt(x),
  logarithm: Math.log,
}

/** The extents of a launch, by the number of their dimension. */
export type Extents = readonly number[]

const powersAt = ({ coef, powers }: PowerProduct, at: Extents): number =>
  powers.reduce((n, p, i) => n * (at[i] ?? 0) ** p, coef)

const rounded = (n: number, { by, rounds }: Pick<Formula, 'by' | 'rounds'>): number =>
  by === 1 ? n : rounds === 'up' ? Math.ceil(n / by) : Math.floor(n / by)

const quotientAt = (q: Quotient, at: Extents): number =>
  rounded(
    q.of.reduce((n, m) => n + powersAt(m, at), 0),
    q,
  )

const monomialAt = (m: Monomial, at: Extents): number =>
  (m.quotients ?? []).reduce((n, q) => n * quotientAt(q, at), powersAt(m, at))

export const polynomialAt = (p: Polynomial, at: Extents): number => p.reduce((n, m) => n + monomialAt(m, at), 0)

export const formulaAt = (f: Formula, at: Extents): number => rounded(polynomialAt(f.of, at), f)

export const realAt = ({ factor, of, through }: RealFormula, at: Extents): number =>
  factor * realFunctions[through](polynomialAt(of, at))

/** Inclusive bounds. */
interface Range {
  readonly lo: number
  readonly hi: number
}

const sumOfRanges = (ranges: readonly Range[], by: Pick<Formula, 'by' | 'rounds'>): Range => ({
  lo: rounded(
    ranges.reduce((n, r) => n + r.lo, 0),
    by,
  ),
  hi: rounded(
    ranges.reduce((n, r) => n + r.hi, 0),
    by,
  ),
})

function productOfRanges(ranges: readonly Range[]): Range {
  return ranges.reduce((a, b) => {
    const ends = [a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi]
    return { lo: Math.min(...ends), hi: Math.max(...ends) }
  })
}

/** Inclusive bounds of a formula over the ranges of its dimensions, whose values are not negative. */
export function formulaRange(f: Formula, dimensions: readonly Dimension[]): Range {
  const [least, most] = (['least', 'most'] as const).map((end) => dimensions.map((d) => d[end]))
  const powers = (m: PowerProduct): Range => {
    const ends = [powersAt(m, least ?? []), powersAt(m, most ?? [])]
    return { lo: Math.min(...ends), hi: Math.max(...ends) }
  }
  const quotient = (q: Quotient): Range => sumOfRanges(q.of.map(powers), q)
  const monomials = f.of.map((m) => productOfRanges([powers(m), ...(m.quotients ?? []).map(quotient)]))
  return sumOfRanges(monomials, f)
}

/** Whether a monomial is a number that does not vary. */
export const isConstant = ({ powers, quotients = [] }: Monomial): boolean =>
  quotients.length === 0 && powers.every((p) => p === 0)

/** The constant that a formula is, if it is one. */
export const constantOf = ({ of, by }: Formula): number | undefined => {
  const [first, second] = of
  if (first === undefined) return 0
  return by === 1 && second === undefined && isConstant(first) ? first.coef : undefined
}

/** The least common multiple of all that a formula divides by. */
export const divisorOf = ({ of, by = 1 }: { readonly of: Polynomial; readonly by?: number }): number =>
  of.flatMap((m) => m.quotients ?? []).reduce((n, q) => lcm(n, q.by), by)

/** Numbers that a launch hands to kernels: an input of the program of one dtype. */
export type LaunchNumbers =
  | { readonly dtype: 'i32'; readonly formulas: readonly Formula[] }
  | { readonly dtype: Exclude<DType, 'i32'>; readonly reals: readonly RealFormula[] }

/** What of a program varies from launch to launch. Buffers are placed for the most that dimensions may be. */
export interface OpenProgram {
  readonly dimensions: readonly Dimension[]
  /** Inputs of the program, one after another. */
  readonly numbers: readonly LaunchNumbers[]
  /** The number of the first of those inputs; absent: they are the last ones. */
  readonly first?: number
}

/** A matrix of a product whose extents vary. */
interface VaryingMatrix {
  readonly leading: Formula
  readonly batch: Formula
}

/** What of a library's product follows from the extents of a launch; its calls are as many in all. */
export interface VaryingProduct {
  readonly batches: Formula
  readonly m: Formula
  readonly n: Formula
  readonly k: Formula
  readonly a: VaryingMatrix
  readonly b: VaryingMatrix
  readonly out: VaryingMatrix
  /** Where there is one. */
  readonly addend?: VaryingMatrix
  readonly calls: readonly {
    readonly a: Formula
    readonly b: Formula
    readonly out: Formula
    readonly addend?: Formula
  }[]
}

/** A library's product in a launch. */
export function productAt(
  { product, calls, varying }: ProductCalls & { readonly varying?: VaryingProduct },
  at: Extents | undefined,
): ProductCalls {
  if (varying === undefined) return { product, calls }
  invariant(at !== undefined, 'a program with open extents runs without them')
  const number = (f: Formula): number => formulaAt(f, at)
  const matrix = <M extends StridedMatrix>(x: M, v: VaryingMatrix): M => ({
    ...x,
    leading: number(v.leading),
    batch: number(v.batch),
  })
  return {
    product: {
      ...product,
      batches: number(varying.batches),
      m: number(varying.m),
      n: number(varying.n),
      k: number(varying.k),
      a: matrix(product.a, varying.a),
      b: matrix(product.b, varying.b),
      out: matrix(product.out, varying.out),
      ...(product.addend === undefined || varying.addend === undefined
        ? {}
        : { addend: matrix(product.addend, varying.addend) }),
    },
    calls: varying.calls.map((c) => ({
      a: number(c.a),
      b: number(c.b),
      out: number(c.out),
      ...(c.addend === undefined ? {} : { addend: number(c.addend) }),
    })),
  }
}

/** Bytes of a buffer in a launch. */
export function bytesAt(
  { bytes, varying }: { readonly bytes: number; readonly varying?: Formula },
  at: Extents | undefined,
): number {
  if (varying === undefined) return bytes
  invariant(at !== undefined, 'a program with open extents runs without them')
  return formulaAt(varying, at)
}
