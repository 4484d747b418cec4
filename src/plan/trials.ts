/**
 * Trials remembered: what a region would be as a kernel. Planning asks for the same regions again, for other reasons and, with
 * copies of what the backward pass computes again, once more for a graph that is the same in most places. A region of nodes
 * that stand for other nodes, one for one, is the kernel those are.
 */
import type { Node } from '../graph/node.ts'
import type { Body, BodyTensor } from './body.ts'
import type { KernelGroup } from './plan.ts'
import type { Refused } from './refusal.ts'
import { dataInputs, isFree, type Region } from './region.ts'

/** What a region is as a kernel. */
export type Made = Omit<KernelGroup, 'kind' | 'members' | 'outputs'>

export type Outcome = ({ readonly ok: true } & Made) | Refused

/** Statements of remembered bodies, together at most. */
const mostStatements = 1 << 18

/** Outcomes of trials on one target in one mode. */
export class Trials {
  private readonly outcomes = new Map<string, { readonly outcome: Outcome; readonly of: Originals }>()
  private statements = 0

  /** The outcome for a region (`single`: one without limits), remembered or from `build`. The formats of what it touches follow from `packable`. */
  of(
    region: Region & { readonly single: boolean },
    packable: ReadonlySet<Node>,
    originals: Originals,
    build: () => Outcome,
  ): Outcome {
    const { members } = region
    const key = keyOf(region, packable, originals)
    if (key === undefined) return build()
    const have = this.outcomes.get(key)
    if (have !== undefined) {
      const outcome = have.outcome.ok ? renamed(have.outcome, have.of, members, originals) : have.outcome
      if (outcome !== undefined) return outcome
    }
    const outcome = build()
    this.statements += outcome.ok ? outcome.body.lets.length : 0
    if (!outcome.ok || this.statements <= mostStatements) this.outcomes.set(key, { outcome, of: originals })
    return outcome
  }
}

/** What nodes stand for, where not for themselves. A node's inputs stand for the inputs of what it stands for. */
export type Originals = ReadonlyMap<Node, Node>

/** Equal for regions that are the same kernel; undefined where two nodes of a region stand for one. */
function keyOf(
  { members, outputs, single }: Region & { readonly single: boolean },
  packable: ReadonlySet<Node>,
  originals: Originals,
): string | undefined {
  const ids: number[] = []
  const inputs = new Set<Node>()
  for (const m of members) {
    ids.push((originals.get(m) ?? m).id)
    for (const x of dataInputs(m)) if (!members.has(x)) inputs.add(x)
  }
  if (originals.size > 0) {
    const seen = new Set(ids)
    for (const x of inputs) seen.add((originals.get(x) ?? x).id)
    if (seen.size !== members.size + inputs.size) return undefined
  }
  // Results are bound to axes in an order that ends with their numbers.
  const stored = [...outputs].sort((p, q) => p.id - q.id).map((n) => (originals.get(n) ?? n).id)
  const packed: number[] = []
  for (const x of [...inputs, ...outputs]) if (packable.has(x)) packed.push((originals.get(x) ?? x).id)
  return `${single ? 'single ' : ''}${ids.sort((p, q) => p - q).join()}>${stored.join()}|${packed.sort((p, q) => p - q).join()}`
}

/** An outcome for the nodes of one region, in the nodes of another that stand for the same. */
function renamed(
  made: { readonly ok: true } & Made,
  from: Originals,
  members: ReadonlySet<Node>,
  to: Originals,
): Outcome | undefined {
  const same = from === to || (from.size === 0 && [...members].every((m) => !to.has(m)))
  if (same) return made
  const image = new Map<Node, Node>()
  const stack = [...members]
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    const original = to.get(n) ?? n
    if (image.has(original)) continue
    image.set(original, n)
    if (members.has(n) || isFree(n)) stack.push(...n.inputs)
  }
  let missing = false
  const at = (n: Node): Node => {
    const found = image.get(from.get(n) ?? n)
    missing ||= found === undefined
    return found ?? n
  }
  const tensor = <T extends BodyTensor>(t: T): T => ({ ...t, node: at(t.node) })
  const origins = new Map<Body['origin'], Body['origin']>()
  const body = (b: Body): Body => {
    const live = new Set(b.lets.map((l) => l.id))
    const origin =
      origins.get(b.origin) ?? new Map([...b.origin].flatMap(([id, n]) => (live.has(id) ? [[id, at(n)]] : [])))
    origins.set(b.origin, origin)
    return {
      ...b,
      loads: new Map([...b.loads].map(([name, t]) => [name, tensor(t)])),
      stores: b.stores.map(tensor),
      origin,
    }
  }
  const whole = body(made.body)
  const segments = made.segments.map((s) => (s === made.body ? whole : body(s)))
  return missing ? undefined : { ...made, body: whole, segments }
}
