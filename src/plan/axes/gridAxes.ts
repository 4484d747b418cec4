/** What grids of all kinds share: the order of axes by what they move in memory, and the programs of a grid. */
import * as ix from '../../affine/expr.ts'
import type { GridAxis } from '../../kernel/ir.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Body } from '../body/body.ts'

/** Parallel axes from the one that moves least in memory to the one that moves most, by the largest store. */
export function byStoreStride(body: Body, axes: Iterable<string>): string[] {
  const main = [...body.stores].sort((p, q) => sizeOf(q.shape) - sizeOf(p.shape))[0]
  const flat = main === undefined ? ix.zero : ix.flatten(main.index, main.shape)
  const stride = (a: string): number => Math.abs(ix.strideOf(flat, a) ?? 0) || Number.POSITIVE_INFINITY
  return [...axes].sort((p, q) => stride(p) - stride(q))
}

/** Programs of a grid. */
export const programsOf = (grid: readonly GridAxis[], extents: ReadonlyMap<string, number>): number =>
  grid.reduce((n, { axis, block }) => n * Math.ceil((extents.get(axis) ?? 1) / block), 1)
