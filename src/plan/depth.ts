/**
 * The depth of a matrix product cut into parts: where the result has few blocks and the depth is long, each part of the
 * depth is a program of its own; a finishing stage adds their results and computes what follows.
 */

import { foldOrScanAxes } from '../kernel/folds.ts'
import type { LetStmt, ValueId } from '../kernel/ir.ts'
import { farBandwidth, movingSeconds } from '../target/machine.ts'
import { sizeOf } from '../types/shape.ts'
import { columnTarget, leastRows, type MatrixRole } from './beside.ts'
import { pointsOf, tensorBytes } from './body.ts'
import { type Analysis, canFinish, follows } from './split.ts'

/** An axis of the depth, and the number of equal parts it is cut into. */
export interface DepthParts {
  readonly axis: string
  readonly parts: number
}

/** How the depth is cut, if it is: in parts that give the target programs enough without costing much. */
export function depthParts(a: Analysis, matrix: MatrixRole): DepthParts | undefined {
  const { target, extents, lets, body, mode } = a
  const dot = lets.get(matrix.id)
  if (mode === 'strict' || matrix.riding.size > 0 || dot === undefined) return undefined
  const cut = new Set([matrix.id])
  const apart = body.lets.some((l) => foldOrScanAxes(l).length > 0 && l.id !== matrix.id)
  const late = body.stores.every((s) => s.value === matrix.id || isAfter(lets.get(s.value), cut, lets))
  if (apart || !late || body.stores.some((s) => s.node.dtype === 'bool') || !canFinish(a, cut)) return undefined
  const size = (axes: Iterable<string>): number => pointsOf(extents, axes)
  const [rows, columns, depth] = [size(matrix.m), size(matrix.n), size(matrix.k)]
  const programs =
    size(matrix.batch) *
    Math.ceil(rows / leastRows) *
    Math.ceil(columns / columnTarget(target, size(matrix.batch), rows, columns))
  const points = size(matrix.batch) * rows * columns
  const bytes = [...body.loads.values()].reduce((n, t) => n + tensorBytes(t, sizeOf(t.shape)), 0)
  const seconds = Math.max((2 * points * depth) / target.matrixRate, movingSeconds(bytes, target))
  const { leastSeconds, mostTraffic, below, fill, units } = target.depthSplit
  const wanted = Math.ceil((fill * target.minPrograms) / programs)
  const most = Math.min(4 * wanted, (mostTraffic * seconds * farBandwidth(target)) / (8 * points))
  if (programs >= below * target.minPrograms || most < 2 || seconds < leastSeconds) return undefined
  const [axis] = [...matrix.k].sort((p, q) => (extents.get(q) ?? 1) - (extents.get(p) ?? 1))
  const extent = extents.get(axis ?? '') ?? 1
  const even = Array.from({ length: Math.floor(most) }, (_, i) => i + 1).filter((p) => p > 1 && extent % p === 0)
  // Programs that share out evenly: the unit with most of them has little more than its share.
  const balanced = (p: number): boolean => (9 / 10) * Math.ceil((programs * p) / units) <= (programs * p) / units
  const enough = even.filter((p) => p >= wanted)
  const parts = enough.find(balanced) ?? enough[0] ?? even.at(-1)
  return axis === undefined || parts === undefined ? undefined : { axis, parts }
}

const isAfter = (l: LetStmt | undefined, cut: ReadonlySet<ValueId>, lets: ReadonlyMap<ValueId, LetStmt>): boolean =>
  l !== undefined && follows(l, cut, lets)
