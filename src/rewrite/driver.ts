/** The rewriting driver: rules bottom-up to a fixed point inside one hash-consing context. Nothing recurses. */
import { InternalError } from '../diagnostics/errors.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { GraphContext, makeNode, withContext } from '../graph/build.ts'
import type { AttrsByOp, Graph, Node, OpName } from '../graph/node.ts'
import { opDef } from '../graph/table.ts'
import { mapGraph, nodesOf, withInputs } from '../graph/traverse.ts'
import type { HostArray } from '../types/host.ts'
import { sameShape } from '../types/shape.ts'
import type { Generic, RewriteContext, RewriteMode, Rule } from './rule.ts'

export interface RewriteOptions {
  readonly mode: RewriteMode
  /** Evaluates a node all of whose leaves are literals (the caller's oracle); without it only elementwise literals fold. */
  readonly fold?: (node: Node) => HostArray
  /** The graph is one of several that differ in extents: rules that go by sizes leave the form of their results alone. */
  readonly generic?: Generic
}

export interface Rewritten {
  readonly graph: Graph
  /** How often each rule fired, in the rules' order; rules that never fired are left out. */
  readonly applied: readonly { readonly rule: string; readonly count: number }[]
}

/** Rules by the op they stand on. */
type RuleIndex = ReadonlyMap<OpName, readonly Rule[]>

function indexRules(rules: readonly Rule[], mode: RewriteMode): RuleIndex {
  const index = new Map<OpName, Rule[]>()
  for (const r of rules) {
    if (r.kind === 'fast' && mode === 'strict') continue
    for (const op of r.ops) {
      const at = index.get(op)
      if (at === undefined) index.set(op, [r])
      else at.push(r)
    }
  }
  return index
}

/** Copies a graph into the current context: common subexpressions meet, what nothing reads is left behind. */
const intern = (graph: Graph): Graph =>
  mapGraph(graph, (node, inputs) =>
    opDef(node).boundary === 'effect'
      ? withInputs(node, inputs)
      : (makeNode<OpName>(node.op, inputs, node.attrs as AttrsByOp[OpName]) as Node),
  )

/** How many users and outputs read each node. */
function countUses(graph: Graph): Map<Node, number> {
  const uses = new Map<Node, number>()
  const add = (n: Node): void => {
    uses.set(n, (uses.get(n) ?? 0) + 1)
  }
  for (const n of nodesOf(graph)) for (const x of new Set(n.inputs)) add(x)
  for (const o of graph.outputs) add(o)
  return uses
}

/** The results of each region that are read. */
function findReads(graph: Graph): Map<Node, Set<number>> {
  const reads = new Map<Node, Set<number>>()
  for (const n of nodesOf(graph)) {
    const [region] = n.inputs
    if (n.op !== 'result' || region === undefined) continue
    const have = reads.get(region)
    if (have === undefined) reads.set(region, new Set([n.attrs.index]))
    else have.add(n.attrs.index)
  }
  return reads
}

/** Applications allowed for each node of the graph before a rule set is declared not to terminate. */
const fuelPerNode = 200

/** What rules may ask of a pass, and how often they did. */
type PassContext = RewriteContext & { asked: number }

/**
 * Copies that a pass made because an operand changed, and of which node. As many read the copy as read that node; without this a rule that asks would fire
 * in one of a model's layers a pass, since a change in a layer makes new nodes of all that follow. A copy of two nodes has users of both: undefined.
 */
type Copies = Map<Node, Node | undefined>

class Pass {
  readonly #rules: RuleIndex
  readonly #context: PassContext
  readonly #counts: Map<Rule, number>
  /** Every finished node's normal form; normal forms stand for themselves, and so does what is settled. */
  readonly #normal = new Map<Node, Node>()
  /** Nodes on which no rule fires in any pass: none asked how often nodes are used, of them or of what is below them. */
  readonly #settled: Set<Node>
  readonly #copies: Copies
  #fuel: number

  constructor(
    rules: RuleIndex,
    context: PassContext,
    counts: Map<Rule, number>,
    fuel: number,
    settled: Set<Node>,
    copies: Copies,
  ) {
    this.#rules = rules
    this.#context = context
    this.#counts = counts
    this.#fuel = fuel
    this.#settled = settled
    for (const n of settled) this.#normal.set(n, n)
    this.#copies = copies
  }

  run(graph: Graph): Graph {
    const image = (n: Node): Node => this.#normalise(n)
    return { params: graph.params, effects: graph.effects.map(image), outputs: graph.outputs.map(image) }
  }

