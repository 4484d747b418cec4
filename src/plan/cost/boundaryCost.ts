/** The cost model of nodes that are steps of their own: scatters, users' kernels, effects. */
import type { Node } from '../../graph/node.ts'
import { opDef } from '../../graph/table.ts'
import { type Machine, movingSeconds, together } from '../../target/machine.ts'
import { priceOf } from '../../target/prices.ts'
import { sizeOf } from '../../types/shape.ts'
import { copiesTarget, readsOfBoundary } from '../body/reads.ts'
import { bytesOf, dataInputs, isFree, storageOf } from '../body/region.ts'
import type { BoundaryGroup } from '../plan.ts'
import type { KernelCost } from './cost.ts'
import { scatterNodeSeconds } from './scatterSeconds.ts'

const nothing: KernelCost = { bytesRead: 0, bytesWritten: 0, flops: 0, special: 0, seconds: 0, compute: 0 }

/** Bytes of an operand that is read through views where they stand, if at all: generated values are not read. */
const viewedBytes = (x: Node): number =>
  isFree(x)
    ? Math.min(
        bytesOf(x),
        dataInputs(x).reduce((n, y) => n + bytesOf(y), 0),
      )
    : bytesOf(x)

/**
 * The scatters of a graph that copy their target: another reads that too, or its memory is not the program's (`stands`). The others
 * combine into it where it was made.
 */
export function copyingScatters(nodes: readonly Node[], stands: (target: Node) => boolean): ReadonlySet<Node> {
  const scatters = nodes.filter((n) => n.op === 'scatter' && copiesTarget(n))
  if (scatters.length === 0) return new Set()
  const readers = new Map<Node, number>()
  for (const n of nodes) {
    if (isFree(n)) continue
    const reads = opDef(n).boundary === undefined ? dataInputs(n).map(storageOf) : readsOfBoundary(n).buffers
    for (const x of new Set(reads)) readers.set(x, (readers.get(x) ?? 0) + 1)
  }
  return new Set(
    scatters.filter(({ inputs: [x] }) => {
      const target = x === undefined ? undefined : storageOf(x)
      return target === undefined || stands(target) || readers.get(target) !== 1
    }),
  )
}

/**
 * A scatter copies its target if another needs that as it is (`copies`), reads updates and indices and combines into places, in
 * programs that walk the indices in order and the updates of their own places (`lower/sharePlaces.ts`). Of users' kernels and effects the traffic alone is known: what they compute takes longer than
 * modelled.
 */
export function boundaryCost(kind: BoundaryGroup['kind'], node: Node, copies: boolean, target: Machine): KernelCost {
  if (kind === 'region') return nothing
  const inPlace = node.op === 'scatter' && !copies
  const written = kind === 'effect' || inPlace ? 0 : bytesOf(node)
  if (node.op !== 'scatter') {
    const read = [...readsOfBoundary(node).buffers].reduce((n, x) => n + bytesOf(x), 0)
    return {
      ...nothing,
      bytesRead: read,
      bytesWritten: written,
      seconds: movingSeconds(read + written, target) + target.launch,
    }
  }
  const read = node.inputs.reduce((n, x, i) => n + (i > 0 ? viewedBytes(x) : copies ? bytesOf(x) : 0), 0)
  const [, updates = node] = node.inputs
  const combines = node.attrs.combiner !== 'set'
  const stored = bytesOf(updates)
  const walked = read + (combines ? 2 : 1) * stored
  const compute = combines ? sizeOf(updates.shape) * priceOf('add', updates.dtype, target.prices) : 0
  // Where no two updates meet, programs of many threads share them out as they lie.
  const isShared = node.attrs.distinct === true && target.simt !== undefined
  const programs = isShared ? undefined : scatterNodeSeconds(node, target)
  const walk = Math.max(programs ?? 0, together(movingSeconds(walked, target), compute, target))
  return {
    bytesRead: read + (combines ? stored : 0),
    bytesWritten: written + stored,
    flops: combines ? sizeOf(updates.shape) : 0,
    special: 0,
    seconds: walk + movingSeconds(written, target) + target.launch,
    compute,
  }
}
