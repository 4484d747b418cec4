/** Loops over an axis in lanes: whole steps, then partial ones; from the end where the order asks for it. */
import { invariant } from '../../../diagnostics/errors.ts'
import { isMultiple, unitsOf } from '../../../schedule/loop/ir/tile.ts'
import * as X from '../ir/expr.ts'
import type { Register } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { powerIn } from '../value/laneIndex.ts'
import { makeReg, type Reg } from '../value/lanes.ts'
import { type Index, indexKey } from '../value/scope.ts'
import type { Values } from '../value/values.ts'
import { axisBounds, type Blocks, closeLoop } from './loops.ts'

/**
 * Whole steps of `copies` groups of four, in blocks if asked for, then single groups, the last of them partial; or, where `overlaps` says that what stands
 * there may be computed twice, whole and with the end, so that it begins among those before it. `after` so many whole steps, where it is given.
 */
export function vectorLoop(
  values: Values,
  axis: string,
  copies: number,
  body: () => void,
  blocks?: Blocks,
  overlaps = false,
  after?: Index,
): void {
  const { scope } = values
  const view = values.axes.view(axis)
  const bounds = axisBounds(values, axis)
  const { end } = bounds
  const [start, count] = after === undefined ? [bounds.start, bounds.count] : [after, rest(values, after, end)]
  const wide = 4 * copies
  const counts = view.counts
  const always = isMultiple(view, wide)
  const never = counts?.every((n) => n < wide) ?? false
  const wholeGroups = isMultiple(view, 4)
  const steps = (from: Index, to: Index, n: number, partial: boolean, cut?: Blocks, aligned = view.aligned): void =>
    laneSteps(values, axis, n, { from, to, aligned, ...(partial ? { limit: end } : {}), cut }, body)
  if (always) {
    steps(start, end, copies, false, blocks)
    return
  }
  let tailFrom: Index = start
  if (!never) {
    tailFrom = wholeEnd(values, start, count, wide)
    steps(start, tailFrom, copies, false, blocks)
  }
  if (wholeGroups || !overlaps || counts === undefined || counts.some((n) => n < 4)) {
    steps(tailFrom, end, 1, !wholeGroups)
    return
  }
  steps(tailFrom, wholeEnd(values, start, count, 4), 1, false)
  const last = typeof end === 'number' ? end - 4 : scope.once(scope.depth, `last:${end.index}`, () => X.sub(end, 4))
  steps(last, end, 1, false, undefined, 1)
}

/** Whole steps of `copies` groups of four between two indices that are so many steps from the start. */
export const wholeSteps = (
  values: Values,
  axis: string,
  copies: number,
  body: () => void,
  from: Index,
  to: Index,
): void => laneSteps(values, axis, copies, { from, to, aligned: values.axes.view(axis).aligned }, body)

/** Steps of lanes from an index to another. */
interface Steps {
  readonly from: Index
  readonly to: Index
  /** What the first index is a multiple of. */
  readonly aligned: number
  /** Where lanes end, if steps may be partial. */
  readonly limit?: Index
  readonly cut?: Blocks | undefined
}

/** Steps of `copies` groups of four. */
function laneSteps(
  values: Values,
  axis: string,
  copies: number,
  { from, to, aligned, limit, cut }: Steps,
  body: () => void,
): void {
  const { scope, f } = values
  const counter = f.register(T.i32)
  scope.push()
  scope.bind(axis, counter)
  const unit = powerIn(aligned, 4 * copies)
  if (unit >= 4)
    scope.bind(
      unitsOf(axis, unit),
      scope.once(scope.depth, 'units', () => X.shrU(counter, Math.log2(unit))),
    )
  const outer = values.vector
  values.vector = { name: axis, copies, unit, ...(limit === undefined ? {} : limitOf(values, counter, limit)) }
  body()
  values.vector = outer
  closeLoop(values, counter, from, to, 4 * copies, cut)
}

/** The number of indices from one to another. */
function rest({ scope }: Values, from: Index, to: Index): Index {
  if (typeof from === 'number' && typeof to === 'number') return to - from
  return scope.once(scope.depth, `rest:${indexKey(from)}:${indexKey(to)}`, () => X.sub(to, from))
}

/**
 * The same from the end to the start: the partial step first, then whole ones. For axes whose number of indices is known.
 */
export function vectorLoopBackward(
  values: Values,
  axis: string,
  copies: number,
  body: () => void,
  blocks?: Blocks,
): void {
  const { scope, f } = values
  const { start, end } = axisBounds(values, axis)
  invariant(typeof start === 'number' && typeof end === 'number', 'an axis from its end has known bounds')
  const wide = 4 * copies
  const steps = (from: number, to: number, n: number, cut?: Blocks): void => {
    if (from === to) return
    const counter = f.register(T.i32)
    const at = f.register(T.i32)
    const count = Math.ceil((to - from) / (4 * n))
    scope.push()
    scope.here(() => f.assign(at, X.sub(from + 4 * n * (count - 1), counter)))
    scope.bind(axis, at)
    const outer = values.vector
    const partial = (to - from) % (4 * n) !== 0
    values.vector = { name: axis, copies: n, unit: 1, ...(partial ? limitOf(values, at, to) : {}) }
    body()
    values.vector = outer
    closeLoop(values, counter, 0, count * 4 * n, 4 * n, cut)
  }
  const whole = end - ((end - start) % wide)
  const groups = end - ((end - start) % 4)
  steps(groups, end, 1)
  steps(whole, groups, 1)
  steps(start, whole, copies, blocks)
}

/** The number of valid lanes of a step at `counter`, and their mask. */
function limitOf(values: Values, counter: Register, end: Index): { limit: Register; mask: Reg } {
  const { f, scope } = values
  const limit = scope.once(scope.depth, 'limit', () => {
    const left = f.register(T.i32)
    const rest = f.inline(() => {
      f.assign(left, X.sub(end, counter))
      return left
    })
    f.release(left)
    return X.select(X.compare('lt_s', 4, left), 4, rest)
  })
  const mask = scope.keep(scope.depth, 'limit-mask', () =>
    makeReg(f, 'bool', 4, () => X.compare('lt_s', X.constant(T.i32x4, [0, 1, 2, 3]), X.splat(T.i32x4, limit))),
  )
  return { limit, mask }
}

/** Start plus the largest multiple of `wide` in `count`. */
function wholeEnd(values: Values, start: Index, count: Index, wide: number): Index {
  if (typeof start === 'number' && typeof count === 'number') return start + count - (count % wide)
  const { scope } = values
  return scope.once(scope.depth, `whole:${indexKey(start)}:${indexKey(count)}:${wide}`, () =>
    X.add(start, X.and(count, -wide)),
  )
}
