/** Folds of the interpreter: reductions, scans and product sums, in the axes' logical order. */

import { axis } from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import { evalScalar } from '../scalar/eval.ts'
import { combinerIdentity, combinerOp, isArgCombiner, type Scalar } from '../scalar/ops.ts'
import { foldBlocks } from '../scalar/summation.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import { rowMajorStrides } from '../types/shape.ts'
import { evaluatorOf } from './evaluator.ts'
import type { LetStmt, TileOp, ValueId } from './ir.ts'
import { Points, type Program } from './tile.ts'

type Op<K extends TileOp['kind']> = Extract<TileOp, { kind: K }>

type Merge = (a: Scalar, b: Scalar) => Scalar

/** Merges two partial results of a combiner. */
const mergeOf = (c: 'sum' | 'prod' | 'max' | 'min', dtype: DType): Merge => evaluatorOf(combinerOp[c], dtype, dtype)

/**
 * The elements of a result. `make` gets the walk over the result's axes and the folded ones, and gives what folds the
 * points numbered from..to: called in order, each call leaves the walk at `to`.
 */
function foldPoints(
  s: LetStmt,
  folded: readonly string[],
  program: Program,
  make: (points: Points) => (from: number, to: number) => Scalar,
): Scalar[] {
  const points = new Points(program, [...s.axes, ...folded])
  const inner = new Points(program, folded).count
  const fold = make(points)
  return Array.from({ length: new Points(program, s.axes).count }, (_, n) => fold(n * inner, (n + 1) * inner))
}

/** The fold of a tile along axes. */
export function reduceTile(s: LetStmt, op: Op<'reduce'>, program: Program): Scalar[] {
  const { combiner } = op
  const { dtype } = program.tile(op.arg)
  if (isArgCombiner(combiner)) return argReduce(s, op, dtype, program)
  const merge = mergeOf(combiner, dtype)
  return foldPoints(s, op.axes, program, (points) => {
    const read = points.reader(op.arg)
    return (from, to) => {
      let acc = combinerIdentity(combiner, dtype)
      for (let n = from; n < to; n++, points.advance()) acc = merge(acc, read())
      return acc
    }
  })
}

const isNaNValue = (v: Scalar): boolean => typeof v === 'number' && Number.isNaN(v)

/** Positions of the extreme: NaN is beyond every number; an empty fold gives 0. */
function argReduce(s: LetStmt, op: Op<'reduce'>, dtype: DType, program: Program): Scalar[] {
  const [along] = op.axes
  invariant(along !== undefined, `${op.combiner} over no axis`)
  const wins = op.combiner === 'argmax' ? 'gt' : 'lt'
  const beats = (a: Scalar, b: Scalar): boolean =>
    isNaNValue(a) ? !isNaNValue(b) : !isNaNValue(b) && evalScalar(wins, dtype, 'bool', [a, b]) === true
  return foldPoints(s, op.axes, program, (points) => {
    const read = points.reader(op.arg)
    const position = points.expr(op.position ?? axis(along, Number.POSITIVE_INFINITY))
    return (from, to) => {
      let best: { readonly v: Scalar; readonly at: number } | undefined
      for (let n = from; n < to; n++, points.advance()) {
        const v = read()
        const at = position()
        const closer = best !== undefined && (op.last === true ? at > best.at : at < best.at)
        if (best === undefined || beats(v, best.v) || (!beats(best.v, v) && closer)) best = { v, at }
      }
      return evalScalar('cast', 'i64', s.dtype, [BigInt(best?.at ?? 0)])
    }
  })
}

/** The running fold of a tile along its axis. */
export function scanTile(s: LetStmt, op: Op<'scan'>, program: Program): Scalar[] {
  const lines = new Points(
    program,
    s.axes.filter((a) => a !== op.axis),
  )
  const points = new Points(program, [...s.axes.filter((a) => a !== op.axis), op.axis])
  const size = program.extent(op.axis).size
  const place = placeOf(s.axes, op.axis, program)
  const merge = mergeOf(op.combiner, s.dtype)
  const read = points.reader(op.arg)
  const out: Scalar[] = new Array(points.count)
  if (op.tree === true) {
    for (let line = 0; line < lines.count; line++) {
      const values: Scalar[] = []
      for (let i = 0; i < size; i++) {
        points.moveTo(line * size + i)
        values.push(read())
      }
      foldBlocks(values, merge).forEach((v, i) => {
        out[place(line * size + i)] = v
      })
    }
    return out
  }
  for (let line = 0; line < lines.count; line++) {
    let acc = combinerIdentity(op.combiner, s.dtype)
    for (let i = 0; i < size; i++) {
      const n = line * size + (op.reverse ? size - 1 - i : i)
      points.moveTo(n)
      const after = merge(acc, read())
      out[place(n)] = op.exclusive ? acc : after
      acc = after
    }
  }
  return out
}

/** From the row-major number of a point with `last` moved innermost to its number in the order of `axes`. */
function placeOf(axes: readonly string[], last: string, program: Program): (n: number) => number {
  const sizes = axes.map((a) => program.extent(a).size)
  const strides = rowMajorStrides(sizes)
  const at = axes.indexOf(last)
  const order = [
    at,
    ...axes
      .map((_, i) => i)
      .filter((i) => i !== at)
      .reverse(),
  ]
  return (n) => {
    let rest = n
    let to = 0
    for (const i of order) {
      const size = sizes[i] ?? 1
      to += (rest % size) * (strides[i] ?? 0)
      rest = Math.floor(rest / size)
    }
    return to
  }
}

/** Sum of products along axes, onto an accumulator where there is one; integers accumulate in the result's dtype. */
export function dotTile(s: LetStmt, op: Op<'dot'>, program: Program): Scalar[] {
  const multiply = evaluatorOf('mul', s.dtype, s.dtype)
  const merge = mergeOf('sum', s.dtype)
  return foldPoints(s, op.axes, program, (points) => {
    const widened = (id: ValueId): (() => Scalar) => {
      const read = points.reader(id)
      const from = program.tile(id).dtype
      return isFloat(s.dtype) ? read : () => evalScalar('cast', from, s.dtype, [read()])
    }
    const [a, b] = [widened(op.a), widened(op.b)]
    const start = op.acc === undefined ? () => combinerIdentity('sum', s.dtype) : points.reader(op.acc)
    return (from, to) => {
      let acc = start()
      for (let n = from; n < to; n++, points.advance()) acc = merge(acc, multiply(a(), b()))
      return acc
    }
  })
}
