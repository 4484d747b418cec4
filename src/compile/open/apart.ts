/** Constants of a body that are equal at some extents alone: one value there, and several in the body that it is compared with. */

import * as ix from '../../affine/expr.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { mapExpressions, renameOperands } from '../../kernel/walk.ts'
import { type Body, mapStore } from '../../plan/body/body.ts'

const isConstant = (l: LetStmt): boolean => l.op.kind === 'const'

/**
 * A body with constants apart that are apart in another one, its values under the names they have there; undefined where they differ in more
 * than in which constants are one. What else they are is not compared.
 */
export function constantsApart(body: Body, as: Body): Body | undefined {
  const [own, others] = [body, as].map((b) => b.lets.filter((l) => !isConstant(l)))
  if (own === undefined || own.length !== others?.length || body.stores.length !== as.stores.length) return undefined
  const constants = new Map(body.lets.filter(isConstant).map((l) => [l.id, l]))
  const named = new Map(own.map((l, i) => [l.id, others[i]?.id ?? l.id]))
  /** By name in the other body, what stands for its constants. */
  const chosen = new Map<ValueId, LetStmt>()
  let isSame = true
  /** The name of a value that the other body has under a name at this place. */
  const nameOf = (id: ValueId, there: ValueId | undefined): ValueId => {
    const constant = constants.get(id)
    const name = constant === undefined ? named.get(id) : there
    if (name === undefined || (constant !== undefined && (chosen.get(name) ?? constant) !== constant)) isSame = false
    if (constant !== undefined && name !== undefined) chosen.set(name, constant)
    return name ?? id
  }
  const inExpression = (e: ix.Expr): ix.Expr =>
    ix.substitute(e, (a) => (a.kind === 'value' ? ix.value(nameOf(a.id, undefined), a.extent, a.open) : undefined))
  const renamed = own.map((l, i): LetStmt => {
    const there = others[i]?.op
    const moved = mapExpressions(l.op, inExpression)
    const args = there?.kind === 'scalar' ? there.args : []
    const op =
      moved.kind === 'scalar'
        ? { ...moved, args: moved.args.map((id, k) => nameOf(id, args[k])) }
        : renameOperands(l.op, (id) => nameOf(id, undefined))
    return { ...l, id: nameOf(l.id, undefined), op }
  })
  const stores = body.stores.map((s, i) => ({
    ...mapStore(s, inExpression),
    value: nameOf(s.value, as.stores[i]?.value),
  }))
  const values = new Map(renamed.map((l) => [l.id, l]))
  const origin = new Map(
    [...named].flatMap(([id, name]) => {
      const node = body.origin.get(id)
      return node === undefined ? [] : [[name, node] as const]
    }),
  )
  const lets = as.lets.flatMap((l): LetStmt[] => {
    const constant = chosen.get(l.id)
    const made = isConstant(l) ? constant && { ...constant, id: l.id } : values.get(l.id)
    const node = constant === undefined ? undefined : body.origin.get(constant.id)
    if (node !== undefined) origin.set(l.id, node)
    return made === undefined ? [] : [made]
  })
  return isSame && lets.length === as.lets.length ? { ...body, lets, stores, origin } : undefined
}
