/**
 * Index-set splitting: where predicates cut an axis into ranges (concatenations), each range becomes a body of its own in
 * which they are decided, so no point evaluates a branch it does not take. The ranges are the parts of one kernel.
 */

import type { Atom, Expr } from '../../affine/expr.ts'
import * as ix from '../../affine/expr.ts'
import { always, type Bound, conjoin, isNever, type Predicate } from '../../affine/predicate.ts'
import { InternalError } from '../../diagnostics/errors.ts'
import { type LetStmt, operandsOf, type TileOp, type ValueId } from '../../kernel/ir.ts'
import { expressionsOf, liveLets } from '../../kernel/walk.ts'
import { type Body, type BodyStore, mapStore } from './body.ts'
import { collapse, flatten } from './collapse.ts'

/** Most ranges an axis is cut into. */
const mostSegments = 16

/** Where a predicate's bounds on `axis + constant` change. */
function cutsOf(p: Predicate, cuts: Map<string, Set<number>>): void {
  for (const b of p) {
    const [t, second] = b.expr.terms
    if (second !== undefined || t === undefined || t.coef !== 1 || t.atom.kind !== 'axis') continue
    const set = cuts.get(t.atom.name) ?? new Set()
    for (const at of [b.lo - b.expr.offset, b.hi - b.expr.offset]) if (at > 0 && at < t.atom.extent) set.add(at)
    cuts.set(t.atom.name, set)
  }
}

/** The ranges of an elementwise body whose branches are decided by ranges of one axis; the body itself where there are none. Axes are joined up to `longest`. */
export function segmentsOf(body: Body, longest: number): Body[] {
  const cuts = new Map<string, Set<number>>()
  for (const { op } of body.lets) if (op.kind === 'predicate') cutsOf(op.predicate, cuts)
  const [best] = [...cuts].filter(([, c]) => c.size > 0 && c.size < mostSegments).sort((p, q) => q[1].size - p[1].size)
  const axis = body.axes.find((a) => a.name === best?.[0])
  if (best === undefined || axis === undefined) return [body]
  const edges = [0, ...[...best[1]].sort((p, q) => p - q), axis.extent]
  const segments = edges.slice(1).map((end, i) => restrict(body, axis.name, edges[i] ?? 0, end))
  const masked = segments.some((s) => s.lets.some((l) => l.op.kind === 'load' && l.op.mask.length > 0))
  // Without masks every tensor is flat in every range: they address it alike.
  return masked ? segments : segments.map((s) => collapse(flatten(s), longest))
}

/** Whether ranges of a result lie between each other: none of a store's axes moves by one element. */
export const interleaves = (body: Body): boolean =>
  body.stores.some(
    (s) => s.pieces !== undefined && ix.flatten(s.index, s.shape).terms.every((t) => Math.abs(t.coef) > 1),
  )

/** The parts of an elementwise body whose results stand in pieces: stores over the same axes are a part. */
export function partsOf(body: Body): Body[] {
  const groups = new Map<string, BodyStore[]>()
  for (const s of body.stores) {
    const key = [...new Set(s.index.flatMap((e) => [...ix.axesOf(e)]))].sort().join()
    groups.set(key, [...(groups.get(key) ?? []), s])
  }
  if (groups.size === 1) return [body]
  return [...groups.entries()].map(([key, stores]) => {
    const own = key.split(',')
    const lets = liveLets(
      body.lets,
      stores.map((s) => s.value),
    )
    return { ...body, axes: body.axes.filter((a) => own.includes(a.name)), lets, stores }
  })
}

