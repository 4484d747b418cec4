/** Folds of the interpreter: reductions, scans and product sums, in the axes' logical order. */
import { invariant } from '../diagnostics/errors.ts'
import { axis } from '../index/expr.ts'
import { evalScalar } from '../scalar/eval.ts'
import { combinerIdentity, combinerOp, isArgCombiner, type Scalar } from '../scalar/ops.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import { rowMajorStrides } from '../types/shape.ts'
import type { LetStmt, TileOp } from './ir.ts'
import { Points, type Program } from './tile.ts'

type Op<K extends TileOp['kind']> = Extract<TileOp, { kind: K }>

/** Merges two partial results of a combiner. */
export const combine = (c: 'sum' | 'prod' | 'max' | 'min', dtype: DType, a: Scalar, b: Scalar): Scalar =>
  evalScalar(combinerOp[c], dtype, dtype, [a, b])

/** Calls `fold` for each point of the result with a walk over the points folded there. */
function foldPoints(
  s: LetStmt,
  folded: readonly string[],
  program: Program,
  fold: (points: Points, from: number, to: number) => Scalar,
): Scalar[] {
  const outer = new Points(program, s.axes)
  const points = new Points(program, [...s.axes, ...folded])
  const inner = new Points(program, folded).count
  return Array.from({ length: outer.count }, (_, n) => {
    outer.moveTo(n)
    points.moveTo(n * inner)
    return fold(points, n * inner, (n + 1) * inner)
  })
}

/** The fold of a tile along axes. */
export function reduceTile(s: LetStmt, op: Op<'reduce'>, program: Program): Scalar[] {
  const { combiner } = op
  const { dtype } = program.tile(op.arg)
  if (isArgCombiner(combiner)) return argReduce(s, op, dtype, program)
  return foldPoints(s, op.axes, program, (points, from, to) => {
    let acc = combinerIdentity(combiner, dtype)
    for (let n = from; n < to; n++) {
      points.moveTo(n)
      acc = combine(combiner, dtype, acc, points.reader(op.arg)())
    }
    return acc
  })
}

const isNaNValue = (v: Scalar): boolean => typeof v === 'number' && Number.isNaN(v)

/** Positions of the extreme: NaN is beyond every number; an empty fold gives 0. */
function argReduce(s: LetStmt, op: Op<'reduce'>, dtype: DType, program: Program): Scalar[] {
  const [along] = op.axes
  invariant(along !== undefined, `${op.combiner} over no axis`)
  const position = op.position ?? axis(along, Number.POSITIVE_INFINITY)
  const wins = op.combiner === 'argmax' ? 'gt' : 'lt'
  const beats = (a: Scalar, b: Scalar): boolean =>
    isNaNValue(a) ? !isNaNValue(b) : !isNaNValue(b) && evalScalar(wins, dtype, 'bool', [a, b]) === true
  return foldPoints(s, op.axes, program, (points, from, to) => {
    let best: { readonly v: Scalar; readonly at: number } | undefined
    for (let n = from; n < to; n++) {
      points.moveTo(n)
      const v = points.reader(op.arg)()
      const at = points.evaluate(position)
      const closer = best !== undefined && (op.last === true ? at > best.at : at < best.at)
      if (best === undefined || beats(v, best.v) || (!beats(best.v, v) && closer)) best = { v, at }
    }
    return evalScalar('cast', 'i64', s.dtype, [BigInt(best?.at ?? 0)])
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
  const out: Scalar[] = new Array(points.count)
  for (let line = 0; line < lines.count; line++) {
    let acc = combinerIdentity(op.combiner, s.dtype)
    for (let i = 0; i < size; i++) {
      const n = line * size + (op.reverse ? size - 1 - i : i)
      points.moveTo(n)
      const after = combine(op.combiner, s.dtype, acc, points.reader(op.arg)())
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
  const [a, b] = [program.tile(op.a).dtype, program.tile(op.b).dtype]
  const widen = (v: Scalar, from: DType): Scalar => (isFloat(s.dtype) ? v : evalScalar('cast', from, s.dtype, [v]))
  return foldPoints(s, op.axes, program, (points, from, to) => {
    let acc = op.acc === undefined ? combinerIdentity('sum', s.dtype) : points.reader(op.acc)()
    for (let n = from; n < to; n++) {
      points.moveTo(n)
      const product = evalScalar('mul', s.dtype, s.dtype, [
        widen(points.reader(op.a)(), a),
        widen(points.reader(op.b)(), b),
      ])
      acc = combine('sum', s.dtype, acc, product)
    }
    return acc
  })
}
