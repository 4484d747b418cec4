/**
 * Lazy evaluation: outside `jit`, operations build graph nodes over leaves bound to storages; evaluating compiles and runs
 * everything a value needs as one program, from a cache keyed by structure.
 */
import { broadcastTo } from '../../compose/broadcast.ts'
import { invariant } from '../../diagnostics/errors.ts'
import { inOrigin } from '../../diagnostics/origin.ts'
import { makeNode, param, withContext } from '../../graph/build.ts'
import type { AttrsByOp, Graph, Node, NodeOf, OpName } from '../../graph/node.ts'
import type { DeviceBuffer } from '../../runtime/backend.ts'
import { toHost } from '../../scalar/host.ts'
import type { DType } from '../../types/dtype.ts'
import type { Compiled, Device } from '../device/device.ts'
import { currentDevice } from '../device/session.ts'
import { attributesKey } from './graphKey.ts'
import { freeScalars, scalarsKey } from './scalars.ts'
import { retain, Storage } from './storage.ts'

/** Nodes whose value is known: leaves, and evaluated nodes that other pending graphs still refer to. */
const bindings = new WeakMap<Node, Storage>()
const leaves = new WeakMap<Storage, Node>()
/** The node that a storage was computed for. Nodes hold what they were computed from, so values do not hold them. */
const computed = new WeakMap<Storage, WeakRef<Node>>()
/** The least id of the nodes bound to a storage: older nodes cannot depend on it. */
const eldest = new WeakMap<Storage, number>()

function bind(node: Node, storage: Storage): void {
  bindings.set(node, storage)
  eldest.set(storage, Math.min(node.id, eldest.get(storage) ?? node.id))
}

/** The leaf that stands for a storage in lazy graphs. */
export function leafOf(storage: Storage): Node {
  const have = leaves.get(storage)
  if (have !== undefined) return have
  const leaf = param(0, storage.shape, storage.dtype)
  leaves.set(storage, leaf)
  bind(leaf, storage)
  return leaf
}

/** Whether a lazy graph was ever built on a storage. */
export const wasRead = (storage: Storage): boolean => eldest.has(storage)

/** The value of a node, if it is known. */
export const boundTo = (node: Node): Storage | undefined => bindings.get(node)

/** Nodes below the roots, inputs first; known nodes are not entered. Iterative: graphs may be deep. */
function survey(roots: readonly Node[]): Node[] {
  const order: Node[] = []
  const seen = new Set<Node>()
  const stack: { readonly node: Node; readonly inputs: readonly Node[]; next: number }[] = []
  const enter = (node: Node): void => {
    if (seen.has(node)) return
    seen.add(node)
    stack.push({ node, inputs: bindings.has(node) ? [] : node.inputs, next: 0 })
  }
  for (const root of roots) {
    enter(root)
    for (let top = stack.at(-1); top !== undefined; top = stack.at(-1)) {
      const input = top.inputs[top.next++]
      if (input !== undefined) enter(input)
      else {
        order.push(top.node)
        stack.pop()
      }
    }
  }
  return order
}

/** Control flow does not wait: its results are evaluated together, at once, or it would run again for each. */
const runsAtOnce = (n: Node): boolean => n.op === 'cond' || n.op === 'while' || n.op === 'loop'

/** Number of nodes that evaluating nodes together would compute; infinite where control flow is among them. */
export function pendingSize(...nodes: readonly Node[]): number {
  const pending = survey(nodes).filter((n) => !bindings.has(n))
  return pending.some(runsAtOnce) ? Number.POSITIVE_INFINITY : pending.length
}

/** The least id of the nodes that stand for a storage. It was read (`wasRead`). */
export const eldestOf = (storage: Storage): number => eldest.get(storage) ?? 0

/**
 * Who waits for which storages: holders of pending nodes, found upwards from what stands for a storage. It grows with what waits, so
 * that disposing of many values takes one walk over all; nodes older than `since` are not entered.
 */
export class Readers<Holder> {
  readonly since: number
  private readonly users = new Map<Node, Node[]>()
  private readonly entered = new Set<Node>()
  private readonly holders = new Map<Node, { readonly holder: Holder; readonly at: number }[]>()
  private added = 0

  constructor(since: number) {
    this.since = since
  }

  add(node: Node, holder: Holder): void {
    const entry = { holder, at: this.added++ }
    const beside = this.holders.get(node)
    if (beside === undefined) this.holders.set(node, [entry])
    else beside.push(entry)
    const stack = [node]
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      if (n.id < this.since || this.entered.has(n)) continue
      this.entered.add(n)
      if (bindings.has(n)) continue
      for (const input of new Set(n.inputs)) {
        const users = this.users.get(input)
        if (users === undefined) this.users.set(input, [n])
        else users.push(n)
        stack.push(input)
      }
    }
  }

  /** Holders of nodes that need a storage to be evaluated, in the order in which they were added. */
  of(storage: Storage): Holder[] {
    const found: { readonly holder: Holder; readonly at: number }[] = []
    const seen = new Set<Node>()
    const stack = [leaves.get(storage), computed.get(storage)?.deref()].filter((n) => n !== undefined)
    for (let n = stack.pop(); n !== undefined; n = stack.pop())
      for (const user of this.users.get(n) ?? []) {
        if (seen.has(user) || bindings.has(user)) continue
        seen.add(user)
        found.push(...(this.holders.get(user) ?? []))
        stack.push(user)
      }
    return found.sort((a, b) => a.at - b.at).map((x) => x.holder)
  }
}

