/**
 * Order of kernels where inputs may be overwritten: whoever else reads a donated input comes before the kernel that may put
 * a result over it, as far as data allows.
 */
import type { Node } from '../../graph/node.ts'
import type { KernelGroup, SingleGroup } from '../plan.ts'
import { accessOf } from './access.ts'
import { mayWriteOver } from './overwrites.ts'

/** Whether a kernel may store a result of the graph over an input, if it reads that last. */
const mayReplace = (g: KernelGroup, input: Node, results: ReadonlySet<Node>): boolean =>
  accessOf(g).writes.some((n) => results.has(n) && mayWriteOver(g, n, input))

/** The groups in an order that respects data (as the given one does) and lets results take over donated inputs. */
export function readersFirst(
  groups: readonly SingleGroup[],
  donated: readonly Node[],
  results: ReadonlySet<Node>,
): readonly SingleGroup[] {
  /** Whether a group reads what others write, or follows them. */
  const touches = (g: SingleGroup, others: ReadonlySet<SingleGroup>): boolean => {
    const { buffers, follows } = accessOf(g)
    return [...others].some(
      (o) => accessOf(o).writes.some((n) => buffers.has(n)) || (o.kind === 'effect' && follows.has(o.node)),
    )
  }
  let order = [...groups]
  for (const input of donated) {
    const readers = order.filter((g) => accessOf(g).buffers.has(input))
    const final = readers.at(-1)
    const last = final === undefined ? -1 : order.indexOf(final)
    for (const writer of readers) {
      if (writer.kind !== 'kernel' || !mayReplace(writer, input, results)) continue
      const from = order.indexOf(writer)
      // The writer and what depends on it move behind the last reader, unless a reader is among them.
      const late = new Set<SingleGroup>([writer])
      for (const g of order.slice(from + 1, last + 1)) if (touches(g, late)) late.add(g)
      if (readers.some((r) => r !== writer && late.has(r))) continue
      const between = order.slice(from, last + 1)
      order = [
        ...order.slice(0, from),
        ...between.filter((g) => !late.has(g)),
        ...between.filter((g) => late.has(g)),
        ...order.slice(last + 1),
      ]
      break
    }
  }
  return order
}

/** Pairs of a reader of a donated input and the kernel after it, in the given order, that may put a result over that input. */
export function overwrites(
  order: readonly SingleGroup[],
  donated: readonly Node[],
  results: ReadonlySet<Node>,
): (readonly [reader: SingleGroup, writer: SingleGroup])[] {
  const readers = new Map<Node, SingleGroup[]>(donated.map((x) => [x, []]))
  for (const g of order) for (const x of accessOf(g).buffers) readers.get(x)?.push(g)
  return [...readers].flatMap(([input, of]) => {
    const writer = of.pop()
    if (writer?.kind !== 'kernel' || !mayReplace(writer, input, results)) return []
    return of.map((reader) => [reader, writer] as const)
  })
}
