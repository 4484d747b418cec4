/**
 * What a kernel may write over what it reads, told from its body before there is a kernel: the memory plan of the finished program asks
 * the same of kernels (src/compile/inPlace.ts), by the same law (src/kernel/overwrite.ts).
 */
import { invariant } from '../../diagnostics/errors.ts'
import type { Node, NodeOf } from '../../graph/node.ts'
import type { Stmt } from '../../kernel/ir.ts'
import { accessOf, mayOverwrite, type PartAccess } from '../../kernel/overwrite.ts'
import { ancestorsOf, liveLets } from '../../kernel/walk.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { standsOnAddend } from '../../types/product.ts'
import { sizeOf } from '../../types/shape.ts'
import { finishingStage, mainStage, type Stage, storesByAxes } from '../axes/stages.ts'
import type { Body, BodyStore, BodyTensor } from '../body/body.ts'
import { copiesTarget } from '../body/reads.ts'
import { dataInputs, isFree, storageOf } from '../body/region.ts'
import type { KernelGroup, LibraryCall, SingleGroup } from '../plan.ts'

/** A kernel's stage in one of its parts, and what it does to memory. */
interface Part {
  readonly body: Body
  readonly stage: Stage
  readonly access: PartAccess
}

/** A tensor that is loaded, and one that may be stored over it. */
export interface Overwrite {
  readonly write: BodyStore
  readonly read: BodyTensor
  /** What is written is computed from what is read. */
  readonly isUsed: boolean
}

const storeName = (s: BodyStore): string => `store ${s.node.id}`

/** `cut`: the stage stores partial results, or folds them. */
function partOf(body: Body, stage: Stage, cut: boolean): Part {
  const shapes = new Map([...body.loads].map(([name, t]) => [name, t.shape]))
  for (const s of stage.stores) shapes.set(storeName(s), s.shape)
  const store = (param: string, s: Pick<BodyStore, 'value' | 'index' | 'mask'>): Stmt => ({
    kind: 'store',
    param,
    index: s.index,
    mask: s.mask ?? [],
    value: s.value,
  })
  const stores = [
    ...stage.folded.map((value) => store('partial', { value, index: [] })),
    ...stage.stores.map((s) => store(storeName(s), s)),
  ]
  const access = accessOf([...stage.lets, ...stores], (name) => shapes.get(name) ?? [])
  return { body, stage, access: { ...access, folds: access.folds || cut } }
}

/** The values by their memory, of memory that is one parameter. */
function byMemory<T extends BodyTensor>(
  tensors: Iterable<readonly [name: string, T]>,
): Map<Node, readonly [string, T]> {
  const out = new Map<Node, readonly [string, T]>()
  const several = new Set<Node>()
  for (const entry of tensors) {
    const memory = storageOf(entry[1].node)
    if (out.has(memory)) several.add(memory)
    out.set(memory, entry)
  }
  for (const memory of several) out.delete(memory)
  return out
}

/** One kernel of a group: its main kernel or its finishing stage, with all its parts. */
export class KernelAccess {
  /** Buffers it loads. */
  readonly loaded: ReadonlySet<Node>
  private readonly parts: readonly Part[]
  private readonly reads: ReadonlyMap<Node, readonly [name: string, tensor: BodyTensor]>
  private readonly writes: ReadonlyMap<Node, readonly [name: string, store: BodyStore]>
  private readonly needed = new Map<string, ReadonlySet<string>>()

  constructor(parts: readonly Part[]) {
    this.parts = parts
    const loads = new Map<string, BodyTensor>()
    for (const { body, access } of parts)
      for (const name of access.loads.keys()) {
        const t = body.loads.get(name)
        if (t !== undefined) loads.set(name, t)
      }
    this.loaded = new Set([...loads.values()].map((t) => storageOf(t.node)))
    this.reads = byMemory(loads)
    this.writes = byMemory(new Map(parts.flatMap(({ stage }) => stage.stores.map((s) => [storeName(s), s] as const))))
  }

  /** All that it may write over what it loads, of some pairs. */
  pairs(among: (write: Node, read: Node) => boolean): Overwrite[] {
    const out: Overwrite[] = []
    for (const write of this.writes.keys())
      for (const read of this.reads.keys()) {
        const found = among(write, read) ? this.of(write, read) : undefined
        if (found !== undefined) out.push(found)
      }
    return out
  }

