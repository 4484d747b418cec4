/**
 * Formats of values in memory. A bool that one kernel stores for others is packed, one bit an element, where the target says
 * so and the storing kernel's programs can be kept to whole bytes. Decided once, as a property of the plan: bodies carry the
 * format of what they load and store, so costs know it; the lowering, the buffers and the report follow it.
 */

import { flatten } from '../../affine/expr.ts'
import type { Node } from '../../graph/node.ts'
import { opDef } from '../../graph/table.ts'
import { foldAxes } from '../../kernel/folds.ts'
import { joinBlocks, type WholeByteBlocks, wholeByteBlocks } from '../../kernel/wholeBytes.ts'
import type { Machine } from '../../target/machine.ts'
import { sizeOf } from '../../types/shape.ts'
import { elementwiseRoles, type Roles } from '../axes/roles.ts'
import { type Body, type BodyTensor, pointsOf } from '../body/body.ts'
import { readsOfBoundary } from '../body/reads.ts'
import type { KernelGroup, SingleGroup, Unpacked } from '../plan.ts'
import { costOf } from './cost.ts'

export interface Formats {
  readonly groups: readonly SingleGroup[]
  /** Nodes that stand in memory one bit an element. */
  readonly bits: ReadonlySet<Node>
  readonly unpacked: readonly Unpacked[]
}

/** Of nodes that are computed, those that nothing but kernels would write and read: neither results nor what boundaries touch. */
export function betweenKernels(nodes: readonly Node[], demanded: ReadonlySet<Node>): Set<Node> {
  const out = new Set<Node>(nodes)
  for (const n of demanded) out.delete(n)
  for (const n of nodes)
    if (opDef(n).boundary !== undefined) for (const x of [n, ...readsOfBoundary(n).buffers]) out.delete(x)
  return out
}

/** Those of them that are packed if they are stored. */
export const packableNodes = (between: ReadonlySet<Node>, target: Machine): Set<Node> =>
  new Set(target.packBools ? [...between].filter((n) => n.dtype === 'bool' && sizeOf(n.shape) > 1) : [])

/** The body with the format of what it loads and stores. */
export function withFormats(body: Body, bits: ReadonlySet<Node>): Body {
  const has = (t: BodyTensor): boolean => t.node.dtype === 'bool' && bits.has(t.node)
  const fits = (t: BodyTensor): boolean => has(t) === (t.format === 'bits')
  if (body.stores.every(fits) && [...body.loads.values()].every(fits)) return body
  const marked = <T extends BodyTensor>(t: T): T => {
    const { format: _, ...rest } = t
    return (has(t) ? { ...rest, format: 'bits' } : rest) as T
  }
  return {
    ...body,
    loads: new Map([...body.loads].map(([name, t]) => [name, marked(t)])),
    stores: body.stores.map(marked),
  }
}

/** Decides what is packed among what the groups store; the groups come back with the formats and costs that follow. */
export function decideFormats(groups: readonly SingleGroup[], packable: ReadonlySet<Node>, target: Machine): Formats {
  const bits = new Set<Node>()
  const unpacked: Unpacked[] = []
  for (const g of groups) {
    if (g.kind !== 'kernel') continue
    const chosen: Node[] = []
    const stored = g.outputs.filter((n) => packable.has(n)).sort((a, b) => sizeOf(b.shape) - sizeOf(a.shape))
    for (const n of stored) {
      const why = refusePacking(g, n, [...chosen, n], target)
      if (why === undefined) chosen.push(n)
      else unpacked.push({ node: n, ...why })
    }
    for (const n of chosen) bits.add(n)
  }
  const plain = new Set(unpacked.map((u) => u.node))
  const touches = (g: KernelGroup): boolean =>
    g.outputs.some((n) => plain.has(n)) || [...g.body.loads.values()].some((t) => plain.has(t.node))
  const settled = groups.map((g): SingleGroup => {
    if (g.kind !== 'kernel' || !touches(g)) return g
    const body = withFormats(g.body, bits)
    const segments = g.segments.map((s) => (s === g.body ? body : withFormats(s, bits)))
    return { ...g, body, segments, cost: costOf(body, segments, g.roles, target) }
  })
  return { groups: settled, bits, unpacked }
}

