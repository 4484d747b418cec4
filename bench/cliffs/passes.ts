/**
 * Dependences of a graph that one pass over the data cannot satisfy, and what must cross from one pass to the next. README.md says which
 * they are. Every value has a level: the passes that must have ended before it can be computed.
 */
import type { Node, NodeOf } from '../../src/graph/node.ts'
import { familyOf } from '../../src/graph/table.ts'
import { dtypeBytes } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { product } from './facts.ts'
import { minCut } from './minCut.ts'
import type { Known } from './work.ts'

/** Why a value is complete only when a pass has ended. */
export type Cause = 'total' | 'product' | 'scan' | 'scatter'

/** A use of a value that must wait until all of the value is there. */
interface Barrier {
  readonly from: Node
  readonly to: Node
  readonly side: number
  readonly causes: ReadonlyMap<Node, Cause>
}

/** What one more pass costs beside its launch. */
export interface Pass {
  readonly causes: readonly Cause[]
  /** Bytes that the pass before writes for this one, and that this one reads: those, and inputs once more. */
  readonly written: number
  readonly read: number
  /** Of a product fed by a product: the bytes that rows of blocks would read again instead, and out of what working set. */
  readonly instead?: { readonly read: number; readonly workingSet: number }
}

interface State {
  readonly level: number
  /** Values that this one depends on within its level, which are complete only at the end of it. */
  readonly open: ReadonlyMap<Node, readonly Cause[]>
}

/** Bytes of a value as it would be handed on; bools as bits. */
const bytesOf = (n: Node, k: Known): number =>
  Math.min(k.need(n), k.facts(n).distinct) * (n.dtype === 'bool' ? 1 / 8 : dtypeBytes(n.dtype))

/** The narrowest element in which the inputs that a value follows from stand. */
function narrowest(n: Node, k: Known, cache: Map<Node, number>): number {
  const have = cache.get(n)
  if (have !== undefined) return have
  const own = n.op === 'param' && sizeOf(n.shape) > 1 ? dtypeBytes(n.dtype) : Number.POSITIVE_INFINITY
  const least = Math.min(own, ...n.inputs.map((x) => narrowest(x, k, cache)))
  cache.set(n, least)
  return least
}

/** Why a node's value is complete only at the end of its pass, where its rows do not fit what is fast. */
function causesOf(n: Node, k: Known, fastBytes: number, cache: Map<Node, number>): readonly Cause[] {
  const width = Math.min(narrowest(n, k, cache), dtypeBytes(n.dtype))
  const [x] = n.inputs
  if (x === undefined || !Number.isFinite(width)) return []
  switch (n.op) {
    case 'reduce': {
      const row = product(n.attrs.axes.filter((a) => k.facts(x).varying[a]).map((a) => x.shape[a] ?? 1))
      return Math.min(row, k.facts(x).distinct) * width > fastBytes ? ['total'] : []
    }
    case 'contract': {
      const depth = product([...n.attrs.lhs].map((l, i) => (n.attrs.out.includes(l) ? 1 : (x.shape[i] ?? 1))))
      const large = bytesOf(n, k) > fastBytes
      return [...(depth * width > fastBytes ? (['total'] as const) : []), ...(large ? (['product'] as const) : [])]
    }
    case 'scan':
      return (n.shape[n.attrs.axis] ?? 1) * width > fastBytes ? ['scan'] : []
    case 'scatter':
      return bytesOf(n, k) > fastBytes ? ['scatter'] : []
    default:
      return []
  }
}

/** Labels of a contraction's result along which one side is the same: every element of that side is used along them. */
function repeats(n: NodeOf<'contract'>, side: number): boolean {
  const own = side === 0 ? n.attrs.lhs : n.attrs.rhs
  return [...n.attrs.out].some((l, i) => !own.includes(l) && (n.shape[i] ?? 1) > 1)
}