/** Programs kept for the next evaluation of the same structure: their number, and the bytes they hold together. */
const maxPrograms = 256
const maxProgramBytes = 128 << 20

interface Remembered {
  readonly program: Compiled
  readonly bytes: number
  /** Evaluations under way: users' kernels may evaluate other tensors. */
  running: number
}

const programs = new Map<string, Remembered>()
let programBytes = 0

/** The program of a key, most recently used last; the eldest that do not run go when there are too many, or they hold too much. */
function remember(key: string, make: () => Compiled): Remembered {
  const have = programs.get(key)
  if (have !== undefined) {
    programs.delete(key)
    programs.set(key, have)
    return have
  }
  const program = make()
  const bytes = program.residentBytes
  const made: Remembered = { program, bytes, running: 0 }
  programs.set(key, made)
  programBytes += bytes
  for (const [eldest, old] of programs) {
    if (old === made || (programs.size <= maxPrograms && programBytes <= maxProgramBytes)) break
    if (old.running > 0) continue
    programs.delete(eldest)
    programBytes -= old.bytes
    old.program.dispose()
  }
  return made
}

const deviceIds = new WeakMap<Device, number>()
let nextDevice = 1
function deviceId(device: Device): number {
  const id = deviceIds.get(device) ?? nextDevice++
  deviceIds.set(device, id)
  return id
}

type Full = NodeOf<'full'>

/** Equal structures differ in the values of their numbers alone. */
function structureOf(device: Device, order: readonly Node[], roots: readonly Node[]): string {
  const places = new Map(order.map((n, i) => [n, i]))
  const place = (n: Node): string => String(places.get(n))
  const lines = order.map((n) => {
    if (bindings.has(n)) return `${n.dtype}[${n.shape.join()}]`
    if (n.op === 'full') return `full ${n.dtype}[${n.shape.join()}]`
    return `${n.op}(${n.inputs.map(place).join()})${attributesKey(n)}`
  })
  return `${deviceId(device)};${lines.join(';')}>${roots.map(place).join()}`
}

/** The surveyed nodes as a program of their own: leaves become numbered parameters, and after them the numbers in `free`. */
function rebuild(order: readonly Node[], roots: readonly Node[], free: readonly Full[]): Graph {
  const image = new Map<Node, Node>()
  const params: NodeOf<'param'>[] = []
  const of = (n: Node): Node => {
    const r = image.get(n)
    invariant(r !== undefined, 'a lazy node before its inputs')
    return r
  }
  const newParam = (shape: readonly number[], dtype: DType): Node => {
    const p = param(params.length, shape, dtype)
    params.push(p)
    return p
  }
  withContext(() => {
    for (const n of order) if (bindings.has(n)) image.set(n, newParam(n.shape, n.dtype))
    for (const n of free)
      image.set(
        n,
        inOrigin(n.origin, () => broadcastTo(newParam([], n.dtype), n.shape)),
      )
    for (const n of order) {
      if (image.has(n)) continue
      image.set(
        n,
        inOrigin(n.origin, () => makeNode<OpName>(n.op, n.inputs.map(of), n.attrs as AttrsByOp[OpName]) as Node),
      )
    }
  })
  return { params, outputs: roots.map(of), effects: [] }
}

/** The values of nodes, computed together in one program; each result counts one reference more. */
export function evaluateNodes(nodes: readonly Node[]): Storage[] {
  const missing = [...new Set(nodes)].filter((n) => !bindings.has(n))
  if (missing.length > 0) computeNodes(missing)
  const fresh = new Set(missing)
  return nodes.map((n) => {
    const s = bindings.get(n)
    invariant(s !== undefined, 'an evaluated node without value')
    // A fresh storage is made with the reference of its first holder.
    return fresh.delete(n) ? s : retain(s)
  })
}

function computeNodes(roots: readonly Node[]): void {
  const device = currentDevice()
  const order = survey(roots)
  const inputs = order.flatMap((n) => bindings.get(n) ?? [])
  const fulls = order.flatMap((n) => (n.op === 'full' && !bindings.has(n) ? [n] : []))
  const values = fulls.map((n) => n.attrs.value)
  const structure = structureOf(device, order, roots)
  const changing = freeScalars(structure, values)
  const free = fulls.filter((_, i) => changing.has(i))
  const remembered = remember(`${structure}|${scalarsKey(values, changing)}`, () =>
    device.compile(rebuild(order, roots, free), {
      mode: 'fast',
      donated: [...inputs, ...free].map(() => false),
      name: 'lazy',
    }),
  )
  const numbers = free.map((n) => Storage.ofHost(toHost([n.attrs.value], n.dtype), [], n.dtype))
  remembered.running++
  let outputs: readonly DeviceBuffer[]
  try {
    outputs = remembered.program.run([...inputs, ...numbers].map((s) => s.on(device)))
  } finally {
    remembered.running--
  }
  for (const s of numbers) s.free()
  roots.forEach((n, i) => {
    const buffer = outputs[i]
    invariant(buffer !== undefined, 'a program with too few outputs')
    const storage = Storage.ofBuffer(device, buffer, n.shape, n.dtype)
    computed.set(storage, new WeakRef(n))
    bind(n, storage)
  })
}
