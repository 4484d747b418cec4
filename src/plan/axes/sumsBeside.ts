/**
 * Sums of products beside a matrix product. A contraction of a matrix and a vector, or a number, is a product that no register blocks serve. Alone it is a
 * kernel of its own kind; in a kernel that multiplies matrices it is a fold of terms, which rides in the product's loop, or streams in a chain's, as other
 * folds do.
 */
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import type { Body } from '../body/body.ts'
import { matrixRole, storeUnit } from './matrixRole.ts'

/** A body with contractions that are no matrix products as folds of terms, if it has one that is. */
export function withSumsBeside(body: Body, target: Machine): Body {
  const dots = body.lets.filter((l) => l.op.kind === 'dot')
  if (dots.length < 2) return body
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const unit = storeUnit(body)
  const sums = new Set(dots.filter((l) => matrixRole(l, lets, extents, unit, target) === undefined).map((l) => l.id))
  if (sums.size === 0 || sums.size === dots.length) return body
  const order = body.axes.map((a) => a.name)
  const origin = new Map(body.origin)
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const made = body.lets.flatMap((l): LetStmt[] => {
    const { op } = l
    if (op.kind !== 'dot' || !sums.has(l.id)) return [l]
    const out: LetStmt[] = []
    const emit = (axes: readonly string[], of: LetStmt['op']): ValueId => {
      const id = next++
      const node = origin.get(l.id)
      if (node !== undefined) origin.set(id, node)
      out.push({ ...l, id, axes: order.filter((a) => axes.includes(a)), op: of })
      return id
    }
    const wide = (id: ValueId): ValueId => {
      const of = lets.get(id)
      return of === undefined || of.dtype === l.dtype ? id : emit(of.axes, { kind: 'scalar', op: 'cast', args: [id] })
    }
    const factors = [wide(op.a), wide(op.b)]
    const axes = [op.a, op.b].flatMap((id) => lets.get(id)?.axes ?? [])
    const terms = emit(axes, { kind: 'scalar', op: 'mul', args: factors })
    return [...out, { ...l, op: { kind: 'reduce', combiner: 'sum', arg: terms, axes: op.axes } }]
  })
  return { ...body, lets: made, origin }
}
