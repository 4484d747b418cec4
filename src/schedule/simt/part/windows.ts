/**
 * Windows that overlap, which one thread goes along: what two of them share it reads once, into registers. The axis that windows move along
 * and those that they fold stand in a thread whole; other axes are spread over threads.
 */
import { type Slide, slideOf } from '../../../affine/slide.ts'
import { foldAxes, isFold } from '../../../kernel/folds.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../../kernel/ir.ts'

/** Overlapping windows of a part. */
export interface Windows extends Slide {
  /** The axis that windows move along, and the one that they fold along with it. */
  readonly along: string
  readonly over: string
  /** All axes that they fold. */
  readonly folded: readonly string[]
  /** Values that depend on the two axes through where they meet alone. */
  readonly shared: ReadonlySet<ValueId>
}

/** What is asked of a part. */
export interface Surroundings {
  mainLets(): readonly LetStmt[]
  readonly loops: readonly unknown[]
  isProduct(id: ValueId): boolean
  axesOf(id: ValueId): string[]
  spreadOnly(names: Iterable<string>): string[]
  axis(name: string): { readonly size: number; readonly role: 'grid' | 'loop' | 'local' }
}

/** Most points of a window that one thread folds. */
export const mostWindowPoints = 128
/** Most windows of a thread. */
const mostWindows = 16
/** Fewest threads that other axes leave to a program. */
const leastThreads = 32

/** The axes that all folds of a part fold, with its statements; undefined where it has none, others, products, scans or loops. */
export function foldedAlike(
  part: Surroundings,
): { readonly lets: readonly LetStmt[]; readonly first: LetStmt; readonly folded: readonly string[] } | undefined {
  const lets = part.mainLets()
  const folds = lets.filter(isFold)
  const [first] = folds
  if (first === undefined || part.loops.length > 0 || folds.some((l) => part.isProduct(l.id))) return undefined
  const folded = part.spreadOnly(foldAxes(first))
  const isSame = (l: LetStmt): boolean => {
    const axes = part.spreadOnly(foldAxes(l))
    return axes.length === folded.length && axes.every((a) => folded.includes(a))
  }
  return folds.every(isSame) && !lets.some(({ op }) => op.kind === 'scan' || op.kind === 'stage')
    ? { lets, first, folded }
    : undefined
}

/** The windows of a part all of whose folds are of windows that overlap along one axis of its block. */
export function windowsOf(part: Surroundings): Windows | undefined {
  const alike = foldedAlike(part)
  if (alike === undefined) return undefined
  const { lets, first, folded } = alike
  const size = (axes: readonly string[]): number => axes.reduce((n, a) => n * part.axis(a).size, 1)
  if (size(folded) > mostWindowPoints) return undefined
  const kept = part.axesOf(first.id)
  for (const along of kept) {
    const { size: windows, role } = part.axis(along)
    if (role !== 'grid' || windows > mostWindows || size(kept) / windows < leastThreads) continue
    for (const over of folded) {
      const found = windowsAlong(lets, along, over)
      if (found !== undefined && found.step < part.axis(over).size) return { ...found, along, over, folded }
    }
  }
  return undefined
}

/** What is shared among windows that move along one axis and fold another; undefined where nothing is read so. */
function windowsAlong(
  lets: readonly LetStmt[],
  along: string,
  over: string,
): (Slide & Pick<Windows, 'shared'>) | undefined {
  const shared = new Set<ValueId>()
  const axesOf = new Map(lets.map((l) => [l.id, l.axes]))
  let slide: Slide | undefined
  let isRead = false
  for (const l of lets) {
    const moves = [along, over].filter((a) => l.axes.includes(a)).length
    const operands = operandsOf(l.op)
    if (moves !== 2 || isFold(l)) continue
    const own = ownSlide(l, along, over)
    if (own === 'none') continue
    // Operands along one of the axes alone differ from window to window.
    const isShared = operands.every((id) => {
      const axes = axesOf.get(id)
      return shared.has(id) || (axes !== undefined && !axes.includes(along) && !axes.includes(over))
    })
    if (!isShared || (own !== undefined && slide !== undefined && (own.step !== slide.step || own.way !== slide.way)))
      continue
    slide ??= own
    shared.add(l.id)
    isRead ||= l.op.kind === 'load'
  }
  return isRead && slide !== undefined ? { ...slide, shared } : undefined
}

/** How a statement's own positions move; undefined: it has none. */
function ownSlide({ op }: LetStmt, along: string, over: string): Slide | 'none' | undefined {
  switch (op.kind) {
    case 'load':
      return slideOf([...op.index, ...op.mask.map((b) => b.expr)], along, over) ?? 'none'
    case 'predicate':
      return (
        slideOf(
          op.predicate.map((b) => b.expr),
          along,
          over,
        ) ?? 'none'
      )
    case 'scalar':
      return undefined
    default:
      return 'none'
  }
}
