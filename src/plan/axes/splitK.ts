/**
 * The depth of a matrix product cut into parts: where the result has few blocks and the depth is long, each part of the
 * depth is a program of its own; a finishing stage adds their results and computes what follows.
 */

import { foldOrScanAxes } from '../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { farBandwidth, type Machine, movingSeconds } from '../../target/machine.ts'
import { sizeOf } from '../../types/shape.ts'
import { type Body, pointsOf, tensorBytes } from '../body/body.ts'
import type { Analysis } from './analysis.ts'
import { type DepthParts, leastRows, type MatrixRole } from './fusedReductions.ts'
import { groupOfDepth } from './gathered.ts'
import { productSeconds, productWork } from './productSeconds.ts'
import { canFinish, follows } from './split.ts'

/** How the depth is cut, if it is: in parts that give the target programs enough without costing much. */
export function depthParts(a: Analysis, matrix: MatrixRole): DepthParts | undefined {
  const { target, extents, lets, body, mode } = a
  const dot = lets.get(matrix.id)
  if (mode === 'strict' || matrix.riding.size > 0 || dot === undefined) return undefined
  const cut = new Set([matrix.id])
  const apart = body.lets.some((l) => foldOrScanAxes(l).length > 0 && l.id !== matrix.id)
  const late = body.stores.every((s) => s.value === matrix.id || isAfter(lets.get(s.value), cut, lets))
  if (apart || !late || body.stores.some((s) => s.node.dtype === 'bool') || !canFinish(a, cut)) return undefined
  const [axis] = [...matrix.k].sort((p, q) => (extents.get(q) ?? 1) - (extents.get(p) ?? 1))
  const extent = extents.get(axis ?? '') ?? 1
  if (axis === undefined) return undefined
  const length =
    target.depthSplit === undefined
      ? cheapestLength(a, matrix, axis, extent)
      : enoughLength(a, matrix, axis, extent, target.depthSplit)
  return length === undefined ? undefined : { axis, parts: Math.ceil(extent / length), length }
}

/** Numbers of equal parts of an extent, of whole groups, up to some number of them. */
const evenParts = (extent: number, most: number, group: number): number[] =>
  Array.from({ length: Math.max(0, Math.floor(most) - 1) }, (_, i) => i + 2).filter((p) => extent % (p * group) === 0)

const bytesOfLoads = ({ loads }: Body): number =>
  [...loads.values()].reduce((n, t) => n + tensorBytes(t, sizeOf(t.shape)), 0)

/**
 * The parts that the model finds quickest, with what writing and adding their results costs: equal ones, or whole steps of the depth and
 * what remains, which ask for masks.
 */
function cheapestLength(
  { body, extents, target }: Analysis,
  matrix: MatrixRole,
  axis: string,
  extent: number,
): number | undefined {
  const moving = movingSeconds(bytesOfLoads(body), target)
  const points = pointsOf(extents, [...matrix.batch, ...matrix.m, ...matrix.n])
  const whole = productWork(body, matrix, extents, target)
  const alone = productSeconds(whole, moving, target)
  // More parts than the target has room for only make more results.
  const most = Math.min(whole.steps, Math.ceil((4 * target.minPrograms) / whole.programs))
  if (alone <= target.launch || most < 2) return undefined
  const seconds = (length: number): number => {
    const parts = Math.ceil(extent / length)
    const adding = target.launch + movingSeconds(8 * points * parts, target)
    const work = productWork(body, matrix, extents, target, parts, whole.gathering)
    return work.programs > 2 * target.minPrograms
      ? Number.POSITIVE_INFINITY
      : productSeconds(work, moving, target) + adding
  }
  let best: { readonly length?: number; readonly seconds: number } = { seconds: alone }
  const group = groupOfDepth(body, matrix, axis, target)
  for (const parts of evenParts(extent, most, group)) {
    const found = { length: extent / parts, seconds: seconds(extent / parts) }
    if (found.seconds < best.seconds) best = found
  }
  // A mask that ends inside a group leaves its elements to be read one by one.
  if (extent % group !== 0) return best.length
  for (const length of stepLengths(extent, whole.stepOf(axis), most)) {
    const found = { length, seconds: seconds(length) }
    if (found.seconds < maskGain * best.seconds) best = found
  }
  return best.length
}

/** Lengths of whole steps that cut an extent into at most some parts, as even as steps are: the parts are an eighth or so more each time. */
function stepLengths(extent: number, step: number, most: number): number[] {
  const lengths = new Set<number>()
  const steps = Math.ceil(extent / step)
  for (let parts = 2; parts <= Math.min(most, steps); parts = Math.max(parts + 1, Math.round(parts * (8 / 7))))
    lengths.add(Math.ceil(steps / parts) * step)
  return [...lengths]
}

/** What parts of unequal length must leave of the seconds of equal ones. */
const maskGain = 0.9

/** Equal parts until programs are enough, where a program uses all there is while it runs and others may run beside it. */
function enoughLength(
  { body, extents, target }: Analysis,
  matrix: MatrixRole,
  axis: string,
  extent: number,
  { leastSeconds, mostTraffic, below, fill }: NonNullable<Machine['depthSplit']>,
): number | undefined {
  const size = (axes: Iterable<string>): number => pointsOf(extents, axes)
  const [batch, rows, columns, depth] = [size(matrix.batch), size(matrix.m), size(matrix.n), size(matrix.k)]
  // Of blocks as wide as they may be: narrower ones are for what is not cut.
  const programs = batch * Math.ceil(rows / leastRows) * Math.ceil(columns / target.dotBlock.n)
  const points = batch * rows * columns
  const seconds = Math.max((2 * points * depth) / target.matrixRate, movingSeconds(bytesOfLoads(body), target))
  const wanted = Math.ceil((fill * target.minPrograms) / programs)
  const most = Math.min(4 * wanted, (mostTraffic * seconds * farBandwidth(target)) / (8 * points))
  if (programs >= below * target.minPrograms || most < 2 || seconds < leastSeconds) return undefined
  const even = evenParts(extent, most, groupOfDepth(body, matrix, axis, target))
  const parts = even.find((p) => p >= wanted) ?? even.at(-1)
  return parts === undefined ? undefined : extent / parts
}

const isAfter = (l: LetStmt | undefined, cut: ReadonlySet<ValueId>, lets: ReadonlyMap<ValueId, LetStmt>): boolean =>
  l !== undefined && follows(l, cut, lets)
