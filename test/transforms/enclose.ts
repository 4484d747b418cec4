/** Random programs put inside regions: branches, loops and functions with rules of their own, of the same parameters. */
import * as c from '../../src/compose/index.ts'
import { param } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { graphBetween, inlineOutputs } from '../../src/graph/subgraph.ts'
import { jvpGraph } from '../../src/transforms/index.ts'
import { isFloat } from '../../src/types/dtype.ts'
import type { Rng } from '../random/rng.ts'

/** The graph with parameters numbered by position. */
const closed = (graph: Graph): Graph => graphBetween(graph.params, graph.outputs)

const halved = (y: Node): Node => (isFloat(y.dtype) ? c.mul(y, 0.5) : y)

/** A graph of the same parameters that computes `outputs` of them. */
function over(graph: Graph, outputs: (args: readonly Node[]) => readonly Node[]): Graph {
  const params = graph.params.map((p, i) => param(i, p.shape, p.dtype))
  return { params, outputs: outputs(params), effects: [] }
}

/** One branch the graph, the other half of it; the condition asks the data. */
function branched(graph: Graph, rng: Rng): Graph {
  const inside = closed(graph)
  const other = graphBetween(inside.params, inside.outputs.map(halved))
  const [then, otherwise] = rng.chance(0.5) ? [inside, other] : [other, inside]
  const asked = rng.int(0, graph.params.length - 1)
  return over(graph, (args) => {
    const x = args[asked]
    const sum = x === undefined ? c.ones([]) : c.sum(c.cast(x, 'f64'))
    return c.condNodes(c.compare('gt', sum, 0), args, then, otherwise)
  })
}

/** Steps over slices of one parameter repeated with weights, the outputs halved into carries and stacked. */
function stepped(graph: Graph, rng: Rng): Graph {
  const length = rng.int(1, 3)
  const inside = closed(graph)
  const floats = inside.outputs.flatMap((y, i) => (isFloat(y.dtype) ? [i] : []))
  const weighed = rng.int(0, graph.params.length - 1)
  const consts = graph.params.length
  const carries = floats.map((i) => inside.outputs[i]).filter((n) => n !== undefined)
  const all = [...inside.params, ...carries]
  const params = all.map((n, i) => param(i, n.shape, n.dtype))
  const element = param(all.length, graph.params[weighed]?.shape ?? [], graph.params[weighed]?.dtype ?? 'f64')
  const given = params.slice(0, consts).map((p, i) => (i === weighed ? element : p))
  const outputs = inlineOutputs(inside, given)
  const next = floats.map((i, k) => c.add(c.mul(params[consts + k] ?? 0, 0.5), outputs[i] ?? 0))
  const body: Graph = { params: [...params, element], outputs: [...next, ...outputs], effects: [] }
  return over(graph, (args) => {
    const x = args[weighed]
    if (x === undefined) return []
    const scaled = Array.from({ length }, (_, i) => (isFloat(x.dtype) ? c.mul(x, 1 / (i + 1)) : x))
    const init = carries.map((n) => c.zeros(n.shape, n.dtype))
    const r = c.loopNodes(body, { length, reverse: rng.chance(0.5) }, args, init, [c.stack(scaled)])
    return [...r.carries, ...r.sequences]
  })
}

/** A function whose rule is its own derivative. */
function ruled(graph: Graph): Graph {
  const body = closed(graph)
  const rule = {
    kind: 'jvp',
    name: 'enclosed',
    graph: jvpGraph(
      body,
      body.params.map((p) => isFloat(p.dtype)),
    ),
  } as const
  return over(graph, (args) => c.customNodes(body, rule, args))
}

const enclosures = [branched, stepped, ruled] as const

/** The graph in regions, now and then in several: parameters of the same types, in order. */
export function enclosed(graph: Graph, rng: Rng): Graph {
  let g = graph
  for (let depth = rng.pick([0, 1, 1, 2]); depth > 0; depth--) g = rng.pick(enclosures)(g, rng)
  return g
}