/** Which incomplete values node `n` cannot use through input `side` before they are complete. */
function waitsFor(n: Node, side: number, cause: Cause, origin: Node): boolean {
  const x = n.inputs[side]
  if (x === undefined) return false
  const grows = sizeOf(n.shape) > sizeOf(x.shape)
  switch (cause) {
    case 'total':
      if (n.op === 'broadcast' || (n.op === 'gather' && side === 0)) return grows
      return n.op === 'contract' && repeats(n, side)
    case 'product':
      return n.op === 'contract' && repeats(n, side)
    case 'scan':
      if (n.op === 'gather') return side === 0
      return n.op === 'scan' && origin.op === 'scan' && n.attrs.reverse !== origin.attrs.reverse
    case 'scatter':
      return ['elementwise', 'reduction', 'contraction', 'scan', 'gather'].includes(familyOf(n))
  }
}

/** Operations that a running total may see before an earlier total is complete, since a later one rescales or shifts what was added. */
const separable: ReadonlySet<string> = new Set(['add', 'sub', 'mul', 'div', 'neg', 'exp', 'cast'])
const streams = (n: Node): boolean => separable.has(n.op) || familyOf(n) === 'view'

/** The state of a node from its inputs', and the uses among them that end a pass. */
function join(
  n: Node,
  inputs: readonly (State | undefined)[],
  waits: (side: number, cause: Cause, origin: Node) => boolean,
): { readonly state: State; readonly barriers: readonly Barrier[] } {
  const barriers: Barrier[] = []
  const after = inputs.map((s, side): State | undefined => {
    const from = n.inputs[side]
    if (s === undefined || from === undefined) return undefined
    const causes = new Map<Node, Cause>()
    for (const [origin, list] of s.open) for (const c of list) if (waits(side, c, origin)) causes.set(origin, c)
    if (causes.size === 0) return s
    barriers.push({ from, to: n, side, causes })
    return { level: s.level + 1, open: new Map() }
  })
  const level = Math.max(0, ...after.map((s) => s?.level ?? 0))
  const open = new Map<Node, readonly Cause[]>()
  for (const s of after) if (s?.level === level) for (const [origin, list] of s.open) open.set(origin, list)
  return { state: { level, open }, barriers }
}

/** The level of every node, and the uses that end a pass. */
function levelsOf(k: Known, fastBytes: number): { states: Map<Node, State>; barriers: Barrier[] } {
  const states = new Map<Node, State>()
  // As a running total sees a value: with earlier totals as far as they have come.
  const running = new Map<Node, State>()
  const barriers: Barrier[] = []
  const cache = new Map<Node, number>()
  for (const n of k.nodes) {
    if (k.need(n) === 0 || k.facts(n).constant) continue
    const own = causesOf(n, k, fastBytes, cache)
    const of = (map: Map<Node, State>): (State | undefined)[] => n.inputs.map((x) => map.get(x))
    const waits = (side: number, cause: Cause, origin: Node): boolean => waitsFor(n, side, cause, origin)
    const seen = join(n, of(running), (side, cause, origin) => cause !== 'total' && waits(side, cause, origin))
    const complete = own.includes('total') ? seen : join(n, of(states), waits)
    const open = new Map(complete.state.open)
    if (own.length > 0) open.set(n, own)
    const state = { level: complete.state.level, open }
    barriers.push(...complete.barriers)
    states.set(n, state)
    running.set(n, streams(n) ? seen.state : state)
  }
  return { states, barriers }
}

/** Nodes that some nodes follow from, themselves included. */
function ancestors(nodes: readonly Node[]): Set<Node> {
  const seen = new Set<Node>()
  const left = [...nodes]
  for (let n = left.pop(); n !== undefined; n = left.pop()) {
    if (seen.has(n)) continue
    seen.add(n)
    left.push(...n.inputs)
  }
  return seen
}

