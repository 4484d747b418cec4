/** Matrix products whose depth the plan cuts into parts (src/plan/axes/splitK.ts), as products with a sum over the parts. */
import * as ix from '../affine/expr.ts'
import { conjoin, type Predicate } from '../affine/predicate.ts'
import { type LetStmt, operandsOf, type TileOp, type ValueId } from '../kernel/ir.ts'
import { expressionsOf, mapExpressions } from '../kernel/walk.ts'
import type { Roles } from '../plan/axes/roles.ts'
import type { Body } from '../plan/body/body.ts'
import { beforeEnd } from './openParts.ts'

/**
 * The body with the depth's axis as two, the parts and the rest of it; the product has the parts among its own axes, and a
 * sum over them, which the stages split, stands in its place.
 */
export function cutDepth({ body, roles }: { readonly body: Body; readonly roles: Roles }): {
  readonly body: Body
  readonly roles: Roles
} {
  const { matrix } = roles
  const dot = body.lets.find((l) => l.id === matrix?.id)
  if (matrix?.parts === undefined || dot?.op.kind !== 'dot') return { body, roles }
  const { axis, parts, length } = matrix.parts
  const extent = roles.extents.get(axis) ?? 1
  const [outer, inner] = [`${axis}_outer`, `${axis}_inner`]
  const place = ix.add(ix.mul(ix.axis(outer, parts), length), ix.axis(inner, length))
  // The last part may end behind the axis: nothing is loaded there, and what is multiplied is zero.
  const open = beforeEnd(body, axis, place)
  const within: Predicate = open.length > 0 ? open : parts * length > extent ? [{ expr: place, lo: 0, hi: extent }] : []
  const moved = (e: ix.Expr): ix.Expr =>
    ix.substitute(e, (x) => (x.kind === 'axis' && x.name === axis ? place : undefined))
  const names = (axes: readonly string[], to: readonly string[]): string[] =>
    axes.flatMap((x) => (x === axis ? [...to] : [x]))
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const { op } = dot
  const axesOf = new Map<ValueId, readonly string[]>()
  const cutLet = (l: LetStmt): LetStmt => {
    const to = mapExpressions(l.op, moved)
    const op = to.kind === 'load' && l.axes.includes(axis) ? { ...to, mask: conjoin(to.mask, ...within) } : to
    const named = names(l.axes, [outer, inner])
    // What is one for many of the depth (a scale of a block) may differ from part to part alone.
    const varies = (x: string): boolean =>
      (x !== outer && x !== inner) ||
      mayRepeat(op) ||
      isNamed(op, x) ||
      operandsOf(op).some((i) => axesOf.get(i)?.includes(x))
    const axes = named.filter(varies)
    axesOf.set(l.id, axes)
    return { ...l, axes, op }
  }
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const guards: LetStmt[] = []
  /** An operand, zero behind the axis. */
  const guarded = (id: ValueId): ValueId => {
    const l = lets.get(id)
    if (within.length === 0 || l === undefined || (l.axes.includes(axis) && isZeroBehind(l, lets))) return id
    const [holds, zero, chosen] = [next++, next++, next++]
    const made = { kind: 'let', dtype: l.dtype } as const
    guards.push(
      { ...made, id: holds, dtype: 'bool', axes: [outer, inner], op: { kind: 'predicate', predicate: within } },
      { ...made, id: zero, axes: [], op: { kind: 'const', value: 0 } },
      {
        ...made,
        id: chosen,
        axes: withBoth(names(l.axes, [outer, inner]), [outer, inner]),
        op: { kind: 'scalar', op: 'select', args: [holds, id, zero] },
      },
    )
    return chosen
  }
  const [a, b] = [guarded(op.a), guarded(op.b)]
  const id = next++
  const product: LetStmt = {
    ...dot,
    id,
    axes: [outer, ...dot.axes],
    op: { ...op, a, b, axes: names(op.axes, [inner]) },
  }
  const sum: LetStmt = { ...dot, op: { kind: 'reduce', combiner: 'sum', arg: id, axes: [outer] } }
  const cutLets = body.lets.flatMap((l) => (l.id === dot.id ? [...guards, product, sum] : [cutLet(l)]))
  const axes = body.axes.flatMap((x) =>
    x.name === axis
      ? [
          { name: outer, extent: parts },
          { name: inner, extent: length },
        ]
      : [x],
  )
  const node = body.origin.get(dot.id)
  const origin = node === undefined ? body.origin : new Map([...body.origin, [id, node]])
  const cut: Body = { ...body, axes, lets: cutLets, origin }
  return {
    body: cut,
    roles: {
      ...roles,
      extents: new Map(axes.map((x) => [x.name, x.extent])),
      matrix: { ...matrix, id, batch: [outer, ...matrix.batch], k: names(matrix.k, [inner]), parts: undefined },
    },
  }
}

/** Whether a value may be declared along axes that it does not vary along. */
const mayRepeat = (op: TileOp): boolean => op.kind === 'const' || op.kind === 'index' || op.kind === 'predicate'

/** Whether an expression of an operation names an axis. */
const isNamed = (op: TileOp, axis: string): boolean => expressionsOf(op).some((e) => ix.axesOf(e).has(axis))

/** Whether an operand is zero where nothing is loaded: a load that gives zero there, in its own dtype or others. */
function isZeroBehind(l: LetStmt, lets: ReadonlyMap<ValueId, LetStmt>): boolean {
  let made: LetStmt | undefined = l
  while (made?.op.kind === 'scalar' && made.op.op === 'cast') made = lets.get(made.op.args[0] ?? -1)
  return made?.op.kind === 'load' && made.op.other === 0
}

/** Axes with some others in front, each once. */
const withBoth = (axes: readonly string[], others: readonly string[]): string[] => [
  ...others.filter((x) => !axes.includes(x)),
  ...axes,
]
