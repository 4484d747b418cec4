/** What bringing the operands of a product to a matrix unit costs, where their neighbours along the depth lie apart in memory. */
import * as ix from '../../affine/expr.ts'
import { always, type Predicate } from '../../affine/predicate.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import { isLong } from '../../scalar/ops.ts'
import { isUniform, motionOf, repeatsOf } from '../../schedule/simt/part/facts.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { type Body, pointsOf } from '../body/body.ts'
import { type ChainRole, stagedOperands } from './chain.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { programsOf } from './gridAxes.ts'
import type { Blocked, MatrixBlocks } from './matrixBlocks.ts'
import { isForMatrixUnit } from './matrixRole.ts'
import { positionOfLoad } from './positions.ts'

/** Bytes of neighbours that are brought together. */
const run = 16

/** Of coordinates nothing is known, and no value of a body varies. */
const anywhere = (): number => 1
const never = (): boolean => false

/** The operands of a product that a matrix unit multiplies, and the values of its body. */
function productOnUnit(
  body: Body,
  matrix: MatrixRole,
): { readonly lets: ReadonlyMap<ValueId, LetStmt>; readonly a: ValueId; readonly b: ValueId } | undefined {
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const op = lets.get(matrix.id)?.op
  return op?.kind === 'dot' && isForMatrixUnit(op, lets) ? { lets, a: op.a, b: op.b } : undefined
}

/**
 * Seconds of bringing the operands of a product to a matrix unit, once for every block of the other side, with all programs at work: elements that are
 * gathered, and those that are computed on the way in, which threads wait for that could multiply.
 */
export function gatherSeconds(
  body: Body,
  matrix: MatrixRole,
  extents: ReadonlyMap<string, number>,
  target: Machine,
): number {
  const { gatherSeconds: each, fillSeconds: fill, m, n } = target.dotBlock
  const product = productOnUnit(body, matrix)
  if (each === undefined || product === undefined) return 0
  const { lets, a, b } = product
  const blocks = (axes: readonly string[], block: number): number => Math.ceil(pointsOf(extents, axes) / block)
  const [rows, columns] = matrix.swap ? [b, a] : [a, b]
  const of = (root: ValueId, repeats: number): number => {
    let seconds = 0
    for (const id of ancestorsOf([root], lets)) {
      const l = lets.get(id)
      if (l === undefined || !isGathered(body, l, matrix)) continue
      const near = each[dtypeBytes(l.dtype) === 2 ? 2 : 4]
      seconds += pointsOf(extents, l.axes) * repeats * (isNear(body, l, target) ? near : each.far)
    }
    return fill === undefined
      ? seconds
      : seconds + filledElement(root, lets, fill) * repeats * pointsOf(extents, lets.get(root)?.axes ?? [])
  }
  return of(rows, blocks(matrix.n, n)) + of(columns, blocks(matrix.m, m))
}

/** Seconds of bringing operands to the tiles of a matrix unit, each once for every block of the other side, with all programs at work. */
export function fillingSeconds(
  body: Body,
  matrix: MatrixRole,
  { rows, columns }: Pick<MatrixBlocks, 'rows' | 'columns'>,
  extents: ReadonlyMap<string, number>,
  { dotBlock }: Machine,
): number {
  const product = productOnUnit(body, matrix)
  if (dotBlock.tileRate === undefined || product === undefined) return 0
  const bytes = (id: ValueId, others: readonly Blocked[]): number => {
    const l = product.lets.get(id)
    return l === undefined ? 0 : pointsOf(extents, l.axes) * programsOf(others, extents) * dtypeBytes(l.dtype)
  }
  const [ofA, ofB] = matrix.swap ? [rows, columns] : [columns, rows]
  return (bytes(product.a, ofA) + bytes(product.b, ofB)) / dotBlock.tileRate
}

/**
 * Seconds of an element of an operand that is computed from loads of as many points: nothing of one that is copied, or of numbers in few bits, which
 * become fragments where they are multiplied.
 */
function filledElement(
  root: ValueId,
  lets: ReadonlyMap<ValueId, LetStmt>,
  fill: NonNullable<Machine['dotBlock']['fillSeconds']>,
): number {
  const operand = lets.get(root)
  if (operand === undefined || operand.op.kind === 'load') return 0
  const all = [...ancestorsOf([root], lets)].flatMap((id) => lets.get(id) ?? [])
  const isWhole = (l: LetStmt): boolean => operand.axes.every((a) => l.axes.includes(a))
  const loads = all.filter((l) => l.op.kind === 'load' && isWhole(l))
  if (loads.length === 0 || loads.some((l) => dtypeBytes(l.dtype) < 2)) return 0
  // Threads compute what has fewer axes again for each vector.
  const ofFactor = ({ op }: LetStmt): number =>
    op.kind === 'load' ? fill.factorLoad : op.kind === 'scalar' && isLong(op.op) ? fill.factorFunction : 0
  const factors = all.filter((l) => l.axes.length > 0 && !isWhole(l)).reduce((n, l) => n + ofFactor(l), 0)
  return fill.computed + (loads.length - 1) * fill.load + factors
}

