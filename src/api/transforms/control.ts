/**
 * Control flow as operations: `cond`, `whileLoop`, `scan`, `foriLoop`. Their functions are traced once and compiled with what
 * is around them; what they close over becomes constants. Outside `jit` they are compiled and run where they stand.
 */
import { condNodes, loopNodes, whileNodes } from '../../compose/control.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import type { Node } from '../../graph/node.ts'
import { isInteger } from '../../types/dtype.ts'
import { type Shape, showShape } from '../../types/shape.ts'
import { checkFunction, checkOptions, kinds, optionNames } from '../calls/options.ts'
import { arange, full } from '../ops/creation.ts'
import { named } from '../tensor/core.ts'
import { Tensor } from '../tensor/tensor.ts'
import { leavesOf, rebuildTree, TensorSpec, type TreeSpec } from '../tensor/tree.ts'
import { type Argument, applyGraph, argumentsOf, taker } from './apply.ts'
import { closeOver, dependsOn, expectSame, traceBody } from './bodies.ts'

/** Options of `scan`. */
export interface LoopOptions {
  /** Number of steps; needed where `xs` has no tensors. */
  readonly length?: number
  /** Walk from the last element to the first; results stay in the elements' order. */
  readonly reverse?: boolean
}

const loopOptions = optionNames<LoopOptions>('{ length: 10 }', { length: kinds.anything, reverse: kinds.flag })

/** A tree with specs for its tensors. */
const specsOf = (tree: TreeSpec, shape: (s: Shape) => Shape = (s) => s): unknown =>
  rebuildTree(tree, taker(leavesOf(tree, '').map((l) => new TensorSpec(shape(l.shape), l.dtype))))

function expectTest(name: string, what: string, tree: TreeSpec): void {
  if (tree.kind === 'tensor' && tree.dtype === 'bool' && tree.shape.length === 0) return
  const found =
    tree.kind === 'tensor'
      ? `${tree.dtype}${showShape(tree.shape)}`
      : `a ${tree.kind === 'static' ? typeof tree.value : tree.kind}`
  named(name, () => {
    throw new UserError('E_DTYPE', `${what} is ${found}, not a bool scalar`, {
      help: 'compare (x.less(y)), and reduce with all() or any()',
    })
  })
}

/**
 * thenF(...operands) where the bool scalar `pred` holds, else elseF(...operands); only the branch taken runs (JAX's `cond`).
 * Both give trees of one structure, shapes and dtypes. A JavaScript boolean chooses while tracing. Differentiable; under `vmap`
 * with a batched `pred` both branches run.
 * @throws E_DTYPE for another `pred`, E_STRUCTURE, E_SHAPE, E_DTYPE for branches that differ, E_UNSUPPORTED for an effect in a
 * branch, E_ARGUMENT for what is no function
 * @example
 * const half = (x: Tensor) => cond(x.greater(10), (y: Tensor) => y.div(2), (y: Tensor) => y, x)
 * const both = [half(tensor(20)), half(tensor(4))]
 * stack(both) // [10, 4]
 */
export function cond<Operands extends readonly unknown[], R>(
  pred: Tensor | boolean,
  thenF: (...operands: Operands) => R,
  elseF: (...operands: Operands) => R,
  ...operands: Operands
): R {
  for (const f of [thenF, elseF]) named('cond', () => checkFunction(f, 'cond'))
  if (typeof pred === 'boolean') return pred ? thenF(...operands) : elseF(...operands)
  const [test, ...given] = argumentsOf('cond', [pred, ...operands])
  expectTest('cond', 'its condition', test?.tree ?? { kind: 'static', value: pred })
  const specs = given.map((g) => specsOf(g.tree))
  const bodies = [thenF, elseF].map((f) => traceBody('cond', f, specs))
  const [then, otherwise] = bodies
  if (then === undefined || otherwise === undefined) return thenF(...operands)
  expectSame('cond', ['the second branch', otherwise.result], ['the first', then.result], 'the result')
  const { captured, graphs } = closeOver(bodies)
  const [whenTrue, whenFalse] = graphs
  const made = applyGraph('cond', [pred, ...captured, ...given.flatMap((g) => g.tensors)], ([t, ...nodes]) => ({
    outputs:
      t === undefined || whenTrue === undefined || whenFalse === undefined
        ? []
        : condNodes(t, nodes, whenTrue, whenFalse),
    effects: [],
  }))
  return rebuildTree(then.result, taker(made)) as R
}

