/**
 * Sums and products that a loop carries: partial results from row to row. What a loop has folded in so many iterations is a total, as in any
 * other fold of fast mode (src/scalar/summation.ts); code generators ask here which carries those are, and after how many iterations.
 */
import { constant, type Expr, rangeOf, sub } from '../affine/expr.ts'
import { combinerIdentity, combinerOp } from '../scalar/ops.ts'
import { levelsOf, mostAdditions } from '../scalar/summation.ts'
import { isFloat } from '../types/dtype.ts'
import { type Carry, type LetStmt, type LoopStmt, operandsOf, type Stmt, type TileOp, type ValueId } from './ir.ts'
import { storeOperands } from './walk.ts'

/** A carry that folds what each iteration gives it. */
export interface FoldedCarry {
  readonly carry: Carry
  readonly combiner: 'sum' | 'prod'
}

/** What a loop folds from block to block: the identity before it, the state after a block's `term`, and the carry that gives `result` behind it. */
export function carriedFold(
  combiner: keyof typeof combinerOp,
  { id: term, dtype, axes }: Pick<LetStmt, 'id' | 'dtype' | 'axes'>,
  { init, param, next, result }: Pick<Carry, 'init' | 'param' | 'next' | 'result'>,
): { readonly identity: LetStmt; readonly step: LetStmt; readonly carry: Carry } {
  const made = (id: ValueId, op: TileOp): LetStmt => ({ kind: 'let', id, dtype, axes, op })
  return {
    identity: made(init, { kind: 'const', value: combinerIdentity(combiner, dtype) }),
    step: made(next, { kind: 'scalar', op: combinerOp[combiner], args: [param, term] }),
    carry: { init, param, next, result, dtype, axes },
  }
}

/** The sums and products of floats among what a loop carries, of which it reads no more than their last state. */
export function foldedCarries(loop: LoopStmt): FoldedCarry[] {
  return loop.carries.flatMap((carry): FoldedCarry[] => {
    const { param, next, dtype } = carry
    const step = loop.body.find((t) => t.kind === 'let' && t.id === next)
    if (step?.kind !== 'let' || step.op.kind !== 'scalar' || !isFloat(dtype)) return []
    const { op, args } = step.op
    const isAlone = args.includes(param) && timesRead(loop, param) === 1 && timesRead(loop, next) === 1
    if (!isAlone) return []
    return op === combinerOp.sum
      ? [{ carry, combiner: 'sum' }]
      : op === combinerOp.prod
        ? [{ carry, combiner: 'prod' }]
        : []
  })
}

/** How often a loop reads a value, as its next states too. */
function timesRead({ body, carries }: LoopStmt, id: ValueId): number {
  const of = (t: Stmt): readonly ValueId[] => {
    if (t.kind === 'let') return operandsOf(t.op)
    if (t.kind === 'store') return storeOperands(t)
    const bounds = [t.from, t.to].flatMap((b) => (b === undefined ? [] : [b]))
    return [...bounds, ...t.carries.flatMap((c) => [c.init, c.next]), ...t.body.flatMap(of)]
  }
  return [...carries.map((c) => c.next), ...body.flatMap(of)].filter((x) => x === id).length
}

/** log2 of the iterations after which each level's total is taken, for a loop over an axis of so many indices. */
export function closesOf(
  { block, from, to }: LoopStmt,
  extent: number,
  opOf: (id: ValueId) => TileOp | undefined,
): readonly number[] {
  const position = (id: ValueId | undefined, otherwise: number): Expr => {
    const op = id === undefined ? undefined : opOf(id)
    return op?.kind === 'index' ? op.expr : constant(otherwise)
  }
  const { hi } = rangeOf(sub(position(to, extent), position(from, 0)))
  const rounds = Math.ceil(Math.max(0, Math.min(extent, hi)) / block)
  return levelsOf(1, rounds, mostAdditions(rounds)).closes
}
