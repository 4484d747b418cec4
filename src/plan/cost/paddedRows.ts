/**
 * Which tensors between kernels stand with room after their rows: those beside products whose rows are no whole number of what a matrix
 * unit's loads, or a library's, take at once (`Machine.rowAlignment`). A row of 50257 values of 16 bits otherwise begins anywhere.
 * Decided of the graph, before it is known what is stored: it depends on nothing that planning decides.
 */
import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { usersOf } from '../../graph/traverse.ts'
import type { Machine } from '../../target/machine.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { pairsOf } from '../body/alignment.ts'
import { bytesOf, isFree } from '../body/region.ts'
import type { StoredForms } from '../body/stored.ts'

/** What becomes of a dimension of a node. */
interface Fate {
  /** A product reads it, or made it, through nothing but views and elementwise operations. */
  readonly meetsProduct: boolean
  /** A view counts through it and others as one: its rows must follow one another at once. */
  readonly isJoined: boolean
}

const none: Fate = { meetsProduct: false, isJoined: false }

/** Whether values pass from a node's operands to it one by one, so that neither need be stored. */
const passes = (n: Node): boolean => isFree(n) || familyOf(n) === 'elementwise'

/** Where a dimension of an operand stands in a node that passes values on. */
const ahead = (n: Node, x: Node, d: number): number | undefined =>
  pairsOf(n, x, n.inputs.indexOf(x)).find(([, e]) => e === d)?.[0]

/** The elements from row to row of what stands so of nodes in topological order; `between`: those that may, which kernels alone write and read. */
export function paddedRows(nodes: readonly Node[], between: ReadonlySet<Node>, target: Machine): StoredForms['rows'] {
  const rows = new Map<Node, number>()
  const { rowAlignment } = target
  if (rowAlignment === undefined || !nodes.some((n) => familyOf(n) === 'contraction')) return rows
  const made = madeByProducts(nodes)
  const users = usersOf(nodes)
  const fates = new Map<Node, readonly Fate[]>()
  for (const n of nodes.toReversed()) {
    const own = n.shape.map((_, d) => fateOf(n, d, users.get(n) ?? [], fates))
    fates.set(n, own)
    const last = n.shape.length - 1
    const fate = own[last]
    if (!between.has(n) || isFree(n) || fate === undefined || fate.isJoined) continue
    if (!fate.meetsProduct && made.get(n)?.has(last) !== true) continue
    const row = alignedRow(n, rowAlignment)
    if (row !== undefined) rows.set(n, row)
  }
  return rows
}

/** Elements from row to row of a tensor that gains by room after them. */
export function alignedRow(
  n: Node,
  { bytes, least, room, widest }: NonNullable<Machine['rowAlignment']>,
): number | undefined {
  const length = n.shape.at(-1) ?? 1
  const each = bytes / dtypeBytes(n.dtype)
  if (dtypeBytes(n.dtype) > widest) return undefined
  if (length % each === 0 || length === sizeOf(n.shape) || bytesOf(n) < least) return undefined
  const row = Math.ceil(length / each) * each
  return row - length <= room * length ? row : undefined
}

function fateOf(n: Node, d: number, users: readonly Node[], fates: ReadonlyMap<Node, readonly Fate[]>): Fate {
  let fate = none
  for (const u of users) {
    let next = none
    if (familyOf(u) === 'contraction') next = { ...none, meetsProduct: true }
    else if (passes(u)) {
      const at = ahead(u, n, d)
      if (at !== undefined) next = fates.get(u)?.[at] ?? none
      else if (u.op === 'reshape' && n.shape[d] !== 1) next = { ...none, isJoined: true }
    }
    fate = {
      meetsProduct: fate.meetsProduct || next.meetsProduct,
      isJoined: fate.isJoined || next.isJoined,
    }
  }
  return fate
}

/** The dimensions of nodes that products made. */
function madeByProducts(nodes: readonly Node[]): ReadonlyMap<Node, ReadonlySet<number>> {
  const out = new Map<Node, ReadonlySet<number>>()
  for (const n of nodes) {
    if (familyOf(n) === 'contraction') out.set(n, new Set(n.shape.keys()))
    else if (passes(n)) {
      const own = n.inputs.flatMap((x) => [...(out.get(x) ?? [])].flatMap((d) => ahead(n, x, d) ?? []))
      if (own.length > 0) out.set(n, new Set(own))
    }
  }
  return out
}
