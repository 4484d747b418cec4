/**
 * Quasi-affine index expressions over named axes: sums of integer multiples of axes, data-dependent values, floor
 * quotients and remainders. Always in canonical form, so equal keys mean equal expressions. Constructors simplify with
 * the ranges of the axes (an axis of extent n ranges over [0, n)).
 */
import { InternalError, invariant } from '../diagnostics/errors.ts'
import { type Atom, atomKey, type Expr, floorMod, make, rangeOf, type Scale, type Term, visitAtoms } from './form.ts'

export {
  type Atom,
  asAxis,
  asConstant,
  atomKey,
  axesOf,
  type Expr,
  evaluate,
  ofAtom,
  type Range,
  rangeOf,
  type Scale,
  scaledRange,
  strideOf,
  stridesOf,
  type Term,
  valuesOf,
  visitAtoms,
} from './form.ts'

import { sizeOf } from '../types/shape.ts'
import { gcd } from './gcd.ts'

/** The terms of a sum. */
function sumOf(a: readonly Term[], b: readonly Term[]): readonly Term[] {
  if (a.length === 0) return b
  if (b.length === 0) return a
  const out: Term[] = []
  let i = 0
  let j = 0
  for (;;) {
    const p = a[i]
    const q = b[j]
    if (p === undefined && q === undefined) return out
    const [pk, qk] = [p === undefined ? '' : atomKey(p.atom), q === undefined ? '' : atomKey(q.atom)]
    if (p !== undefined && (q === undefined || pk < qk)) {
      out.push(p)
      i++
    } else if (q !== undefined && (p === undefined || qk < pk)) {
      out.push(q)
      j++
    } else if (p !== undefined && q !== undefined) {
      if (p.coef + q.coef !== 0) out.push({ atom: p.atom, coef: p.coef + q.coef })
      i++
      j++
    }
  }
}

export const constant = (v: number): Expr => make([], v)
export const zero: Expr = constant(0)

/** An axis; of extent 1 it is the constant 0. */
export const axis = (name: string, extent: number): Expr =>
  extent === 1 ? zero : make([{ atom: { kind: 'axis', name, extent }, coef: 1 }], 0)

/** An integer value, clamped to [0, extent): to a launch scalar, which is `extent` at most, where `open` names one. */
export const value = (id: number, extent: number, open?: string): Expr =>
  make([{ atom: { kind: 'value', id, extent, ...(open === undefined ? {} : { open }) }, coef: 1 }], 0)

const one = constant(1)

/** A number known at launch. */
export const launched = (scale: Scale): Expr => scaled(one, scale)

/** An expression times a number known at launch: term by term, and by several in the order of names, so that what is equal has one form. */
export function scaled(e: Expr, scale: Scale): Expr {
  const { by, least, most, multiple } = scale
  if (least === most) return mul(e, most)
  const times = (of: Expr, coef: number): Expr =>
    make([{ atom: { kind: 'scaled', of, by, least, most, multiple }, coef }], 0)
  let out = e.offset === 0 ? zero : times(one, e.offset)
  for (const { atom, coef } of e.terms) {
    const swapped = atom.kind === 'scaled' && atom.by > by ? scaled(scaled(atom.of, scale), atom) : undefined
    out = add(out, swapped === undefined ? times(make([{ atom, coef: 1 }], 0), coef) : mul(swapped, coef))
  }
  return out
}

export function add(a: Expr, b: Expr): Expr {
  if (a.terms.length === 0 && a.offset === 0) return recombine(b)
  if (b.terms.length === 0 && b.offset === 0) return recombine(a)
  return recombine(make(sumOf(a.terms, b.terms), a.offset + b.offset))
}

/**
 * The sum of expressions, each times a number, taken in the order given. Where nothing recombines on the way it is one sum of all terms: no remainder
 * stands among them, or each term stands in one of the expressions alone, so that what recombined on the way would in the end.
 */
