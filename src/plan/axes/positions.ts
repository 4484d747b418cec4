/** Positions in memory, in elements, as index expressions over a body's axes: of what it loads, and of its largest result. */
import * as ix from '../../affine/expr.ts'
import type { TileOp } from '../../kernel/ir.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Body } from '../body/body.ts'

const noShape: readonly number[] = []

/** Positions that were asked for, by the coordinates: many ask of one load or store, whose coordinates are one list. */
const positions = new WeakMap<readonly ix.Expr[], { readonly shape: readonly number[]; readonly position: ix.Expr }>()

function positionAt(index: readonly ix.Expr[], shape: readonly number[]): ix.Expr {
  const have = positions.get(index)
  if (have?.shape === shape) return have.position
  const position = ix.flatten(index, shape)
  positions.set(index, { shape, position })
  return position
}

/** Where a load reads. */
export const positionOfLoad = ({ loads }: Body, { index, param }: Extract<TileOp, { kind: 'load' }>): ix.Expr =>
  positionAt(index, loads.get(param)?.shape ?? noShape)

/** Where the largest result is stored, the first of those of one size; undefined where nothing is. */
export function positionOfLargestStore({ stores }: Body): ix.Expr | undefined {
  let largest: (typeof stores)[number] | undefined
  for (const s of stores) if (largest === undefined || sizeOf(s.shape) > sizeOf(largest.shape)) largest = s
  return largest === undefined ? undefined : positionAt(largest.index, largest.shape)
}

/** How many neighbours along an axis read an element before the next does: one, or more where a quotient of the axis moves; undefined elsewhere. */
export function repeatsAlong(position: ix.Expr, axis: string): number | undefined {
  if (ix.strideOf(position, axis) === 1) return 1
  const moving = position.terms.filter(({ atom }) => {
    const of = atom.kind === 'axis' ? undefined : ix.ofAtom(atom)
    return atom.kind === 'axis' ? atom.name === axis : of !== undefined && ix.axesOf(of).has(axis)
  })
  const [only, another] = moving
  if (only?.coef !== 1 || another !== undefined || only.atom.kind !== 'div') return undefined
  return ix.strideOf(only.atom.of, axis) === 1 ? only.atom.by : undefined
}

/** How far apart neighbours along an axis lie; 0 where the axis moves nothing, or by no one distance. */
export const strideAlong = (position: ix.Expr, axis: string): number => Math.abs(ix.strideOf(position, axis) ?? 0)