/**
 * body(...body(body(init))) as long as test of the carry, a bool scalar, holds: the first carry whose test fails (JAX's
 * `while_loop`). The carry keeps its structure, shapes and dtypes. The number of steps is known only by running: it may be 0,
 * it is not bounded (a test that never fails does not end), and reverse-mode derivatives are refused with E_UNSUPPORTED (`scan`
 * and `foriLoop` have them).
 * @throws E_DTYPE for another test, E_STRUCTURE, E_SHAPE, E_DTYPE for a body that changes the carry's type, E_UNSUPPORTED for
 * an effect, E_ARGUMENT for what is no function
 * @example whileLoop((x: Tensor) => x.less(100), (x: Tensor) => x.mul(2), tensor(3)) // 192
 */
export function whileLoop<C>(test: (carry: C) => Tensor, body: (carry: C) => C, init: C): C {
  return runWhile('whileLoop', test, body, init)
}

function runWhile<C>(name: string, test: (carry: C) => Tensor, body: (carry: C) => C, init: C): C {
  const carry = only(argumentsOf(name, [init]))
  const specs = [specsOf(carry.tree)]
  const tested = traceBody(name, test, specs)
  expectTest(name, 'its test', tested.result)
  const stepped = traceBody(name, body, specs)
  expectSame(name, ['the body', stepped.result], ['where it takes', carry.tree], 'the carry')
  const { captured, graphs } = closeOver([tested, stepped])
  const [testGraph, bodyGraph] = graphs
  const made = applyGraph(name, [...captured, ...carry.tensors], (nodes) => ({
    outputs:
      testGraph === undefined || bodyGraph === undefined
        ? []
        : whileNodes(testGraph, bodyGraph, nodes.slice(0, captured.length), nodes.slice(captured.length)),
    effects: [],
  }))
  return rebuildTree(carry.tree, taker(made)) as C
}

function only(list: readonly Argument[]): Argument {
  const [first] = list
  if (first === undefined) throw new UserError('E_ARGUMENT', 'an argument is missing')
  return first
}

/** The number of steps of a scan. Throws E_SHAPE, E_ARGUMENT. */
function stepsOf(xs: Argument, length: number | undefined): number {
  if (length !== undefined && (!Number.isInteger(length) || length < 0))
    throw new UserError('E_ARGUMENT', `length is ${length}`, { help: 'give a whole number of steps' })
  const scalar = xs.leaves.find((l) => l.shape.length === 0)
  if (scalar !== undefined)
    throw new UserError('E_SHAPE', `${scalar.path} is a scalar: it has no elements to scan`, {
      help: 'close over it, or put it in the carry',
    })
  const [first] = xs.leaves
  const n = length ?? first?.shape[0]
  if (n === undefined)
    throw new UserError('E_ARGUMENT', 'there are no sequences and no length', { help: 'give { length }' })
  const other = xs.leaves.find((l) => l.shape[0] !== n)
  if (other !== undefined) {
    const wanted = length === undefined ? `${first?.path} of ${n}` : `length is ${n}`
    throw new UserError('E_SHAPE', `sequences of different lengths: ${other.path} of ${other.shape[0]}, ${wanted}`, {
      help: 'scan walks the leading axis of every sequence together',
    })
  }
  return n
}

/**
 * A loop over the leading axis of sequences: [carry, y] = f(carry, x) for each element x, from `init`; gives the last carry and
 * the ys stacked along a new leading axis (JAX's `scan`). The carry keeps its structure, shapes and dtypes; `xs` is a tree of
 * tensors of one length, or null with `length`. The step is compiled once; elements are read and written where the sequences
 * stand. Differentiable: reverse mode keeps each step's residuals.
 * @throws E_STRUCTURE, E_SHAPE, E_DTYPE for a step that changes the carry's type or gives no pair, E_SHAPE for sequences of
 * different lengths, E_ARGUMENT without a length and for what is no function, E_UNSUPPORTED for an effect
 * @example
 * const [last, all] = scan((total: Tensor, x: Tensor) => [total.add(x), total.mul(2)], tensor(0), tensor([1, 2, 3]))
 * last // 6
 * all // [0, 2, 6]
 */
export function scan<C, X, Y>(
  f: (carry: C, x: X) => readonly [carry: C, y: Y],
  init: C,
  xs: X,
  options: LoopOptions = {},
): [carry: C, ys: Y] {
  const [carry, sequences] = argumentsOf('scan', [init, xs])
  if (carry === undefined || sequences === undefined)
    throw new UserError('E_ARGUMENT', 'scan takes a carry and sequences')
  const length = named('scan', () => {
    checkOptions(options, 'scan', loopOptions)
    return stepsOf(sequences, options.length)
  })
  const element = specsOf(sequences.tree, (shape) => shape.slice(1))
  const body = traceBody('scan', f, [specsOf(carry.tree), element])
  const { result } = body
  const [next, y] = result.kind === 'list' ? result.items : []
  if (result.kind !== 'list' || result.items.length !== 2 || next === undefined || y === undefined)
    return named('scan', () => {
      throw new UserError('E_STRUCTURE', 'its function gives no pair of carry and element', {
        help: 'return [carry, y]; y may be null',
      })
    })
  expectSame('scan', ['the function', next], ['where it takes', carry.tree], 'the carry')
  const { captured, graphs } = closeOver([body])
  const made = applyGraph('scan', [...captured, ...carry.tensors, ...sequences.tensors], (nodes) => {
    const at = captured.length + carry.tensors.length
    const [consts, carries, elements] = [
      nodes.slice(0, captured.length),
      nodes.slice(captured.length, at),
      nodes.slice(at),
    ]
    const reverse = options.reverse === true
    const results = graphs.map((g) => loopNodes(g, { length, reverse }, consts, carries, elements))
    return { outputs: results.flatMap((r): Node[] => [...r.carries, ...r.sequences]), effects: [] }
  })
  const take = taker(made)
  return [rebuildTree(carry.tree, take) as C, rebuildTree(y, take) as Y]
}

