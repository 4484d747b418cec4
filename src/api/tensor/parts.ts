/** `x.at(...)`: a part of a tensor, to read or to update; the tensor itself does not change (JAX's `x.at[...]`). */
import type { AxisPart, ScatterCombiner } from '../../compose/index.ts'
import * as c from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import type { Node } from '../../graph/node.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { type Shape, showShape } from '../../types/shape.ts'
import { show } from '../calls/options.ts'
import type { SliceArgument } from '../calls/slicing.ts'
import { named, TensorCore } from './core.ts'

/** A part of a tensor, which `Tensor.at` gives. Updates give a new tensor, in place where the old one is donated. */
export interface TensorPart<T> {
  /**
   * The elements of the part; indices out of range clamp.
   * @throws E_DTYPE for indices that are no integers, E_SHAPE for indices that do not broadcast
   * @example tensor([1, 2, 3]).at(tensor([2, 0], { dtype: 'i32' })).get() // [3, 1]
   */
  get(): T
  /**
   * The tensor with values, which broadcast, in place of the part; of several for one element the last. Out of range drops.
   * @throws E_SHAPE for values that do not fit, E_DTYPE for indices that are no integers, E_ARGUMENT for what is no tensor or number
   * @example zeros([2, 2]).at(0).set(tensor([1, 2])) // [[1, 2], [0, 0]]
   */
  set(values: T | Scalar): T
  /**
   * The tensor with values added to the part, all of those for one element. Otherwise as `set`.
   * @throws E_SHAPE for values that do not fit, E_DTYPE for indices that are no integers and for bools, E_ARGUMENT for what is no tensor or number
   * @example zeros([3]).at(tensor([0, 2, 2], { dtype: 'i32' })).add(1) // [1, 0, 2]
   */
  add(values: T | Scalar): T
  /**
   * The tensor with the part multiplied by values. Otherwise as `add`.
   * @throws E_SHAPE for values that do not fit, E_DTYPE for indices that are no integers and for bools, E_ARGUMENT for what is no tensor or number
   * @example tensor([1, 2, 3]).at([1, null]).multiply(10) // [1, 20, 30]
   */
  multiply(values: T | Scalar): T
  /**
   * The tensor with the part at most as large as values. Otherwise as `set`.
   * @throws E_SHAPE for values that do not fit, E_DTYPE for indices that are no integers, E_ARGUMENT for what is no tensor or number
   * @example tensor([1, 2, 3]).at([0, 2]).min(1) // [1, 1, 3]
   */
  min(values: T | Scalar): T
  /**
   * The tensor with the part at least as large as values. Otherwise as `set`.
   * @throws E_SHAPE for values that do not fit, E_DTYPE for indices that are no integers, E_ARGUMENT for what is no tensor or number
   * @example tensor([1, 2, 3]).at([0, 2]).max(2) // [2, 2, 3]
   */
  max(values: T | Scalar): T
}

/** A slice of an axis as its first element, number and step: Python's. */
function rangeOf(s: readonly unknown[], extent: number): AxisPart {
  const whole = (v: unknown, what: string): number | undefined => {
    if (v === null || v === undefined) return undefined
    if (Number.isInteger(v)) return Number(v)
    throw new UserError('E_ARGUMENT', `a part whose ${what} is ${show(v)}`, {
      help: 'bounds are whole numbers, or null for the end of the axis',
    })
  }
  const step = whole(s[2], 'step') ?? 1
  if (step === 0) throw new UserError('E_ARGUMENT', 'a part with a step of 0', { help: 'steps are whole and not 0' })
  const [least, most] = step > 0 ? [0, extent] : [-1, extent - 1]
  const bound = (v: number | undefined, other: number): number =>
    v === undefined ? other : Math.min(Math.max(v < 0 ? v + extent : v, least), most)
  const from = bound(whole(s[0], 'start'), step > 0 ? 0 : extent - 1)
  const stop = bound(whole(s[1], 'stop'), step > 0 ? extent : -1)
  const count = Math.max(0, Math.ceil((stop - from) / step))
  return from === 0 && count === extent && step === 1 ? 'whole' : { from, count, step }
}

/** What each argument says of its axis. `indices` are the nodes of those that are tensors, in order. */
function partsOf(shape: Shape, index: readonly unknown[], indices: readonly Node[]): AxisPart[] {
  if (index.length > shape.length)
    throw new UserError('E_ARGUMENT', `${index.length} indices for shape ${showShape(shape)}`, {
      help: 'give at most one index for each axis',
    })
  let next = 0
  return index.map((s, i): AxisPart => {
    const tensor = s instanceof TensorCore ? indices[next++] : undefined
    if (tensor !== undefined) return { at: tensor }
    if (s === null) return 'whole'
    if (Array.isArray(s)) return rangeOf(s, shape[i] ?? 0)
    if (typeof s === 'number' && Number.isSafeInteger(s)) return { at: c.full([], BigInt(s), 'i64') }
    throw new UserError('E_ARGUMENT', `an index is ${typeof s === 'number' ? s : kindOf(s)}`, {
      help: 'give whole numbers, tensors of integers, [start, stop, step] or null for the whole axis',
    })
  })
}

type Operands<T> = readonly (T | Scalar)[]

/** The part of x at one argument an axis. `many` records an operation of several operands. */
export function partOf<T extends TensorCore>(
  x: T,
  index: readonly (SliceArgument | T)[],
  many: (name: string, operands: Operands<T>, f: (nodes: Node[]) => Node) => T,
): TensorPart<T> {
  const indices = named('at', () => {
    const tensors = index.filter((s): s is T => s instanceof TensorCore)
    const stands = c.zeros([], 'i32')
    partsOf(
      x.shape,
      index,
      tensors.map(() => stands),
    )
    return tensors
  })
  const update = (name: string, values: T | Scalar, combiner: ScatterCombiner): T =>
    many(`at.${name}`, [x, values, ...indices], ([a = c.asNode(0), v = a, ...at]) =>
      c.updatePart(a, partsOf(x.shape, index, at), v, combiner),
    )
  return {
    get: () =>
      many('at.get', [x, ...indices], ([a = c.asNode(0), ...at]) => c.gatherPart(a, partsOf(x.shape, index, at))),
    set: (values) => update('set', values, 'set'),
    add: (values) => update('add', values, 'sum'),
    multiply: (values) => update('multiply', values, 'prod'),
    min: (values) => update('min', values, 'min'),
    max: (values) => update('max', values, 'max'),
  }
}
