/** Equal graphs have equal keys: what is compiled for control flow outside `jit` is found again at the next call. */
import type { AttrsByOp, Graph, Node, OpName } from '../../graph/node.ts'
import { type OpDef, opTable } from '../../graph/table.ts'
import { nodesOf } from '../../graph/traverse.ts'
import { showShape } from '../../types/shape.ts'

const keys = new WeakMap<Graph, string>()

/** Literals of at most this many elements are told apart by their values, larger ones by identity. */
const valuesUpTo = 256

const isGraph = (x: unknown): x is Graph => typeof x === 'object' && x !== null && 'params' in x && 'outputs' in x

/** The key of a node's attributes within its op; graphs inside control flow by what they compute. */
export function attributesKey(node: Node): string {
  if (node.op === 'cond' || node.op === 'while' || node.op === 'loop')
    return Object.entries(node.attrs)
      .map(([name, value]) => `${name}=${isGraph(value) ? graphKey(value) : String(value)}`)
      .join()
  if (node.op === 'constant' && node.attrs.data.length <= valuesUpTo)
    return `${node.dtype}${showShape(node.shape)}{${Array.from<number | bigint, string>(node.attrs.data, (v) => (Object.is(v, -0) ? '-0' : String(v))).join()}}`
  return (opTable[node.op] as OpDef<OpName>).key(node.attrs as AttrsByOp[OpName])
}

function graphKey(graph: Graph): string {
  const have = keys.get(graph)
  if (have !== undefined) return have
  const nodes = nodesOf(graph)
  const places = new Map(nodes.map((n, i) => [n, i]))
  const place = (n: Node): string => String(places.get(n))
  const lines = nodes.map((n) => `${n.op}(${n.inputs.map(place).join()})${attributesKey(n)}`)
  const key = `[${graph.params.map(place).join()}|${lines.join(';')}>${graph.outputs.map(place).join()}]`
  keys.set(graph, key)
  return key
}
