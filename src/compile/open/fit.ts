/**
 * Formulas from instances: what a number is at several samples of the dimensions, as a polynomial of low degree with whole coefficients and
 * few terms, or a quotient of one by a number. Extents that are such quotients are dimensions too, that follow from others: polynomials may have
 * them. Exact at every sample, of which there are more than a formula has unknowns; a number without such a formula has none.
 */

import { lcm } from '../../affine/gcd.ts'
import { invariant } from '../../diagnostics/errors.ts'
import {
  type Extents,
  type Formula,
  isConstant,
  type Monomial,
  type Polynomial,
  polynomialAt,
  type Quotient,
  type RealFormula,
  type RealFunction,
  realFunctions,
} from '../../runtime/extents.ts'
import { readElement, toHost } from '../../scalar/host.ts'
import type { DType } from '../../types/dtype.ts'
import { asSum } from './sums.ts'

/** Powers of dimensions in one monomial, together at most. */
const mostDegree = 3

/** Divisors of quotients, at most. */
const mostDivisor = 4096

/** Quotients that formulas may have products of, at most. */
const mostQuotients = 12

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

/** A product of powers and quotients, and its values at the samples. */
interface Product {
  readonly monomial: Monomial
  readonly values: readonly number[]
}

/** A formula that is a quotient; `isSure`: no other addition gives what was seen. */
interface Found {
  readonly formula: Quotient
  readonly isSure: boolean
}

/** Formulas for numbers at fixed samples. */
export class Fitter {
  readonly samples: readonly Extents[]
  /** Products of powers of dimensions, at the samples. */
  private readonly powers: readonly Product[]
  /** Those with quotients that were learnt among their factors besides. */
  private products: readonly Product[] = []
  private readonly quotients = new Map<string, Product>()
  private readonly found = new Map<string, Formula | undefined>()
  private readonly reals = new Map<string, RealFormula | undefined>()

  constructor(samples: readonly Extents[]) {
    this.samples = samples
    const [first] = samples
    invariant(first !== undefined, 'formulas of no sample')
    this.powers = powersUpTo(first.length, mostDegree)
      .map((powers) => ({ coef: 1, powers }))
      .filter((m) => !isConstant(m))
      .map((monomial) => ({ monomial, values: samples.map((at) => polynomialAt([monomial], at)) }))
  }

  /**
   * Takes extents that are quotients of dimensions as dimensions of their own, of which formulas may have products. Each is given by its values at
   * the samples. The least common multiple of what they are quotients by: 1 where there are none. Where samples leave not each remainder of it, what is
   * learnt may be a guess.
   */
  learn(extents: Iterable<readonly number[]>): number {
    const had = this.quotients.size
    let divisor = 1
    for (const values of extents) {
      const key = values.join()
      const known = this.quotients.has(key) || values.every((v) => v === values[0])
      if (known || this.quotients.size >= mostQuotients || this.sum(values, this.powers) !== undefined) continue
      const made = this.quotient(values)
      if (made === undefined) continue
      const { formula, isSure } = made
      divisor = lcm(divisor, formula.by)
      if (isSure) this.quotients.set(key, { monomial: { ...this.one, quotients: [formula] }, values })
    }
    if (this.quotients.size > had) {
      this.products = this.withQuotients()
      this.found.clear()
      this.reals.clear()
    }
    return divisor
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

  private get one(): Monomial {
    return { coef: 1, powers: this.samples[0]?.map(() => 0) ?? [] }
  }

  private constant(coef: number): Polynomial {
    return coef === 0 ? [] : [{ ...this.one, coef }]
  }

  private find(values: readonly number[]): Formula | undefined {
    if (!values.every(Number.isSafeInteger)) return undefined
    const plain = this.sum(values, this.powers)
    if (plain !== undefined) return formulaOf(plain)
    const quotient = this.quotient(values)
    if (quotient?.isSure === true) return quotient.formula
    const p = this.polynomial(values)
    return p === undefined ? undefined : formulaOf(p)
  }

  /** A sum of at most two products and a constant. */
  private polynomial(values: readonly number[]): Polynomial | undefined {
    return this.sum(values, this.powers) ?? this.sum(values, [...this.powers, ...this.products])
  }

  private sum(values: readonly number[], products: readonly Product[]): Polynomial | undefined {
    if (products.length === 0) return undefined
    const found = asSum(values, products)
    if (found === undefined) return undefined
    return [...found.terms.map((t) => ({ ...t.member.monomial, coef: t.coef })), ...this.constant(found.constant)]
  }

  /** Products of powers and quotients, of at most so many factors in all, those of few factors first. */
  private withQuotients(): readonly Product[] {
    const degreeOf = ({ powers, quotients = [] }: Monomial): number => powers.reduce((n, p) => n + p, quotients.length)
    const unit = { monomial: this.one, values: this.samples.map(() => 1) }
    let all: readonly Product[] = [unit, ...this.powers]
    for (const q of this.quotients.values()) {
      const times = (p: Product): Product => ({
        monomial: { ...p.monomial, quotients: [...(p.monomial.quotients ?? []), ...(q.monomial.quotients ?? [])] },
        values: p.values.map((v, i) => v * (q.values[i] ?? 0)),
      })
      const once = all.filter((p) => degreeOf(p.monomial) < mostDegree).map(times)
      const twice = once.filter((p) => degreeOf(p.monomial) < mostDegree).map(times)
      all = [...all, ...once, ...twice]
    }
    return all
      .filter((p) => p.monomial.quotients !== undefined)
      .sort((a, b) => degreeOf(a.monomial) - degreeOf(b.monomial))
  }

  private quotient(values: readonly number[]): Found | undefined {
    let guess: Found | undefined
    for (const { monomial, values: at } of this.powers)
      for (const rounds of ['up', 'down'] as const) {
        const found = quotientOf(values, at, rounds)
        if (found === undefined) continue
        const formula: Quotient = { of: [monomial, ...this.constant(found.plus)], by: found.by, rounds }
        if (found.isSure) return { formula, isSure: true }
        guess ??= { formula, isSure: false }
      }
    return guess
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
    const scaled = [...this.powers, ...this.products].flatMap(({ monomial, values: [one = 1] }): Polynomial[] => {
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

/**
 * The divisor, and what is added before, by which values are quotients of others, if there is one: by the ranges that each allows. Many additions
 * may leave the quotient what it is at the samples: only none is no guess then.
 */
function quotientOf(
  values: readonly number[],
  of: readonly number[],
  rounds: 'up' | 'down',
): { readonly by: number; readonly plus: number; readonly isSure: boolean } | undefined {
  let guess: { readonly by: number; readonly plus: number; readonly isSure: boolean } | undefined
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
    if (lo <= 0 && hi >= 0) return { by, plus: 0, isSure: true }
    if (lo === hi) return { by, plus: lo, isSure: true }
    guess ??= { by, plus: lo, isSure: false }
  }
  return guess
}
