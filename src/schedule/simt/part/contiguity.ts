/**
 * What of a part's accesses lies side by side in memory: groups of neighbouring indices that one wide access can take, and the
 * widths of vectors that follow for the axes of a layout.
 */
import { type Expr, strideOf, visitAtoms } from '../../../affine/expr.ts'
import type { Predicate } from '../../../affine/predicate.ts'
import type { LetStmt, StoreStmt, ValueId } from '../../../kernel/ir.ts'
import { bytesPerElement } from '../storage/words.ts'
import { flatIndex, isUniform, motionOf, type Run, repeatsOf, runOf } from './facts.ts'
import type { Part } from './part.ts'

/** Whether a value varies along an axis. */
export const variesAlong =
  (part: Part, axis: string) =>
  (id: ValueId): boolean =>
    part.axesOf(id).includes(axis)

/** Whether aligned groups of `n` indices of an axis are aligned groups of elements, of which a mask holds for all or none. */
export function isSideBySide(part: Part, flat: Expr, mask: Predicate, axis: string, n: number): boolean {
  if (!part.canGroup(axis, n)) return false
  const along = variesAlong(part, axis)
  const m = motionOf(flat, axis, n, part.alignment, along)
  return m?.stride === 1 && m.divisor % n === 0 && isUniform(mask, axis, n, part.alignment, along)
}

/** Whether aligned groups of `n` indices of an axis are words of aligned elements, each of which stands for several indices in a row. */
function isRepeating(part: Part, flat: Expr, mask: Predicate, axis: string, n: number, bytes: number): boolean {
  if (!part.canGroup(axis, n)) return false
  const along = variesAlong(part, axis)
  const repeats = repeatsOf(flat, axis, n, part.alignment, along) ?? n
  const length = (n / repeats) * bytes
  return repeats < n && length >= 4 && length <= 16 && isUniform(mask, axis, n, part.alignment, along)
}

/** The run that aligned groups of `n` indices of an axis lie in, if a mask holds for all or none of each. */
export function runAlong(
  part: Part,
  flat: Expr,
  mask: Predicate,
  axis: string,
  n: number,
  bits: number,
): Run | undefined {
  if (!part.canGroup(axis, n)) return undefined
  const along = variesAlong(part, axis)
  const run = runOf(flat, axis, n, bits, part.alignment, along)
  return run !== undefined && isUniform(mask, axis, n, part.alignment, along) ? run : undefined
}

/** Widest vectors of axes by their accesses, and the axes by the bytes they move side by side, the most first. */
export interface Contiguity {
  readonly vec: ReadonlyMap<string, number>
  readonly contiguous: readonly string[]
}

/** The widest group of so many indices at most, by halves, that a test allows. */
function widest(most: number, allows: (n: number) => boolean): number | undefined {
  for (let n = most; n > 1; n /= 2) if (allows(n)) return n
  return undefined
}

/** Indices of an axis between which an expression runs on without a jump: what remainders of the axis are taken by. */
function runLength(e: Expr, axis: string): number {
  let run = Number.POSITIVE_INFINITY
  visitAtoms(e, (a) => {
    if (a.kind === 'mod' && strideOf(a.of, axis) === 1) run = Math.min(run, a.by)
  })
  return run
}

/** Most elements from one index's to the next's in a run. */
const longestStride = 4

/** Most indices of a vector of elements that repeat. */
const longestRepeating = 32

/** Bytes of one access. */
const accessBytes = 16

/** Holds vectors to what a thread stores at once where elements of several vectors alternate in memory: neighbouring threads then write side by side. */
function holdToRuns(part: Part, { param, index }: StoreStmt, width: Map<string, number>): void {
  const p = part.params.get(param)
  if (p === undefined) return
  const flat = flatIndex(index, p.shape)
  for (const [axis, n] of width) {
    const stride = motionOf(flat, axis, 1, part.alignment, variesAlong(part, axis))?.stride ?? 0
    if (stride < 2 || stride > longestStride) continue
    const most = Math.floor(accessBytes / (bytesPerElement(p) * stride))
    width.set(axis, widest(n, (k) => k <= most) ?? 1)
  }
}

/** The contiguity of statements' accesses along the axes `names`; `repeating`: elements that stand for several indices in a row count, too. */
export function contiguityOf(
  part: Part,
  lets: readonly LetStmt[],
  stores: readonly StoreStmt[],
  names: readonly string[],
  repeating = false,
): Contiguity {
  const weight = new Map<string, number>()
  const width = new Map<string, number>()
  const take = (
    { param, index, mask }: Pick<StoreStmt, 'param' | 'index' | 'mask'>,
    axes: readonly string[],
    factor: number,
  ): void => {
    const p = part.params.get(param)
    if (p === undefined) return
    const flat = flatIndex(index, p.shape)
    const bytes = bytesPerElement(p)
    const points = axes.reduce((n, x) => n * part.axis(x).size, 1)
    for (const a of axes) {
      const unit = motionOf(flat, a, 1, part.alignment, variesAlong(part, a))
      if (repeating && unit?.stride === 0) {
        const n = widest(longestRepeating, (k) => isRepeating(part, flat, mask, a, k, bytes))
        if (n === undefined) continue
        width.set(a, Math.max(width.get(a) ?? 1, n))
        weight.set(a, (weight.get(a) ?? 0) + factor * points * bytes)
      }
      const stride = Math.abs(unit?.stride ?? 0)
      if (unit === undefined || stride < 1 || stride > longestStride || bytes > 4) continue
      const isRun = stride > 1
      // What is read backwards is read one by one, by threads side by side.
      const n =
        unit.stride < 0
          ? undefined
          : isRun
            ? widest(8, (k) => runAlong(part, flat, mask, a, k, 8 * bytes) !== undefined)
            : widest(Math.min(8, Math.max(1, Math.floor(accessBytes / bytes))), (k) =>
                isSideBySide(part, flat, mask, a, k),
              )
      if (n !== undefined) width.set(a, Math.max(width.get(a) ?? 1, n))
      // Of a run a load takes one element in `stride`.
      if (isRun && n === undefined) continue
      const kept = (1 - 1 / runLength(flat, a)) / stride
      weight.set(a, (weight.get(a) ?? 0) + kept * factor * points * bytes)
    }
  }
  for (const l of lets) if (l.op.kind === 'load') take(l.op, part.axesOf(l.id), 1)
  for (const s of stores) take(s, part.storeAxes(s), 2)
  for (const s of stores) holdToRuns(part, s, width)
  const contiguous = names.filter((a) => weight.has(a)).sort((a, b) => (weight.get(b) ?? 0) - (weight.get(a) ?? 0))
  return { vec: width, contiguous }
}
