/** Loops along several axes at once: the innermost one's index runs on through the others, which stand where they begin. */
import { type Joined, joinedAxes } from '../../../schedule/loop/ir/joined.ts'
import * as X from '../ir/expr.ts'
import type { Values } from '../value/values.ts'
import { axisBounds } from './loops.ts'

/** Emits loops inside which axes are joined. */
export function emitJoined(values: Values, joined: Joined, body: () => void): void {
  const { scope, f, axes } = values
  const [outermost] = joined.with
  const inside = joinedAxes(axes, joined)
  const { max } = inside.view(joined.axis)
  scope.push()
  for (const a of joined.with) scope.bind(a, axisBounds(values, a).start)
  if (outermost !== undefined && inside.view(joined.axis).counts?.length !== 1) {
    const { count } = axisBounds(values, outermost)
    const run = max / axes.view(outermost).max
    const end =
      typeof count === 'number' ? count * run : scope.once(scope.depth, `run:${joined.axis}`, () => X.mul(count, run))
    scope.bind(`${joined.axis}.start`, 0)
    scope.bind(`${joined.axis}.end`, end)
    scope.bind(`${joined.axis}.count`, end)
  }
  values.axes = inside
  body()
  values.axes = axes
  const { block } = scope.pop()
  scope.here(() => f.splice(block))
}
