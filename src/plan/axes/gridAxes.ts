/** What grids of all kinds share: the order of axes by what they move in memory, and the programs of a grid. */
import * as ix from '../../affine/expr.ts'
import type { GridAxis } from '../../kernel/ir.ts'
import type { Body } from '../body/body.ts'
import { positionOfLargestStore, positionOfLoad, strideAlong } from './positions.ts'

/**
 * Parallel axes from the one that moves least in memory to the one that moves most, by the largest store; one that it finds by quotients moves as
 * little as its last digit.
 */
export function byStoreStride(body: Body, axes: Iterable<string>): string[] {
  const main = positionOfLargestStore(body) ?? ix.zero
  const stride = (a: string): number => strideAlong(main, a) || (spacingOf(main, a) ?? Number.POSITIVE_INFINITY)
  return [...axes].sort((p, q) => stride(p) - stride(q))
}

/** Axes in the order in which the largest store has them, the one that moves least last; those that it lacks come first. */
export function outermostFirst(body: Body, axes: readonly string[]): string[] {
  const main = positionOfLargestStore(body) ?? ix.zero
  const spacing = (a: string): number => spacingOf(main, a) ?? Number.MAX_VALUE
  return [...axes].sort((p, q) => spacing(q) - spacing(p))
}

/** Programs of a grid. */
export const programsOf = (grid: readonly GridAxis[], extents: ReadonlyMap<string, number>): number =>
  grid.reduce((n, { axis, block }) => n * Math.ceil((extents.get(axis) ?? 1) / block), 1)

/** The least that one of an expression's terms with an axis moves by, at the most that launch scalars are; undefined where the axis is in none. */
function spacingOf(e: ix.Expr, axis: string): number | undefined {
  const has = (a: ix.Atom): boolean => {
    const of = ix.ofAtom(a)
    return a.kind === 'axis' ? a.name === axis : of !== undefined && ix.axesOf(of).has(axis)
  }
  const moves = ({ atom, coef }: ix.Term): number =>
    Math.abs(coef) * (atom.kind === 'scaled' ? atom.most * (spacingOf(atom.of, axis) ?? 1) : 1)
  const own = e.terms.filter(({ atom }) => has(atom))
  return own.length === 0 ? undefined : Math.min(...own.map(moves))
}

/** Elements of a line of memory. */
export const lineElements = 16

/** Those of some axes that move less in the largest store than any of the others, or less than a line: their results lie between one another's. */
export function interleaved(body: Body, axes: readonly string[], others: readonly string[]): string[] {
  const main = positionOfLargestStore(body)
  if (main === undefined) return []
  const spacing = (a: string): number => spacingOf(main, a) ?? Number.POSITIVE_INFINITY
  const least = Math.min(...others.map(spacing))
  return axes.filter((a) => spacing(a) < Math.max(least, lineElements))
}

/**
 * Axes of one side of a product from the one that moves least in memory to the one that moves most: in the largest store, or, where that
 * lacks one of them (what is folded afterwards), in the first load that has all.
 */
export function bySpacing(body: Body, axes: readonly string[]): string[] {
  const loads = body.lets.flatMap(({ op }) => (op.kind === 'load' ? [positionOfLoad(body, op)] : []))
  for (const e of [positionOfLargestStore(body) ?? [], loads].flat()) {
    const spacing = new Map(
      axes.flatMap((a): [string, number][] => {
        const s = spacingOf(e, a)
        return s === undefined ? [] : [[a, s]]
      }),
    )
    if (spacing.size === axes.length) return [...axes].sort((p, q) => (spacing.get(p) ?? 0) - (spacing.get(q) ?? 0))
  }
  return byStoreStride(body, axes)
}
