/** Whether two bodies of one region are the same: built in another way, most regions come out as they did before. */
import type { Expr } from '../../affine/expr.ts'
import { type Predicate, predicateKey } from '../../affine/predicate.ts'
import type { LetStmt } from '../../kernel/ir.ts'
import type { Body, BodyStore } from './body.ts'

function sameLists<T>(a: readonly T[], b: readonly T[], isSame: (x: T, y: T) => boolean): boolean {
  if (a === b) return true
  if (a.length !== b.length) return false
  for (let i = 0; i < a.length; i++) {
    const [x, y] = [a[i], b[i]]
    if (x === undefined || y === undefined || !isSame(x, y)) return false
  }
  return true
}

/** Of what stands in place of tile values the key does not tell all. */
const sameExprs = (a: Expr, b: Expr): boolean => a === b || (a.key === b.key && a.hasValues === false)

const samePredicates = (a: Predicate, b: Predicate): boolean =>
  a === b || (predicateKey(a) === predicateKey(b) && a.every((bound) => bound.expr.hasValues === false))

const sameNames = (a: readonly string[], b: readonly string[]): boolean => sameLists(a, b, (x, y) => x === y)

/** Whether two statements are known to be the same: those of rare kinds are not. */
function sameLets(a: LetStmt, b: LetStmt): boolean {
  if (a.id !== b.id || a.dtype !== b.dtype || !sameNames(a.axes, b.axes)) return false
  const [p, q] = [a.op, b.op]
  if (p.kind === 'load' && q.kind === 'load')
    return (
      p.param === q.param &&
      Object.is(p.other, q.other) &&
      p.maskValue === q.maskValue &&
      sameLists(p.index, q.index, sameExprs) &&
      samePredicates(p.mask, q.mask)
    )
  if (p.kind === 'scalar' && q.kind === 'scalar') return p.op === q.op && sameLists(p.args, q.args, (x, y) => x === y)
  if (p.kind === 'const' && q.kind === 'const') return Object.is(p.value, q.value)
  if (p.kind === 'index' && q.kind === 'index') return sameExprs(p.expr, q.expr)
  if (p.kind === 'predicate' && q.kind === 'predicate') return samePredicates(p.predicate, q.predicate)
  if (p.kind === 'reduce' && q.kind === 'reduce')
    return (
      p.combiner === q.combiner &&
      p.arg === q.arg &&
      p.last === q.last &&
      p.position === undefined &&
      q.position === undefined &&
      sameNames(p.axes, q.axes)
    )
  if (p.kind === 'dot' && q.kind === 'dot')
    return p.a === q.a && p.b === q.b && p.acc === q.acc && p.precision === q.precision && sameNames(p.axes, q.axes)
  return false
}

const sameStores = (a: BodyStore, b: BodyStore): boolean =>
  a.node === b.node &&
  a.value === b.value &&
  a.format === b.format &&
  a.pieces === undefined &&
  b.pieces === undefined &&
  a.isScattered === b.isScattered &&
  sameLists(a.index, b.index, sameExprs) &&
  (a.mask === undefined || b.mask === undefined ? a.mask === b.mask : samePredicates(a.mask, b.mask))

/** Whether two bodies of a region are known to be one and the same, as they were built: with axes of their own names, no formats, in the shapes of their nodes. */
export const isSameBody = (a: Body, b: Body): boolean =>
  a.scales === undefined &&
  b.scales === undefined &&
  sameLists(a.axes, b.axes, (x, y) => x.name === y.name && x.extent === y.extent && x.open === y.open) &&
  sameLists(a.lets, b.lets, sameLets) &&
  sameLists(a.stores, b.stores, sameStores) &&
  a.loads.size === b.loads.size &&
  [...a.loads].every(([name, { node }]) => b.loads.get(name)?.node === node) &&
  a.lets.every(({ id }) => a.origin.get(id) === b.origin.get(id))
