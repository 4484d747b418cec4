/**
 * Results whose number depends on the data (NonZero, NonMaxSuppression): they stand in room for a bound, along one axis, and their number is a
 * value of the graph. What is computed of them row by row has as many; what takes all of them together (a sum over them, their shape) would take
 * the empty room for results, so it is refused. The host cuts the outputs of a model to the number.
 */
import { UserError } from '../diagnostics/errors.ts'
import type { Graph, Node } from '../graph/node.ts'
import { familyOf } from '../graph/table.ts'
import { topologicalOrder } from '../graph/traverse.ts'
import { readElement } from '../scalar/host.ts'
import { type HostArray, hostArray } from '../types/host.ts'
import { sizeOf } from '../types/shape.ts'
import type { HostTensor } from './tensors.ts'

/** Results in room for a bound. */
export interface CountedRoot {
  /** The value that has them along `axis`. */
  readonly node: Node
  readonly axis: number
  /** How many there are, a scalar: more than the extent of the axis where the bound is too low. */
  readonly count: Node
  /** The operator and its name, for errors. */
  readonly op: string
  readonly name: string
}

/** Along which axis a value has results of which root. */
interface Counted {
  readonly root: CountedRoot
  readonly axis: number
}

/** A value that takes all results of a root together. */
interface TakesAll {
  readonly root: CountedRoot
  readonly by: Node
}

/** Why such a value is refused. */
export const refusalOfRoom = ({ root, by }: TakesAll): string =>
  `how many results it has depends on data, and ${by.origin.name} takes all of them together (for ${root.node.shape[root.axis] ?? 0} of them there is room)`

/** The axis of a reshaped value that stands for an axis; undefined where none does, or more than one could. */
function reshapedAxis(from: readonly number[], axis: number, to: readonly number[]): number | undefined {
  const before = sizeOf(from.slice(0, axis))
  const fits = to.flatMap((d, i) => (d === from[axis] && sizeOf(to.slice(0, i)) === before ? [i] : []))
  return fits.length === 1 ? fits[0] : undefined
}

/** The axis of a node that has the results which its input `at` has along `axis`; undefined where the node takes them together. */
function axisAfter(node: Node, at: number, axis: number): number | undefined {
  const extent = node.inputs[at]?.shape[axis] ?? 0
  switch (node.op) {
    case 'reshape':
      return reshapedAxis(node.inputs[at]?.shape ?? [], axis, node.attrs.shape)
    case 'permute': {
      const to = node.attrs.perm.indexOf(axis)
      return to < 0 ? undefined : to
    }
    case 'broadcast': {
      const to = node.attrs.dims[axis]
      return to !== undefined && node.shape[to] === extent ? to : undefined
    }
    case 'slice':
      return node.attrs.start[axis] === 0 && node.attrs.limit[axis] === extent && node.attrs.step[axis] === 1
        ? axis
        : undefined
    case 'flip':
      return node.attrs.axes.includes(axis) ? undefined : axis
    case 'pad':
      return [node.attrs.low, node.attrs.high, node.attrs.interior].every((p) => p[axis] === 0) ? axis : undefined
    case 'concat':
      return node.attrs.axis === axis ? undefined : axis
    case 'window':
      return node.attrs.axis === axis ? undefined : axis > node.attrs.axis ? axis + 1 : axis
    case 'gather': {
      if (at > 0) return axis
      const source = node.attrs.sources[axis]
      return source !== undefined && 'axis' in source ? source.axis : undefined
    }
    case 'reduce':
      return node.attrs.axes.includes(axis) ? undefined : axis - node.attrs.axes.filter((a) => a < axis).length
    case 'scan':
      // A running fold of the results does not reach into the room behind them, but from there.
      return node.attrs.axis === axis && node.attrs.reverse ? undefined : axis
    case 'contract': {
      const label = (at === 0 ? node.attrs.lhs : node.attrs.rhs)[axis]
      const to = label === undefined ? -1 : node.attrs.out.indexOf(label)
      return to < 0 ? undefined : to
    }
    default:
      return familyOf(node) === 'elementwise' ? axis : undefined
  }
}

/** What a node has of what its inputs have. */
function after(node: Node, states: ReadonlyMap<Node, Counted>): Counted | TakesAll | undefined {
  let found: Counted | undefined
  for (const [at, input] of node.inputs.entries()) {
    const have = states.get(input)
    if (have === undefined) continue
    const axis = axisAfter(node, at, have.axis)
    if (axis === undefined || (found !== undefined && (found.axis !== axis || found.root.count !== have.root.count)))
      return { root: have.root, by: node }
    found = { root: have.root, axis }
  }
  // Pieces without a number of their own have as many only by chance.
  if (found !== undefined && node.op === 'concat' && !node.inputs.every((x) => states.has(x)))
    return { root: found.root, by: node }
  return found
}