/** Elements of rows that programs hold several of. */
const tinyRows = 1024

type Why = Omit<Unpacked, 'node'>

/** Why a kernel keeps one of its results as bytes; `chosen` are those to be packed, it among them. */
function refusePacking(g: KernelGroup, node: Node, chosen: readonly Node[], target: Machine): Why | undefined {
  const n = sizeOf(node.shape)
  const saved = 2 * (n - Math.ceil(n / 8))
  const moved = g.cost.bytesRead + g.cost.bytesWritten
  if (64 * saved < moved) return { code: 'saves-little', detail: `${saved} bytes of ${moved} that the kernel moves` }
  for (const segment of g.segments) {
    const roles = g.segments.length > 1 ? elementwiseRoles(segment) : g.roles
    const all: WholeByteBlocks[] = []
    for (const s of segment.stores) {
      if (!chosen.includes(s.node)) continue
      const blocks = wholeByteBlocks(flatten(s.index, s.shape), sizeOf(s.shape), roles.extents)
      if (blocks === undefined) {
        if (s.node !== node) continue
        return { code: 'no-whole-bytes', detail: 'no cut of the axes leaves whole bytes to every program' }
      }
      all.push(blocks)
    }
    const why = refuseBlocks(roles, segment, joinBlocks(all, roles.extents), target)
    if (why !== undefined) return why
  }
  return undefined
}

/** Why a lowering by these roles does not choose such blocks. */
function refuseBlocks(roles: Roles, body: Body, blocks: WholeByteBlocks, target: Machine): Why | undefined {
  const size = (axes: Iterable<string>): number => pointsOf(roles.extents, axes)
  const least = (axes: Iterable<string>): number => [...axes].reduce((n, a) => n * (blocks.get(a) ?? 1), 1)
  const { matrix, splitBy } = roles
  const folded = body.lets.flatMap((l) => (roles.stages.split.has(l.id) ? foldAxes(l) : []))
  if (matrix !== undefined) {
    if (least([...matrix.batch, ...folded]) > 1)
      return { code: 'fixed-blocks', detail: 'bytes cross batches, or blocks whose partial results are stored' }
    if (least(matrix.n) > 2 * target.dotBlock.n || least(matrix.m) > 2 * target.dotBlock.m)
      return { code: 'programs-too-large', detail: `a block would hold ${least([...matrix.m, ...matrix.n])} results` }
    return undefined
  }
  if (roles.chain !== undefined)
    return { code: 'fixed-blocks', detail: 'the blocks of a chain of products are fixed by what it holds' }
  if (typeof splitBy === 'object' && splitBy.block % (blocks.get(splitBy.axis) ?? 1) !== 0)
    return { code: 'fixed-blocks', detail: `partial results are cut every ${splitBy.block} of ${splitBy.axis}` }
  const held = new Set([...roles.row, ...roles.reduced].filter((a) => !folded.includes(a)))
  const points = least(roles.parallel) * size(held)
  // Rows that stay resident are computed one at a time, unless they are tiny (reductionPoints in src/plan/axes/blocks.ts).
  if (roles.row.size > 0 && least(roles.parallel) > 1 && points > tinyRows)
    return {
      code: 'programs-too-large',
      detail: `bytes hold ${least(roles.parallel)} rows, which would not stay in the cache`,
    }
  const programs = [...roles.parallel].reduce((t, a) => t * Math.ceil(size([a]) / (blocks.get(a) ?? 1)), 1)
  const all = size(roles.extents.keys())
  if (
    points > 8 * target.elementBlock ||
    (programs < target.minPrograms && all > target.minPrograms * target.elementBlock)
  )
    return { code: 'programs-too-large', detail: `${programs} programs of ${points} points` }
  return undefined
}
