/** Derivatives of functions of trees: gradients, directional derivatives, linear maps. */
import { ones, zeros } from '../../compose/source.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { param, withContext } from '../../graph/build.ts'
import type { Graph, Node } from '../../graph/node.ts'
import {
  inlineGraph,
  type Linearized,
  linearizeGraph,
  pullBack,
  pushForward,
  stopGradient as stopNode,
  transposeLinear,
} from '../../transforms/index.ts'
import { isFloat } from '../../types/dtype.ts'
import { showShape } from '../../types/shape.ts'
import { checkList, checkTransform, kinds, optionNames, whole } from '../calls/options.ts'
import { placed } from '../calls/place.ts'
import { currentTrace, evaluateAll, named } from '../tensor/core.ts'
import { one, Tensor } from '../tensor/tensor.ts'
import { describe, rebuildTree, type TensorSpec } from '../tensor/tree.ts'
import { type AnyFunction, type Argument, applyGraph, argumentsOf, type TracedCall, taker, traceCall } from './apply.ts'
import { readTangents, spread, type Tangent, type Tangents, tangentTree } from './tangents.ts'

/** Which arguments to differentiate in: one position, or several. */
export type ArgNums = number | readonly number[]

/** The arguments at some positions: one, or a list. */
export type ArgumentsAt<A extends readonly unknown[], N extends ArgNums> = N extends number
  ? A[N]
  : N extends readonly number[]
    ? { -readonly [K in keyof N]: A[N[K] & keyof A] }
    : never

/** Options of `grad` and its kin. */
export interface GradOptions<N extends ArgNums = ArgNums> {
  /** Arguments to differentiate in; the first unless given. A list makes the result a list. */
  readonly argnums?: N
}

/** Options of a gradient whose function gives [loss, aux]. */
export interface AuxGradOptions<N extends ArgNums = ArgNums> extends GradOptions<N> {
  /** The function gives [loss, aux]; aux is any tree and passes as it is. */
  readonly hasAux: true
}

/** Options of a gradient whose function gives the loss alone. */
export interface PlainGradOptions<N extends ArgNums = ArgNums> extends GradOptions<N> {
  /** The function gives the loss alone. */
  readonly hasAux?: false
}

type AnyGradOptions = GradOptions & { readonly hasAux?: boolean }

const gradOptions = optionNames<AnyGradOptions>('{ argnums: [0, 1] }', {
  argnums: kinds.anything,
  hasAux: kinds.flag,
})

/** The differentiated arguments of a call. Throws E_ARGUMENT for a position without argument, E_DTYPE for tensors without derivatives. */
export function chosenArguments(args: readonly Argument[], argnums: ArgNums): Argument[] {
  if (typeof argnums !== 'number') checkList(argnums, 'argnums', '[0, 1], or one position')
  const positions = typeof argnums === 'number' ? [argnums] : argnums
  return positions.map((i, k) => {
    whole(i, 'a position of argnums')
    const a = args[i]
    if (a === undefined)
      throw new UserError('E_ARGUMENT', `argnums names argument ${i} of ${args.length}`, {
        help: 'positions count from 0',
      })
    if (positions.indexOf(i) !== k)
      throw new UserError('E_ARGUMENT', `argnums names argument ${i} twice`, { help: 'name each position once' })
    if (a.leaves.length === 0)
      throw new UserError('E_ARGUMENT', `argument ${i} holds no tensor to differentiate in`, {
        help: 'numbers are static: pass tensor(x) instead',
      })
    const bad = a.leaves.find((leaf) => !isFloat(leaf.dtype))
    if (bad !== undefined)
      throw new UserError('E_DTYPE', `a derivative in ${bad.path}, which is ${bad.dtype}${showShape(bad.shape)}`, {
        help: 'pass it as another argument, or choose arguments with argnums',
      })
    return a
  })
}

/** The parameters of chosen arguments. */
export const parametersOf = (chosen: readonly Argument[]): number[] =>
  chosen.flatMap((a) => a.leaves.map((_, i) => a.first + i))

/** A tree for each chosen argument, or the one alone if `argnums` is a number. */
export function resultFor(argnums: ArgNums, chosen: readonly Argument[], make: (a: Argument) => unknown): unknown {
  const made = chosen.map(make)
  return typeof argnums === 'number' ? made[0] : made
}

