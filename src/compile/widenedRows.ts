/**
 * Normalised exponentials in f32. `fast` rounds no result of arithmetic inside a kernel to 16 bits (docs/numerics.md, "Modes"), but a fold in 16 bits has no
 * partial results, and its result is not the anchor of a sum that streams. A softmax written out in 16 bits, e = exp(x - max x), e / sum e, is computed in f32 here, as that
 * of the library is, with all of its shape that leads there or follows, the backward pass included: up to the results and operands of products, in the dtypes they had.
 */
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode, withContext } from '../graph/build.ts'
import type { Graph, Node } from '../graph/node.ts'
import { familyOf, scalarOf } from '../graph/table.ts'
import { nodesOf, usersOf, withInputs } from '../graph/traverse.ts'
import { computeDType, type DType, isFloat } from '../types/dtype.ts'
import type { Shape } from '../types/shape.ts'

/** Values of floats that arithmetic widens. */
export const isNarrow = (n: Node): boolean => isFloat(n.dtype) && computeDType(n.dtype) !== n.dtype

/** Extents but for axes of one index, which folds keep or drop. */
const extentsOf = (shape: Shape): string => shape.filter((d) => d !== 1).join()

const isNumber = (n: Node): boolean => n.op === 'full' || n.op === 'constant'

/** The sum of a value's rows, in its dtype or in one that sums are taken in, if something is made of it for each of the value's elements. */
function sumBeside(n: Node, users: ReadonlyMap<Node, readonly Node[]>): Node | undefined {
  const isSum = (u: Node): boolean => u.op === 'reduce' && u.attrs.combiner === 'sum'
  const of = users.get(n) ?? []
  const sum = [...of, ...of.filter((u) => u.op === 'cast').flatMap((u) => users.get(u) ?? [])].find(isSum)
  const seen = new Set(sum === undefined ? [] : [sum])
  for (const x of seen)
    for (const u of users.get(x) ?? []) {
      if (extentsOf(u.shape) === extentsOf(n.shape)) return u.op === 'broadcast' ? sum : undefined
      if (extentsOf(u.shape) === extentsOf(x.shape)) seen.add(u)
    }
  return undefined
}

/**
 * An exponential beside the sum of its rows, or of what rows differ from one number each, times a number or masked perhaps, and the shapes of both; undefined for other
 * nodes.
 */
function rowsOf(n: Node, users: ReadonlyMap<Node, readonly Node[]>): ReadonlySet<string> | undefined {
  if (!isNarrow(n) || n.inputs.length !== 1 || scalarOf(n)?.exponentialIn === undefined) return undefined
  const sum = sumBeside(n, users)
  if (sum !== undefined) return new Set([extentsOf(n.shape), extentsOf(sum.shape)])
  for (let x = n.inputs[0]; x !== undefined; ) {
    const [first, anchor] = x.inputs
    const row = anchor?.op === 'broadcast' ? anchor.inputs[0] : undefined
    if (`${scalarOf(x)?.terms}` === '1,-1' && row !== undefined && first !== undefined && !isNumber(first))
      return new Set([extentsOf(n.shape), extentsOf(row.shape)])
    const [inner, more] = x.inputs.filter((y) => isFloat(y.dtype) && !isNumber(y) && y.op !== 'broadcast')
    x = familyOf(x) === 'elementwise' && more === undefined ? inner : undefined
  }
  return undefined
}

/** Whether a node computes by elements or rows, and can as well in f32. */
function isArithmetic(n: Node): boolean {
  if (n.op === 'cast' || n.op === 'bitcast') return false
  if (n.dtype === 'bool') return familyOf(n) === 'elementwise' && n.inputs.some(isNarrow)
  if (!isNarrow(n)) return false
  if (n.op === 'reduce') return !n.attrs.combiner.startsWith('arg')
  return n.op === 'broadcast' || n.op === 'reshape' || (familyOf(n) === 'elementwise' && n.op !== 'full')
}

/** All such nodes of the shapes of normalised exponentials that are reached from them. */
function reached(nodes: readonly Node[]): ReadonlySet<Node> {
  const users = usersOf(nodes)
  const out = new Set<Node>()
  for (const seed of nodes) {
    const shapes = rowsOf(seed, users)
    if (shapes === undefined || out.has(seed)) continue
    const stack = [seed]
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      if (out.has(n) || !isArithmetic(n) || !shapes.has(extentsOf(n.shape))) continue
      out.add(n)
      stack.push(...n.inputs, ...(users.get(n) ?? []))
    }
  }
  return out
}

const widenedCast = (x: Node): Node => makeNode('cast', [x], { dtype: computeDType(x.dtype) })
const looseCast = (x: Node, dtype: DType): Node => makeNode('cast', [x], { dtype, loose: true })

/** The graph with normalised exponentials of 16 bits in f32; itself where there are none. For fast mode. */
export function widenRows(graph: Graph): Graph {
  const nodes = nodesOf(graph)
  const inside = reached(nodes)
  if (inside.size === 0) return graph
  return withContext(() => {
    const full = new Map<Node, Node>()
    const narrow = new Map<Node, Node>()
    /** What stands for a node outside, in the dtype it has. */
    const asWas = (n: Node): Node => {
      const have = narrow.get(n)
      if (have !== undefined) return have
      const wide = full.get(n)
      const made = wide === undefined ? n : inOrigin(n.origin, () => looseCast(wide, n.dtype))
      narrow.set(n, made)
      return made
    }
    /** The same in f32, where it is a float of 16 bits. */
    const inFull = (n: Node): Node => {
      const have = full.get(n)
      if (have !== undefined || !isNarrow(n)) return have ?? asWas(n)
      const [x] = n.inputs
      const made = n.op === 'cast' && n.attrs.loose === true && x?.dtype === 'f32' ? asWas(x) : widenedCast(asWas(n))
      full.set(n, made)
      return made
    }
    const visit = (n: Node): void => {
      const [x] = n.inputs
      if (inside.has(n)) {
        const made = withInputs(n, n.inputs.map(inFull))
        if (n.dtype === 'bool') narrow.set(n, made)
        else full.set(n, made)
      } else if (n.op === 'cast' && n.dtype === 'f32' && x !== undefined && full.has(x)) narrow.set(n, inFull(x))
      else narrow.set(n, withInputs(n, n.inputs.map(asWas)))
    }
    for (const n of nodes) if (n.inputs.length > 0) inOrigin(n.origin, () => visit(n))
    return { params: graph.params, outputs: graph.outputs.map(asWas), effects: graph.effects.map(asWas) }
  })
}
