/** Walking tile operations: their index expressions, and the statements that matter to given values. */
import type { Expr } from '../affine/expr.ts'
import * as ix from '../affine/expr.ts'
import { mapPredicate, type Predicate } from '../affine/predicate.ts'
import type { Substitution } from '../affine/substitution.ts'
import { type LetStmt, operandsOf, type Stmt, type StoreStmt, type TileOp, type ValueId } from './ir.ts'

/** The index expressions of an operation, those of its mask or predicate among them. */
export function expressionsOf(op: TileOp): readonly Expr[] {
  switch (op.kind) {
    case 'index':
      return [op.expr]
    case 'predicate':
      return op.predicate.map((b) => b.expr)
    case 'load':
      return op.mask.length === 0 ? op.index : [...op.index, ...op.mask.map((b) => b.expr)]
    case 'random':
      return [op.index]
    case 'reduce':
      return op.position === undefined ? [] : [op.position]
    case 'at':
      return Object.values(op.index)
    default:
      return []
  }
}

/** The operation with every index expression replaced. */
export function mapExpressions(op: TileOp, map: (e: Expr) => Expr): TileOp {
  const bounds = (p: Predicate): Predicate => mapPredicate(p, map)
  switch (op.kind) {
    case 'index':
      return { ...op, expr: map(op.expr) }
    case 'predicate':
      return { ...op, predicate: bounds(op.predicate) }
    case 'load':
      return { ...op, index: op.index.map(map), mask: bounds(op.mask) }
    case 'random':
      return { ...op, index: map(op.index) }
    case 'reduce':
      return op.position === undefined ? op : { ...op, position: map(op.position) }
    case 'at':
      return { ...op, index: Object.fromEntries(Object.entries(op.index).map(([a, e]) => [a, map(e)])) }
    default:
      return op
  }
}

/** The operation with atoms of its index expressions replaced; the very operation where none is. */
export function substituteIn(op: TileOp, by: Substitution): TileOp {
  switch (op.kind) {
    case 'load': {
      const [index, mask] = [by.ofList(op.index), by.ofPredicate(op.mask)]
      return index === op.index && mask === op.mask ? op : { ...op, index, mask }
    }
    case 'scalar':
    case 'const':
      return op
    default:
      return mapExpressions(op, by.of)
  }
}

/** The operation with its operands under other names. */
export function renameOperands(op: TileOp, to: (id: ValueId) => ValueId): TileOp {
  const moved = expressionsOf(op).some((e) => ix.valuesOf(e).size > 0)
    ? mapExpressions(op, (e) =>
        ix.substitute(e, (a) => (a.kind === 'value' ? ix.value(to(a.id), a.extent, a.open) : undefined)),
      )
    : op
  switch (moved.kind) {
    case 'load':
      return moved.maskValue === undefined ? moved : { ...moved, maskValue: to(moved.maskValue) }
    case 'scalar':
      return { ...moved, args: moved.args.map(to) }
    case 'random':
      return { ...moved, k0: to(moved.k0), k1: to(moved.k1) }
    case 'reduce':
    case 'scan':
      return { ...moved, arg: to(moved.arg) }
    case 'dot':
      return { ...moved, a: to(moved.a), b: to(moved.b), ...(moved.acc === undefined ? {} : { acc: to(moved.acc) }) }
    case 'stage':
    case 'at':
      return { ...moved, of: to(moved.of) }
    default:
      return moved
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

/** Operand value ids of a store: what it stores, its mask, and those of its index expressions. */
export const storeOperands = (s: StoreStmt): ValueId[] => [
  s.value,
  ...operandsOf({
    kind: 'load',
    param: s.param,
    index: s.index,
    mask: s.mask,
    other: 0,
    ...(s.maskValue === undefined ? {} : { maskValue: s.maskValue }),
  }),
]

/** Lets, stores and loops of a body with those inside its loops. */
export function* allStmts(body: readonly Stmt[]): Generator<Stmt> {
  for (const s of body) {
    yield s
    if (s.kind === 'loop') yield* allStmts(s.body)
  }
}
