/**
 * Sums of polynomials in x - d, for an x whose sum is an anchor (streams.ts). A term that is a polynomial in d is its Taylor series
 * about any a: T(d) = T(a) + (d - a) T'(a) + (d - a)^2 T''(a) / 2. The derivatives are sums of products of what does not depend on d
 * and of multiples of x - a, so the sums of those products (the *moments*; that of the empty product counts the terms) turn sums
 * against one anchor into sums against another, and each moment moves by its own series: r(a, a) = id, r(b, c) r(a, b) = r(a, c).
 */
import { scalarInfo } from '../scalar/ops.ts'
import type { LetStmt, ValueId } from './ir.ts'

/** A number times a product of values. */
export interface Monomial {
  readonly by: number
  readonly of: readonly ValueId[]
}

export type Polynomial = readonly Monomial[]

/** Sums that are carried beside a streaming sum. */
export interface Moments {
  /** The coefficients 1, 2, ... of the sum's series, in moments. */
  readonly series: readonly Polynomial[]
  /** No term is below zero, so that no sum may be either, whatever was rounded on the way. */
  readonly nonnegative: boolean
  /** The moments with their own series, those with most factors x - d first; the empty product, which counts terms, is not among them. */
  readonly products: readonly { readonly of: readonly ValueId[]; readonly series: readonly Polynomial[] }[]
}

/** What is known of the values that terms are made of. */
export interface Factors {
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  /** Whether a value depends on the anchor. */
  isLate(id: ValueId): boolean
  /** The s of a value s (x - d). */
  slopeOf(id: ValueId): number | undefined
  constantOf(id: ValueId): number | undefined
  isWidening(l: LetStmt): boolean
}

/** Products are of so many values, and polynomials of so many products at most; x - d is there to this power. */
const most = { values: 6, products: 4, power: 2 } as const

/** The moments that a sum of such terms needs, if they are polynomials in the anchor. */
export function momentsOf(term: ValueId, factors: Factors): Moments | undefined {
  const of = polynomialOf(term, factors)
  const slopes = (id: ValueId): number | undefined => (factors.isLate(id) ? factors.slopeOf(id) : undefined)
  const power = (m: Monomial): number => m.of.filter((id) => slopes(id) !== undefined).length
  if (of === undefined || of.length > most.products || of.some((m) => m.of.length > most.values)) return undefined
  if (of.some((m) => power(m) > most.power)) return undefined
  const products = new Map<string, Monomial>()
  const stack = of.flatMap((m) => derivative([m], slopes))
  for (let m = stack.pop(); m !== undefined; m = stack.pop()) {
    if (m.of.length === 0 || products.has(keyOf(m))) continue
    products.set(keyOf(m), m)
    stack.push(...derivative([m], slopes))
  }
  return {
    series: seriesOf(of, slopes),
    nonnegative: of.every((m) => isNonnegative(m, slopes, factors.lets)),
    products: [...products.values()]
      .sort((a, b) => power(b) - power(a))
      .map((m) => ({ of: m.of, series: seriesOf([{ by: 1, of: m.of }], slopes) })),
  }
}

/** Whether a product is of squares, of an even power of x - d, and of what is never negative. */
function isNonnegative(
  { by, of }: Monomial,
  slopes: (id: ValueId) => number | undefined,
  lets: Factors['lets'],
): boolean {
  let sign = by
  const odd = new Set<ValueId | 'x - d'>()
  for (const id of of) {
    const slope = slopes(id)
    sign *= Math.sign(slope ?? 1)
    const factor = slope === undefined ? id : 'x - d'
    if (!odd.delete(factor)) odd.add(factor)
  }
  const isNever = (id: ValueId): boolean => {
    const op = lets.get(id)?.op
    if (op?.kind !== 'scalar') return false
    const { nonnegative, factors } = scalarInfo(op.op)
    return nonnegative === true || (factors !== undefined && op.args[0] === op.args[1])
  }
  return sign >= 0 && [...odd].every((f) => f !== 'x - d' && isNever(f))
}

/** Names a product. */
export const keyOf = ({ of }: Pick<Monomial, 'of'>): string => of.join()

/** A term as a polynomial in values that do not depend on the anchor and in multiples of x - d. */
function polynomialOf(id: ValueId, factors: Factors): Polynomial | undefined {
  const { lets, isLate, slopeOf, constantOf, isWidening } = factors
  const number = constantOf(id)
  if (number !== undefined) return Number.isFinite(number) ? [{ by: number, of: [] }] : undefined
  if (!isLate(id) || slopeOf(id) !== undefined) return [{ by: 1, of: [id] }]
  const l = lets.get(id)
  if (l?.op.kind !== 'scalar') return undefined
  const { op, args } = l.op
  const { terms, factors: powers } = scalarInfo(op)
  if (isWidening(l)) return polynomialOf(args[0] ?? id, factors)
  const operands = args.map((a) => polynomialOf(a, factors))
  let out: Polynomial | undefined = terms === undefined ? [{ by: 1, of: [] }] : []
  for (const [i, p] of operands.entries()) {
    if (p === undefined || out === undefined || p.length > most.products) return undefined
    if (terms !== undefined) out = merged([...out, ...scaled(p, terms[i] ?? 1)])
    else if (powers?.[i] === 1) out = product(out, p)
    else out = powers?.[i] === -1 ? quotient(out, p) : undefined
  }
  return out
}

const scaled = (p: Polynomial, by: number): Polynomial => p.map((m) => ({ by: m.by * by, of: m.of }))

const product = (p: Polynomial, q: Polynomial): Polynomial =>
  merged(p.flatMap((a) => q.map((b) => ({ by: a.by * b.by, of: [...a.of, ...b.of].sort((x, y) => x - y) }))))

/** Divided by a number. */
function quotient(p: Polynomial, q: Polynomial): Polynomial | undefined {
  const [by, second] = q
  if (by === undefined || second !== undefined || by.of.length > 0 || !Number.isFinite(1 / by.by)) return undefined
  return scaled(p, 1 / by.by)
}

/** Each product once. */
function merged(p: Polynomial): Polynomial {
  const out = new Map<string, Monomial>()
  for (const m of p) {
    const by = m.by + (out.get(keyOf(m))?.by ?? 0)
    if (by === 0) out.delete(keyOf(m))
    else out.set(keyOf(m), { by, of: m.of })
  }
  return [...out.values()]
}

/** By d. */
function derivative(p: Polynomial, slopes: (id: ValueId) => number | undefined): Polynomial {
  return merged(
    p.flatMap(({ by, of }) =>
      of.flatMap((id, i): Monomial[] => {
        const slope = slopes(id)
        return slope === undefined ? [] : [{ by: -slope * by, of: of.filter((_, j) => j !== i) }]
      }),
    ),
  )
}

/** Coefficients 1, 2, ... of the Taylor series in d. */
function seriesOf(p: Polynomial, slopes: (id: ValueId) => number | undefined): Polynomial[] {
  const out: Polynomial[] = []
  for (let d = derivative(p, slopes), n = 1; d.length > 0; d = scaled(derivative(d, slopes), 1 / ++n)) out.push(d)
  return out
}
