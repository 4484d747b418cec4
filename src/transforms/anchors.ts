/**
 * Maxima (minima) on which no result depends: exp(x - m) / sum exp(x - m) is the same for every m that is one along the row, and so is
 * (x - m) - log sum exp(x - m). Their derivative is zero; followed through the maximum, it is a sum of terms that cancel up to rounding, which needs the rows once more.
 *
 * A value that depends on m alone as c m + (what it is for m = 0) shifts, one that does as exp(c m) times that scales; each is found from its operands, with the axis
 * of m that each of its axes is. An anchor is an m none of whose values leaves this algebra or reaches a result with c other than 0.
 */
import type { AttrsByOp, Graph, Node } from '../graph/node.ts'
import { scalarOf } from '../graph/table.ts'
import { nodesOf, rootsOf, usersOf } from '../graph/traverse.ts'

/** How a value depends on m: by so many times it (`shift`), by its exponential to this power (`scale`); and for each axis of the value which one of m it is, undefined where m is one along it. */
interface Dependence {
  readonly by: 'shift' | 'scale'
  readonly times: number
  readonly axes: readonly (number | undefined)[]
}

type Found = Dependence | 'none' | undefined

/** Sums of dependences by powers or signs, one for each operand: on the same element of m each, else nothing is known. */
function combined(by: Dependence['by'], of: readonly Found[], signs: readonly number[]): Found {
  let axes: Dependence['axes'] | undefined
  let times = 0
  for (const [i, d] of of.entries()) {
    if (d === 'none') continue
    if (d === undefined || d.by !== by || (axes !== undefined && `${axes}` !== `${d.axes}`)) return undefined
    times += d.times * (signs[i] ?? 0)
    axes = d.axes
  }
  return times === 0 || axes === undefined ? 'none' : { by, times, axes }
}

/** How a node depends on the number; undefined: in another way. */
function dependenceOf(n: Node, of: readonly Found[]): Found {
  const [d] = of
  if (of.every((x) => x === 'none')) return 'none'
  if (n.op === 'cast') return d
  if (n.op === 'neg') return combined('shift', of, [-1])
  if (n.op === 'contract') return contracted(n.attrs, of)
  if (n.op === 'permute' && d !== undefined && d !== 'none') return { ...d, axes: n.attrs.perm.map((a) => d.axes[a]) }
  if (n.op === 'broadcast' && d !== undefined && d !== 'none') {
    const { dims } = n.attrs
    return { ...d, axes: n.shape.map((_, i) => (dims.includes(i) ? d.axes[dims.indexOf(i)] : undefined)) }
  }
  if (n.op === 'reshape' && d !== undefined && d !== 'none') return reshaped(n, d)
  if (n.op === 'reduce' && d !== undefined && d !== 'none') {
    const { combiner, axes } = n.attrs
    const isFold = d.by === 'scale' ? combiner === 'sum' : combiner === 'max' || combiner === 'min'
    if (!isFold || axes.some((a) => d.axes[a] !== undefined)) return undefined
    return { ...d, axes: d.axes.filter((_, i) => !axes.includes(i)) }
  }
  const scalar = scalarOf(n)
  if (scalar?.exponentialIn !== undefined && of.length === 1 && d !== undefined && d !== 'none')
    return n.op === 'exp' && d.by === 'shift' ? { ...d, by: 'scale' } : undefined
  if (n.op === 'select') return chosen(n, of)
  const times = by(n, of)
  if (times !== undefined) return times
  if (n.op === 'log' && d !== undefined && d !== 'none') return d.by === 'scale' ? { ...d, by: 'shift' } : undefined
  if (scalar?.terms !== undefined) return alike(of) ?? combined('shift', of, scalar.terms)
  if (scalar?.factors !== undefined) return combined('scale', of, scalar.factors)
  return undefined
}

/** Sums of values that all scale alike: weights and one beside them, which scales as they do. */
function alike(of: readonly Found[]): Dependence | undefined {
  const [d] = of
  if (d === undefined || d === 'none' || d.by !== 'scale') return undefined
  const isSame = (x: Found): boolean =>
    x !== undefined && x !== 'none' && x.by === 'scale' && x.times === d.times && `${x.axes}` === `${d.axes}`
  return of.every(isSame) ? d : undefined
}

