/** The roles of a matrix product's axes. */
import * as ix from '../../affine/expr.ts'
import type { LetStmt, TileOp, ValueId } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes, isFloat } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { positionOfLargestStore } from './positions.ts'

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
  const isServed = l.dtype === 'f32' || (l.dtype === 'i32' && machine.integerMatrixRate !== undefined)
  if (!isServed || size(k) < 2) return undefined
  const swap = unit !== undefined && onlyA.includes(unit)
  const m = swap ? onlyB : onlyA
  const n = swap ? onlyA : onlyB
  if (size(m) < 2 || size(n) < 4) {
    if (size(n) < 2 || size(m) < 4) return undefined
    return { id: l.id, batch, m: n, n: m, k, swap: !swap, riding: new Set() }
  }
  return { id: l.id, batch, m, n, k, swap, riding: new Set() }
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