/**
 * carry = body(i, carry) for i from `lower` up to, not including, `upper` (none, if that is not above): JAX's `fori_loop`. i is
 * an i32 scalar. With JavaScript numbers the number of steps is known and the loop is differentiable; with integer tensors it
 * is a `whileLoop`, and i has their dtype.
 * @throws E_STRUCTURE, E_SHAPE, E_DTYPE for a body that changes the carry's type, E_ARGUMENT for bounds that are not whole and
 * what is no function, E_DTYPE, E_SHAPE for bounds that are no integer scalars, E_UNSUPPORTED for an effect
 * @example foriLoop(1, 5, (i, product) => product.mul(i.astype('f32')), tensor(1)) // 24
 */
export function foriLoop<C>(
  lower: number | Tensor,
  upper: number | Tensor,
  body: (i: Tensor, carry: C) => C,
  init: C,
): C {
  named('foriLoop', () => checkFunction(body, 'foriLoop'))
  if (typeof lower === 'number' && typeof upper === 'number') return countedLoop(lower, upper, body, init)
  const [from, to] = named('foriLoop', () => bounds(lower, upper))
  const [, last] = runWhile<[Tensor, C]>(
    'foriLoop',
    ([i]) => i.less(to),
    ([i, carry]) => [i.add(1), body(i, carry)],
    [from, init],
  )
  return last
}

/** Bounds of one dtype. */
function bounds(lower: number | Tensor, upper: number | Tensor): readonly [Tensor, Tensor] {
  const given = [lower, upper].flatMap((b) => (b instanceof Tensor ? [b] : []))
  const dtype = given[0]?.dtype ?? 'i32'
  for (const b of given) {
    if (!isInteger(b.dtype) || b.dtype !== dtype)
      throw new UserError('E_DTYPE', `bounds of ${given.map((g) => g.dtype).join(' and ')}`, {
        help: 'give integers of one dtype',
      })
    if (b.shape.length > 0)
      throw new UserError('E_SHAPE', `a bound of shape ${showShape(b.shape)}`, { help: 'give a scalar' })
  }
  const one = (b: number | Tensor): Tensor =>
    b instanceof Tensor ? b : full([], dtype === 'i64' || dtype === 'u64' ? BigInt(whole(b)) : whole(b), dtype)
  return [one(lower), one(upper)]
}

function whole(bound: number): number {
  if (Number.isInteger(bound) && Math.abs(bound) <= 2 ** 31) return bound
  throw new UserError('E_ARGUMENT', `a bound of ${typeof bound === 'number' ? bound : kindOf(bound)}`, {
    help: 'give whole numbers of 32 bits, or integer tensors',
  })
}

function countedLoop<C>(lower: number, upper: number, body: (i: Tensor, carry: C) => C, init: C): C {
  const name = 'foriLoop'
  const length = named(name, () => Math.max(0, whole(upper) - whole(lower)))
  const carry = only(argumentsOf(name, [init]))
  const traced = traceBody(name, (c: C, i: Tensor) => body(i, c), [specsOf(carry.tree), new TensorSpec([], 'i32')])
  expectSame(name, ['the body', traced.result], ['where it takes', carry.tree], 'the carry')
  const { captured, graphs } = closeOver([traced])
  const counts = dependsOn(traced, carry.tensors.length)
  const sequence = counts ? [arange(lower, lower + length, 1, 'i32')] : []
  const made = applyGraph(name, [...captured, ...carry.tensors, ...sequence], (nodes) => {
    const at = captured.length + carry.tensors.length
    const outputs = graphs.flatMap((g) => {
      const graph = counts ? g : { ...g, params: g.params.slice(0, at) }
      const consts = nodes.slice(0, captured.length)
      return loopNodes(graph, { length }, consts, nodes.slice(captured.length, at), nodes.slice(at)).carries
    })
    return { outputs, effects: [] }
  })
  return rebuildTree(carry.tree, taker(made)) as C
}