/** A product that sums a value that scales along axes where the number is one. */
function contracted({ lhs, rhs, out }: AttrsByOp['contract'], [a, b]: readonly Found[]): Found {
  const [d, letters] = b === 'none' ? [a, lhs] : [b, rhs]
  if (d === undefined || d === 'none' || d.by !== 'scale' || (a !== 'none' && b !== 'none')) return undefined
  const axisOf = (letter: string): number | undefined => d.axes[letters.indexOf(letter)]
  const isDiagonal = new Set(letters).size < letters.length
  if (isDiagonal || [...letters].some((x) => !out.includes(x) && axisOf(x) !== undefined)) return undefined
  return { ...d, axes: [...out].map(axisOf) }
}

/** The number that a value is everywhere. */
function numberOf(n: Node | undefined): number | undefined {
  let x = n
  while (x?.op === 'broadcast') x = x.inputs[0]
  return x?.op === 'full' ? Number(x.attrs.value) : undefined
}

/** A value that shifts, times a number. */
function by(n: Node, of: readonly Found[]): Found {
  const powers = scalarOf(n)?.factors
  const at = of.findIndex((d) => d !== 'none')
  const [d, number] = [of[at], numberOf(n.inputs[1 - at])]
  if (powers?.length !== 2 || d === undefined || d === 'none' || d.by !== 'shift') return undefined
  if (number === undefined || number === 0 || powers[at] !== 1) return undefined
  return { ...d, times: powers[1 - at] === 1 ? d.times * number : d.times / number }
}

/** A choice between a value and what is the same at any shift or scale: weights of zero, scores of -Infinity. */
function chosen(n: Node, [cond, ...of]: readonly Found[]): Found {
  const at = of.findIndex((d) => d !== 'none')
  const [d, other] = [of[at], of[1 - at]]
  if (cond !== 'none' || other !== 'none' || d === undefined || d === 'none') return undefined
  return numberOf(n.inputs[2 - at]) === (d.by === 'scale' ? 0 : Number.NEGATIVE_INFINITY) ? d : undefined
}

/** The same where axes of one index come or go. */
function reshaped(n: Node, d: Dependence): Found {
  const from = n.inputs[0]?.shape ?? []
  const wide = (shape: readonly number[]): number[] => shape.flatMap((e, i) => (e === 1 ? [] : [i]))
  const [before, after] = [wide(from), wide(n.shape)]
  if (before.length !== after.length || before.some((a, i) => from[a] !== n.shape[after[i] ?? 0])) return undefined
  return { ...d, axes: n.shape.map((_, i) => (after.includes(i) ? d.axes[before[after.indexOf(i)] ?? 0] : undefined)) }
}

/** Whether no result depends on a folded value. */
function isAnchor(
  m: Node,
  nodes: readonly Node[],
  users: ReadonlyMap<Node, readonly Node[]>,
  roots: ReadonlySet<Node>,
): boolean {
  const found = new Map<Node, Found>([
    [m, { by: 'shift', times: 1, axes: m.shape.map((e, i) => (e === 1 ? undefined : i)) }],
  ])
  const open = new Set(users.get(m) ?? [])
  if (roots.has(m)) return false
  for (const n of nodes) {
    if (!open.has(n)) continue
    const d = dependenceOf(
      n,
      n.inputs.map((x) => (found.has(x) ? found.get(x) : 'none')),
    )
    if (d === undefined) return false
    if (d === 'none') continue
    if (roots.has(n)) return false
    found.set(n, d)
    for (const u of users.get(n) ?? []) open.add(u)
  }
  return true
}

/** What a value is a view of. */
function viewed(n: Node): Node | undefined {
  let x: Node | undefined = n
  while (x?.op === 'broadcast' || x?.op === 'reshape' || x?.op === 'permute') x = x.inputs[0]
  return x
}

/** The maxima and minima of a graph on which none of its results depends: folded ones, and the greater of such a one and something else. */
export function anchorsOf(graph: Graph): ReadonlySet<Node> {
  const nodes = nodesOf(graph)
  const isFolded = (n: Node | undefined): boolean =>
    n?.op === 'reduce' && (n.attrs.combiner === 'max' || n.attrs.combiner === 'min')
  if (!nodes.some(isFolded)) return new Set()
  const isExtreme = (n: Node): boolean =>
    isFolded(n) || ((n.op === 'max' || n.op === 'min') && n.inputs.some((x) => isFolded(viewed(x))))
  const users = usersOf(nodes)
  const roots = new Set(rootsOf(graph))
  return new Set(nodes.filter((n) => isExtreme(n) && isAnchor(n, nodes, users, roots)))
}
