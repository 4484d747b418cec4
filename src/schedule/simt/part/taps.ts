/**
 * Sums over positions for each tap of a window (the gradient in the weights of a depthwise convolution): a program has several taps, and each thread all
 * of them of its positions, so that what is read at a position serves each.
 */
import type { Expr } from '../../../affine/expr.ts'
import type { Predicate } from '../../../affine/predicate.ts'
import { slideOf } from '../../../affine/slide.ts'
import { foldAxes, isFold } from '../../../kernel/folds.ts'
import type { LetStmt } from '../../../kernel/ir.ts'

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

/** What is asked of a part. */
interface Surroundings {
  mainLets(): readonly LetStmt[]
  readonly loops: readonly unknown[]
  isProduct(id: number): boolean
  spreadOnly(names: Iterable<string>): string[]
  axis(name: string): { readonly size: number; readonly role: 'grid' | 'loop' | 'local' }
}

/** The taps of a part all of whose folds are sums of one kind over positions. */
export function tapsOf(part: Surroundings): ReadonlySet<string> {
  const lets = part.mainLets()
  const folds = lets.filter(isFold)
  const [first] = folds
  const none = new Set<string>()
  if (first?.op.kind !== 'dot' || part.loops.length > 0 || folds.some((l) => part.isProduct(l.id))) return none
  const folded = part.spreadOnly(foldAxes(first))
  const isSame = (l: LetStmt): boolean => part.spreadOnly(foldAxes(l)).join() === folded.join()
  if (!folds.every(isSame) || lets.some(({ op }) => op.kind === 'scan' || op.kind === 'stage')) return none
  const reads = lets.flatMap(({ op }) => (op.kind === 'load' ? [op] : []))
  const kept = part.spreadOnly(first.axes).filter((a) => part.axis(a).role === 'grid')
  const size = (a: string): number => part.axis(a).size
  const taps = new Set<string>()
  let sums = 1
  for (const axis of tapAxes(reads, kept, folded, size)) {
    sums *= size(axis)
    if (sums > mostTaps) break
    taps.add(axis)
  }
  return taps
}
