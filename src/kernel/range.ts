/**
 * Ranges of index expressions inside a program: from the extents, from the bounds of a mask, and from the blocks of the
 * axes (an axis less its block's start is below the block; blocks start at multiples of the block).
 */
import { type Atom, add, atomKey, axis, type Expr, mul, type Range, rangeOf, sub, substitute } from '../affine/expr.ts'
import { type Bound, type Predicate, substitutePredicate } from '../affine/predicate.ts'
import { type AxisRole, startOf } from './axes.ts'

const intersect = (a: Range, b: Range): Range => ({ lo: Math.max(a.lo, b.lo), hi: Math.min(a.hi, b.hi) })

/** What a bound on `coef * atom + offset` says of the atom. */
function boundOnAtom(b: Bound, key: string): Range | undefined {
  const [t, ...others] = b.expr.terms
  if (t === undefined || others.length > 0 || atomKey(t.atom) !== key) return undefined
  const ends = [(b.lo - b.expr.offset) / t.coef, (b.hi - 1 - b.expr.offset) / t.coef].sort((x, y) => x - y)
  const [lo = 0, hi = 0] = ends
  return { lo: Math.ceil(lo), hi: Math.floor(hi) }
}

function atomRangeUnder(a: Atom, mask: Predicate): Range {
  let r: Range
  if (a.kind === 'div') {
    const of = rangeUnder(a.of, mask)
    r = { lo: Math.floor(of.lo / a.by), hi: Math.floor(of.hi / a.by) }
  } else if (a.kind === 'mod') {
    const of = rangeUnder(a.of, mask)
    const period = Math.floor(of.lo / a.by)
    const within = period === Math.floor(of.hi / a.by)
    r = within ? { lo: of.lo - period * a.by, hi: of.hi - period * a.by } : { lo: 0, hi: a.by - 1 }
  } else r = rangeOf({ terms: [{ atom: a, coef: 1 }], offset: 0, key: '' })
  const key = atomKey(a)
  for (const b of mask) {
    const found = boundOnAtom(b, key)
    if (found !== undefined) r = intersect(r, found)
  }
  return r
}

/** Whole factors by which an expression may hold another one: those at which a term of both goes away. */
function multiples(e: Expr, part: Expr): Set<number> {
  const coefs = new Map(part.terms.map((t) => [atomKey(t.atom), t.coef]))
  const ratios = e.terms.map((t) => t.coef / (coefs.get(atomKey(t.atom)) ?? 0))
  return new Set(ratios.filter((q) => Number.isInteger(q)))
}

/** Inclusive bounds of an expression where a mask holds (an empty range where it cannot hold). */
export function rangeUnder(e: Expr, mask: Predicate): Range {
  let r: Range = { lo: e.offset, hi: e.offset }
  for (const t of e.terms) {
    const a = atomRangeUnder(t.atom, mask)
    const ends = t.coef > 0 ? a : { lo: a.hi, hi: a.lo }
    r = { lo: r.lo + t.coef * ends.lo, hi: r.hi + t.coef * ends.hi }
  }
  if (mask.length > 0)
    for (const t of e.terms) {
      // rest + of/by = (by*rest + of)/by, of which the mask may speak.
      if (t.atom.kind !== 'div' || t.coef !== 1 || e.terms.length === 1) continue
      const rest = sub(e, { terms: [t], offset: 0, key: '' })
      const whole = rangeUnder(add(mul(rest, t.atom.by), t.atom.of), mask)
      r = intersect(r, { lo: Math.floor(whole.lo / t.atom.by), hi: Math.floor(whole.hi / t.atom.by) })
    }
  for (const b of mask) {
    // e = rest + q * b.expr with rest the simpler.
    const others = mask.filter((o) => o !== b)
    for (const q of multiples(e, b.expr)) {
      const rest = sub(e, mul(b.expr, q))
      if (rest.terms.length >= e.terms.length) continue
      const of = rangeUnder(rest, others)
      const [lo, hi] = q > 0 ? [q * b.lo, q * (b.hi - 1)] : [q * (b.hi - 1), q * b.lo]
      r = intersect(r, { lo: of.lo + lo, hi: of.hi + hi })
    }
  }
  return r
}

/** Rewrites blocked axes as start + offset; with `aligned`, starts as multiples of the block where they are. */
function splitBlocks(roles: ReadonlyMap<string, AxisRole>, aligned: boolean): (a: Atom) => Expr | undefined {
  return (a) => {
    if (a.kind !== 'axis') return undefined
    const name = startOf(a.name) ?? a.name
    const info = roles.get(name)
    if (info === undefined || info.role === 'local') return undefined
    const start =
      aligned && info.aligned
        ? mul(axis(`${name}.block`, Math.ceil(info.extent / info.block)), info.block)
        : axis(`${name}.start`, info.extent)
    return a.name === name ? add(start, axis(`${name}.offset`, info.block)) : start
  }
}

/** Inclusive bounds of an expression inside a program, where the mask holds. */
export function rangeInProgram(e: Expr, mask: Predicate, roles: ReadonlyMap<string, AxisRole>): Range {
  let r = rangeUnder(e, mask)
  for (const aligned of [false, true]) {
    const split = splitBlocks(roles, aligned)
    r = intersect(r, rangeUnder(substitute(e, split), substitutePredicate(mask, split)))
  }
  return r
}