function combine(exprs: readonly Expr[], coefs: readonly number[]): Expr {
  const terms: Term[] = []
  const keys: string[] = []
  let offset = 0
  let only: Expr | undefined
  let count = 0
  let hasRemainder = false
  let isJoined = false
  for (let i = 0; i < exprs.length; i++) {
    const e = exprs[i] ?? zero
    const by = coefs[i] ?? 0
    if (by === 0 || (e.terms.length === 0 && e.offset === 0)) continue
    count++
    only = by === 1 ? e : undefined
    offset += e.offset * by
    for (const t of e.terms) {
      const { atom } = t
      hasRemainder ||= atom.kind === 'mod'
      const key = atom.kind === 'axis' ? atom.name : atomKey(atom)
      const coef = t.coef * by
      let at = keys.length
      while (at > 0 && key < (keys[at - 1] ?? '')) at--
      const same = at > 0 && keys[at - 1] === key ? terms[at - 1] : undefined
      if (same === undefined) {
        const own = by === 1 ? t : { atom, coef }
        if (at === keys.length) {
          keys.push(key)
          terms.push(own)
        } else {
          keys.splice(at, 0, key)
          terms.splice(at, 0, own)
        }
        continue
      }
      isJoined = true
      if (same.coef + coef === 0) {
        keys.splice(at - 1, 1)
        terms.splice(at - 1, 1)
      } else terms[at - 1] = { atom: same.atom, coef: same.coef + coef }
    }
  }
  if (hasRemainder && (isJoined || terms.some((t) => partnerOf(t, terms) !== undefined)))
    return exprs.reduce((sum, x, j) => add(sum, mul(x, coefs[j] ?? 0)), zero)
  return count === 1 && only !== undefined ? only : make(terms, offset)
}

/** The quotients that remainders are of, by the atoms of those: the key of the atom that x / m is for x % m; '' where it is no atom. */
const quotients = new WeakMap<Atom, string>()

function quotientOf(atom: Extract<Atom, { kind: 'mod' }>): string {
  const have = quotients.get(atom)
  if (have !== undefined) return have
  const { terms, offset } = div(atom.of, atom.by)
  const [only] = terms
  const key = terms.length === 1 && only?.coef === 1 && offset === 0 ? atomKey(only.atom) : ''
  quotients.set(atom, key)
  return key
}

/** The term c*m*(x / m) beside a term c*(x % m), if it is among some. */
function partnerOf({ atom, coef }: Term, terms: readonly Term[]): Term | undefined {
  if (atom.kind !== 'mod') return undefined
  const { by } = atom
  for (const u of terms) if (u.coef === coef * by && atomKey(u.atom) === quotientOf(atom)) return u
  return undefined
}

/** c*(x % m) + c*m*(x / m) = c*x, wherever both stand in a sum: a reshape there and back again is the identity. */
function recombine(e: Expr): Expr {
  for (const t of e.terms) {
    const partner = partnerOf(t, e.terms)
    if (partner === undefined || t.atom.kind !== 'mod') continue
    const others = make(
      e.terms.filter((u) => u !== t && u !== partner),
      e.offset,
    )
    return add(others, mul(t.atom.of, t.coef))
  }
  return e
}

export const addConst = (a: Expr, c: number): Expr => (c === 0 ? a : make(a.terms, a.offset + c))

export function mul(a: Expr, c: number): Expr {
  if (c === 1) return a
  if (c === 0 || (a.terms.length === 0 && a.offset === 0)) return zero
  return make(
    a.terms.map((t) => ({ atom: t.atom, coef: t.coef * c })),
    a.offset * c,
  )
}

export const sub = (a: Expr, b: Expr): Expr => add(a, mul(b, -1))

/** Splits e = by * quotient + rest, taking multiples of `by` out of every coefficient; those of `rest` are below `by`. */
function splitMultiples(e: Expr, by: number): { quotient: Expr; rest: Expr } {
  const q: Term[] = []
  const r: Term[] = []
  for (const t of e.terms) {
    const whole = Math.trunc(t.coef / by)
    if (whole !== 0) q.push({ atom: t.atom, coef: whole })
    if (t.coef % by !== 0) r.push({ atom: t.atom, coef: t.coef % by })
  }
  const qo = Math.floor(e.offset / by)
  return { quotient: make(q, qo), rest: make(r, floorMod(e.offset, by)) }
}

/** Greatest divisor of `by` and of every coefficient and the offset. */
function commonDivisor(e: Expr, by: number): number {
  let g = by
  for (const t of e.terms) g = gcd(g, t.coef)
  return gcd(g, e.offset)
}

/** Whether doubles hold whatever an expression may be. */
function isExact(e: Expr): boolean {
  const { lo, hi } = rangeOf(e)
  return Number.isSafeInteger(lo) && Number.isSafeInteger(hi)
}

