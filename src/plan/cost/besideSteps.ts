/** What the steps of a chain read and write beside their operands, an element for every place of a tile (biases and their gradients): the unit waits for it. */
import { axesOf, type Expr, flatten, strideOf } from '../../affine/expr.ts'
import type { ValueId } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import type { ChainRole } from '../axes/chain.ts'
import { type Body, pointsOf } from '../body/body.ts'

/** Seconds of these accesses with all programs at work; `repeats`: how often a statement along the shared axes is evaluated, a point of its axes. */
export function besideSeconds(
  body: Body,
  { rows, shared, vectors }: ChainRole,
  repeats: ReadonlyMap<ValueId, number>,
  extents: ReadonlyMap<string, number>,
  { chains }: Machine,
): number {
  const rates = vectors === undefined ? chains?.besideRates : undefined
  if (rates === undefined) return 0
  const isOfTile = (axes: readonly string[]): boolean =>
    rows.some((a) => axes.includes(a)) && shared.some((a) => axes.includes(a))
  /** Whether neighbours of a column lie side by side. */
  const isAcross = (flat: Expr): boolean =>
    rows.some((a) => (extents.get(a) ?? 1) > 1 && Math.abs(strideOf(flat, a) ?? 0) === 1)
  let seconds = 0
  for (const { id, op, axes, dtype } of body.lets) {
    const tensor = op.kind === 'load' ? body.loads.get(op.param) : undefined
    if (op.kind !== 'load' || tensor === undefined || !isOfTile(axes)) continue
    const rate = isAcross(flatten(op.index, tensor.shape)) ? rates.readAcross : rates.along
    seconds += (pointsOf(extents, axes) * (repeats.get(id) ?? 1) * dtypeBytes(dtype)) / rate
  }
  for (const { index, shape, node } of body.stores) {
    const axes = [...new Set(index.flatMap((e) => [...axesOf(e)]))]
    if (!isOfTile(axes)) continue
    const rate = isAcross(flatten(index, shape)) ? rates.writtenAcross : rates.along
    seconds += (pointsOf(extents, axes) * dtypeBytes(node.dtype)) / rate
  }
  return seconds
}
