/** Roles of a body around a matrix product: batch, rows, columns and depth, and what happens to the reductions beside it. */
import * as ix from '../../affine/expr.ts'
import type { ValueId } from '../../kernel/ir.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { Analysis } from './analysis.ts'
import { tooManyBound } from './bindings.ts'
import { depthOrder } from './depthOrder.ts'
import { fusedReductionsOf, type MatrixRole } from './fusedReductions.ts'
import { matrixBlocks } from './matrixBlocks.ts'
import { matrixRole, storeUnit } from './matrixRole.ts'
import { type PartialResult, partialOfBlocks, partialOfDepth } from './partials.ts'
import type { Roles } from './roles.ts'
import { depthParts } from './splitK.ts'
import { type Stages, stagesOf } from './stages.ts'

/** The matrix products of a body that register blocks serve. */
export function productsIn({ body, target, lets, extents, folds }: Analysis): MatrixRole[] {
  if (folds.size === 0) return []
  const unit = storeUnit(body)
  return body.lets.flatMap((l) => matrixRole(l, lets, extents, unit, target) ?? [])
}

/** The roles around a matrix product, or why no kernel holds it with what is beside it. */
export function productRoles(a: Analysis, product: MatrixRole): { readonly ok: true; readonly roles: Roles } | Refused {
  const { body, target, lets, extents, row, reduced, parallel } = a
  const beside = fusedReductionsOf(a, product, heldBy(a, product))
  if (!beside.ok) return beside
  const { riding, split } = beside
  const stages = stagesOf(body, partialsBeside(a, product, split))
  const over = tooManyBound(body, stages, target)
  if (over !== undefined) return over
  const own = new Set(lets.get(product.id)?.axes)
  for (const s of body.stores) {
    if (stages.late.has(s.value)) continue
    if (s.index.some((e) => [...ix.axesOf(e)].some((x) => !own.has(x))))
      return refuse('unaligned-output', 'a result beside a matrix product has axes of its own')
  }
  const roles = { kind: 'matrix', extents, row, reduced, parallel } as const
  const matrix = { ...product, riding, k: depthOrder(a, product) }
  const cut = cutDepth(a, matrix)
  if (cut !== undefined) return { ok: true, roles: { ...roles, ...cut, splitBy: 'result-blocks' } }
  return { ok: true, roles: { ...roles, matrix, stages, splitBy: split.size > 0 ? 'result-blocks' : undefined } }
}

/** Whether a program of a product holds all of an axis of its results: one block has it whole. */
function heldBy(a: Analysis, product: MatrixRole): (axis: string) => boolean {
  let held: Set<string> | undefined
  return (axis) => {
    if (held === undefined) {
      const { rows, columns } = matrixBlocks(a.body, product, a.extents, a.target)
      held = new Set([...rows, ...columns].flatMap((b) => (b.block >= (a.extents.get(b.axis) ?? 1) ? [b.axis] : [])))
    }
    return held.has(axis)
  }
}

/** What the reductions leave that are cut at the blocks of a product's results. */
function partialsBeside(
  a: Analysis,
  product: MatrixRole,
  split: ReadonlySet<ValueId>,
): ReadonlyMap<ValueId, PartialResult> {
  if (split.size === 0) return new Map()
  const { rows, columns } = matrixBlocks(a.body, product, a.extents, a.target)
  const blocks = [...product.batch.map((axis) => ({ axis, block: 1 })), ...rows, ...columns]
  return new Map(a.body.lets.flatMap((l) => (split.has(l.id) ? [[l.id, partialOfBlocks(a, l, blocks)]] : [])))
}

/** The product with its depth in parts, whose finishing stage adds their results, if that pays. */
function cutDepth(
  a: Analysis,
  product: MatrixRole,
): { readonly matrix: MatrixRole; readonly stages: Stages } | undefined {
  const parts = depthParts(a, product)
  const dot = a.lets.get(product.id)
  if (parts === undefined || dot === undefined) return undefined
  const stages = stagesOf(a.body, new Map([[dot.id, partialOfDepth(a, dot, parts)]]))
  if (tooManyBound(a.body, stages, a.target) !== undefined) return undefined
  return { matrix: { ...product, parts }, stages }
}