/**
 * The same of a chain whose products a matrix unit multiplies: of operands that stand in tiles, each block of the shared axes filled by every program that
 * goes through it. `repeats` says how often a statement is evaluated, a point of its axes.
 */
export function chainFillSeconds(
  body: Body,
  role: ChainRole,
  repeats: ReadonlyMap<ValueId, number>,
  extents: ReadonlyMap<string, number>,
  { dotBlock }: Machine,
): number {
  const fill = dotBlock.fillSeconds
  if (fill === undefined || role.vectors !== undefined) return 0
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const staged = new Set([...role.tiles, ...role.sums].flatMap((id) => stagedOperands(lets.get(id), role, lets)))
  let seconds = 0
  for (const id of staged) {
    const axes = lets.get(id)?.axes ?? []
    if (axes.some((a) => role.shared.includes(a)))
      seconds += filledElement(id, lets, fill) * pointsOf(extents, axes) * (repeats.get(id) ?? 1)
  }
  return seconds
}

/**
 * Seconds of storing the results of a body whose neighbours along an axis lie apart in memory, by the price of gathering as many: of orders of an axis, those
 * that spare a small operand that must not scatter results.
 */
export function scatterSeconds({ stores }: Body, axis: string, { dotBlock }: Machine): number {
  const each = dotBlock.gatherSeconds
  if (each === undefined) return 0
  return stores.reduce((sum, { index, shape, node, mask = always }) => {
    const bytes = dtypeBytes(node.dtype)
    const isInRuns = standsInVectors(ix.flatten(index, shape), mask, axis, run / bytes)
    return isInRuns ? sum : sum + sizeOf(shape) * each[bytes === 2 ? 2 : 4]
  }, 0)
}

/** Seconds of storing the results of a product none of whose sides has neighbours side by side in memory, each in a sector of its own. */
export function sectorSeconds({ stores }: Body, { m, n }: MatrixRole, { dotBlock }: Machine): number {
  const { storeSeconds } = dotBlock
  if (storeSeconds === undefined) return 0
  return stores.reduce((sum, { index, shape, node }) => {
    const flat = ix.flatten(index, shape)
    const isNear = [...m, ...n].some((axis) =>
      isStep(flat, axis, Number.POSITIVE_INFINITY, run / dtypeBytes(node.dtype)),
    )
    return isNear ? sum : sum + sizeOf(shape) * storeSeconds
  }, 0)
}

/** Whether neighbours along an axis are fewer than `most` elements apart, but not the same; `unknown` where that is not one number. */
function isStep(flat: ix.Expr, axis: string, unknown: number, most: number): boolean {
  const stride = Math.abs(motionOf(flat, axis, 1, anywhere, never)?.stride ?? unknown)
  return stride > 0 && stride < most
}

/** Neighbours along an axis of the depth that operands of a matrix unit are brought in together, for want of another axis: parts of the depth are of whole such groups. */
export function groupOfDepth(body: Body, matrix: MatrixRole, axis: string, { dotBlock }: Machine): number {
  const product = productOnUnit(body, matrix)
  if (dotBlock.gatherSeconds === undefined || product === undefined) return 1
  const { lets, a, b } = product
  let group = 1
  for (const id of ancestorsOf([a, b], lets)) {
    const l = lets.get(id)
    if (l?.op.kind !== 'load' || !l.axes.includes(axis)) continue
    const n = run / dtypeBytes(l.dtype)
    const { mask } = l.op
    const flat = positionOfLoad(body, l.op)
    const along = l.axes.filter((x) => standsInVectors(flat, mask, x, n))
    if (along.length === 1 && along[0] === axis) group = Math.max(group, n)
  }
  return group
}

/** Whether a value is loaded element by element: along no axis of its own do aligned neighbours stand side by side, or are the same elements. */
function isGathered(body: Body, l: LetStmt, matrix: MatrixRole): boolean {
  const { op } = l
  if (op.kind !== 'load' || !l.axes.some((a) => matrix.k.includes(a)) || operandsOf(op).length > 0) return false
  const flat = positionOfLoad(body, op)
  return !l.axes.some((axis) => standsInVectors(flat, op.mask, axis, run / dtypeBytes(l.dtype)))
}

/** Whether neighbours along some axis of a load lie in one sector of memory. */
function isNear(body: Body, { op, axes, dtype }: LetStmt, { memorySector = run }: Machine): boolean {
  if (op.kind !== 'load') return true
  const flat = positionOfLoad(body, op)
  const most = memorySector / dtypeBytes(dtype)
  return axes.some((axis) => isStep(flat, axis, 1, most))
}

/** Whether aligned groups of `n` neighbours along an axis stand side by side at a position, or are the same elements; a mask holds for all or none of each. */
export function standsInVectors(position: ix.Expr, mask: Predicate, axis: string, n: number): boolean {
  if (!isUniform(mask, axis, n, anywhere, never)) return false
  const motion = motionOf(position, axis, n, anywhere, never)
  if (motion?.stride === 1) return motion.divisor % n === 0
  return repeatsOf(position, axis, n, anywhere, never) !== undefined
}
