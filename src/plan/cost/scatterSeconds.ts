/**
 * What the programs of a scatter take, where a program is a share of the machine: each looks at all updates of its batch, in rounds of all of its threads,
 * and walks its own, which are as many as its places are of all (data may differ; nothing is known of it).
 */
import type { Node, NodeOf } from '../../graph/node.ts'
import { mostFilterThreads } from '../../schedule/simt/part/filter.ts'
import type { Machine } from '../../target/machine.ts'
import { bandwidthOf } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { type ScatterShape, scatterBlocks } from '../axes/scatterBlocks.ts'

/** Seconds of a round of looking, however little is read, and points of it. */
const round = { seconds: 0.7e-6, points: 8192 }
/** Seconds of going past a queued point, in all warps together. */
const passSeconds = 6e-9
/** Seconds of a point that a warp takes: where several are on their way together, and alone, after a meeting of all threads. */
const takeSeconds = { together: 0.15e-6, alone: 2.5e-6 }

/** The axes of a scatter by what they are to its places. */
export function scatterShape(node: NodeOf<'scatter'>): ScatterShape & { readonly walked: readonly number[] } {
  const [, updates = node, ...indices] = node.inputs
  const columns = new Set(node.attrs.sources.flatMap((s) => ('axis' in s ? [s.axis] : [])))
  const all = updates.shape.map((_, d) => d)
  const isBatch = (d: number): boolean => columns.has(d) && indices.some((x) => variesAlong(x, d))
  const extents = (axes: readonly number[]): number[] => axes.map((d) => updates.shape[d] ?? 1)
  const size = (axes: readonly number[]): number => extents(axes).reduce((n, x) => n * x, 1)
  const walked = all.filter((d) => !columns.has(d))
  return {
    batch: size(all.filter(isBatch)),
    columns: extents(all.filter((d) => columns.has(d) && !isBatch(d))),
    places: node.attrs.sources.reduce((n, s, d) => ('axis' in s ? n : n * (node.shape[d] ?? 1)), 1),
    updates: size(walked),
    walked,
  }
}

/** Whether a value may differ along a dimension. */
function variesAlong(x: Node, d: number): boolean {
  let [node, at]: [Node, number] = [x, d]
  while (node.op === 'broadcast') {
    const inner = node.attrs.dims.indexOf(at)
    const [of] = node.inputs
    if (inner < 0 || of === undefined) return false
    ;[node, at] = [of, inner]
  }
  return (node.shape[at] ?? 1) > 1 && node.op !== 'full'
}

/** Seconds in programs of a scatter of a shape, indices of so many bytes; undefined where programs are no shares of the machine. */
export function scatterSeconds(shape: ScatterShape, indexBytes: number, machine: Machine): number | undefined {
  const { programShare, simt } = machine
  if (programShare === undefined || simt === undefined) return undefined
  const { block, residues, lanes, programs, threads } = scatterBlocks(shape, programShare.computing, simt)
  const { updates, places } = shape
  const near = bandwidthOf(machine, updates * shape.batch * indexBytes) * programShare.computing
  const looking = Math.max((updates * indexBytes) / near, Math.ceil(updates / round.points) * round.seconds)
  const own = updates * Math.min(1, block / places)
  const warp = 2 ** simt.laneBits
  const ofWarp = simt.votes ? Math.min(1, Math.max(1, warp / lanes) / residues) : 1
  const walking = own * (simt.votes ? passSeconds + ofWarp * takeSeconds.together : takeSeconds.alone)
  // Programs of fewer threads than a multiprocessor has stand there side by side.
  const share = programShare.computing * (threads / mostFilterThreads(simt))
  return (looking + walking) * Math.max(1, programs * share)
}

/** The same of a node. */
export function scatterNodeSeconds(node: NodeOf<'scatter'>, machine: Machine): number | undefined {
  const bytes = node.inputs.slice(2).reduce((n, x) => n + dtypeBytes(x.dtype), 0)
  return scatterSeconds(scatterShape(node), bytes, machine)
}