/** Which of the outputs have a number of results; and the first value that takes results together, where there is one. */
export function countedOutputs(
  outputs: readonly Node[],
  roots: readonly CountedRoot[],
): { readonly counted: readonly (Counted | undefined)[]; readonly takesAll?: TakesAll } {
  if (roots.length === 0) return { counted: outputs.map(() => undefined) }
  const own = new Map(roots.map((r) => [r.node, { root: r, axis: r.axis }]))
  const states = new Map<Node, Counted>()
  for (const node of topologicalOrder(outputs)) {
    const state = own.get(node) ?? after(node, states)
    if (state !== undefined && 'by' in state) return { counted: outputs.map(() => undefined), takesAll: state }
    if (state !== undefined) states.set(node, state)
  }
  return { counted: outputs.map((o) => states.get(o)) }
}

/** Whether a value is computed of results in room for a bound. */
export function dependsOn(node: Node, roots: readonly CountedRoot[]): boolean {
  if (roots.length === 0) return false
  const own = new Set(roots.map((r) => r.node))
  return topologicalOrder([node]).some((x) => own.has(x))
}

/** An output of a model whose extent along an axis is a number of results. */
export interface OutputCount {
  readonly axis: number
  /** The output of the graph that is the number. */
  readonly output: number
  /** The operator and its name, for errors. */
  readonly op: string
  readonly name: string
}

/** The graph with the numbers behind its outputs, and which output has which. */
export function withCounts(
  graph: Graph,
  counted: readonly (Counted | undefined)[],
): { readonly graph: Graph; readonly counts: readonly (OutputCount | undefined)[] } {
  const numbers = [...new Set(counted.flatMap((c) => (c === undefined ? [] : [c.root.count])))]
  const counts = counted.map((c): OutputCount | undefined =>
    c === undefined
      ? undefined
      : {
          axis: c.axis,
          output: graph.outputs.length + numbers.indexOf(c.root.count),
          op: c.root.op,
          name: c.root.name,
        },
  )
  return { graph: { ...graph, outputs: [...graph.outputs, ...numbers] }, counts }
}

/** A model with some of its outputs, and the numbers that these have. */
export function onlyOutputs<
  M extends {
    readonly graph: Graph
    readonly counts: readonly (OutputCount | undefined)[]
    readonly outputNames: readonly string[]
  },
>(model: M, names: readonly string[]): M {
  const chosen = names.map((name) => model.outputNames.indexOf(name)).filter((i) => i >= 0)
  const numbers = [...new Set(chosen.flatMap((i) => model.counts[i]?.output ?? []))]
  const { graph } = model
  return {
    ...model,
    graph: { ...graph, outputs: [...chosen, ...numbers].flatMap((i) => graph.outputs[i] ?? []) },
    counts: chosen.map((i) => {
      const c = model.counts[i]
      return c === undefined ? undefined : { ...c, output: chosen.length + numbers.indexOf(c.output) }
    }),
    outputNames: chosen.flatMap((i) => model.outputNames[i] ?? []),
  }
}

/** The first `n` indices of an axis. */
function cutTo(t: HostTensor, axis: number, n: number): HostTensor {
  const extent = t.shape[axis] ?? 0
  const outer = sizeOf(t.shape.slice(0, axis))
  const inner = sizeOf(t.shape.slice(axis + 1))
  const shape = t.shape.map((d, i) => (i === axis ? n : d))
  const data: HostArray = hostArray(t.dtype, outer * n * inner)
  for (let o = 0; o < outer; o++) {
    const from = o * extent * inner
    ;(data as Uint8Array).set((t.data as Uint8Array).subarray(from, from + n * inner), o * n * inner)
  }
  return { ...t, data, shape }
}

const isOnHost = <T extends object>(t: HostTensor | T | undefined): t is HostTensor => t !== undefined && 'data' in t

/**
 * The outputs of a model, of results of its graph: those with a number of results are cut to it, on the host. Throws E_OVERFLOW where there are more
 * results than the bound has room for.
 */
export function cutOutputs<T extends object = HostTensor>(
  counts: readonly (OutputCount | undefined)[],
  results: readonly (HostTensor | T)[],
): (HostTensor | T)[] {
  return counts.flatMap((c, i) => {
    const t = results[i]
    if (t === undefined) return []
    const number = c === undefined ? undefined : results[c.output]
    if (c === undefined || !isOnHost(number) || !isOnHost(t)) return [t]
    const n = Number(readElement(number.data, number.dtype, 0))
    const room = t.shape[c.axis] ?? 0
    if (n > room)
      throw new UserError('E_OVERFLOW', `${c.op} "${c.name}" has ${n} results, where its bound has room for ${room}`, {
        help: `raise the bound: { bounds: { ${JSON.stringify(c.name)}: ${n} } }`,
      })
    return [n === room ? t : cutTo(t, c.axis, n)]
  })
}
