/** How nodes stand in memory that kernels alone write and read: as their dtype and shape say, but for the forms below. */

import type { Node } from '../../graph/node.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Body, BodyTensor } from './body.ts'

export interface StoredForms {
  /** Bools that stand one bit an element. */
  readonly bits: ReadonlySet<Node>
  /** Tensors whose rows (along the last dimension) do not follow one another at once: elements from one row to the next. */
  readonly rows: ReadonlyMap<Node, number>
}

/** The shape of a node's memory: its own, but for the elements between rows. */
export function storedShape(node: Node, { rows }: Pick<StoredForms, 'rows'>): readonly number[] {
  const row = rows.get(node)
  return row === undefined ? node.shape : [...node.shape.slice(0, -1), row]
}

/** Bytes of a node in memory. */
export const storedBytes = (node: Node, forms: StoredForms): number =>
  forms.bits.has(node) ? Math.ceil(sizeOf(node.shape) / 8) : sizeOf(storedShape(node, forms)) * dtypeBytes(node.dtype)

/** A body that addresses what it loads and stores as it stands in memory: before axes are collapsed. */
export function withRows(body: Body, rows: StoredForms['rows']): Body {
  const fits = (t: BodyTensor): boolean => !rows.has(t.node)
  if (body.stores.every(fits) && [...body.loads.values()].every(fits)) return body
  const placed = <T extends BodyTensor>(t: T): T => ({ ...t, shape: storedShape(t.node, { rows }) })
  return {
    ...body,
    loads: new Map([...body.loads].map(([name, t]) => [name, placed(t)])),
    stores: body.stores.map(placed),
  }
}