/** What blocks of rows of the second product would read again, were the first not stored; undefined for other uses. */
function insteadOf({ to, side, causes }: Barrier, fastBytes: number): Pass['instead'] {
  if (to.op !== 'contract' || [...causes.values()].some((c) => c !== 'product')) return undefined
  const [own, theirs] = side === 0 ? [to.attrs.lhs, to.attrs.rhs] : [to.attrs.rhs, to.attrs.lhs]
  const extent = (test: (l: string) => boolean): number =>
    product([...to.attrs.out].map((l, i) => (test(l) ? (to.shape[i] ?? 1) : 1)))
  const batch = extent((l) => own.includes(l) && theirs.includes(l))
  const rows = extent((l) => own.includes(l) && !theirs.includes(l))
  const columns = extent((l) => !own.includes(l))
  const bytes = (n: Node | undefined): number => (n === undefined ? 0 : sizeOf(n.shape) * dtypeBytes(n.dtype))
  const firsts = [...causes.keys()].map((u) => Math.min(...u.inputs.map(bytes)))
  const workingSet = (bytes(to.inputs[1 - side]) + Math.min(...firsts)) / batch
  if (workingSet <= fastBytes / 2) return { read: 0, workingSet }
  const block = Math.max(1, Math.floor(fastBytes / (4 * columns)))
  return { read: batch * workingSet * (Math.ceil(rows / block) - 1), workingSet }
}

/** The passes after the first, each with the least that must cross into it. */
export function passesOf(k: Known, fastBytes: number): Pass[] {
  const { states, barriers } = levelsOf(k, fastBytes)
  const levelOf = (n: Node): number => states.get(n)?.level ?? 0
  const last = Math.max(0, ...k.graph.outputs.map(levelOf))
  const written = new Set<Node>()
  const passes: Pass[] = []
  for (let level = 1; level <= last; level++) {
    const sinks =
      level === last
        ? k.graph.outputs.filter((n) => levelOf(n) === level)
        : barriers.filter((b) => levelOf(b.from) === level && levelOf(b.to) === level + 1).map((b) => b.from)
    const inside = ancestors(sinks)
    const into = barriers.filter((b) => inside.has(b.to) && levelOf(b.from) === level - 1 && levelOf(b.to) === level)
    const origins = new Set(into.flatMap((b) => [...b.causes.keys()]))
    const earlier = ancestors(barriers.filter((b) => levelOf(b.from) < level).map((b) => b.from))
    const nodes = [...inside].filter((n) => states.has(n))
    const index = new Map(nodes.map((n, i) => [n, i]))
    const weight = (n: Node): number => {
      if (levelOf(n) >= level) return Number.POSITIVE_INFINITY
      if (n.op === 'param') return earlier.has(n) ? bytesOf(n, k) : 0
      return bytesOf(n, k) * (written.has(n) ? 1 : 2)
    }
    const cut = minCut(
      nodes.map((n) => ({
        weight: weight(n),
        isSource: n.op === 'param' || origins.has(n),
        isSink: sinks.includes(n),
        inputs: origins.has(n) ? [] : n.inputs.flatMap((x) => index.get(x) ?? []),
      })),
    )
    if (cut === undefined) throw new Error('a pass that nothing separates from the one before')
    const crossing = cut.flatMap((i) => nodes[i] ?? []).filter((n) => weight(n) > 0)
    const causes = [...new Set(into.flatMap((b) => [...b.causes.values()]))]
    const isTotal = (n: Node): boolean => [...(states.get(n)?.open.values() ?? [])].some((c) => c.includes('total'))
    // Totals alone are handed on inside a pass: what they are used with is read once.
    if (causes.every((c) => c === 'total') && crossing.every(isTotal)) continue
    const stored = crossing.filter((n) => n.op !== 'param')
    const fresh = stored.filter((n) => !written.has(n))
    for (const n of stored) written.add(n)
    const instead = into.map((b) => insteadOf(b, fastBytes))
    const all = instead.flatMap((x) => x ?? [])
    const most =
      all.length === instead.length ? all.reduce((a, b) => (b.read > a.read ? b : a), all[0] ?? none) : undefined
    passes.push({
      causes,
      written: fresh.reduce((sum, n) => sum + bytesOf(n, k), 0),
      read: crossing.reduce((sum, n) => sum + bytesOf(n, k), 0),
      ...(most === undefined ? {} : { instead: most }),
    })
  }
  return passes
}

const none = { read: 0, workingSet: 1 }