/** floor(e / by), by > 0. */
export function div(e: Expr, by: number): Expr {
  invariant(by > 0 && Number.isInteger(by), `division of an index by ${by}`)
  if (by === 1) return e
  const { quotient, rest } = splitMultiples(e, by)
  const r = rangeOf(rest)
  const lo = Math.floor(r.lo / by)
  if (lo === Math.floor(r.hi / by)) return addConst(quotient, lo)
  // (x + y/g)/m = (g*x + y)/(g*m): quotients do not nest, as long as the numbers are exact.
  const inner = rest.terms.find((t) => t.coef === 1 && t.atom.kind === 'div')
  if (inner !== undefined && inner.atom.kind === 'div') {
    const { of, by: g } = inner.atom
    const others = make(
      rest.terms.filter((t) => t !== inner),
      rest.offset,
    )
    const joined = add(mul(others, g), of)
    if (isExact(joined) && Number.isSafeInteger(g * by)) return add(quotient, div(joined, g * by))
  }
  // Terms of a common factor g: (g*x + c)/(g*m) = (x + floor(c/g))/m when 0 <= c < g after canonical offset.
  const scaled = scaleDown(rest, by)
  if (scaled !== undefined) return add(quotient, div(scaled.e, scaled.by))
  return add(quotient, make([{ atom: { kind: 'div', of: rest, by }, coef: 1 }], 0))
}

/** floor((g*x + c) / (g*m)) = floor((x + floor(c/g)) / m): the smaller form, where a factor g > 1 exists. */
function scaleDown(e: Expr, by: number): { e: Expr; by: number } | undefined {
  const linear = make(e.terms, 0)
  const g = commonDivisor(linear, by)
  if (g <= 1) return dropSmall(e, by)
  return {
    e: make(
      e.terms.map((t) => ({ atom: t.atom, coef: t.coef / g })),
      Math.floor(e.offset / g),
    ),
    by: by / g,
  }
}

/**
 * floor((g*x + y) / (g*m)) = floor(x / m) when 0 <= y < g for the terms y whose coefficients g does not divide: row-major
 * flattening leaves such sums when extents do not line up but a prefix does.
 */
function dropSmall(e: Expr, by: number): { e: Expr; by: number } | undefined {
  const coefs = [...new Set(e.terms.map((t) => Math.abs(t.coef)))].sort((a, b) => b - a)
  for (const g of coefs) {
    if (g <= 1 || by % g !== 0) continue
    const part = splitBy(e, g)
    if (part === undefined || part.small.terms.length === 0) continue
    return { e: part.big, by: by / g }
  }
  return undefined
}

/** e = g * big + small with 0 <= small < g, where the ranges show it and big is not constant. */
function splitBy(e: Expr, g: number): { big: Expr; small: Expr } | undefined {
  const { quotient, rest } = splitMultiples(e, g)
  const r = rangeOf(rest)
  return quotient.terms.length === 0 || r.lo < 0 || r.hi >= g ? undefined : { big: quotient, small: rest }
}

/** e - by * floor(e / by), by > 0. */
export function mod(e: Expr, by: number): Expr {
  invariant(by > 0 && Number.isInteger(by), `remainder of an index by ${by}`)
  if (by === 1) return zero
  const { rest } = splitMultiples(e, by)
  const r = rangeOf(rest)
  const lo = Math.floor(r.lo / by)
  if (lo === Math.floor(r.hi / by)) return addConst(rest, -lo * by)
  // (x % a) % b = x % b when b divides a; only a lone remainder has that form.
  const only = rest.terms[0]
  if (
    rest.terms.length === 1 &&
    rest.offset === 0 &&
    only !== undefined &&
    only.coef === 1 &&
    only.atom.kind === 'mod' &&
    only.atom.by % by === 0
  )
    return mod(only.atom.of, by)
  // (g*x + y) % (g*m) = g*(x % m) + y when 0 <= y < g.
  const common = commonDivisor(make(rest.terms, 0), by)
  const coefs = [...new Set([common, ...rest.terms.map((t) => Math.abs(t.coef))])].sort((a, b) => b - a)
  for (const g of coefs) {
    if (g <= 1 || by % g !== 0) continue
    const part = splitBy(rest, g)
    if (part === undefined) continue
    return add(mul(mod(part.big, by / g), g), part.small)
  }
  return make([{ atom: { kind: 'mod', of: rest, by }, coef: 1 }], 0)
}

/** Rebuilds an expression with atoms replaced (and everything simplified again). `undefined` keeps the atom. */
export function substitute(e: Expr, map: (a: Atom) => Expr | undefined): Expr {
  let exprs: Expr[] | undefined
  let coefs: number[] = []
  const { terms } = e
  for (let i = 0; i < terms.length; i++) {
    const t = terms[i]
    if (t === undefined) continue
    const to = replaced(t.atom, map)
    if (to === undefined && exprs === undefined) continue
    if (exprs === undefined) {
      // What stands before it, as it is.
      const before = terms.slice(0, i)
      exprs = e.offset === 0 ? [] : [constant(e.offset)]
      for (const u of before) exprs.push(make([u], 0))
      coefs = exprs.map(() => 1)
    }
    exprs.push(to ?? make([t], 0))
    coefs.push(to === undefined ? 1 : t.coef)
  }
  return exprs === undefined ? e : combine(exprs, coefs)
}

