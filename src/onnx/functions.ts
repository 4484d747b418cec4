/** Model-local functions: their bodies with the call's attributes put in, ready to be imported in the caller's place. */
import { type AttributeProto, attributeType, type FunctionProto, type GraphProto, type NodeProto } from './proto.ts'

export const functionKey = (domain: string, name: string, overload: string): string => `${domain}:${name}:${overload}`

type Bound = ReadonlyMap<string, AttributeProto>

function bindAttribute(a: AttributeProto, bound: Bound): AttributeProto | undefined {
  if (a.refAttrName !== '') {
    const value = bound.get(a.refAttrName)
    return value === undefined ? undefined : { ...value, name: a.name, refAttrName: '' }
  }
  if (a.type === attributeType.GRAPH && a.g !== undefined) return { ...a, g: bindGraph(a.g, bound) }
  if (a.type === attributeType.GRAPHS) return { ...a, graphs: a.graphs.map((g) => bindGraph(g, bound)) }
  return a
}

const bindNode = (n: NodeProto, bound: Bound): NodeProto => ({
  ...n,
  attribute: n.attribute.flatMap((a) => bindAttribute(a, bound) ?? []),
})

const bindGraph = (g: GraphProto, bound: Bound): GraphProto => ({ ...g, node: g.node.map((n) => bindNode(n, bound)) })

/** The nodes of a call's body: references to the function's attributes replaced by the call's values or the defaults. */
export function instantiate(fn: FunctionProto, call: NodeProto): NodeProto[] {
  const bound = new Map<string, AttributeProto>()
  for (const a of fn.attributeProto) bound.set(a.name, a)
  for (const a of call.attribute) bound.set(a.name, a)
  return fn.node.map((n) => bindNode(n, bound))
}