/** The body over the indices [from, to) of an axis, with what that decides simplified away. */
function restrict(body: Body, name: string, from: number, to: number): Body {
  const extent = to - from
  const axis = ix.addConst(ix.axis(name, extent), from)
  const own = new Map(body.lets.map((l) => [l.id, l.op]))
  const decided = new Map<ValueId, { readonly predicate: Predicate; readonly value: boolean | undefined }>()
  /** A predicate's own axes are all that it depends on besides values, which are named by what they are here. */
  const decide = (
    id: ValueId,
    p: Predicate,
  ): { readonly predicate: Predicate; readonly value: boolean | undefined } => {
    const have = decided.get(id)
    if (have !== undefined) return have
    const predicate = bounds(p)
    const made = { predicate, value: predicate.length === 0 ? true : isNever(predicate) ? false : undefined }
    decided.set(id, made)
    return made
  }
  const taken = new Map<ValueId, ValueId>()
  /** The value that stands for another: the branch that is taken where a predicate is decided. */
  const at = (id: ValueId): ValueId => {
    const passed: ValueId[] = []
    let to = id
    for (;;) {
      const have = taken.get(to)
      const op = have === undefined ? own.get(to) : undefined
      const [c, a, b] = op?.kind === 'scalar' && op.op === 'select' ? op.args : []
      const test = c === undefined ? undefined : own.get(at(c))
      const value = test?.kind === 'predicate' && c !== undefined ? decide(at(c), test.predicate).value : undefined
      const next = have ?? (value === undefined ? undefined : value ? a : b)
      if (next === undefined || next === to) break
      passed.push(to)
      to = next
    }
    for (const p of passed) taken.set(p, to)
    taken.set(to, to)
    return to
  }
  const atom = (a: Atom): Expr | undefined => {
    if (a.kind === 'axis') return a.name === name ? axis : undefined
    if (a.kind !== 'value') return undefined
    const to = at(a.id)
    return to === a.id ? undefined : ix.value(to, a.extent, a.open)
  }
  const known = new Map<Expr, Expr>()
  const sub = (e: Expr): Expr => {
    const have = known.get(e)
    if (have !== undefined) return have
    const made = ix.substitute(e, atom)
    known.set(e, made)
    return made
  }
  const bound = new Map<Bound, Bound>()
  const bounds = (p: Predicate): Predicate => {
    const out = p.map((b) => {
      const have = bound.get(b) ?? { ...b, expr: sub(b.expr) }
      bound.set(b, have)
      return have
    })
    return conjoin(always, ...out)
  }
  const keeps = (axes: readonly string[]): readonly string[] => (extent === 1 ? axes.filter((a) => a !== name) : axes)

  const simplify = (id: ValueId, op: TileOp): TileOp => {
    switch (op.kind) {
      case 'predicate': {
        const { predicate, value } = decide(id, op.predicate)
        return value === undefined ? { kind: 'predicate', predicate } : { kind: 'const', value }
      }
      case 'scalar':
        return { ...op, args: op.args.map(at) }
      case 'load': {
        const mask = bounds(op.mask)
        if (isNever(mask)) return { kind: 'const', value: op.other }
        return {
          ...op,
          index: op.index.map(sub),
          mask,
          ...(op.maskValue === undefined ? {} : { maskValue: at(op.maskValue) }),
        }
      }
      case 'index':
        return { ...op, expr: sub(op.expr) }
      case 'random':
        return { ...op, k0: at(op.k0), k1: at(op.k1), index: sub(op.index) }
      case 'dot':
        return { ...op, a: at(op.a), b: at(op.b) }
      case 'reduce':
        return { ...op, arg: at(op.arg), ...(op.position === undefined ? {} : { position: sub(op.position) }) }
      case 'const':
        return op
      default:
        throw new InternalError(`${op.kind} in an elementwise body`)
    }
  }
  // Only what the range needs is made: of a concatenation one branch, not all.
  const stores = body.stores.map((s) => ({ ...mapStore(s, sub), value: at(s.value) }))
  const ops = new Map<ValueId, TileOp>()
  const stack = stores.map((s) => s.value)
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    const op = own.get(id)
    if (ops.has(id) || op === undefined) continue
    const made = simplify(id, op)
    ops.set(id, made)
    for (const o of operandsOf(made)) stack.push(o)
  }
  const axesOf = new Map<ValueId, readonly string[]>()
  const lets = body.lets.flatMap((l): LetStmt[] => {
    const op = ops.get(l.id)
    if (op === undefined) return []
    const axes = op.kind === 'const' ? [] : varying(op, keeps(l.axes), axesOf)
    axesOf.set(l.id, axes)
    return [{ ...l, op, axes }]
  })
  const axes = body.axes
    .map((a) => (a.name === name ? { name, extent } : a))
    .filter((a) => a.name !== name || extent > 1)
  return { ...body, axes, lets, stores }
}

/** The axes an operation still varies along, of those it had. */
function varying(op: TileOp, had: readonly string[], axesOf: ReadonlyMap<ValueId, readonly string[]>): string[] {
  const own = new Set(operandsOf(op).flatMap((o) => [...(axesOf.get(o) ?? [])]))
  const take = (e: Expr): void => {
    for (const a of ix.axesOf(e)) own.add(a)
  }
  expressionsOf(op).forEach(take)
  return had.filter((a) => own.has(a))
}