/** Throws unless the first tensor of the result is a loss. */
function checkLoss({ name, result, outputs }: TracedCall, hasAux: boolean): void {
  named(name, () => {
    const loss = !hasAux ? result : result.kind === 'list' && result.items.length === 2 ? result.items[0] : undefined
    const [type] = outputs
    if (loss === undefined)
      throw new UserError('E_STRUCTURE', 'with hasAux the function gives a list [loss, aux]', {
        help: 'return [loss, aux], or leave hasAux out',
      })
    if (loss.kind !== 'tensor' || type === undefined)
      throw new UserError(
        'E_STRUCTURE',
        `the function gives ${loss.kind === 'static' ? `a ${typeof loss.value}` : 'a tree'}, not a scalar tensor`,
        { help: hasAux ? 'return [loss, aux]' : 'return the loss alone, or [loss, aux] with hasAux' },
      )
    if (type.shape.length > 0)
      throw new UserError('E_SHAPE', `the loss has shape ${showShape(type.shape)}`, {
        help: 'reduce it to a scalar, as with sum or mean; jacrev, jacfwd and vjp take other results',
      })
    if (!isFloat(type.dtype))
      throw new UserError('E_DTYPE', `the loss is ${type.dtype}`, { help: 'a loss is a float: cast it with astype' })
  })
}

function valueAndGradient(
  name: string,
  f: AnyFunction,
  args: readonly unknown[],
  { argnums = 0, hasAux = false }: AnyGradOptions,
): { readonly value: unknown; readonly gradient: unknown } {
  const described = argumentsOf(name, args)
  const chosen = named(name, () => chosenArguments(described, argnums))
  const call = traceCall(name, f, args, described)
  checkLoss(call, hasAux)
  const wrt = parametersOf(chosen)
  const made = applyGraph(name, call.operands, (nodes) => {
    const { outputs, effects, gradients } = pullBack(call.graph, nodes, wrt)
    const cotangents = outputs.map((y, i) => (i === 0 ? ones([], y.dtype) : undefined))
    const found = gradients(cotangents).map((g, k): Node => {
      const like = call.graph.params[wrt[k] ?? 0]
      return g ?? zeros(like?.shape ?? [], like?.dtype)
    })
    return { outputs: [...outputs, ...found], effects }
  })
  const next = taker(made)
  const value = rebuildTree(call.result, next)
  return { value, gradient: resultFor(argnums, chosen, (a) => rebuildTree(a.tree, next)) }
}

/**
 * The gradient of a scalar loss: a function of the same arguments that gives a tree like the argument `argnums` (0), or a list
 * of trees (JAX's `grad`). With `hasAux` the loss comes with a tree of anything else, [loss, aux], and the result is [gradient,
 * aux]. Static values in the argument stay in the tree.
 * @throws E_ARGUMENT for what is no function, and for positions and options that are none; calls throw E_SHAPE unless the loss
 * is a scalar, E_STRUCTURE for a loss that is no tensor, E_DTYPE for a loss or a tensor to differentiate in that is not float,
 * E_UNSUPPORTED through operations without derivative
 * @example
 * grad((x: Tensor) => x.square().sum())(tensor([1, 2, 3])) // [2, 4, 6]
 * grad((p: { w: Tensor }, x: Tensor) => p.w.mul(x).sum())({ w: tensor([1, 2]) }, tensor([3, 4])) // { w: [3, 4] }
 */
export function grad<A extends readonly unknown[], X, const N extends ArgNums = 0>(
  f: (...args: A) => readonly [Tensor, X],
  options: AuxGradOptions<N>,
): (...args: A) => [gradient: ArgumentsAt<A, N>, aux: X]
export function grad<A extends readonly unknown[], const N extends ArgNums = 0>(
  f: (...args: A) => Tensor,
  options?: PlainGradOptions<N>,
): (...args: A) => ArgumentsAt<A, N>
export function grad(f: AnyFunction, options: AnyGradOptions = {}): unknown {
  placed(() => checkTransform('grad', f, options, gradOptions))
  return (...args: readonly unknown[]): unknown => {
    const { value, gradient } = valueAndGradient('grad', f, args, options)
    return options.hasAux === true && Array.isArray(value) ? [gradient, value[1]] : gradient
  }
}

/**
 * A scalar loss and its gradient: [loss, gradient], with `hasAux` [[loss, aux], gradient]. Otherwise as `grad`.
 * @throws E_ARGUMENT for what is no function, and for positions and options that are none; calls throw E_SHAPE unless the loss
 * is a scalar, E_STRUCTURE for a loss that is no tensor, E_DTYPE for a loss or a tensor to differentiate in that is not float,
 * E_UNSUPPORTED through operations without derivative
 * @example
 * const [loss, gradient] = valueAndGrad((x: Tensor) => x.square().sum())(tensor([1, 2]))
 * loss // 5
 * gradient // [2, 4]
 */
