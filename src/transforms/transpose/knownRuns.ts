/**
 * The transpose of a gather by a known index that does not descend along one axis: what an element is read by stands side by side (a run), so its
 * cotangent is a sum over a run, read where it begins, instead of a scatter.
 */
import { where } from '../../compose/elementwise.ts'
import { sum } from '../../compose/reduce.ts'
import { constant } from '../../compose/source.ts'
import { reshape } from '../../compose/views.ts'
import { makeNode } from '../../graph/build.ts'
import { knownTable } from '../../graph/knownIndex.ts'
import type { IndexSource, Node } from '../../graph/node.ts'
import { overElements } from '../../host/engine.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Points } from '../points.ts'
import { permuteTo } from './views.ts'

/** Runs up to this long are read element by element. */
const longestRun = 64
/** So many times what is gathered may be read, with what lies beyond the ends of shorter runs. */
const mostReads = 4

/** Where the reads of each element of an axis begin, how many there are, and the most of one. */
interface Runs {
  readonly start: Int32Array
  readonly count: Int32Array
  readonly longest: number
}

/** The runs of an index, clamped to [0, n) as a gather clamps it; none where it descends. */
function runsOf(data: ArrayLike<number | bigint>, n: number): Runs | undefined {
  const [start, count] = [new Int32Array(n), new Int32Array(n)]
  let longest = 0
  let last = 0
  for (let i = 0; i < data.length; i++) {
    const at = Math.min(n - 1, Math.max(0, Number(data[i] ?? 0)))
    if (at < last) return undefined
    for (let j = last + 1; j <= at; j++) start[j] = i
    const met = (count[at] ?? 0) + 1
    count[at] = met
    if (met > longest) longest = met
    last = at
  }
  // What nothing reads begins where the index ends, and has no elements.
  for (let j = last + 1; j < n; j++) start[j] = data.length - 1
  return { start, count, longest }
}

/** The gathered axis, and for each other axis of the input, in order, the axis of the points that is it; the points' own axes are side by side. */
function placed(points: Points, extents: readonly number[], own: readonly number[]): readonly number[] | undefined {
  const axis = points.sources.findIndex((s) => 'input' in s)
  const taken: number[] = []
  const order = points.sources.flatMap((s, i) => {
    if (i === axis) return own
    if (!('axis' in s) || points.shape[s.axis] !== extents[i]) return [-1]
    taken.push(s.axis)
    return [s.axis]
  })
  const seen = new Set(order)
  if (seen.has(-1) || seen.size !== order.length || taken.some((t) => own.includes(t))) return undefined
  const rest = points.shape.flatMap((_, i) => (seen.has(i) ? [] : [i]))
  return rest.every((i) => points.shape[i] === 1) ? [...order, ...rest] : undefined
}

/** The cotangent of what a gather reads, as sums over runs of that of its results; undefined where its index has none. */
export function sumOfRuns(points: Points, x: Node, ct: Node): Node | undefined {
  const [index] = points.indices
  const axis = points.sources.findIndex((s) => 'input' in s)
  if (index === undefined || points.indices.length !== 1 || sizeOf(ct.shape) === 0) return undefined
  const n = x.shape[axis] ?? 1
  const table = knownTable(index)
  if (table === undefined) return undefined
  const own = table.shape.flatMap((d, i) => (d === 1 ? [] : [i]))
  const order = own.length === 0 ? undefined : placed(points, x.shape, own)
  const runs = order === undefined ? undefined : overElements(() => runsOf(table.data, n))
  if (order === undefined || runs === undefined || runs.longest > longestRun) return undefined
  const total = table.data.length
  if (n * runs.longest > mostReads * (total + n)) return undefined
  const along = reshape(
    permuteTo(ct, order),
    x.shape.map((d, i) => (i === axis ? total : d)),
  )
  return overRuns(along, axis, n, runs)
}

/** Sums over the runs of an axis: [.., n, ..]. */
function overRuns(g: Node, axis: number, n: number, { start, count, longest }: Runs): Node {
  const shape = [...g.shape.slice(0, axis), n, longest, ...g.shape.slice(axis + 1)]
  const folded = (terms: Node): Node => sum(terms, [axis + 1])
  if (count.every((c) => c === longest)) return longest === 1 ? g : folded(reshape(g, shape))
  const total = g.shape[axis] ?? 0
  const [places, holds] = [new Int32Array(n * longest), new Uint8Array(n * longest)]
  overElements(() => {
    for (let j = 0; j < n; j++)
      for (let t = 0; t < longest; t++) {
        const has = t < (count[j] ?? 0)
        holds[j * longest + t] = has ? 1 : 0
        // Beyond its end a run repeats its last element, so that places do not descend either.
        const behind = has ? t : Math.max(0, (count[j] ?? 0) - 1)
        places[j * longest + t] = Math.min(total - 1, (start[j] ?? 0) + behind)
      }
  })
  const beside = (table: Node): Node => makeNode('broadcast', [table], { shape, dims: [axis, axis + 1] })
  const sources = g.shape.map((_, d): IndexSource => (d === axis ? { input: 0 } : { axis: d < axis ? d : d + 1 }))
  const at = beside(constant(places, [n, longest], 'i32'))
  const read = makeNode('gather', [g, at], { shape, sources })
  const terms = holds.every((h) => h === 1) ? read : where(beside(constant(holds, [n, longest], 'bool')), read, 0)
  return longest === 1 ? reshape(terms, [...g.shape.slice(0, axis), n, ...g.shape.slice(axis + 1)]) : folded(terms)
}
