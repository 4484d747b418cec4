/**
 * Reductions beside a matrix product. Over its whole depth they ride with it: one program folds what many read; over rows
 * or columns that one program holds they are whole; over others they end as partial results, one a block, which a finishing
 * stage folds.
 */
import * as ix from '../../affine/expr.ts'
import { operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Machine } from '../../target/machine.ts'
import { computeDType, isFloat } from '../../types/dtype.ts'
import { pointsOf } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { Analysis } from './analysis.ts'
import { canFinish, dependsOn, follows } from './split.ts'

/** An axis of the depth, the number of parts it is cut into, and the length of each but the last, which may be shorter. */
export interface DepthParts {
  readonly axis: string
  readonly parts: number
  readonly length: number
}

/** A matrix product inside a body: its statement and the roles of its axes. `swap`: the second operand supplies the rows. */
export interface MatrixRole {
  readonly id: ValueId
  readonly batch: readonly string[]
  readonly m: readonly string[]
  readonly n: readonly string[]
  readonly k: readonly string[]
  readonly swap: boolean
  /** Reductions over the depth that ride with the product. */
  readonly riding: ReadonlySet<ValueId>
  /** How the depth is cut, if it is: each part is a program of its own. */
  readonly parts?: DepthParts | undefined
}

export interface FusedReductions {
  readonly ok: true
  /** Folds over the depth, each made by the first program along the axes it lacks. */
  readonly riding: ReadonlySet<ValueId>
  /** Folds over rows and columns whose partial results a finishing stage makes whole. */
  readonly split: ReadonlySet<ValueId>
}

/** The refusal of a fold in front of a product. */
export const inPrologue = refuse(
  'reduction-in-prologue',
  'the reduction would be computed again for every block of the product',
)

/** Fewest rows a block of a product has, if there are as many. */
export const leastRows = 64

/** Columns of a block: fewer where the grid would otherwise have too few programs. */
export function columnTarget(target: Machine, batch: number, rows: number, columns: number): number {
  const { n, fewColumns } = target.dotBlock
  const programs = batch * Math.ceil(rows / leastRows) * Math.ceil(columns / n)
  // All columns of a row in one program may be counted on.
  return fewColumns === undefined || columns <= n || 2 * programs >= target.minPrograms ? n : fewColumns
}

/** What becomes of the folds beside a product; `isHeld`: a program holds all of an axis of its results. */
export function fusedReductionsOf(
  a: Analysis,
  matrix: MatrixRole,
  isHeld: (axis: string) => boolean,
): FusedReductions | Refused {
  const { target, extents, lets } = a
  const dot = lets.get(matrix.id)
  const operands = dot === undefined ? new Set<ValueId>() : ancestorsOf(operandsOf(dot.op), lets)
  const size = (axes: Iterable<string>): number => pointsOf(extents, axes)
  const results = new Set([...matrix.batch, ...matrix.m, ...matrix.n])
  const resident = new Set<string>()
  if (size(matrix.n) <= target.dotBlock.n) for (const x of matrix.n) resident.add(x)
  if (size(matrix.m) <= Math.min(target.dotBlock.m, leastRows)) for (const x of matrix.m) resident.add(x)
  const riding = new Set<ValueId>()
  const split = new Set<ValueId>()
  for (const l of a.body.lets) {
    const { op } = l
    if (l.id === matrix.id || (op.kind !== 'reduce' && op.kind !== 'scan' && op.kind !== 'dot')) continue
    if (operands.has(l.id)) return inPrologue
    const beyond = dot !== undefined && dependsOn(l, dot.id, lets)
    const code = beyond ? 'reduction-of-contraction' : 'reduction-in-prologue'
    if (op.kind !== 'reduce') return refuse(code, `a ${op.kind} beside a matrix product`)
    const whole = computeDType(l.dtype) === l.dtype && !op.combiner.startsWith('arg')
    const ordered = a.mode === 'strict' && isFloat(l.dtype) && (op.combiner === 'sum' || op.combiner === 'prod')
    const axes = lets.get(op.arg)?.axes ?? []
    if (op.axes.some((x) => matrix.k.includes(x))) {
      const sides = [matrix.m, matrix.n].filter((side) => axes.some((x) => side.includes(x)))
      const aligned = axes.every((x) => results.has(x) || matrix.k.includes(x)) && sides.length < 2
      if (!aligned || a.folds.has(op.arg) || op.axes.length !== matrix.k.length || !whole)
        return refuse(code, 'the reduction does not run over the depth of the product alone')
      riding.add(l.id)
      continue
    }
    if (!axes.every((x) => results.has(x)))
      return refuse(code, 'the reduction does not run over rows and columns of the product')
    if (op.axes.every((x) => resident.has(x) && isHeld(x)) || follows(l, split, lets)) continue
    if (!whole) return refuse(code, `${op.combiner} of ${l.dtype} has no partial results`)
    if (ordered) return refuse('strict-order', 'the sum would be taken block by block of the result')
    split.add(l.id)
  }
  // A riding fold is known to the programs that make it alone.
  const sinks = [
    ...a.body.stores.map((s) => ({ id: s.value, axes: s.index.flatMap((e) => [...ix.axesOf(e)]) })),
    ...[...split].flatMap((id) => {
      const l = lets.get(id)
      return l?.op.kind === 'reduce' ? [{ id, axes: lets.get(l.op.arg)?.axes ?? [] }] : []
    }),
  ]
  for (const id of riding)
    for (const sink of sinks)
      if (sink.axes.some((x) => lets.get(id)?.axes.includes(x) !== true) && ancestorsOf([sink.id], lets).has(id))
        return inPrologue
  if (!canFinish(a, split))
    return refuse('reduction-of-contraction', 'what follows the reduction needs blocks of the product that are gone')
  return { ok: true, riding, split }
}