export function valueAndGrad<A extends readonly unknown[], X, const N extends ArgNums = 0>(
  f: (...args: A) => readonly [Tensor, X],
  options: AuxGradOptions<N>,
): (...args: A) => [value: [loss: Tensor, aux: X], gradient: ArgumentsAt<A, N>]
export function valueAndGrad<A extends readonly unknown[], const N extends ArgNums = 0>(
  f: (...args: A) => Tensor,
  options?: PlainGradOptions<N>,
): (...args: A) => [value: Tensor, gradient: ArgumentsAt<A, N>]
export function valueAndGrad(f: AnyFunction, options: AnyGradOptions = {}): unknown {
  placed(() => checkTransform('valueAndGrad', f, options, gradOptions))
  return (...args: readonly unknown[]): unknown => {
    const { value, gradient } = valueAndGradient('valueAndGrad', f, args, options)
    return [value, gradient]
  }
}

/** The tangents of a call's arguments, one for each parameter. */
function argumentTangents(
  name: string,
  args: readonly Argument[],
  tangents: readonly unknown[],
): (Tensor | undefined)[] {
  return named(name, () => {
    if (tangents.length !== args.length)
      throw new UserError('E_ARGUMENT', `${tangents.length} tangents for ${args.length} arguments`, {
        help: 'give one for each argument; null stands for zeros',
      })
    return args.flatMap((a, i) => readTangents(a.tree, tangents[i], 'a tangent', `argument ${i}`))
  })
}

/**
 * The value of f and its derivative in the direction of `tangents`: [f(...primals), tangent of the result], in forward mode
 * (JAX's `jvp`). A tangent has the structure of its argument, null standing for zeros. Integer and boolean tensors have no
 * tangents: what is given for them is not read, what comes out for them is zeros.
 * @throws E_STRUCTURE, E_SHAPE, E_DTYPE for tangents of another type, E_ARGUMENT for another number of them and what is no
 * function, E_UNSUPPORTED through operations without derivative (outside jit when a value is read)
 * @example
 * const [value, tangent] = jvp((x: Tensor) => x.square(), [tensor([1, 2])], [tensor([1, 10])])
 * value // [1, 4]
 * tangent // [2, 40]
 */
export function jvp<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  primals: A,
  tangents: Tangents<A>,
): [value: R, tangent: R]
export function jvp(f: AnyFunction, primals: readonly unknown[], tangents: readonly unknown[]): unknown {
  named('jvp', () => {
    checkList(primals, 'the arguments', '[x]')
    checkList(tangents, 'the tangents', '[dx], one for each argument')
  })
  const described = argumentsOf('jvp', primals)
  const directions = argumentTangents('jvp', described, tangents)
  const call = traceCall('jvp', f, primals, described)
  const given = directions.filter((t) => t !== undefined)
  const made = applyGraph('jvp', [...call.operands, ...given], (nodes) => {
    const along = spread(directions, nodes.slice(call.operands.length))
    const pushed = pushForward(call.graph, nodes.slice(0, call.operands.length), along)
    const floats = pushed.outputs.flatMap((y, i) =>
      isFloat(y.dtype) ? [pushed.tangents[i] ?? zeros(y.shape, y.dtype)] : [],
    )
    return { outputs: [...pushed.outputs, ...floats], effects: pushed.effects }
  })
  const count = call.outputs.length
  const value = rebuildTree(call.result, taker(made.slice(0, count)))
  return [value, tangentTree(call.result, call.outputs, made.slice(count))]
}

/** A function at a point: its value, and its derivative there as a graph on residuals. */
export interface LinearCall {
  readonly call: TracedCall
  readonly linear: Linearized
  /** Parameters with a tangent. */
  readonly wrt: readonly number[]
  readonly value: readonly Tensor[]
  readonly residuals: readonly Tensor[]
}

/** Linearises a traced call in some parameters. */
export function linearCall(call: TracedCall, wrt: readonly number[]): LinearCall {
  const linear = named(call.name, () =>
    linearizeGraph(
      call.graph,
      call.graph.params.map((_, i) => wrt.includes(i)),
    ),
  )
  const made = applyGraph(call.name, call.operands, (nodes) => inlineGraph(linear.primal, nodes))
  const count = call.outputs.length
  return { call, linear, wrt, value: made.slice(0, count), residuals: made.slice(count) }
}

function floatParameters(args: readonly Argument[]): number[] {
  return args.flatMap((a) => a.leaves.flatMap((leaf, i) => (isFloat(leaf.dtype) ? [a.first + i] : [])))
}

/** Parameters are the residuals, then cotangents of the float outputs; outputs are gradients in the linear inputs. */
export function transposedGraph({ tangent, residuals }: Linearized): Graph {
  return withContext(() => {
    const inputs = tangent.params.slice(residuals)
    const cotangents = tangent.outputs.map((y, i) => param(tangent.params.length + i, y.shape, y.dtype))
    const results = tangent.outputs.flatMap((node, i) => {
      const cotangent = cotangents[i]
      return cotangent === undefined ? [] : [{ node, cotangent }]
    })
    const gradients = transposeLinear(results, inputs)
    return {
      params: [...tangent.params.slice(0, residuals), ...cotangents],
      outputs: inputs.map((x, i) => gradients[i] ?? zeros(x.shape, x.dtype)),
      effects: [],
    }
  })
}