/** What an atom becomes; undefined: nothing of it is replaced. */
function replaced(atom: Atom, map: (a: Atom) => Expr | undefined): Expr | undefined {
  const to = map(atom)
  if (to !== undefined || atom.kind === 'axis' || atom.kind === 'value') return to
  const of = substitute(atom.of, map)
  if (of === atom.of) return undefined
  return atom.kind === 'div' ? div(of, atom.by) : atom.kind === 'mod' ? mod(of, atom.by) : scaled(of, atom)
}

/** The x that an expression is the quotient floor(x / by) of, if a quotient by `by` stands in it. */
export function dividend(e: Expr, by: number): Expr | undefined {
  const quotient = e.terms.find((t) => t.coef === 1 && t.atom.kind === 'div' && t.atom.by === by)
  if (quotient?.atom.kind !== 'div') return undefined
  const others = e.terms.filter((t) => t !== quotient)
  return add(mul(make(others, e.offset), by), quotient.atom.of)
}

/** Whether all quotients and remainders in an expression are by powers of two: bits of a position give them. */
export function isBitwise(e: Expr): boolean {
  let is = true
  visitAtoms(e, (a) => {
    if (a.kind === 'div' || a.kind === 'mod') is &&= Number.isInteger(Math.log2(a.by))
  })
  return is
}

/** Row-major position of coordinates in a shape. */
export function flatten(index: readonly Expr[], shape: readonly number[]): Expr {
  if (index.length !== shape.length)
    throw new InternalError(`index of rank ${index.length} into shape of rank ${shape.length}`)
  const exprs: Expr[] = []
  const strides: number[] = []
  let stride = 1
  for (let i = shape.length - 1; i >= 0; i--) {
    exprs.push(index[i] ?? zero)
    strides.push(stride)
    stride *= shape[i] ?? 1
  }
  return combine(exprs, strides)
}

/**
 * Coordinates in a shape of a row-major position: the inverse of flatten. Of positions out of bounds the coordinates are some in bounds, or, where
 * those are not asked for (`isInside`), out of bounds along the first of more than one element.
 */
export function unflatten(flat: Expr, shape: readonly number[], isInside = false): Expr[] {
  const out = new Array<Expr>(shape.length).fill(zero)
  const first = isInside ? shape.findIndex((d) => d > 1) : -1
  let stride = 1
  for (let i = shape.length - 1; i >= 0; i--) {
    const d = shape[i] ?? 1
    const q = div(flat, stride)
    const r = rangeOf(q)
    out[i] = d <= 1 ? zero : i === first || (r.lo >= 0 && r.hi < d) ? q : mod(q, d)
    stride *= Math.max(d, 1)
  }
  return out
}

/**
 * Coordinates in a shape of the element at an index of another shape of as many elements. Runs of dimensions that hold the same elements on both sides
 * turn into each other by themselves, so that what lies out of bounds along one, where a mask says so, stays an index along that one; of runs with
 * `isInside` too.
 */
export function reshape(
  index: readonly Expr[],
  from: readonly number[],
  to: readonly number[],
  isInside = false,
): Expr[] {
  if (from.includes(0) || to.includes(0)) return unflatten(flatten(index, from), to)
  invariant(sizeOf(from) === sizeOf(to), `a reshape of [${from.join(', ')}] to [${to.join(', ')}]`)
  const wide = (shape: readonly number[]): number[] => [...shape.keys()].filter((d) => shape[d] !== 1)
  const out = new Array<Expr>(to.length).fill(zero)
  const [left, right] = [wide(from), wide(to)]
  while (left.length > 0) {
    const [run, into]: [number[], number[]] = [[], []]
    let [a, b] = [1, 1]
    do
      if (a <= b) {
        const d = left.pop() ?? 0
        a *= from[d] ?? 1
        run.unshift(d)
      } else {
        const d = right.pop() ?? 0
        b *= to[d] ?? 1
        into.unshift(d)
      }
    while (a !== b)
    const inner = run.map((d) => index[d] ?? zero)
    const extents = (dims: readonly number[], shape: readonly number[]): number[] => dims.map((d) => shape[d] ?? 1)
    const moved =
      run.length === 1 && into.length === 1
        ? inner
        : unflatten(flatten(inner, extents(run, from)), extents(into, to), isInside)
    for (const [n, d] of into.entries()) out[d] = moved[n] ?? zero
  }
  return out
}
