/**
 * Forests as tables: a node a row, with the feature it asks, what it compares with, and where it leads. All rows of data walk all trees
 * together, a level a step: gathers from the tables, no node of the graph for a node of a tree.
 */
import { loopNodes } from '../../../compose/control.ts'
import { UserError } from '../../../diagnostics/errors.ts'
import { graphBetween } from '../../../graph/subgraph.ts'
import * as n from '../../nodes.ts'
import { stepParams } from '../../stepBody.ts'

/** How a node compares its feature with its number. */
export type Mode = 'LEQ' | 'LT' | 'GTE' | 'GT' | 'EQ' | 'NEQ' | 'MEMBER'

/** Nodes of all trees; a leaf leads to itself. */
export interface Forest {
  readonly roots: readonly number[]
  readonly feature: readonly number[]
  readonly split: ArrayLike<number>
  readonly mode: readonly Mode[]
  readonly whenTrue: readonly number[]
  readonly whenFalse: readonly number[]
  /** NaN takes the branch of true. */
  readonly missingTrue: readonly boolean[]
  readonly isLeaf: readonly boolean[]
  /** Sets that MEMBER nodes ask, by node. */
  readonly members: ReadonlyMap<number, readonly number[]>
}

const malformed = (what: string): UserError => new UserError('E_ONNX_MALFORMED', what)

/** Branches from a root to its deepest leaf, at most. Throws E_ONNX_MALFORMED for nodes that lead back, or nowhere. */
export function depthOf(f: Forest): number {
  const depth = new Map<number, number>()
  const open = new Set<number>()
  const stack = [...f.roots]
  for (let at = stack.at(-1); at !== undefined; at = stack.at(-1)) {
    if (depth.has(at)) {
      stack.pop()
      continue
    }
    if (f.isLeaf[at] === undefined) throw malformed(`a tree has no node ${at}`)
    const below = f.isLeaf[at] === true ? [] : [f.whenTrue[at] ?? -1, f.whenFalse[at] ?? -1]
    const missing = below.filter((b) => !depth.has(b))
    if (missing.length === 0) {
      depth.set(at, below.length === 0 ? 0 : 1 + Math.max(...below.map((b) => depth.get(b) ?? 0)))
      open.delete(at)
      stack.pop()
      continue
    }
    if (open.has(at) || missing.some((b) => open.has(b))) throw malformed('the nodes of a tree form a circle')
    open.add(at)
    stack.push(...missing)
  }
  return Math.max(0, ...f.roots.map((r) => depth.get(r) ?? 0))
}

/** Levels written out; deeper forests are a loop of the program. */
const unrolledLevels = 12

const ints = (values: readonly number[]): n.Node => n.cast(n.integers(values), 'i32')

/** The comparison of each node, where nodes may differ: the same operation for all where they do not. */
function holds(f: Forest, value: n.Node, split: n.Node, at: n.Node): n.Node {
  const used = new Set(f.mode.filter((_, i) => f.isLeaf[i] !== true))
  const test = (m: Mode): n.Node => {
    switch (m) {
      case 'LEQ':
        return n.compare('le', value, split)
      case 'LT':
        return n.compare('lt', value, split)
      case 'GTE':
        return n.compare('ge', value, split)
      case 'GT':
        return n.compare('gt', value, split)
      case 'EQ':
        return n.compare('eq', value, split)
      case 'NEQ':
        return n.compare('ne', value, split)
      case 'MEMBER':
        return isMember(f, value, at)
    }
  }
  const [first, ...others] = used
  if (first === undefined) return n.compare('eq', value, value)
  if (others.length === 0) return test(first)
  const all = [...used]
  const mode = n.take(ints(f.mode.map((m) => Math.max(0, all.indexOf(m)))), at, 0)
  return others.reduce((made, m, i) => n.where(n.compare('eq', mode, i + 1), test(m), made), test(first))
}

/** Whether a value is in the set of its node: sets are rows of a table, filled up with NaN. */
function isMember(f: Forest, value: n.Node, at: n.Node): n.Node {
  const widest = Math.max(1, ...[...f.members.values()].map((m) => m.length))
  const nodes = f.feature.length
  const table = new Float64Array(nodes * widest).fill(Number.NaN)
  for (const [node, set] of f.members) table.set(set, node * widest)
  const rows = n.take(n.floats(table, [nodes, widest], value.dtype), at, 0)
  const equal = n.compare('eq', n.broadcastTo(n.expandDims(value, -1), rows.shape), rows)
  return n.reduceMax(equal, [rows.shape.length - 1])
}

/** One level: [rows, trees] of nodes to those they lead to. */
function descend(f: Forest, x: n.Node, at: n.Node): n.Node {
  const [rows = 0, trees = 0] = at.shape
  const of = (values: readonly number[]): n.Node => n.take(ints(values), at, 0)
  const value = n.gather(x, [of(f.feature)], [rows, trees], [{ axis: 0 }, { input: 0 }])
  const split = n.take(n.floats(f.split, [f.feature.length], x.dtype), at, 0)
  let taken = holds(f, value, split, at)
  if (f.missingTrue.includes(true)) {
    const tracks = n.compare('eq', of(f.missingTrue.map(Number)), 1)
    taken = n.logicalOr(taken, n.logicalAnd(tracks, n.unary('isnan', value)))
  }
  return n.where(taken, of(f.whenTrue), of(f.whenFalse))
}

/** The leaf that each row of data [rows, features] reaches in each tree: [rows, trees], i32. */
export function leavesOf(f: Forest, x: n.Node): n.Node {
  const depth = depthOf(f)
  const rows = x.shape[0] ?? 0
  const start = n.broadcastTo(ints(f.roots), [rows, f.roots.length])
  if (depth <= unrolledLevels) {
    let at: n.Node = start
    for (let level = 0; level < depth; level++) at = descend(f, x, at)
    return at
  }
  const params = stepParams([x, start])
  const [data = x, node = start] = params
  const body = graphBetween(params, [descend(f, data, node)])
  return loopNodes(body, { length: depth }, [x], [start], []).carries[0] ?? start
}
