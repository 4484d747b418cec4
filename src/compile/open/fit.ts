/**
 * Formulas from instances: what a number is at several samples of the dimensions, as a polynomial of low degree with whole coefficients and
 * few terms, or a quotient of one by a number. Exact at every sample, of which there are more than a formula has unknowns; a number without
 * such a formula has none.
 */

import { invariant } from '../../diagnostics/errors.ts'
import {
  type Extents,
  type Formula,
  type Monomial,
  type Polynomial,
  polynomialAt,
  type RealFormula,
  type RealFunction,
  realFunctions,
} from '../../runtime/extents.ts'
import { readElement, toHost } from '../../scalar/host.ts'
import type { DType } from '../../types/dtype.ts'

/** Powers of dimensions in one monomial, together at most. */
const mostDegree = 3

/** Divisors of quotients, at most. */
const mostDivisor = 4096

/** Factors of real numbers. */
const factors = [1, -1, 2, -2, 0.5, -0.5]

/** Powers of so many dimensions, of at most some degree, those of least degree first. */
function powersUpTo(dimensions: number, degree: number): number[][] {
  let all: number[][] = [[]]
  for (let d = 0; d < dimensions; d++)
    all = all.flatMap((p) => {
      const left = degree - p.reduce((n, x) => n + x, 0)
      return Array.from({ length: left + 1 }, (_, e) => [...p, e])
    })
  const degreeOf = (p: readonly number[]): number => p.reduce((n, x) => n + x, 0)
  return all.sort((a, b) => degreeOf(a) - degreeOf(b))
}

/** Formulas for numbers at fixed samples. */
export class Fitter {
  readonly samples: readonly Extents[]
  /** The monomials of coefficient 1 and their values at the samples, the constant first. */
  private readonly basis: readonly { readonly monomial: Monomial; readonly values: readonly number[] }[]
  private readonly found = new Map<string, Formula | undefined>()
  private readonly reals = new Map<string, RealFormula | undefined>()

  constructor(samples: readonly Extents[]) {
    this.samples = samples
    const [first] = samples
    invariant(first !== undefined, 'formulas of no sample')
    this.basis = powersUpTo(first.length, mostDegree).map((powers) => {
      const monomial = { coef: 1, powers }
      return { monomial, values: samples.map((at) => polynomialAt([monomial], at)) }
    })
  }

  /** The formula of a whole number; undefined where there is none. */
  whole(values: readonly number[]): Formula | undefined {
    const [first] = values
    if (first !== undefined && values.every((v) => v === first)) return formulaOf(this.constant(first))
    const key = values.join()
    if (!this.found.has(key)) this.found.set(key, this.find(values))
    return this.found.get(key)
  }

  /** The formula of a real number of a dtype, equal in every bit once it is rounded to that; undefined where there is none. */
  real(values: readonly number[], dtype: DType): RealFormula | undefined {
    const key = `${dtype} ${values.join()}`
    if (!this.reals.has(key)) this.reals.set(key, this.findReal(values, dtype))
    return this.reals.get(key)
  }

  private constant(coef: number): Polynomial {
    return coef === 0 ? [] : [{ coef, powers: this.samples[0]?.map(() => 0) ?? [] }]
  }

  private find(values: readonly number[]): Formula | undefined {
    if (!values.every(Number.isSafeInteger)) return undefined
    const p = this.polynomial(values)
    return p === undefined ? this.quotient(values) : formulaOf(p)
  }

  /** A sum of at most two monomials and a constant. */
  private polynomial(values: readonly number[]): Polynomial | undefined {
    const proper = this.basis.slice(1)
    for (const withConstant of [false, true])
      for (const m of proper) {
        const found = this.solve(values, [m, ...(withConstant ? this.basis.slice(0, 1) : [])])
        if (found !== undefined) return found
      }
    for (const withConstant of [false, true])
      for (const [i, m] of proper.entries())
        for (const n of proper.slice(i + 1)) {
          const found = this.solve(values, [m, n, ...(withConstant ? this.basis.slice(0, 1) : [])])
          if (found !== undefined) return found
        }
    return undefined
  }

  /** The sum of some monomials that the values are, if it is one with whole coefficients: more samples than unknowns agree. */
  private solve(values: readonly number[], over: typeof this.basis): Polynomial | undefined {
    const n = over.length
    if (values.length <= n) return undefined
    const coefs = solveLinear(this.independent(over), values)
    if (coefs === undefined) return undefined
    const whole = coefs.map(Math.round)
    if (whole.includes(0)) return undefined
    const p = over.map(({ monomial }, i) => ({ ...monomial, coef: whole[i] ?? 0 }))
    return this.samples.every((at, i) => polynomialAt(p, at) === values[i]) ? p : undefined
  }

  /** The equations of some monomials at as many samples, with the numbers of the samples. */
  private independent(over: typeof this.basis): { readonly row: readonly number[]; readonly at: number }[] {
    const rows = this.samples.map((_, at) => ({ row: over.map((b) => b.values[at] ?? 0), at }))
    // Samples far apart first: neighbours may share what decides.
    const chosen: { readonly row: readonly number[]; readonly at: number }[] = []
    for (const r of rows) {
      if (chosen.length === over.length) break
      if (rankOf([...chosen, r].map((c) => c.row)) > chosen.length) chosen.push(r)
    }
    return chosen
  }

