/** Loops over an axis, one index at a time, and the bounds of an axis and of its blocks in a program. */
import { axis as axisExpr, constant, type Expr, substitute } from '../../../affine/expr.ts'
import type { AxisView } from '../../../schedule/loop/ir/tile.ts'
import * as X from '../ir/expr.ts'
import type { Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import type { Index } from '../value/scope.ts'
import type { Values } from '../value/values.ts'

/** First index, end and number of indices of an axis in this program. */
export function axisBounds(values: Values, axis: string): { start: Index; end: Index; count: Index } {
  const view = values.axes.view(axis)
  const { scope } = values
  if (!view.moves && view.counts?.length === 1) return { start: 0, end: view.max, count: view.max }
  return {
    start: scope.axisPosition(`${axis}.start`),
    end: scope.axisPosition(`${axis}.end`),
    count: scope.axisPosition(`${axis}.count`),
  }
}

/** An expression with some axes at the start of their blocks. */
export const atStart = (values: Values, e: Expr, names: readonly string[]): Expr =>
  substitute(e, (a) => {
    if (a.kind !== 'axis' || !names.includes(a.name)) return undefined
    return values.axes.view(a.name).moves ? axisExpr(`${a.name}.start`, a.extent) : constant(0)
  })

/** A loop in blocks of so many rounds: what is emitted after each block, in a frame of its own. */
export interface Blocks {
  readonly rounds: number
  readonly after: () => void
}

/** A loop over a frame that was pushed for its body and is open yet, cut into blocks where they are asked for. */
export function closeLoop(
  values: Values,
  counter: Register,
  from: Index,
  to: Index,
  step: number,
  blocks: Blocks | undefined,
): void {
  const { scope, f } = values
  const { block: round } = scope.pop()
  if (blocks === undefined) {
    scope.here(() => f.for(counter, from, to, step, () => f.splice(round)))
    return
  }
  const span = step * blocks.rounds
  const [block, end] = [f.register(T.i32), f.register(T.i32)]
  scope.push()
  scope.here(() => {
    f.assign(end, X.add(block, span))
    f.assign(end, X.least(end, to))
    f.for(counter, block, end, step, () => f.splice(round))
  })
  blocks.after()
  const whole = scope.pop()
  scope.here(() => f.for(block, from, to, span, () => f.splice(whole.block)))
}

/** One index at a time. */
export function countedLoop(values: Values, axis: string, body: () => void, reverse = false, blocks?: Blocks): void {
  const { scope, f } = values
  const { start, end } = axisBounds(values, axis)
  const counter = f.register(T.i32)
  scope.push()
  if (!reverse) scope.bind(axis, counter)
  else {
    const mirrored = f.register(T.i32)
    scope.here(() => f.assign(mirrored, X.sub(X.add(start, X.sub(end, 1)), counter)))
    scope.bind(axis, mirrored)
  }
  body()
  closeLoop(values, counter, start, end, 1, blocks)
}

/** Where an axis ends: its extent, known at launch where it is open. */
export const endOf = (values: Values, { open, extent }: AxisView): Index =>
  open === undefined ? extent : values.scope.axisPosition(open)

/** Binds a blocked axis to its block from `start` on; a known `start` is 0. */
export function bindBlock(values: Values, view: AxisView, block: number, start: Index, limit: Index): void {
  const { scope, f } = values
  const { name } = view
  scope.bind(`${name}.start`, start)
  if (view.max <= 1) scope.bind(name, start)
  if (typeof start === 'number') {
    const end = view.open === undefined ? start + view.max : limit
    scope.bind(`${name}.end`, end)
    scope.bind(`${name}.count`, end)
    return
  }
  const single = view.counts?.length === 1
  const end = scope.once(scope.depth, `end:${name}`, () => {
    const next = X.add(start, single ? view.max : block)
    if (single) return next
    const whole = f.keep(next)
    f.release(whole)
    return X.least(whole, limit)
  })
  scope.bind(`${name}.end`, end)
  scope.bind(`${name}.count`, single ? view.max : scope.once(scope.depth, `count:${name}`, () => X.sub(end, start)))
}
