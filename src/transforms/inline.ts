/** Graphs as functions: rebuilding a graph's nodes on other arguments, inside the current context. */
import { UserError } from '../diagnostics/errors.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { AttrsByOp, Graph, Node, OpName } from '../graph/node.ts'
import { opDef } from '../graph/table.ts'
import { nodesOf, withInputs } from '../graph/traverse.ts'
import { sameShape, showShape } from '../types/shape.ts'
import { at } from './rule.ts'

/** What a graph gives on some arguments. */
export interface Applied {
  readonly outputs: readonly Node[]
  readonly effects: readonly Node[]
}

/** A node's operation on other inputs, hash-consed in the current context; effects only where an input changed. */
export function rebuild(node: Node, inputs: readonly Node[]): Node {
  if (opDef(node).boundary === 'effect') return withInputs(node, inputs)
  return makeNode<OpName>(node.op, inputs, node.attrs as AttrsByOp[OpName]) as Node
}

/** Throws E_ARGUMENT unless there is one argument of the right type for each parameter. */
export function checkArguments(graph: Graph, args: readonly Node[]): void {
  if (args.length !== graph.params.length)
    throw new UserError('E_ARGUMENT', `${args.length} arguments for ${graph.params.length} parameters`)
  graph.params.forEach((p, i) => {
    const a = at(args, i, 'argument')
    if (a.dtype !== p.dtype || !sameShape(a.shape, p.shape))
      throw new UserError(
        'E_ARGUMENT',
        `argument ${i} is ${a.dtype}${showShape(a.shape)}, the parameter ${p.dtype}${showShape(p.shape)}`,
      )
  })
}

/** The graph on `args` (one for each parameter, in order); its effects come after `previous`, if given. */
export function inlineGraph(graph: Graph, args: readonly Node[], previous?: Node): Applied {
  checkArguments(graph, args)
  const to = new Map<Node, Node>(graph.params.map((p, i) => [p, at(args, i, 'argument')]))
  const image = (n: Node): Node => to.get(n) ?? n
  for (const node of nodesOf(graph)) {
    if (node.op === 'param') continue
    const inputs = node.inputs.map(image)
    const first = previous !== undefined && opDef(node).boundary === 'effect' && inputs.length === 1
    to.set(
      node,
      inOrigin(node.origin, () => rebuild(node, first ? [...inputs, previous] : inputs)),
    )
  }
  return { outputs: graph.outputs.map(image), effects: graph.effects.map(image) }
}