  #normalise(root: Node): Node {
    const normal = this.#normal
    const settled = this.#settled
    const context = this.#context
    const stack: { form: Node; earlier: Node[] | undefined }[] = [{ form: root, earlier: undefined }]
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const { form, earlier } = top
      const done = normal.get(form)
      if (done !== undefined) {
        if (earlier !== undefined) for (const e of earlier) normal.set(e, done)
        stack.pop()
        continue
      }
      const { inputs } = form
      const height = stack.length
      let isRebuilt = false
      for (let i = inputs.length - 1; i >= 0; i--) {
        const x = inputs[i]
        if (x === undefined) continue
        const image = normal.get(x)
        if (image === undefined) stack.push({ form: x, earlier: undefined })
        else if (image !== x) isRebuilt = true
      }
      if (stack.length > height) continue
      const { asked } = context
      const next = isRebuilt ? this.#copy(form) : this.#applyOne(form)
      if (next === undefined) {
        normal.set(form, form)
        if (asked === context.asked && inputs.every((x) => settled.has(x))) settled.add(form)
      } else {
        if (earlier === undefined) top.earlier = [form]
        else earlier.push(form)
        top.form = next
      }
    }
    return normal.get(root) ?? root
  }

  #copy(node: Node): Node {
    const copy = withInputs(
      node,
      node.inputs.map((x) => this.#normal.get(x) ?? x),
    )
    this.#copies.set(copy, this.#copies.has(copy) ? undefined : node)
    return copy
  }

  #applyOne(node: Node): Node | undefined {
    const rules = this.#rules.get(node.op)
    return rules === undefined ? undefined : inOrigin(node.origin, () => this.#firstOf(rules, node))
  }

  #firstOf(rules: readonly Rule[], node: Node): Node | undefined {
    for (const r of rules) {
      const to = r.apply(node, this.#context)
      if (to === undefined || to === node) continue
      if (to.dtype !== node.dtype || !sameShape(to.shape, node.shape))
        throw new InternalError(`rule ${r.name} gives ${to.dtype}[${to.shape}] for ${node.dtype}[${node.shape}]`)
      this.#counts.set(r, (this.#counts.get(r) ?? 0) + 1)
      this.#fuel--
      if (this.#fuel <= 0) throw new InternalError(`rewriting does not end; the last rule was ${r.name}`)
      return to
    }
    return undefined
  }
}

const sameNodes = (a: readonly Node[], b: readonly Node[]): boolean =>
  a.length === b.length && a.every((n, i) => n === b[i])

/** What one call of `rewriteWith` shares with the graphs inside regions. */
interface Run {
  readonly rules: RuleIndex
  readonly options: RewriteOptions
  readonly counts: Map<Rule, number>
  /** Graphs inside and their normal forms, which stand for themselves. */
  readonly inside: Map<Graph, Graph>
}

function rewriteOne(run: Run, graph: Graph): Graph {
  const inside = (g: Graph): Graph => {
    const have = run.inside.get(g)
    if (have !== undefined) return have
    const own = new Map<Rule, number>()
    const made = rewriteOne({ ...run, counts: own }, g)
    for (const [r, count] of own) run.counts.set(r, (run.counts.get(r) ?? 0) + count)
    // Copying may still have merged equal expressions.
    const same = own.size === 0 && nodesOf(made).length === nodesOf(g).length
    const normal = same ? g : made
    run.inside.set(g, normal)
    run.inside.set(normal, normal)
    return normal
  }
  return withContext(() => {
    let current = intern(graph)
    const fuel = fuelPerNode * (nodesOf(current).length + 10)
    const settled = new Set<Node>()
    // Use counts are those of a pass's input, so a rule that asks them of what a rule made fires one pass later.
    for (;;) {
      const before = current
      let uses: ReadonlyMap<Node, number> | undefined
      let reads: ReadonlyMap<Node, ReadonlySet<number>> | undefined
      const copies: Copies = new Map()
      const context: PassContext = {
        asked: 0,
        mode: run.options.mode,
        fold: run.options.fold,
        generic: run.options.generic,
        hasOneUse: (n) => {
          context.asked++
          uses ??= countUses(before)
          const of = uses.has(n) ? n : copies.get(n)
          return of !== undefined && uses.get(of) === 1
        },
        resultsRead: (region) => {
          context.asked++
          reads ??= findReads(before)
          return reads.get(region)
        },
        inside,
      }
      const next = new Pass(run.rules, context, run.counts, fuel, settled, copies).run(current)
      if (sameNodes(next.outputs, current.outputs) && sameNodes(next.effects, current.effects)) return next
      current = next
    }
  }, new GraphContext())
}

/**
 * Rewrites a graph with a rule set until no rule fires. Parameters keep their identity and order, outputs and effects
 * their order; every new node carries the origin of the node it stands for.
 */
export function rewriteWith(rules: readonly Rule[], graph: Graph, options: RewriteOptions): Rewritten {
  const counts = new Map<Rule, number>()
  const rewritten = rewriteOne({ rules: indexRules(rules, options.mode), options, counts, inside: new Map() }, graph)
  const applied = rules.flatMap((r) => {
    const count = counts.get(r)
    return count === undefined ? [] : [{ rule: r.name, count }]
  })
  return { graph: rewritten, applied }
}
