/** Collapsing: two axes that every index map runs through as one become one, so loops are long and blocks even. */

import type { Expr } from '../../affine/expr.ts'
import * as ix from '../../affine/expr.ts'
import { gcd } from '../../affine/gcd.ts'
import { Substitution } from '../../affine/substitution.ts'
import { longestAxis32 } from '../../kernel/indexType.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { isPosition } from '../../kernel/positions.ts'
import { expressionsOf, substituteIn } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import { sizeOf } from '../../types/shape.ts'
import { type Body, type BodyStore, type BodyTensor, storeExpressions, substituteInStore } from './body.ts'

/**
 * Whether an expression changes by the same amount for a step of `outer` as for `extent` steps of `inner`, everywhere in it; in what
 * a remainder is taken of, up to multiples of what it is taken by.
 */
function alike(e: Expr, outer: string, inner: string, extent: number, modulo?: number): boolean {
  let co = 0
  let ci = 0
  for (const { atom, coef } of e.terms) {
    if (atom.kind === 'axis') {
      if (atom.name === outer) co = coef
      else if (atom.name === inner) ci = coef
    } else if (atom.kind === 'mod') {
      if (!alike(atom.of, outer, inner, extent, atom.by)) return false
    } else if (atom.kind === 'div' && !alike(atom.of, outer, inner, extent)) {
      // What a whole sum is the quotient of may be alike where its parts are not: i + floor((i + j) / 2) of 3 i + j.
      const of = coef === 1 && modulo === undefined ? ix.dividend(e, atom.by) : undefined
      return of !== undefined && alike(of, outer, inner, extent)
    }
  }
  const difference = co - ci * extent
  return modulo === undefined ? difference === 0 : difference % modulo === 0
}

const both = (axes: readonly string[], a: string, b: string): boolean => axes.includes(a) === axes.includes(b)

const letsOf = (body: Body): ReadonlyMap<ValueId, LetStmt> => new Map(body.lets.map((l) => [l.id, l]))

function collapsible(body: Body, outer: string, inner: string, extent: number): boolean {
  let lets: ReturnType<typeof letsOf> | undefined
  for (const l of body.lets) {
    if (!both(l.axes, outer, inner)) {
      lets ??= letsOf(body)
      if (!isPosition(lets, l)) return false
    }
    if (l.op.kind === 'scan' && (l.op.axis === outer || l.op.axis === inner)) return false
    if (l.op.kind === 'reduce' || l.op.kind === 'dot') {
      if (!both(l.op.axes, outer, inner)) return false
      const at = l.op.axes.indexOf(outer)
      if (at >= 0 && l.op.axes[at + 1] !== inner) return false
    }
    for (const e of expressionsOf(l.op)) if (!alike(e, outer, inner, extent)) return false
  }
  return body.stores.every((s) => storeExpressions(s).every((e) => alike(e, outer, inner, extent)))
}

/** What an expression has in common with its shifted and scaled forms: a bound on one bounds them all. */
function direction(e: Expr): string {
  const scale = e.terms.reduce((g, t) => gcd(g, t.coef), 0) || 1
  return e.terms.map((t) => `${t.coef / scale}*${ix.atomKey(t.atom)}`).join('+')
}

/** Parameters that some load reads under a mask. */
function maskedLoads(body: Body): ReadonlySet<string> {
  const masked = new Set<string>()
  for (const { op } of body.lets) if (op.kind === 'load' && op.mask.length > 0) masked.add(op.param)
  return masked
}

/** Dimensions of a tensor that is loaded under masks, in runs: a dimension some mask bounds stands alone (its bound must stay visible), others join. */
function runs(body: Body, param: string, rank: number): number[][] {
  const masked = new Set<number>()
  for (const { op } of body.lets) {
    if (op.kind !== 'load' || op.param !== param) continue
    const bounded = new Set(op.mask.map((b) => direction(b.expr)))
    op.index.forEach((e, d) => {
      if (bounded.has(direction(e))) masked.add(d)
    })
  }
  const out: number[][] = []
  for (let d = 0; d < rank; d++) {
    const open = d > 0 && !masked.has(d) && !masked.has(d - 1) ? out.at(-1) : undefined
    if (open === undefined) out.push([d])
    else open.push(d)
  }
  return out
}

const pick = <T>(items: readonly T[], at: readonly number[]): T[] => at.flatMap((d) => items[d] ?? [])

/** Every tensor addressed by flat positions, as far as masks allow. */
export function flatten(body: Body): Body {
  const masked = maskedLoads(body)
  /** The runs of tensors that are loaded under masks; the dimensions of others are one run. */
  const groups = new Map<string, number[][]>()
  const loads = new Map<string, BodyTensor>()
  for (const [n, t] of body.loads) {
    const { shape } = t
    const own = masked.has(n) ? runs(body, n, shape.length) : undefined
    if (own !== undefined) groups.set(n, own)
    loads.set(n, {
      ...t,
      shape: own !== undefined ? own.map((g) => sizeOf(pick(shape, g))) : shape.length === 0 ? [] : [sizeOf(shape)],
    })
  }
  /** Positions by coordinates: tensors of one shape are read at one list of them. */
  const flat = new Map<readonly Expr[], { readonly shape: readonly number[]; readonly index: readonly Expr[] }>()
  const positionsAt = (index: readonly Expr[], shape: readonly number[]): readonly Expr[] => {
    const have = flat.get(index)
    if (have?.shape === shape) return have.index
    const made = shape.length === 0 ? [] : [ix.flatten(index, shape)]
    flat.set(index, { shape, index: made })
    return made
  }
  const lets = body.lets.map((l): LetStmt => {
    const { op } = l
    if (op.kind !== 'load') return l
    const shape = body.loads.get(op.param)?.shape ?? []
    const own = groups.get(op.param)
    const index =
      own !== undefined ? own.map((g) => ix.flatten(pick(op.index, g), pick(shape, g))) : positionsAt(op.index, shape)
    return { ...l, op: { ...op, index } }
  })
  const stores = body.stores.map(
    (s): BodyStore => ({ ...s, index: [ix.flatten(s.index, s.shape)], shape: [sizeOf(s.shape)] }),
  )
  return { ...body, lets, stores, loads }
}

