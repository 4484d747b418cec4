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
export function chunkPositions(graph: Graph, machine: Machine): Graph {
  if (machine.programShare === undefined) return graph
  return mapGraph(graph, (node, inputs) => {
    const same = withInputs(node, inputs)
    const chunks = same.op === 'reduce' ? chunksOf(same, machine) : 1
    return same.op === 'reduce' && chunks > 1 ? inOrigin(node.origin, () => inChunks(same, chunks)) : same
  })
}

/** Chunks of the lines of a search, so that programs are as many as there may be; one where positions come near to what the machine counts to. */
function chunksOf({ attrs, inputs: [x] }: NodeOf<'reduce'>, { programShare, positionBits }: Machine): number {
  const [axis] = attrs.axes
  if (x === undefined || axis === undefined || !isArgCombiner(attrs.combiner)) return 1
  const n = x.shape[axis] ?? 0
  if (programShare === undefined || n < longLine || sizeOf(x.shape) > 2 ** (positionBits - 2)) return 1
  const beside = Math.min(columns, sizeOf(x.shape.slice(axis + 1)))
  const programs = sizeOf(x.shape) / n / beside
  return Math.min(Math.floor(programsEach / programShare.computing / programs), Math.floor(n / shortestChunk))
}

/** The length of chunks, of so many elements at least: half as many more where that divides the line. */
function lengthOfChunks(n: number, least: number): number {
  for (let each = least; each <= 1.5 * least; each += aligned) if (n % each === 0) return each
  return least
}

function inChunks({ attrs, dtype, inputs: [given] }: NodeOf<'reduce'>, chunks: number): Node {
  const [axis = 0] = attrs.axes
  const x = given as Node
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
