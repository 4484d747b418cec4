/**
 * Positions of extremes of long lines, where there are too few lines for a machine whose programs are shares of it: the extremes of chunks, the
 * first chunk that has the greatest of them (the last, if ties go to the last), and the position in that chunk. What a line is computed from is
 * computed again for one chunk of it. NaN is beyond every number in both, so the results are the same.
 */
import { broadcastTo, expandDims, reshape } from '../compose/broadcast.ts'
import { full } from '../compose/source.ts'
import { pad } from '../compose/views.ts'
import { inOrigin } from '../diagnostics/origin.ts'
import { makeNode } from '../graph/build.ts'
import type { Graph, Node, NodeOf } from '../graph/node.ts'
import { mapGraph, withInputs } from '../graph/traverse.ts'
import { combinerIdentity, isArgCombiner } from '../scalar/ops.ts'
import type { Machine } from '../target/machine.ts'
import { sizeOf } from '../types/shape.ts'

/** A line that one program goes through in as long as three launches take, and the shortest chunk. */
const [longLine, shortestChunk] = [2 ** 16, 1024]
/** Programs of a multiprocessor, and lines that a program has side by side where they are not along memory. */
const [programsEach, columns] = [2, 16]
/** Elements of the widest loads. */
const aligned = 8

/** A graph whose long lines of few are searched in chunks; the graph itself where there are none, or where no program is a share of the machine. */
export function chunkPositions(graph: Graph, { programShare, positionBits }: Machine): Graph {
  if (programShare === undefined) return graph
  const most = { programs: programsEach / programShare.computing, positions: 2 ** (positionBits - 2) }
  return mapGraph(graph, (node, inputs) => {
    const same = withInputs(node, inputs)
    const [x] = inputs
    if (same.op !== 'reduce' || x === undefined) return same
    const chunks = chunksOf(x, same.attrs, most)
    return chunks > 1 ? inOrigin(node.origin, () => inChunks(x, same, chunks)) : same
  })
}

interface Most {
  readonly programs: number
  /** Near what the machine counts positions to. */
  readonly positions: number
}

/** Chunks of the lines of a search, so that programs are as many as there may be. */
function chunksOf(x: Node, { axes: [axis = 0], combiner }: NodeOf<'reduce'>['attrs'], most: Most): number {
  const n = x.shape[axis] ?? 0
  if (!isArgCombiner(combiner) || n < longLine || sizeOf(x.shape) > most.positions) return 1
  const beside = Math.min(columns, sizeOf(x.shape.slice(axis + 1)))
  const programs = sizeOf(x.shape) / n / beside
  return Math.min(Math.floor(most.programs / programs), Math.floor(n / shortestChunk))
}

/** The length of chunks, of so many elements at least: half as many more where that divides the line. */
function lengthOfChunks(n: number, least: number): number {
  for (let each = least; each <= 1.5 * least; each += aligned) if (n % each === 0) return each
  return least
}

function inChunks(x: Node, { attrs, dtype }: NodeOf<'reduce'>, chunks: number): Node {
  const [axis = 0] = attrs.axes
  const n = x.shape[axis] ?? 0
  const each = lengthOfChunks(n, Math.ceil(n / chunks / aligned) * aligned)
  const count = Math.ceil(n / each)
  const extreme = attrs.combiner === 'argmax' ? 'max' : 'min'
  // What lacks to the last chunk is beaten by all there is, or stands where ties do not go.
  const lacking = count * each - n
  const [low, high] = attrs.last === true ? [lacking, 0] : [0, lacking]
  const widths = x.shape.map((_, d): [number, number] => (d === axis ? [low, high] : [0, 0]))
  const whole = lacking === 0 ? x : pad(x, widths, 'constant', combinerIdentity(extreme, x.dtype))
  const [outer, inner] = [x.shape.slice(0, axis), x.shape.slice(axis + 1)]
  const apart = reshape(whole, [...outer, count, each, ...inner])
  const extremes = makeNode('reduce', [apart], { combiner: extreme, axes: [axis + 1] })
  const chunk = makeNode('reduce', [extremes], { ...attrs, axes: [axis] })
  const shape = [...outer, each, ...inner]
  const index = broadcastTo(expandDims(chunk, axis), shape)
  const sources = apart.shape.map((_, d) => (d === axis ? { input: 0 } : { axis: d < axis ? d : d - 1 }))
  const line = makeNode('gather', [apart, index], { shape, sources })
  const within = makeNode('reduce', [line], { ...attrs, axes: [axis] })
  const number = (v: number): Node => full(within.shape, v, dtype)
  const position = makeNode('add', [makeNode('mul', [chunk, number(each)], {}), within], {})
  return low === 0 ? position : makeNode('sub', [position, number(low)], {})
}
