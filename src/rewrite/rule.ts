/** What a rewrite rule is: a name, exact or fast, the ops it stands on, and a local replacement. */
import type { Graph, Node, OpName } from '../graph/node.ts'
import type { Range } from '../scalar/narrow.ts'
import type { HostArray } from '../types/host.ts'

/** `fast` also allows rules that are only algebraically true of floats; `strict` keeps every bit (NaN payloads aside). */
export type RewriteMode = 'fast' | 'strict'

/**
 * What of a graph that stands for others of other extents may be chance: what index arithmetic gives stays computed, whatever its size, and so
 * does what is computed of stored literals over extents that vary; a slice that takes everything along an axis of one of the `ends` stays, since
 * it takes less at others; and what a literal is that is one of the `numbers` decides nothing, since it is another one there: a comparison of it is
 * folded where it is decided for all from the least to the greatest that the literal may be.
 */
export interface Generic {
  readonly ends: ReadonlySet<number>
  readonly varying: ReadonlySet<number>
  readonly numbers: ReadonlyMap<number, Range>
}

/** What a rule may ask beside the node. */
export interface RewriteContext {
  readonly mode: RewriteMode
  /** Evaluates a node all of whose leaves are literals. */
  readonly fold: ((node: Node) => HostArray) | undefined
  /** The graph stands for others of other extents; undefined: for itself alone. */
  readonly generic: Generic | undefined
  /** Whether one user (or output) reads a node. Nodes that rules made since the pass began are not known to have one; a node of which only an operand changed is read as often as before. */
  readonly hasOneUse: (node: Node) => boolean
  /** Which results of a region are read; undefined for regions made since the pass began. */
  readonly resultsRead: (region: Node) => ReadonlySet<number> | undefined
  /** The normal form of a graph inside a region; the graph itself where it has it. */
  readonly inside: (graph: Graph) => Graph
}

/**
 * A local rewrite. `apply` gives a node of the same shape and dtype that stands for `node`, or undefined where the rule
 * does not fire; inputs are in normal form. New nodes carry the origin of `node`, unless the rule gives them another. Exact rules keep every bit of every result as the numerics pin them.
 */
export interface Rule {
  readonly name: string
  readonly kind: 'exact' | 'fast'
  readonly description: string
  /** Ops of the nodes it may fire on. */
  readonly ops: readonly OpName[]
  readonly apply: (node: Node, context: RewriteContext) => Node | undefined
}

type NodeAt<O extends OpName> = Extract<Node, { readonly op: O }>

/** A rule on nodes of one op, typed by that op. */
export function rule<O extends OpName>(
  op: O,
  kind: Rule['kind'],
  name: string,
  description: string,
  apply: (node: NodeAt<O>, context: RewriteContext) => Node | undefined,
): Rule {
  return {
    name,
    kind,
    description,
    ops: [op],
    apply: (node, context) => (node.op === op ? apply(node as NodeAt<O>, context) : undefined),
  }
}

/** A rule on nodes of several ops. */
export const ruleOn = (
  ops: readonly OpName[],
  kind: Rule['kind'],
  name: string,
  description: string,
  apply: Rule['apply'],
): Rule => ({ name, kind, description, ops, apply })
