/** Loops over an axis, one index at a time, and the bounds of an axis in a program. */
import type { Index } from './scope.ts'
import type { Values } from './values.ts'

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

/** One index at a time. */
export function countedLoop(values: Values, axis: string, body: () => void, reverse = false): void {
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
  const { fragment } = scope.pop()
  scope.here(() => f.forLoop(counter, start, end, 1, () => f.splice(fragment)))
}
