/** Loops over an axis, one index at a time, and the bounds of an axis and of its blocks in a program. */
import { axis as axisExpr, constant, type Expr, substitute } from '../../../affine/expr.ts'
import type { AxisView } from '../../../schedule/loop/ir/tile.ts'
import type { Local } from '../binary/builder.ts'
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
  counter: Local,
  from: Index,
  to: Index,
  step: number,
  blocks: Blocks | undefined,
): void {
  const { scope, f } = values
  const { fragment } = scope.pop()
  if (blocks === undefined) {
    scope.here(() => f.forLoop(counter, from, to, step, () => f.splice(fragment)))
    return
  }
  const span = step * blocks.rounds
  const [block, end] = [f.local('i32'), f.local('i32')]
  scope.push()
  scope.here(() => {
    f.get(block)
    f.i32Const(span)
    f.op('i32.add')
    f.set(end)
    f.get(end)
    f.push(to)
    f.get(end)
    f.push(to)
    f.ops('i32.lt_s', 'select')
    f.set(end)
    f.forLoop(counter, block, end, step, () => f.splice(fragment))
  })
  blocks.after()
  const whole = scope.pop()
  scope.here(() => f.forLoop(block, from, to, span, () => f.splice(whole.fragment)))
}

/** One index at a time. */
export function countedLoop(values: Values, axis: string, body: () => void, reverse = false, blocks?: Blocks): void {
  const { scope, f } = values
  const { start, end } = axisBounds(values, axis)
  const counter = f.local('i32')
  scope.push()
  if (!reverse) scope.bind(axis, counter)
  else {
    const mirrored = f.local('i32')
    scope.here(() => {
      f.push(start)
      f.push(end)
      f.i32Const(1)
      f.ops('i32.sub', 'i32.add')
      f.get(counter)
      f.op('i32.sub')
      f.set(mirrored)
    })
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
  const end = scope.once(scope.depth, `end:${name}`, 'i32', () => {
    f.get(start)
    f.i32Const(single ? view.max : block)
    f.op('i32.add')
    if (single) return
    const whole = f.toLocal('i32')
    f.get(whole)
    f.push(limit)
    f.get(whole)
    f.push(limit)
    f.op('i32.lt_s')
    f.op('select')
    f.release(whole)
  })
  scope.bind(`${name}.end`, end)
  scope.bind(
    `${name}.count`,
    single
      ? view.max
      : scope.once(scope.depth, `count:${name}`, 'i32', () => {
          f.get(end)
          f.get(start)
          f.op('i32.sub')
        }),
  )
}
