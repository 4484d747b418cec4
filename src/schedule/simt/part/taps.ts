/**
 * Sums over positions for each tap of a window (the gradient in the weights of a depthwise convolution): a program has several taps, and each thread all
 * of them of its positions, so that what is read at a position serves each.
 */
import type { Expr } from '../../../affine/expr.ts'
import type { Predicate } from '../../../affine/predicate.ts'
import { slideOf } from '../../../affine/slide.ts'
import { foldedAlike, type Surroundings } from './windows.ts'

/** Most taps of a thread: sums that it holds. */
export const mostTaps = 16

/** A load, by where it reads. */
interface Read {
  readonly index: readonly Expr[]
  readonly mask: Predicate
}

/** The axes among those kept along which a read moves as it does along a folded one that is longer, those of later dimensions first. */
export function tapAxes(
  reads: readonly Read[],
  kept: Iterable<string>,
  folded: Iterable<string>,
  extent: (axis: string) => number,
): string[] {
  const over = [...folded]
  const moves = ({ index, mask }: Read, axis: string): boolean => {
    const exprs = [...index, ...mask.map((b) => b.expr)]
    return over.some(
      (o) =>
        extent(o) > extent(axis) && (slideOf(exprs, axis, o) !== undefined || slideOf(exprs, o, axis) !== undefined),
    )
  }
  const dimension = (axis: string): number =>
    Math.max(...reads.map(({ index }) => index.findLastIndex((e) => e.terms.some((t) => isAxis(t.atom, axis)))))
  return [...kept]
    .filter((a) => extent(a) > 1 && extent(a) <= mostTaps && reads.some((r) => moves(r, a)))
    .sort((a, b) => dimension(b) - dimension(a))
}

const isAxis = (atom: Expr['terms'][number]['atom'], axis: string): boolean =>
  atom.kind === 'axis' && atom.name === axis

/** The taps of a part all of whose folds are products summed over the same positions. */
export function tapsOf(part: Surroundings): ReadonlySet<string> {
  const alike = foldedAlike(part)
  const taps = new Set<string>()
  if (alike?.first.op.kind !== 'dot') return taps
  const { lets, first, folded } = alike
  const reads = lets.flatMap(({ op }) => (op.kind === 'load' ? [op] : []))
  const kept = part.axesOf(first.id).filter((a) => part.axis(a).role === 'grid')
  const size = (a: string): number => part.axis(a).size
  let sums = 1
  for (const axis of tapAxes(reads, kept, folded, size)) {
    sums *= size(axis)
    if (sums > mostTaps) break
    taps.add(axis)
  }
  return taps
}
