/** Walking tile operations: their index expressions, and the statements that matter to given values. */
import type { Expr } from '../index/expr.ts'
import { type LetStmt, operandsOf, type TileOp, type ValueId } from './ir.ts'

/** The index expressions of an operation, those of its mask or predicate among them. */
export function expressionsOf(op: TileOp): readonly Expr[] {
  switch (op.kind) {
    case 'index':
      return [op.expr]
    case 'predicate':
      return op.predicate.map((b) => b.expr)
    case 'load':
      return [...op.index, ...op.mask.map((b) => b.expr)]
    case 'random':
      return [op.counter]
    case 'reduce':
      return op.position === undefined ? [] : [op.position]
    case 'at':
      return Object.values(op.index)
    default:
      return []
  }
}

/** The statements that the given values need, in order. */
export function liveLets(lets: readonly LetStmt[], roots: Iterable<ValueId>): LetStmt[] {
  const live = new Set<ValueId>(roots)
  for (let i = lets.length - 1; i >= 0; i--) {
    const l = lets[i]
    if (l !== undefined && live.has(l.id)) for (const o of operandsOf(l.op)) live.add(o)
  }
  return lets.filter((l) => live.has(l.id))
}

/** The values some values need, those among them. */
export function ancestorsOf(roots: Iterable<ValueId>, lets: ReadonlyMap<ValueId, LetStmt>): Set<ValueId> {
  const out = new Set<ValueId>()
  const stack = [...roots]
  for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
    if (out.has(id)) continue
    out.add(id)
    const l = lets.get(id)
    if (l !== undefined) stack.push(...operandsOf(l.op))
  }
  return out
}