const extentOf = (body: Body, name: string): number => body.axes.find((a) => a.name === name)?.extent ?? 1

function merge(body: Body, outer: string, inner: string): Body {
  const total = extentOf(body, outer) * extentOf(body, inner)
  const joined = ix.axis(inner, total)
  const by = new Substitution((a) =>
    a.kind !== 'axis' ? undefined : a.name === outer ? ix.zero : a.name === inner ? joined : undefined,
  )
  // Statements go on sharing their lists of axes.
  const kept = new Map<readonly string[], readonly string[]>()
  const without = (axes: readonly string[]): readonly string[] => {
    const have = kept.get(axes)
    if (have !== undefined) return have
    const rest = axes.includes(outer) ? axes.filter((a) => a !== outer) : axes
    kept.set(axes, rest)
    return rest
  }
  const lets = body.lets.map((l): LetStmt => {
    const op = substituteIn(l.op, by)
    const axes = without(l.axes)
    if (op.kind === 'reduce' || op.kind === 'dot') return { ...l, axes, op: { ...op, axes: without(op.axes) } }
    return op === l.op && axes === l.axes ? l : { ...l, axes, op }
  })
  const stores = body.stores.map((s) => ({
    ...substituteInStore(s, by),
    ...(s.pieces === undefined ? {} : { pieces: [...new Set(s.pieces.map((a) => (a === outer ? inner : a)))] }),
  }))
  const axes = body.axes
    .filter((a) => a.name !== outer)
    .map((a) => (a.name === inner ? { name: inner, extent: total } : a))
  return { ...body, axes, lets, stores }
}

/** Axes that are neighbouring digits of some flat position, `extent` the inner one's. */
interface Pair {
  readonly outer: string
  readonly inner: string
  readonly extent: number
}

/** The first pair of neighbouring digits that collapses into an axis no longer than `longest`, stores' positions before loads'. */
function findPair(body: Body, longest: number): Pair | undefined {
  const refused = new Set<string>()
  const within = (e: Expr): Pair | undefined => {
    for (const { atom: i, coef } of e.terms) {
      if (i.kind !== 'axis') continue
      for (const { atom: o, coef: step } of e.terms) {
        if (o.kind !== 'axis' || o === i || step !== coef * i.extent) continue
        const key = `${o.name},${i.name},${i.extent}`
        if (refused.has(key)) continue
        if (extentOf(body, o.name) * i.extent <= longest && collapsible(body, o.name, i.name, i.extent))
          return { outer: o.name, inner: i.name, extent: i.extent }
        refused.add(key)
      }
    }
    return undefined
  }
  for (const s of body.stores)
    for (const e of s.index) {
      const found = within(e)
      if (found !== undefined) return found
    }
  for (const { op } of body.lets)
    if (op.kind === 'load')
      for (const e of op.index) {
        const found = within(e)
        if (found !== undefined) return found
      }
  return undefined
}

/** Whether any two axes stand together in every statement: others do not collapse. */
function anyTogether(body: Body): boolean {
  // Axes by the statements they stand in: parts of one class so far are split where a statement has some of them.
  let classes: (readonly string[])[] = [body.axes.map((a) => a.name)]
  const seen = new Set<readonly string[]>()
  const split = (axes: readonly string[]): void => {
    if (seen.has(axes)) return
    seen.add(axes)
    classes = classes.flatMap((c) => {
      const inside = c.filter((a) => axes.includes(a))
      return inside.length === 0 || inside.length === c.length
        ? [c]
        : [inside, c.filter((a) => !axes.includes(a))].filter((p) => p.length > 1)
    })
  }
  const lets = letsOf(body)
  for (const l of body.lets) {
    const { axes, op } = l
    if (isPosition(lets, l)) continue
    split(axes)
    if (op.kind === 'reduce' || op.kind === 'dot') split(op.axes)
    else if (op.kind === 'scan') split([op.axis])
    if (classes.length === 0) return false
  }
  return classes.length > 0
}

/** The longest axis that code on a target counts along, whatever the blocks. */
export const longestAxis = ({ positionBits }: Machine): number =>
  positionBits === 32 ? longestAxis32 : Number.POSITIVE_INFINITY

/** The body with every collapsible pair of axes joined (flat addressing where any was), as far as none is longer than `longest`. */
export function collapse(body: Body, longest: number): Body {
  if (body.axes.length < 2 || body.axes.some((a) => a.extent === 0) || !anyTogether(body)) return body
  const flat = flatten(body)
  let current = flat
  for (let pair = findPair(current, longest); pair !== undefined; pair = findPair(current, longest))
    current = merge(current, pair.outer, pair.inner)
  return current === flat ? body : current
}
