/** Subgraphs imported once for all steps of a region: nodes on parameters of their own, and what they use from around. */
import { makeNode, withContext } from '../graph/build.ts'
import type { Graph, Node, NodeOf, TensorType } from '../graph/node.ts'
import { graphBetween } from '../graph/subgraph.ts'
import type { Because } from './values.ts'

/** A subgraph on parameters, in the context of what is around it. */
export interface StepBody {
  readonly params: readonly NodeOf<'param'>[]
  readonly outputs: readonly Node[]
  /** Values from around that it uses. */
  readonly captured: readonly Node[]
  /** The graph from values in some order (the captured ones and the parameters among them) to nodes of the body. */
  graph(inputs: readonly Node[], outputs: readonly Node[]): Graph
}

/** A subgraph that cannot be imported once for all steps; `because` says what is wrong with it, if anything is. */
export interface Unfit {
  readonly because: Because | undefined
}

export const isFit = (b: StepBody | Unfit): b is StepBody => !('because' in b)

/** Parameters of bodies are told from those of the model, and from each other, by numbers below 0. */
let nextIndex = -1

/** Fresh parameters. */
export const stepParams = (types: readonly TensorType[]): NodeOf<'param'>[] =>
  types.map(({ shape, dtype }) => makeNode('param', [], { index: nextIndex--, shape, dtype }))

/** Marks a point in the order of nodes: what is made later is younger. */
export const mark = (): number => withContext(() => makeNode('full', [], { value: 0, shape: [], dtype: 'f32' }).id)

const isLiteral = (n: Node): boolean => n.inputs.length === 0 && n.op !== 'param'

/**
 * The body whose nodes are younger than `since`, but for what nodes of the same kind stood around already. Parameters that are not
 * its own are from around, whenever they were made: an initialiser is made where it is read first.
 */
export function stepBody(params: readonly NodeOf<'param'>[], outputs: readonly Node[], since: number): StepBody {
  const own = new Set<Node>(params)
  const captured = new Set<Node>()
  const seen = new Set<Node>()
  const stack = [...outputs]
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (seen.has(n) || own.has(n)) continue
    seen.add(n)
    if (isLiteral(n)) continue
    if (n.id < since || n.op === 'param') captured.add(n)
    else stack.push(...n.inputs)
  }
  const around = [...captured].sort((a, b) => a.id - b.id)
  return { params, outputs, captured: around, graph: graphBetween }
}
