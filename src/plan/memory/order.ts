/**
 * The order of a plan's kernels: as early as data allows what frees more memory than it takes, else what most still depends
 * on. So values come shortly before they are read, and die shortly after they are made.
 */
import { invariant } from '../../diagnostics/errors.ts'
import type { Node } from '../../graph/node.ts'
import { Heap } from '../algorithms/heap.ts'
import { type StoredForms, storedBytes } from '../body/stored.ts'
import type { SingleGroup } from '../plan.ts'
import { accessOf } from './access.ts'

/** A group that may come next: bytes it takes less those it frees (at most 0), and the longest path that waits for it. */
interface Ready {
  readonly group: number
  readonly net: number
  readonly height: number
}

/** The groups in an order that respects data and effects; `results` outlive the program whatever the order. */
export function orderGroups(
  groups: readonly SingleGroup[],
  results: ReadonlySet<Node>,
  stored: StoredForms,
): SingleGroup[] {
  const home = new Map<Node, number>()
  groups.forEach((g, i) => {
    for (const n of accessOf(g).writes) home.set(n, i)
    if (g.kind === 'effect') home.set(g.node, i)
  })
  const reads = groups.map((g) => [...accessOf(g).buffers].filter((n) => home.has(n)))
  const readers = new Map<Node, Set<number>>()
  const succ = groups.map(() => new Set<number>())
  const waiting = groups.map((g, i) => {
    const own = reads[i] ?? []
    for (const n of own) readers.set(n, (readers.get(n) ?? new Set()).add(i))
    const before = new Set([...own, ...accessOf(g).follows].flatMap((n) => home.get(n) ?? []))
    for (const p of before) succ[p]?.add(i)
    return before.size
  })
  const height = groups.map(() => 0)
  // Groups come in an order that respects data: heights from the last back.
  for (let i = groups.length - 1; i >= 0; i--)
    for (const s of succ[i] ?? []) height[i] = Math.max(height[i] ?? 0, 1 + (height[s] ?? 0))

  const bytes = (n: Node): number => (results.has(n) ? 0 : storedBytes(n, stored))
  /** Bytes a group takes less those that die with it. */
  const net = (i: number): number => {
    const g = groups[i]
    let sum = 0
    for (const n of g === undefined ? [] : accessOf(g).writes) sum += bytes(n)
    for (const n of reads[i] ?? []) if (readers.get(n)?.size === 1) sum -= bytes(n)
    return sum
  }
  const ready = new Heap<Ready>((a, b) => a.net - b.net || b.height - a.height || a.group - b.group)
  const push = (group: number): void => ready.push({ group, net: Math.min(0, net(group)), height: height[group] ?? 0 })
  groups.forEach((_, i) => {
    if (waiting[i] === 0) push(i)
  })
  const out: SingleGroup[] = []
  const done = new Set<number>()
  for (let next = ready.pop(); next !== undefined; next = ready.pop()) {
    const i = next.group
    const g = groups[i]
    // Pushed again when something came to die with it, which only brings it forward.
    if (g === undefined || done.has(i)) continue
    out.push(g)
    done.add(i)
    for (const n of reads[i] ?? []) {
      const left = readers.get(n)
      left?.delete(i)
      const [last, other] = left ?? []
      if (last !== undefined && other === undefined && waiting[last] === 0) push(last)
    }
    for (const s of succ[i] ?? []) {
      const left = (waiting[s] ?? 0) - 1
      waiting[s] = left
      if (left === 0) push(s)
    }
  }
  invariant(out.length === groups.length, 'the groups of a plan depend on each other')
  return out
}
