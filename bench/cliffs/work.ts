/** What a graph cannot do without: bytes of its inputs and results, and its arithmetic, counted once each and at least. */
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { familyOf, scalarOf } from '../../src/graph/table.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { type DType, dtypeBytes, isFloat } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { demandOf } from './demand.ts'
import { differingLabels, type Facts, factsOf, liveShare, product } from './facts.ts'

/** A graph with what is known of its values. */
export interface Known {
  readonly graph: Graph
  readonly nodes: readonly Node[]
  readonly facts: (n: Node) => Facts
  /** Elements that the results need of it. */
  readonly need: (n: Node) => number
}

export function known(graph: Graph): Known {
  const nodes = nodesOf(graph)
  const facts = factsOf(nodes)
  const demand = demandOf(graph, nodes)
  const of = (n: Node): Facts => {
    const f = facts.get(n)
    if (f === undefined) throw new Error(`node ${n.op} is not of the graph`)
    return f
  }
  return { graph, nodes, facts: of, need: (n) => demand.get(n) ?? 0 }
}

export interface Work {
  /** Bytes read of inputs, written of results. */
  readonly read: number
  readonly written: number
  /** Elementwise operations in units of one on 32 bits; two that a multiply-add does at once are two. */
  readonly simple: number
  /** Divisions and square roots. */
  readonly divide: number
  /** Special functions in full and in half precision. */
  readonly special: number
  readonly specialHalf: number
  /** Operations of products (two a multiply-add) of 16-bit operands, and of others. */
  readonly product: number
  readonly productHalf: number
}

export const isHalf = (d: DType): boolean => d === 'f16' || d === 'bf16'

/** The dtype in which an operand stands before it is widened. */
function storedDType(n: Node): DType {
  let x = n
  for (;;) {
    const [y] = x.inputs
    const passes = x.op === 'cast' || familyOf(x) === 'view'
    if (y === undefined || !passes || (x.op === 'cast' && dtypeBytes(y.dtype) > dtypeBytes(x.dtype))) return x.dtype
    x = y
  }
}

/** Operations of a contraction: labels along which no operand differs, and products with known zeros, are left out. */
export function contractionFlops(n: NodeOf<'contract'>, k: Known): number {
  const inputs = n.inputs.map(k.facts)
  const [a, b] = inputs
  if (a === undefined || b === undefined) return 0
  const differs = differingLabels(n, inputs)
  const extents = new Map<string, number>()
  const sides = [n.attrs.lhs, n.attrs.rhs]
  for (const [side, labels] of sides.entries())
    for (const [i, l] of [...labels].entries()) extents.set(l, n.inputs[side]?.shape[i] ?? 1)
  const varies = (side: 0 | 1, l: string): boolean => inputs[side]?.varying[(sides[side] ?? '').indexOf(l)] === true
  // A label that only one operand differs along is summed before the product.
  const counted = [...extents].filter(([l]) =>
    n.attrs.out.includes(l) ? differs.has(l) : varies(0, l) && varies(1, l),
  )
  const points = product(counted.map(([, d]) => d))
  const needed = k.need(n) / Math.max(1, sizeOf(n.shape))
  return 2 * points * needed * Math.min(liveShare(a), liveShare(b))
}

/** Elementwise operations by cost on `points` elements. */
function addElementwise(n: Node, k: Known, points: number, halves: boolean, w: Counts): void {
  const info = scalarOf(n)
  if (info === undefined) return
  const width = isFloat(n.dtype) ? Math.max(1, dtypeBytes(n.dtype) / 4) : operandBytes(n) / 4
  const [, second] = n.inputs
  const divisor = second === undefined ? undefined : k.facts(second)
  const free = info.op === 'cast' || info.op === 'neg' || info.op === 'abs' || info.cost === 'free'
  if (free) return
  if (info.cost === 'special') {
    if (info.op === 'pow' && divisor?.constant === true) w.simple += points
    else if (halves || isHalf(n.dtype)) w.specialHalf += points
    else w.special += points
  } else if (info.cost === 'divide') {
    if (divisor === undefined) w.divide += points
    else {
      w.simple += points * width
      if (!divisor.constant) w.divide += Math.min(points, divisor.distinct)
    }
  } else w.simple += points * width
}

const operandBytes = (n: Node): number => Math.min(...n.inputs.map((x) => dtypeBytes(x.dtype)))

type Counts = { -readonly [K in keyof Work]: Work[K] }

/** Results that are one value: reshapes of one tensor may share its memory. */
function rootOf(n: Node): Node {
  let x = n
  while (x.op === 'reshape' && x.inputs[0] !== undefined) x = x.inputs[0]
  return x
}

export function workOf(k: Known): Work {
  const w: Counts = {
    read: 0,
    written: 0,
    simple: 0,
    divide: 0,
    special: 0,
    specialHalf: 0,
    product: 0,
    productHalf: 0,
  }
  const floats = k.graph.outputs.filter((n) => isFloat(n.dtype))
  const halves = floats.length > 0 && floats.every((n) => isHalf(n.dtype))
  for (const n of k.graph.params) w.read += Math.ceil(k.need(n)) * dtypeBytes(n.dtype)
  for (const n of new Set(k.graph.outputs.map(rootOf)))
    if (n.op !== 'param') w.written += sizeOf(n.shape) * dtypeBytes(n.dtype)
  for (const n of k.nodes) {
    const [x] = n.inputs
    const f = k.facts(n)
    const need = k.need(n)
    if (f.constant || need === 0 || x === undefined) continue
    const points = Math.min(f.distinct, need)
    switch (familyOf(n)) {
      case 'elementwise':
        addElementwise(n, k, points, halves, w)
        break
      case 'reduction':
        w.simple += (Math.min(k.need(x), k.facts(x).distinct + need) * operandBytes(n)) / 4
        break
      case 'scan':
        w.simple += points
        break
      case 'scatter':
        w.simple += n.inputs[1] === undefined ? 0 : k.need(n.inputs[1])
        break
      case 'contraction': {
        if (n.op !== 'contract') break
        const flops = contractionFlops(n, k)
        if (n.inputs.every((y) => isHalf(storedDType(y)))) w.productHalf += flops
        else w.product += flops
        break
      }
      default:
    }
  }
  return w
}
