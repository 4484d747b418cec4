/** Where the loop of a chain begins and ends for a block of rows: by predicates on positions, and by data. */
import * as ix from '../affine/expr.ts'
import type { KernelAxis, LetStmt, TileOp, ValueId } from '../kernel/ir.ts'
import type { ChainRole } from '../plan/axes/chain.ts'
import type { ChainBlocks } from '../plan/axes/chainRoles.ts'
import { type EitherEnd, isEither, type Visible } from '../plan/axes/visible.ts'
import type { Body } from '../plan/body/body.ts'
import type { DType } from '../types/dtype.ts'
import { type Ends, endsByData } from './endsByData.ts'

/** What the ends are made of, and where their statements go: before the loop. */
export interface EndsOf {
  readonly body: Body
  readonly role: ChainRole
  readonly blocks: ChainBlocks
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  readonly emit: (dtype: DType, axes: readonly string[], op: TileOp) => ValueId
}

/** The ends of a loop, where it is not gone through whole, and axes that finding them takes beside the body's. */
export interface ChainEnds {
  readonly bounds: { readonly from?: ValueId; readonly to?: ValueId }
  readonly axes: readonly KernelAxis[]
}

export function chainEnds(visible: Visible, of: EndsOf): ChainEnds {
  const { from: least, to: most } = inBlocks(visible, of.blocks)
  const { ends, axes } = byData(visible, of)
  const from = endOf(least, 'max', of, ends && { id: ends.from, axes: ends.axes })
  const to = endOf(most, 'min', of, ends && { id: ends.to, axes: ends.axes })
  return { bounds: { ...(from === undefined ? {} : { from }), ...(to === undefined ? {} : { to }) }, axes }
}

/** Ends in whole blocks, where a matrix unit takes no less: what lies beyond is hidden all the same. */
function inBlocks({ from, to }: Visible, { loops, whole }: ChainBlocks): Pick<Visible, 'from' | 'to'> {
  const loop = loops.at(-1)
  if (!whole || loop === undefined) return { from, to }
  const down = (e: ix.Expr): ix.Expr => ix.mul(ix.div(e, loop.block), loop.block)
  const up = (e: ix.Expr): ix.Expr => down(ix.addConst(e, loop.block - 1))
  const each = (of: (e: ix.Expr) => ix.Expr, [x, y]: EitherEnd): EitherEnd => [x.map(of), y.map(of)]
  return {
    from: from.map((e) => (isEither(e) ? each(down, e) : down(e))),
    to: to.map((e) => (isEither(e) ? each(up, e) : up(e))),
  }
}

/** Where a loop begins and ends by what data say of a block of rows. */
function byData(
  { tested }: Visible,
  { body, role, blocks, lets, emit }: EndsOf,
): { readonly ends?: Ends | undefined; readonly axes: readonly KernelAxis[] } {
  const [loop, ...others] = blocks.loops
  const axis = body.axes.find((a) => a.name === loop?.axis)
  if (loop === undefined || others.length > 0 || axis === undefined || axis.open !== undefined) return { axes: [] }
  const names = new Set(body.axes.map((a) => a.name))
  let whole = `${axis.name}_all`
  while (names.has(whole)) whole += '_'
  const { block } = loop
  const ends = endsByData(tested, {
    lets,
    rows: role.rows,
    batch: role.batch,
    axis,
    whole,
    block,
    isWhole: blocks.whole,
    emit,
  })
  return ends === undefined ? { axes: [] } : { ends, axes: [{ ...axis, name: whole }] }
}

/** A value, and the axes of the batch that it has. */
interface End {
  readonly id: ValueId
  readonly axes: readonly string[]
}

/** An end of a loop, the greatest or least of some expressions and a value. */
function endOf(ends: Visible['from'], op: 'max' | 'min', of: EndsOf, data?: End): ValueId | undefined {
  const all = ends.flatMap((e): End | readonly End[] => {
    if (!isEither(e)) return { id: of.emit('i32', [], { kind: 'index', expr: e }), axes: [] }
    const [x, y] = e.map((side) => endOf(side, op, of))
    const other = op === 'max' ? 'min' : 'max'
    if (x === undefined || y === undefined) return []
    return { id: of.emit('i32', [], { kind: 'scalar', op: other, args: [x, y] }), axes: [] }
  })
  const one = all.reduce<End | undefined>((x, y) => {
    if (x === undefined) return y
    return { id: of.emit('i32', x.axes, { kind: 'scalar', op, args: [x.id, y.id] }), axes: x.axes }
  }, data)
  return one?.id
}
