/**
 * A decoded model made ready for the importer: the nodes of every graph and function in topological order, names checked. A name
 * that is defined twice, and nodes that read each other's results in a circle, are E_ONNX_MALFORMED.
 */
import { UserError } from '../diagnostics/errors.ts'
import type { AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto } from './proto.ts'

const malformed = (what: string): UserError =>
  new UserError('E_ONNX_MALFORMED', what, {
    help: 'every value of a graph has a name of its own, and nodes form no circle: export the model again',
  })

/** What stands in a graph, with the names it reads from around itself. */
interface Arranged<T> {
  readonly value: T
  readonly reads: ReadonlySet<string>
}

const shown = (n: NodeProto): string => `${n.opType} "${n.name || n.output.find((o) => o !== '') || ''}"`

/** Throws for a name that stands twice in a list. */
function once(names: readonly string[], what: string, where: string): void {
  const seen = new Set<string>()
  for (const name of names) {
    if (seen.has(name)) throw malformed(`${where} has two ${what} named "${name}"`)
    seen.add(name)
  }
}

/** The node that defines each name. `given` are the names that stand before all nodes. */
function producersOf(nodes: readonly NodeProto[], given: ReadonlySet<string>, where: string): Map<string, number> {
  const producers = new Map<string, number>()
  nodes.forEach((n, i) => {
    for (const name of n.output) {
      if (name === '') continue
      const other = nodes[producers.get(name) ?? -1]
      if (other !== undefined)
        throw malformed(`${where} defines "${name}" twice: by ${shown(other)} and by ${shown(n)}`)
      if (given.has(name)) throw malformed(`${where} defines "${name}" twice: ${shown(n)} gives what is there already`)
      producers.set(name, i)
    }
  })
  return producers
}

/** Positions of nodes, each after those it reads from; nodes in order stay in order. */
function sorted(
  nodes: readonly NodeProto[],
  readsFrom: readonly (readonly number[])[],
  where: string,
): readonly number[] {
  const order: number[] = []
  const state: ('open' | 'done' | undefined)[] = nodes.map(() => undefined)
  const path: { readonly at: number; next: number }[] = []
  const enter = (at: number): void => {
    state[at] = 'open'
    path.push({ at, next: 0 })
  }
  const circle = (from: number): UserError => {
    const start = path.findIndex((p) => p.at === from)
    const names = path.slice(start, start + 4).flatMap((p) => nodes[p.at] ?? [])
    const more = path.length - start > names.length ? ', ...' : ''
    return malformed(`${where} has nodes that read each other's results: ${names.map(shown).join(', ')}${more}`)
  }
  for (let first = 0; first < nodes.length; first++) {
    if (state[first] === undefined) enter(first)
    for (let top = path.at(-1); top !== undefined; top = path.at(-1)) {
      const from = readsFrom[top.at]?.[top.next++]
      if (from === undefined) {
        state[top.at] = 'done'
        order.push(top.at)
        path.pop()
      } else if (state[from] === 'open') throw circle(from)
      else if (state[from] === undefined) enter(from)
    }
  }
  return order
}

function arrangeAttribute(a: AttributeProto): Arranged<AttributeProto> {
  if (a.g === undefined && a.graphs.length === 0) return { value: a, reads: new Set() }
  const g = a.g === undefined ? undefined : arrangeGraph(a.g)
  const graphs = a.graphs.map(arrangeGraph)
  const reads = new Set([...(g?.reads ?? []), ...graphs.flatMap((x) => [...x.reads])])
  return { value: { ...a, g: g?.value, graphs: graphs.map((x) => x.value) }, reads }
}

function arrangeNode(n: NodeProto): Arranged<NodeProto> {
  once(
    n.attribute.map((a) => a.name),
    'attributes',
    shown(n),
  )
  const reads = new Set(n.input)
  reads.delete('')
  const attribute = n.attribute.map((a) => {
    const { value, reads: inside } = arrangeAttribute(a)
    for (const name of inside) reads.add(name)
    return value
  })
  return { value: { ...n, attribute }, reads }
}

/** Nodes in order, and what they read that is neither `given` nor theirs. */
function arrangeNodes(list: readonly NodeProto[], given: ReadonlySet<string>, where: string): Arranged<NodeProto[]> {
  const arranged = list.map(arrangeNode)
  const producers = producersOf(list, given, where)
  const reads = new Set<string>()
  const readsFrom = arranged.map((n) =>
    [...n.reads].flatMap((name) => {
      const at = producers.get(name)
      if (at === undefined && !given.has(name)) reads.add(name)
      return at ?? []
    }),
  )
  const order = sorted(list, readsFrom, where)
  return { value: order.flatMap((i) => arranged[i]?.value ?? []), reads }
}

function arrangeGraph(g: GraphProto): Arranged<GraphProto> {
  const where = g.name === '' ? 'the graph' : `graph "${g.name}"`
  const names = (list: readonly { readonly name: string }[]): string[] => list.map((x) => x.name)
  once(names(g.input), 'inputs', where)
  once(names(g.initializer), 'initialisers', where)
  const given = new Set([...names(g.input), ...names(g.initializer)])
  const { value: node, reads } = arrangeNodes(g.node, given, where)
  const own = new Set([...given, ...node.flatMap((n) => n.output)])
  return { value: { ...g, node }, reads: new Set([...reads, ...names(g.output).filter((name) => !own.has(name))]) }
}

function arrangeFunction(fn: FunctionProto): FunctionProto {
  const where = `local function "${fn.name}"`
  once(fn.input, 'inputs', where)
  return { ...fn, node: arrangeNodes(fn.node, new Set(fn.input), where).value }
}

/**
 * The model with its nodes in order. Throws E_ONNX_MALFORMED. Results of the model are told by their names, so each name stands once
 * among them; results of functions and of graphs inside are told by their places.
 */
export function arrange(model: ModelProto): ModelProto {
  const { input, output } = model.graph
  once(
    output.map((v) => v.name),
    'outputs',
    'the model',
  )
  if (input.some((v) => v.name === '')) throw malformed('the model has an input without a name')
  once(
    model.functions.map((f) => `${f.domain}.${f.name}${f.overload === '' ? '' : `:${f.overload}`}`),
    'local functions',
    'the model',
  )
  return { ...model, graph: arrangeGraph(model.graph).value, functions: model.functions.map(arrangeFunction) }
}
