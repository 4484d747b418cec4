/** Matrix products whose depth the plan cuts into parts (src/plan/depth.ts), as products with a sum over the parts. */
import * as ix from '../index/expr.ts'
import type { LetStmt } from '../kernel/ir.ts'
import { mapExpressions } from '../kernel/walk.ts'
import type { Body } from '../plan/body.ts'
import type { Roles } from '../plan/roles.ts'
import { stagesOf } from '../plan/stages.ts'

/**
 * The body with the depth's axis as two, the parts and the rest of it; the product has the parts among its own axes, and a
 * sum over them, cut into partial results, stands in its place.
 */
export function cutDepth(body: Body, roles: Roles): { readonly body: Body; readonly roles: Roles } {
  const { matrix } = roles
  const dot = body.lets.find((l) => l.id === matrix?.id)
  if (matrix?.parts === undefined || dot?.op.kind !== 'dot') return { body, roles }
  const { axis, parts } = matrix.parts
  const extent = roles.extents.get(axis) ?? 1
  const [outer, inner] = [`${axis}_outer`, `${axis}_inner`]
  const rest = extent / parts
  const place = ix.add(ix.mul(ix.axis(outer, parts), rest), ix.axis(inner, rest))
  const moved = (e: ix.Expr): ix.Expr =>
    ix.substitute(e, (x) => (x.kind === 'axis' && x.name === axis ? place : undefined))
  const names = (axes: readonly string[], to: readonly string[]): string[] =>
    axes.flatMap((x) => (x === axis ? [...to] : [x]))
  const id = Math.max(...body.lets.map((l) => l.id)) + 1
  const { op } = dot
  const product: LetStmt = { ...dot, id, axes: [outer, ...dot.axes], op: { ...op, axes: names(op.axes, [inner]) } }
  const sum: LetStmt = { ...dot, op: { kind: 'reduce', combiner: 'sum', arg: id, axes: [outer] } }
  const lets = body.lets.flatMap((l) =>
    l.id === dot.id ? [product, sum] : [{ ...l, axes: names(l.axes, [outer, inner]), op: mapExpressions(l.op, moved) }],
  )
  const axes = body.axes.flatMap((x) =>
    x.name === axis
      ? [
          { name: outer, extent: parts },
          { name: inner, extent: rest },
        ]
      : [x],
  )
  const node = body.origin.get(dot.id)
  const origin = node === undefined ? body.origin : new Map([...body.origin, [id, node]])
  const cut: Body = { ...body, axes, lets, origin }
  return {
    body: cut,
    roles: {
      ...roles,
      extents: new Map(axes.map((x) => [x.name, x.extent])),
      matrix: { ...matrix, id, batch: [outer, ...matrix.batch], k: names(matrix.k, [inner]), parts: undefined },
      stages: stagesOf(cut, new Set([dot.id])),
      splitBy: 'result-blocks',
    },
  }
}