  private quotient(values: readonly number[]): Formula | undefined {
    for (const { monomial, values: at } of this.basis.slice(1))
      for (const rounds of ['up', 'down'] as const) {
        const found = quotientOf(values, at, rounds)
        if (found === undefined) continue
        const constant = found.plus === 0 ? [] : this.constant(found.plus)
        return { of: [monomial, ...constant], by: found.by, rounds }
      }
    return undefined
  }

  /** A function of the polynomial whose values its inverse gives, where that is one and the rounded function agrees. */
  private findReal(values: readonly number[], dtype: DType): RealFormula | undefined {
    const rounded = (v: number): number => Number(readElement(toHost([v], dtype), dtype, 0))
    const wanted = values.map(rounded)
    const agrees = (f: RealFormula): boolean =>
      this.samples.every((at, i) =>
        Object.is(rounded(f.factor * realFunctions[f.through](polynomialAt(f.of, at))), wanted[i]),
      )
    for (const through of Object.keys(inverses) as RealFunction[])
      for (const factor of factors) {
        const whole = wanted.map((v) => Math.round(inverses[through](v / factor)))
        if (!whole.every((v) => Number.isSafeInteger(v) && v > 0)) continue
        for (const of of this.nearly(whole)) {
          const f = { factor, of, through }
          if (agrees(f)) return f
        }
      }
    return undefined
  }

  /** Polynomials that whole numbers are, or that they are but for a few units in the last places of a number of few bits. */
  private nearly(whole: readonly number[]): Polynomial[] {
    const exact = this.polynomial(whole)
    const [at = 0] = whole
    const scaled = this.basis.slice(1).flatMap(({ monomial, values: [one = 1] }): Polynomial[] => {
      const coef = Math.round(at / one)
      return coef > 0 && coef < 2 ** 20 ? [[{ ...monomial, coef }]] : []
    })
    return exact === undefined ? scaled : [exact, ...scaled]
  }
}

/** What a function of a positive number was taken of. */
const inverses: Readonly<Record<RealFunction, (y: number) => number>> = {
  identity: (y) => y,
  reciprocal: (y) => 1 / y,
  root: (y) => y * y,
  reciprocalRoot: (y) => 1 / (y * y),
  logarithm: Math.exp,
}

const formulaOf = (of: Polynomial): Formula => ({ of, by: 1, rounds: 'down' })

/** The divisor, and what is added before, by which values are quotients of others, if it is one: by the ranges that each allows. */
function quotientOf(
  values: readonly number[],
  of: readonly number[],
  rounds: 'up' | 'down',
): { readonly by: number; readonly plus: number } | undefined {
  for (let by = 2; by <= mostDivisor; by++) {
    // by * v - by < n + plus <= by * v (up); by * v <= n + plus < by * v + by (down).
    let [lo, hi] = [Number.NEGATIVE_INFINITY, Number.POSITIVE_INFINITY]
    for (const [i, v] of values.entries()) {
      const n = of[i] ?? 0
      const base = rounds === 'up' ? by * v - by + 1 : by * v
      lo = Math.max(lo, base - n)
      hi = Math.min(hi, base + by - 1 - n)
      if (lo > hi) break
    }
    if (lo > hi) continue
    // Many additions leave the quotient what it is at the samples: only none is not a guess.
    if (lo <= 0 && hi >= 0) return { by, plus: 0 }
    if (lo === hi) return { by, plus: lo }
  }
  return undefined
}

/** The rank of few rows of whole numbers. */
function rankOf(rows: readonly (readonly number[])[]): number {
  const m = rows.map((r) => [...r])
  let rank = 0
  for (let c = 0; c < (m[0]?.length ?? 0); c++) {
    const p = m.findIndex((r, i) => i >= rank && Math.abs(r[c] ?? 0) > 1e-9)
    if (p < 0) continue
    const [pivot] = m.splice(p, 1)
    if (pivot === undefined) continue
    m.splice(rank, 0, pivot)
    for (const r of m.slice(rank + 1)) {
      const q = (r[c] ?? 0) / (pivot[c] ?? 1)
      for (let j = c; j < r.length; j++) r[j] = (r[j] ?? 0) - q * (pivot[j] ?? 0)
    }
    rank++
  }
  return rank
}

/** The solution of as many equations as unknowns (Gauss, with pivots), in doubles. */
function solveLinear(
  equations: readonly { readonly row: readonly number[]; readonly at: number }[],
  values: readonly number[],
): number[] | undefined {
  const n = equations[0]?.row.length ?? 0
  if (equations.length < n) return undefined
  const m = equations.map(({ row, at }) => [...row, values[at] ?? 0])
  for (let c = 0; c < n; c++) {
    let best = c
    for (let r = c + 1; r < n; r++) if (Math.abs(m[r]?.[c] ?? 0) > Math.abs(m[best]?.[c] ?? 0)) best = r
    const [x, y] = [m[c], m[best]]
    if (x === undefined || y === undefined) return undefined
    m[c] = y
    m[best] = x
    const pivot = y[c] ?? 0
    if (pivot === 0) return undefined
    for (let r = 0; r < n; r++) {
      const row = m[r]
      if (r === c || row === undefined) continue
      const q = (row[c] ?? 0) / pivot
      for (let j = c; j <= n; j++) row[j] = (row[j] ?? 0) - q * (y[j] ?? 0)
    }
  }
  return m.map((row, i) => (row[n] ?? 0) / (row[i] ?? 1))
}
