/**
 * Regions without what nothing reads: results, carries that only keep themselves alive, operands no graph inside reads. A carry
 * no step changes is a constant; a literal moves inside; of equal operands and equal results one stays.
 */
import { invariant } from '../diagnostics/errors.ts'
import { makeNode, param, withContext } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { inlineOutputs } from '../graph/subgraph.ts'
import { topologicalOrder } from '../graph/traverse.ts'

/** A region that gives what is read of another: for each of its results, the new one's result or a node. */
export interface Tightened {
  readonly region: Node
  readonly places: readonly (number | Node | undefined)[]
}

type Kind = 'const' | 'carry' | 'sequence'

/** What the three kinds of regions have in common. */
interface Shape {
  /** By parameter of the graphs: its kind and what the region is given for it. */
  readonly kinds: readonly Kind[]
  readonly inputs: readonly Node[]
  /** Graphs whose outputs are next carries, then other results. */
  readonly steps: readonly Graph[]
  /** A graph all of whose outputs are needed. */
  readonly test: Graph | undefined
  readonly rebuild: (parts: {
    readonly inputs: readonly Node[]
    readonly steps: readonly Graph[]
    readonly test: Graph | undefined
    readonly consts: number
    readonly carries: number
  }) => Node
}

function shapeOf(node: Node): Shape | undefined {
  const kindsOf = (consts: number, carries: number, n: number): Kind[] =>
    Array.from({ length: n }, (_, i) => (i < consts ? 'const' : i < consts + carries ? 'carry' : 'sequence'))
  switch (node.op) {
    case 'cond': {
      const [test, ...inputs] = node.inputs
      if (test === undefined) return undefined
      return {
        kinds: inputs.map(() => 'const'),
        inputs,
        steps: [node.attrs.then, node.attrs.otherwise],
        test: undefined,
        rebuild: ({ inputs: kept, steps: [then, otherwise] }) => {
          invariant(then !== undefined && otherwise !== undefined, 'a branch is missing')
          return makeNode('cond', [test, ...kept], { then, otherwise })
        },
      }
    }
    case 'while': {
      const { inputs } = node
      const { consts, body } = node.attrs
      return {
        kinds: kindsOf(consts, inputs.length - consts, inputs.length),
        inputs,
        steps: [body],
        test: node.attrs.test,
        rebuild: ({ inputs: kept, steps: [step], test, consts: count }) => {
          invariant(step !== undefined && test !== undefined, 'a while without body')
          return makeNode('while', kept, { test, body: step, consts: count })
        },
      }
    }
    case 'loop': {
      const { inputs } = node
      const { body, consts, carries, length, reverse } = node.attrs
      return {
        kinds: kindsOf(consts, carries, inputs.length),
        inputs,
        steps: [body],
        test: undefined,
        rebuild: ({ inputs: kept, steps: [step], consts: count, carries: moving }) => {
          invariant(step !== undefined, 'a loop without body')
          return makeNode('loop', kept, { body: step, length, reverse, consts: count, carries: moving })
        },
      }
    }
    default:
      return undefined
  }
}

/** The parameters some outputs of a graph depend on, by position. */
function reached(graph: Graph, outputs: readonly number[]): Set<number> {
  const seen = new Set<Node>(topologicalOrder(outputs.flatMap((i) => graph.outputs[i] ?? [])))
  return new Set(graph.params.flatMap((p, i) => (seen.has(p) ? [i] : [])))
}

const isLiteral = (n: Node | undefined): n is Node => n?.op === 'full' || n?.op === 'iota'

/** The position of the parameter that every step gives as output `i`. */
function passedOn(steps: readonly Graph[], i: number): number | undefined {
  const places = steps.map(({ params, outputs }): number =>
    (params as readonly (Node | undefined)[]).indexOf(outputs[i]),
  )
  const [first] = places
  return first !== undefined && first >= 0 && places.every((p) => p === first) ? first : undefined
}