  /** The two tensors, where the one may be stored over the other. */
  of(write: Node, read: Node): Overwrite | undefined {
    const [to, from] = [this.writes.get(write), this.reads.get(read)]
    if (to === undefined || from === undefined) return undefined
    const [[writeName, stored], [readName, loaded]] = [to, from]
    const fits =
      sizeOf(stored.shape) === sizeOf(loaded.shape) &&
      dtypeBytes(write.dtype) === dtypeBytes(read.dtype) &&
      stored.format === loaded.format
    if (!fits) return undefined
    const accesses = this.parts.map((p) => p.access)
    const loading = accesses.filter((a) => a.loads.has(readName))
    const storing = accesses.filter((a) => a.stores.has(writeName))
    if (!mayOverwrite(loading, storing, readName, writeName)) return undefined
    return { write: stored, read: loaded, isUsed: this.neededFor(writeName).has(readName) }
  }

  /** What the stores to a parameter are computed from. */
  private neededFor(writeName: string): ReadonlySet<string> {
    const have = this.needed.get(writeName)
    if (have !== undefined) return have
    const out = new Set<string>()
    for (const { access } of this.parts)
      for (const id of ancestorsOf(access.stores.get(writeName)?.uses ?? [], access.lets)) {
        const op = access.lets.get(id)?.op
        if (op?.kind === 'load') out.add(op.param)
      }
    this.needed.set(writeName, out)
    return out
  }
}

/** The kernels of a group and what each may write over what. */
export interface Overwrites {
  readonly finish: KernelAccess
  readonly main: KernelAccess
  /** Buffers that only the main kernel loads, where it may write over them: what the finishing stage reads it reads last. */
  readonly leftToMain: (read: Node) => boolean
}

const known = new WeakMap<KernelGroup, Overwrites>()

export function overwritesOf(g: KernelGroup): Overwrites {
  const have = known.get(g)
  if (have !== undefined) return have
  const { kind, stages, splitBy, row } = g.roles
  const cut = stages.split.size > 0
  const bodies = g.segments.length > 1 ? g.segments : [g.body]
  const finish = new KernelAccess(
    bodies.flatMap((body) => {
      const stage = finishingStage(body, stages)
      if (stage === undefined) return []
      // Beside a matrix product it is several kernels, which store apart as parts do.
      const kernels = kind === 'matrix' ? storesByAxes(stage.stores) : [stage.stores]
      return kernels.map((stores) => {
        const lets = liveLets(
          stage.lets,
          stores.map((s) => s.value),
        )
        return partOf(body, { ...stage, lets, stores }, cut)
      })
    }),
  )
  const main = new KernelAccess(bodies.map((body) => partOf(body, mainStage(body, stages), cut)))
  // What a loop over rows reads may leave it under another name.
  const inRowLoop = cut && splitBy !== 'every-index' && row.size > 0
  const made = { finish, main, leftToMain: (read: Node) => !inRowLoop && !finish.loaded.has(read) }
  known.set(g, made)
  return made
}

/** Whether the result of a library's call, which reads its operands while it writes, may stand over what it is added to. */
function mayStandOnAddend({ body }: KernelGroup, call: LibraryCall, read: Node): boolean {
  const isRead = (param: string | undefined): boolean => {
    const tensor = body.loads.get(param ?? '')
    return tensor !== undefined && storageOf(tensor.node) === read
  }
  return isRead(call.addend) && !isRead(call.a) && !isRead(call.b) && standsOnAddend(call)
}

/** Whether a kernel may write a buffer over one that it reads, if nothing reads that afterwards. */
export function mayWriteOver(g: KernelGroup, write: Node, read: Node): boolean {
  if (g.called !== undefined) return mayStandOnAddend(g, g.called, read)
  const { finish, main, leftToMain } = overwritesOf(g)
  return finish.of(write, read) !== undefined || (leftToMain(read) && main.of(write, read) !== undefined)
}

/** The buffer that a scatter combines into, if it reads that for nothing else. */
export function targetOf(node: NodeOf<'scatter'>): Node | undefined {
  const [x, ...others] = node.inputs
  invariant(x !== undefined, 'scatter without inputs')
  const target = storageOf(x)
  const read = others.flatMap((y) => (isFree(y) ? dataInputs(y) : [y])).map(storageOf)
  return !copiesTarget(node) || read.includes(target) || sizeOf(x.shape) === 0 ? undefined : target
}

/** Whether a group may write a buffer over one that it reads, if nothing reads that afterwards. */
export function mayStandOver(g: SingleGroup, write: Node, read: Node): boolean {
  if (g.kind === 'scatter') return targetOf(g.node as NodeOf<'scatter'>) === read
  return g.kind === 'kernel' && mayWriteOver(g, write, read)
}
