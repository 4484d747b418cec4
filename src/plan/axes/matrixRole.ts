/** The roles of a matrix product's axes. */
import * as ix from '../../affine/expr.ts'
import type { LetStmt, TileOp, ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import { type DType, dtypeBytes, isFloat } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { lineElements } from './gridAxes.ts'
import { positionOfLargestStore } from './positions.ts'

/** Whether register blocks hold results of a dtype. */
export const isServed = (dtype: DType, { integerMatrixRate }: Machine): boolean =>
  dtype === 'f32' || (dtype === 'i32' && integerMatrixRate !== undefined)

/** Whether a product's sides, of so many indices, make a register block. */
export const servesSides = (a: number, b: number): boolean => Math.min(a, b) >= 2 && Math.max(a, b) >= 4

/** The roles of a dot's axes when a register-blocked matrix product serves it. */
export function matrixRole(
  l: LetStmt,
  lets: ReadonlyMap<ValueId, LetStmt>,
  extents: ReadonlyMap<string, number>,
  unit: string | undefined,
  machine: Machine,
): MatrixRole | undefined {
  if (l.op.kind !== 'dot') return undefined
  const k = l.op.axes
  const free = (id: ValueId): string[] => (lets.get(id)?.axes ?? []).filter((a) => !k.includes(a))
  const fa = free(l.op.a)
  const fb = free(l.op.b)
  const batch = fa.filter((a) => fb.includes(a))
  const onlyA = fa.filter((a) => !fb.includes(a))
  const onlyB = fb.filter((a) => !fa.includes(a))
  const size = (axes: readonly string[]): number => pointsOf(extents, axes)
  if (!isServed(l.dtype, machine) || size(k) < 2) return undefined
  const swap = unit !== undefined && onlyA.includes(unit)
  const m = swap ? onlyB : onlyA
  const n = swap ? onlyA : onlyB
  const filters = size(m) < size(n) ? m : n
  const between = batch.length > 0 && unit !== undefined && filters.includes(unit)
  if (
    machine.windowPoints !== undefined &&
    isInLoops(l.op, lets, size(m) < size(n) ? n : m, size, size(filters), between)
  )
    return undefined
  if (!servesSides(size(m), size(n))) return undefined
  if (size(m) < 2 || size(n) < 4) return { id: l.id, batch, m: n, n: m, k, swap: !swap, riding: new Set() }
  return { id: l.id, batch, m, n, k, swap, riding: new Set() }
}

/** Filters on one channel that windows go along in loops for: a product would copy for each what loops read as often. Fewer of windows apart, whose reads are dearer. */
const [mostFilters, mostFiltersApart] = [4, 3]

/**
 * Whether a dot sums over taps alone, which loops do: along everything that it folds windows overlap, which an axis of its results moves. Of filters whose results
 * stand `between` those of other channels as many as two lines of memory have, since products of one channel would each write a part of it.
 */
function isInLoops(
  { a, b, axes }: Extract<TileOp, { kind: 'dot' }>,
  lets: ReadonlyMap<ValueId, LetStmt>,
  results: readonly string[],
  size: (axes: readonly string[]) => number,
  filters: number,
  between: boolean,
): boolean {
  if (filters > (between ? 2 * lineElements : mostFilters)) return false
  const moved = new Set<string>()
  let apart = false
  for (const id of ancestorsOf([a, b], lets)) {
    const op = lets.get(id)?.op
    // What other folds make is a tile, which loops would make again for every window.
    if (op?.kind === 'dot' || op?.kind === 'reduce' || op?.kind === 'scan') return false
    if (op?.kind !== 'load') continue
    for (const e of op.index) {
      const along = results.find((x) => ix.axesOf(e).has(x))
      const step = Math.abs(along === undefined ? 0 : (ix.strideOf(e, along) ?? 0))
      if (step === 0) continue
      for (const x of axes) {
        // Windows overlap: they reach further than the next one is.
        if (Math.abs(ix.strideOf(e, x) ?? 0) * size([x]) <= step) continue
        moved.add(x)
        apart ||= step > 1
      }
    }
  }
  return axes.every((x) => moved.has(x)) && (between || !apart || filters <= mostFiltersApart)
}

/** The axis that runs along neighbours in the largest store, as a whole or as its last digit: the columns of a matrix product. */
export function storeUnit(body: Body): string | undefined {
  const flat = positionOfLargestStore(body)
  if (flat === undefined) return undefined
  // Remainders of remainders have one form, so the last digit of an axis is one remainder of it.
  const lastDigit = (a: ix.Atom): string | undefined => {
    const [only, more] = a.kind === 'mod' ? a.of.terms : []
    const of = a.kind === 'axis' ? a : only?.coef === 1 && more === undefined ? only.atom : undefined
    return of?.kind === 'axis' ? of.name : undefined
  }
  const whole = [...ix.axesOf(flat)].find((a) => ix.strideOf(flat, a) === 1)
  return whole ?? flat.terms.flatMap(({ atom, coef }) => (coef === 1 ? (lastDigit(atom) ?? []) : []))[0]
}

/** Whether a matrix unit, where there is one, multiplies the operands of a product: 16-bit floats, and f32 that may be cut to tf32, or split. */
export function isForMatrixUnit(op: Extract<TileOp, { kind: 'dot' }>, lets: ReadonlyMap<ValueId, LetStmt>): boolean {
  const dtypes = [op.a, op.b].map((id) => lets.get(id)?.dtype)
  return op.precision !== undefined || dtypes.every((d) => d !== undefined && isFloat(d) && dtypeBytes(d) === 2)
}