/** The region without what is not needed for the results in `read`; undefined where all of it is. */
export function tighten(node: Node, read: ReadonlySet<number>): Tightened | undefined {
  const shape = shapeOf(node)
  const [step] = shape?.steps ?? []
  if (shape === undefined || step === undefined) return undefined
  const { inputs, steps, test } = shape
  const firstCarry = shape.kinds.indexOf('carry')
  const carries = shape.kinds.filter((k) => k === 'carry').length
  const kinds: Kind[] = shape.kinds.map((kind, p) =>
    kind === 'carry' && passedOn(steps, p - firstCarry) === p ? 'const' : kind,
  )

  // Results that are operands.
  const places: (number | Node | undefined)[] = step.outputs.map((_, i) => {
    const p = read.has(i) ? passedOn(steps, i) : undefined
    if (p === undefined) return undefined
    const stays = i < carries ? p === firstCarry + i : kinds[p] === (node.op === 'cond' ? 'const' : 'sequence')
    return stays ? inputs[p] : undefined
  })
  // Of equal results that are no carries, the first stands for all.
  const leader = step.outputs.map((_, i) =>
    i < carries
      ? i
      : step.outputs.findIndex((_y, j) => j >= carries && steps.every((g) => g.outputs[i] === g.outputs[j])),
  )
  const wanted = new Set<number>()
  for (const i of read) if (places[i] === undefined) wanted.add(leader[i] ?? i)

  // What a literal or an earlier operand is stays outside.
  const stand = inputs.map((x, p): Node | number => {
    if (kinds[p] === 'carry') return p
    if (kinds[p] === 'const' && isLiteral(x)) return x
    const same = inputs.findIndex((y, q) => y === x && kinds[q] === kinds[p])
    return same >= 0 ? same : p
  })
  const needed = new Set<number>()
  for (;;) {
    const before = needed.size + wanted.size
    const found = [...steps.map((g) => reached(g, [...wanted])), ...(test === undefined ? [] : [reached(test, [0])])]
    for (const p of found.flatMap((f) => [...f])) {
      const to = stand[p]
      if (typeof to === 'number') needed.add(to)
    }
    for (const i of wanted) if (i < carries) needed.add(firstCarry + i)
    for (const p of needed) if (kinds[p] === 'carry') wanted.add(p - firstCarry)
    if (needed.size + wanted.size === before) break
  }

  const outputs = [...wanted].sort((a, b) => a - b)
  if (needed.size === inputs.length && outputs.length === step.outputs.length) return undefined
  const ascending = [...needed].sort((a, b) => a - b)
  const order = (['const', 'carry', 'sequence'] as const).flatMap((k) => ascending.filter((p) => kinds[p] === k))
  const shrunk = (g: Graph, keep: readonly number[]): Graph =>
    withContext(() => {
      const params = order.map((p, i) => {
        const was = g.params[p]
        invariant(was !== undefined, `no parameter ${p}`)
        return param(i, was.shape, was.dtype)
      })
      const args = g.params.map((was, p) => {
        const to = stand[p] ?? p
        return typeof to === 'number' ? (params[order.indexOf(to)] ?? was) : to
      })
      const all = { params: g.params, outputs: keep.flatMap((i) => g.outputs[i] ?? []), effects: [] }
      return { params, outputs: inlineOutputs(all, args), effects: [] }
    })
  const region = shape.rebuild({
    inputs: order.flatMap((p) => inputs[p] ?? []),
    steps: steps.map((g) => shrunk(g, outputs)),
    test: test === undefined ? undefined : shrunk(test, [0]),
    consts: order.filter((p) => kinds[p] === 'const').length,
    carries: order.filter((p) => kinds[p] === 'carry').length,
  })
  return {
    region,
    places: places.map((p, i) => {
      if (p !== undefined || !read.has(i)) return p
      return outputs.indexOf(leader[i] ?? i)
    }),
  }
}