/** Applies a linear map to tangents (undefined: zero); residuals still pending at a second use are kept. */
function linearMap(
  name: string,
  { residuals }: LinearCall,
  graph: Graph,
): (given: readonly (Tensor | undefined)[]) => Tensor[] {
  let used = false
  return (given) => {
    if (used && currentTrace() === undefined) evaluateAll(residuals)
    used = true
    const present = given.filter((t) => t !== undefined)
    return applyGraph(name, [...residuals, ...present], (nodes) => {
      const inputs = spread(given, nodes.slice(residuals.length)).map((t, i): Node => {
        const like = graph.params[residuals.length + i]
        return t ?? zeros(like?.shape ?? [], like?.dtype)
      })
      return inlineGraph(graph, [...nodes.slice(0, residuals.length), ...inputs])
    })
  }
}

/**
 * The value of f and its pullback: [f(...primals), cotangent => gradients], in reverse mode (JAX's `vjp`). The cotangent has
 * the structure of the value, null standing for zeros; the gradients are a list of trees like the arguments. For integer and
 * boolean tensors cotangents are not read, and gradients are zeros.
 * @throws E_ARGUMENT for what is no function, E_UNSUPPORTED through operations without derivative; the pullback throws
 * E_STRUCTURE, E_SHAPE, E_DTYPE for a cotangent of another type
 * @example
 * const [value, pullback] = vjp((x: Tensor) => x.square(), tensor([1, 2]))
 * value // [1, 4]
 * pullback(tensor([1, 10])) // [[2, 40]]
 */
export function vjp<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  ...primals: A
): [value: R, pullback: (cotangent: Tangent<R>) => A]
export function vjp(f: AnyFunction, ...primals: readonly unknown[]): unknown {
  const call = traceCall('vjp', f, primals)
  const at = linearCall(call, floatParameters(call.arguments))
  const apply = linearMap('vjp', at, transposedGraph(at.linear))
  const pullback = (cotangent: unknown): unknown => {
    const given = named('vjp', () => readTangents(call.result, cotangent, 'the cotangent', 'the result'))
    const gradients = taker(apply(given.filter((_, i) => isFloat(call.outputs[i]?.dtype ?? 'bool'))))
    return call.arguments.map((a) =>
      tangentTree(
        a.tree,
        a.leaves,
        a.leaves.flatMap((leaf) => (isFloat(leaf.dtype) ? (gradients() ?? []) : [])),
      ),
    )
  }
  return [rebuildTree(call.result, taker(at.value)), pullback]
}

/**
 * The value of f and its derivative at a point as a linear function: [f(...primals), (...tangents) => tangent of the value]
 * (JAX's `linearize`). What the derivative needs of the point is computed once. Tangents as in `jvp`.
 * @throws E_ARGUMENT for what is no function, E_UNSUPPORTED through operations without derivative; the linear function throws
 * E_STRUCTURE, E_SHAPE, E_DTYPE for tangents of another type
 * @example
 * const [value, along] = linearize((x: Tensor) => x.square(), tensor([1, 2]))
 * value // [1, 4]
 * along(tensor([1, 0])) // [2, 0]
 * along(tensor([0, 1])) // [0, 4]
 */
export function linearize<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  ...primals: A
): [value: R, pushforward: (...tangents: Tangents<A>) => R]
export function linearize(f: AnyFunction, ...primals: readonly unknown[]): unknown {
  const call = traceCall('linearize', f, primals)
  const at = linearCall(call, floatParameters(call.arguments))
  const apply = linearMap('linearize', at, at.linear.tangent)
  const pushforward = (...tangents: readonly unknown[]): unknown => {
    const given = argumentTangents('linearize', call.arguments, tangents)
    return tangentTree(call.result, call.outputs, apply(at.wrt.map((i) => given[i])))
  }
  return [rebuildTree(call.result, taker(at.value)), pushforward]
}

/**
 * A tree of the same values, through which no derivative goes: its tensors are constants to `grad` and its kin (JAX's
 * `stop_gradient`).
 * @throws E_STRUCTURE for what is no tree
 * @example grad((x: Tensor) => x.mul(stopGradient(x)).sum())(tensor([3])) // [3]: 6 without
 */
export function stopGradient<T>(tree: T): T {
  const leaves: (Tensor | TensorSpec)[] = []
  const structure = named('stopGradient', () => describe(tree, leaves))
  const next = taker(leaves)
  return rebuildTree(structure, () => {
    const x = next()
    return x instanceof Tensor ? one('stopGradient', x, stopNode) : x
  }) as T
}
