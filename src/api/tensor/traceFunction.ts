/** A function of trees traced into a graph. */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { checkFunction } from '../calls/options.ts'
import { withPlace } from '../calls/place.ts'
import { named, nodeIn, type TensorCore, type TensorTrace, tracing } from './core.ts'
import { Tensor } from './tensor.ts'
import type { Purpose } from './trace.ts'
import { describe, rebuildTree, type TensorSpec, type TreeSpec } from './tree.ts'

/** A traced function. */
export interface Traced {
  readonly graph: Graph
  /** Structure of the result. */
  readonly result: TreeSpec
  /** For each tensor of the result, its place among the graph's outputs (equal values share one). */
  readonly places: readonly number[]
  /** Tensors closed over: the parameters after the arguments'. */
  readonly captured: readonly TensorCore[]
  /** Tensors of each argument, in parameter order. */
  readonly leavesOfArgument: readonly number[]
}

const ofJit: Purpose = { name: 'jit', program: true }

/** The structure and nodes of what a traced function gave. */
function resultOf(
  t: TensorTrace,
  value: unknown,
  purpose: Purpose,
): { readonly structure: TreeSpec; readonly nodes: readonly Node[] } {
  if (value instanceof Promise)
    throw new UserError(
      'E_ARGUMENT',
      `the ${purpose.program ? 'jitted function' : `function given to ${purpose.name}`} is async`,
      { help: `${purpose.program ? 'jit' : 'give it'} a synchronous function; await its result outside` },
    )
  const leaves: (Tensor | TensorSpec)[] = []
  const structure = describe(value, leaves, 'result')
  const nodes = leaves.map((x): Node => {
    if (!(x instanceof Tensor))
      throw new UserError('E_STRUCTURE', 'the result holds a tensor spec', { help: 'return tensors' })
    return nodeIn(t, x, 'the result')
  })
  return { structure, nodes }
}

/** What an argument without tensors is: a number, a list of numbers. */
function withoutTensors(x: unknown): string {
  const numbers = Array.isArray(x) && x.length > 0 && x.every((v) => typeof v === 'number')
  return numbers ? 'a list of numbers' : kindOf(x)
}

/**
 * Runs a function of tensors. Where it fails as code does that takes something else for a tensor (`x.add is not a function`), and was given
 * no tensor at all, the arguments are at fault: E_ARGUMENT.
 */
function onTensors(
  f: (...args: never[]) => unknown,
  args: readonly unknown[],
  tensors: readonly number[],
  { name }: Purpose,
): unknown {
  try {
    return f(...(args as never[]))
  } catch (cause) {
    if (!(cause instanceof TypeError) || tensors.some((n) => n > 0) || (args.length === 0 && f.length === 0))
      throw cause
    const [first] = args
    const given =
      args.length === 0
        ? 'no argument'
        : `${args.length === 1 ? '' : 'nothing but '}${args.map(withoutTensors).join(' and ')}`
    throw new UserError(
      'E_ARGUMENT',
      `a function given to ${name} got ${given} and no tensor, and threw: ${cause.message}`,
      {
        help: `pass tensors, such as tensor([1, 2]); in explain and compile ${withoutTensors(first) === 'a list of numbers' ? `spec([${String(first)}])` : 'spec([2, 3])'} stands for one of that shape`,
        cause,
        ...withPlace(),
      },
    )
  }
}

/** Traces a function on arguments of which only shapes and dtypes count. Throws what the function throws, E_STRUCTURE, E_ARGUMENT for an async function and what is none. */
export function traceFunction(
  f: (...args: never[]) => unknown,
  args: readonly unknown[],
  purpose: Purpose = ofJit,
): Traced {
  named(purpose.name, () => checkFunction(f, purpose.name))
  const leavesOfArgument: number[] = []
  const specs = args.map((a, i) => {
    const leaves: (Tensor | TensorSpec)[] = []
    const s = describe(a, leaves, `argument ${i}`)
    leavesOfArgument.push(leaves.length)
    return { s, leaves }
  })
  const { trace, result } = tracing(purpose, (t) => {
    const tracers = specs.map(({ s, leaves }) => {
      const made = leaves.map((x) => new Tensor({ kind: 'traced', node: t.addParam(x.shape, x.dtype), trace: t }))
      return rebuildTree(s, () => made.shift())
    })
    const value = onTensors(f, tracers, leavesOfArgument, purpose)
    return purpose.program ? resultOf(t, value, purpose) : named(purpose.name, () => resultOf(t, value, purpose))
  })
  const outputs = [...new Set(result.nodes)]
  const places = result.nodes.map((n) => outputs.indexOf(n))
  invariant(
    places.every((p) => p >= 0),
    'a result outside the outputs',
  )
  return {
    graph: trace.graph(outputs),
    result: result.structure,
    places,
    captured: trace.captured,
    leavesOfArgument,
  }
}
