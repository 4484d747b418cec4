/** Buffers that the kernels of a body bind: with reductions that are cut, its main kernel and its finishing stages. */
import type { Node } from '../../graph/node.ts'
import type { Machine } from '../../target/machine.ts'
import { type Body, type BodyStore, type BodyTensor, storedTensors } from '../body/body.ts'
import { storageOf } from '../body/region.ts'
import { type Refused, refuse } from '../refusal.ts'
import { finishingStage, mainStage, type Stage, type Stages } from './stages.ts'

/** What each of the two binds, a key for every buffer: equal keys are joined where kernels are launched as one. */
export interface Bindings {
  readonly main: ReadonlySet<string>
  readonly finish: ReadonlySet<string>
}

/** By the node of a buffer that is written, that of its donor: the buffer it is written over. */
export type BufferReuse = ReadonlyMap<Node, Node>

/** Whether two tensors are one parameter where they stand in one place. */
export const isAlike = (a: BodyTensor, b: BodyTensor): boolean =>
  a.node.dtype === b.node.dtype && a.format === b.format && a.shape.join() === b.shape.join()

/** What a target binds otherwise than as a buffer for every tensor. */
export interface BindingRules {
  /** A result that is written over what its kernel reads is the same binding. */
  readonly joined?: BufferReuse
  /** Nodes that are values, bound apart from buffers. */
  readonly isValue?: (node: Node) => boolean
}

const value = 'value '

/** How many of some keys are values. */
export const valuesAmong = (keys: Iterable<string>): number => [...keys].filter((k) => k.startsWith(value)).length

/** What the stages of a body bind. */
export function bindingsOf(body: Body, stages: Stages, { joined, isValue }: BindingRules = {}): Bindings {
  // A tensor that is read with two shapes is bound twice.
  const readKey = (t: BodyTensor): string =>
    `${isValue?.(storageOf(t.node)) === true ? value : 'read '}${t.node.id} [${t.shape.join()}]`
  const stored = new Set(storedTensors(body))
  const keys = (stage: Stage | undefined): Set<string> => {
    const out = new Set<string>()
    if (stage === undefined) return out
    const [first] = body.stores
    // Of one body alone.
    for (const id of stage.partials) out.add(`partial ${first?.node.id} ${id}`)
    const loads = new Map<string, BodyTensor>()
    for (const { op } of stage.lets) {
      const tensor = op.kind === 'load' ? body.loads.get(op.param) : undefined
      if (tensor !== undefined) loads.set(readKey(tensor), tensor)
    }
    for (const key of loads.keys()) out.add(key)
    for (const s of stage.stores) {
      if (!stored.has(s)) continue
      const over = joined === undefined ? undefined : loadUnder(s, loads.values(), joined)
      out.add(over === undefined ? `store ${s.node.id}` : readKey(over))
    }
    return out
  }
  return { main: keys(mainStage(body, stages)), finish: keys(finishingStage(body, stages)) }
}

/** What is loaded from the memory that a store is written over, where the two are one parameter. */
function loadUnder(s: BodyStore, loads: Iterable<BodyTensor>, reuse: BufferReuse): BodyTensor | undefined {
  const donor = reuse.get(storageOf(s.node))
  if (donor === undefined) return undefined
  for (const t of loads) if (storageOf(t.node) === donor && isAlike(s, t)) return t
  return undefined
}

/** Buffers that a body binds as one kernel: every tensor it loads, in each shape, and every tensor it stores. */
export const buffersOf = (body: Body): number => body.loads.size + storedTensors(body).length

/** The most buffers that one kernel of a body binds, partial results among them. */
export function mostBuffers(body: Body, stages: Stages): number {
  if (stages.split.size === 0) return buffersOf(body)
  const { main, finish } = bindingsOf(body, stages)
  return Math.max(main.size, finish.size)
}

/** Why the kernels of a body with reductions that are cut bind too much, the partial results counted; undefined: they do not. */
export function tooManyBound(body: Body, stages: Stages, target: Machine): Refused | undefined {
  if (buffersOf(body) + stages.split.size <= target.maxBuffers) return undefined
  const most = mostBuffers(body, stages)
  if (most <= target.maxBuffers) return undefined
  return refuse('too-many-buffers', `${most} buffers with partial results, the target binds ${target.maxBuffers}`)
}
