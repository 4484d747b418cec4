/** What index expressions say of memory: strides within groups of neighbouring indices, alignment, axes of statements. */
import { addConst, axesOf, type Expr, flatten, valuesOf } from '../../../affine/expr.ts'
import { gcd } from '../../../affine/gcd.ts'
import type { Predicate } from '../../../affine/predicate.ts'
import { startOf } from '../../../kernel/axes.ts'
import type { StoreStmt, ValueId } from '../../../kernel/ir.ts'

/** Divisors known of coordinates: by axis (or NAME.start), a number that divides its every value. */
export type Alignment = (name: string) => number

/**
 * An expression along aligned groups of `n` indices of an axis: it moves by `stride` from one index of a group to the next,
 * and `divisor` divides its value at a group's start (0: that value is 0). Undefined where it moves otherwise.
 */
export interface GroupMotion {
  readonly stride: number
  readonly divisor: number
}

export function motionOf(
  e: Expr,
  axis: string,
  n: number,
  alignment: Alignment,
  along: (value: ValueId) => boolean,
): GroupMotion | undefined {
  let stride = 0
  let divisor = Math.abs(e.offset)
  for (const { atom, coef } of e.terms) {
    if (atom.kind === 'axis') {
      if (atom.name === axis) {
        stride += coef
        divisor = gcd(divisor, coef * n)
      } else divisor = gcd(divisor, coef * alignment(atom.name))
    } else if (atom.kind === 'value') {
      if (along(atom.id)) return undefined
      divisor = gcd(divisor, coef)
    } else {
      const inner = motionOf(atom.of, axis, n, alignment, along)
      if (inner === undefined) return undefined
      if (atom.kind === 'scaled') {
        if (inner.stride !== 0) return undefined
        divisor = gcd(divisor, coef * inner.divisor * atom.multiple)
      } else if (inner.stride === 0)
        divisor = gcd(divisor, atom.kind === 'mod' ? coef * gcd(inner.divisor, atom.by) : coef)
      else if (inner.stride === 1 && inner.divisor % n === 0 && atom.by % n === 0) {
        if (atom.kind === 'mod') {
          stride += coef
          divisor = gcd(divisor, coef * gcd(inner.divisor, atom.by))
        } else divisor = gcd(divisor, coef)
      } else return undefined
    }
  }
  return { stride, divisor }
}

/**
 * How often each element is read where an expression along aligned groups of `n` indices of an axis runs through aligned neighbours, each
 * several times in a row (a quotient of the axis); undefined where it does not.
 */
export function repeatsOf(
  e: Expr,
  axis: string,
  n: number,
  alignment: Alignment,
  along: (value: ValueId) => boolean,
): number | undefined {
  let repeats: number | undefined
  let divisor = Math.abs(e.offset)
  for (const term of e.terms) {
    const { atom, coef } = term
    const alone = motionOf({ ...e, terms: [term], offset: 0 }, axis, n, alignment, along)
    if (alone?.stride === 0) {
      divisor = gcd(divisor, alone.divisor)
      continue
    }
    if (atom.kind !== 'div' || coef !== 1 || repeats !== undefined || n % atom.by !== 0) return undefined
    const inner = motionOf(atom.of, axis, n, alignment, along)
    if (inner?.stride !== 1 || inner.divisor % n !== 0) return undefined
    repeats = atom.by
    divisor = gcd(divisor, inner.divisor / atom.by)
  }
  return divisor % (n / (repeats ?? n)) === 0 ? (repeats ?? n) : undefined
}

/** Elements `stride` apart: number `residue` of each group of `stride` neighbours in a run that begins at `base`. */
export interface Run {
  readonly stride: number
  readonly residue: number
  readonly base: Expr
}

/** The run of elements that groups of `n` indices of an axis lie in, if it is aligned to whole words. */
export function runOf(
  flat: Expr,
  axis: string,
  n: number,
  bits: number,
  alignment: Alignment,
  along: (value: ValueId) => boolean,
): Run | undefined {
  const stride = motionOf(flat, axis, 1, alignment, along)?.stride
  if (stride !== 2 && stride !== 4) return undefined
  const wide = n * stride
  if (wide * bits > 128 || wide * bits < 32) return undefined
  const residue = ((flat.offset % stride) + stride) % stride
  const base = addConst(flat, -residue)
  const m = motionOf(base, axis, n, alignment, along)
  return m?.stride === stride && m.divisor % wide === 0 ? { stride, residue, base } : undefined
}

/** Whether a predicate holds for all or none of each aligned group of `n` indices of an axis. */
export function isUniform(
  p: Predicate,
  axis: string,
  n: number,
  alignment: Alignment,
  along: (value: ValueId) => boolean,
): boolean {
  return p.every((b) => {
    const m = motionOf(b.expr, axis, n, alignment, along)
    if (m === undefined) return false
    return m.stride === 0 || (m.stride === 1 && m.divisor % n === 0 && b.lo % n === 0 && b.hi % n === 0)
  })
}

/** Axes that expressions depend on, those of the values in them included; block starts are no dependence. */
export function axesOfExprs(exprs: Iterable<Expr>, axesOfValue: (id: ValueId) => readonly string[]): Set<string> {
  const out = new Set<string>()
  for (const e of exprs) {
    for (const a of axesOf(e)) if (startOf(a) === undefined) out.add(a)
    for (const id of valuesOf(e)) for (const a of axesOfValue(id)) out.add(a)
  }
  return out
}

/** The axes whose points a store visits. */
export function storeAxes(s: StoreStmt, axesOfValue: (id: ValueId) => readonly string[]): string[] {
  const out = new Set(axesOfValue(s.value))
  if (s.maskValue !== undefined) for (const a of axesOfValue(s.maskValue)) out.add(a)
  for (const a of axesOfExprs([...s.mask.map((b) => b.expr), ...s.index], axesOfValue)) out.add(a)
  return [...out]
}

/** The values a store reads: what it writes, what guards it, what its places come from. */
export const storeValues = (s: StoreStmt): ValueId[] => [
  s.value,
  ...(s.maskValue === undefined ? [] : [s.maskValue]),
  ...[...s.index, ...s.mask.map((b) => b.expr)].flatMap((e) => [...valuesOf(e)]),
]

/** Row-major position of an access. */
export const flatIndex = (index: readonly Expr[], shape: readonly number[]): Expr => flatten(index, shape)

/** Axes that expressions divide by something: what stands at their indices takes operations to find, of the others an offset. */
export function dividedAxes(exprs: Iterable<Expr>): Set<string> {
  const out = new Set<string>()
  for (const e of exprs)
    for (const { atom } of e.terms)
      if (atom.kind === 'div' || atom.kind === 'mod') for (const a of axesOf(atom.of)) out.add(a)
  return out
}
