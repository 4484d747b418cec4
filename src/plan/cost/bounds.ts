/** Bounds that spare trials: what a kernel must touch, hold and cost at least, from kernels it would be made of. */

import type { Node } from '../../graph/node.ts'
import { familyOf } from '../../graph/table.ts'
import { type Machine, movingSeconds, together } from '../../target/machine.ts'
import { sizeOf } from '../../types/shape.ts'
import { coversOnce } from '../body/bijection.ts'
import { type Body, tensorBytes } from '../body/body.ts'
import { foldsElements, type Region } from '../body/region.ts'
import { leastStatements, overlap } from '../body/statements.ts'
import { type Refused, refuse } from '../refusal.ts'
import type { Made } from './candidateMemo.ts'
import { elementwiseSeconds } from './cost.ts'

/** A group as the bounds see it. */
export interface Bounded {
  readonly members: ReadonlySet<Node>
  readonly outputs: readonly Node[]
  readonly made: Made | undefined
}

/** Why the region that two groups would be as one is too large for a target, where that is certain. */
export function tooLarge(a: Bounded, b: Bounded, { members, outputs }: Region, target: Machine): Refused | undefined {
  let statements = 0
  if (members.size > target.maxStatements)
    for (const n of members) if (familyOf(n) === 'elementwise' || familyOf(n) === 'reduction') statements++
  if (statements > target.maxStatements)
    return refuse('too-many-live-values', `${statements} statements, the target takes ${target.maxStatements}`)
  const least = statementsBeyond(a, b, target.maxStatements)
  if (least !== undefined)
    return refuse('too-many-live-values', `${least} statements, the target takes ${target.maxStatements}`)
  const most = (a.made?.body.loads.size ?? 0) + (b.made?.body.loads.size ?? 0) + outputs.length
  if (most <= target.maxBuffers) return undefined
  const stored = new Set(outputs)
  const loaded = new Set<Node>()
  for (const [g, other] of [
    [a, b],
    [b, a],
  ] as const) {
    // What a value handed on reads is read only as far as the value is.
    const whole = g.outputs.every((o) => stored.has(o) || (other.made !== undefined && readsWhole(other.made.body, o)))
    if (whole) for (const { node } of g.made?.body.loads.values() ?? []) if (!members.has(node)) loaded.add(node)
  }
  const buffers = loaded.size + outputs.length
  if (buffers <= target.maxBuffers) return undefined
  return refuse('too-many-buffers', `${buffers} buffers, the target binds ${target.maxBuffers}`)
}

/** How many statements the kernel of two groups has at least, where that is certain to be more than `most`. */
export function statementsBeyond(a: Bounded, b: Bounded, most: number): number | undefined {
  const [p, q] = [a.made?.body, b.made?.body]
  if (p === undefined || q === undefined || p.lets.length + q.lets.length <= most) return undefined
  if (overlap(a.members, b.members)) return undefined
  const least = leastStatements({ members: a.members, body: p }, { members: b.members, body: q })
  return least > most ? least : undefined
}

/** Whether a body loads every element of a node at one place. */
function readsWhole(body: Body, node: Node): boolean {
  return body.lets.some(({ op }) => {
    if (op.kind !== 'load' || op.mask.length > 0) return false
    const t = body.loads.get(op.param)
    return t?.node === node && coversOnce(op.index, t.shape)
  })
}

/** Least modelled seconds of a kernel that computes a value itself instead of loading it, by `chain`. */
export function leastSecondsWith(g: Bounded, value: Node, chain: ReadonlySet<Node>, target: Machine): number {
  const { made } = g
  if (made === undefined) return 0
  const { bytesRead, bytesWritten, compute } = made.cost
  const load = [...made.body.loads.values()].find((t) => t.node === value)
  const bytes = bytesRead + bytesWritten - (load === undefined ? 0 : tensorBytes(load, sizeOf(value.shape)))
  let extra = 0
  // Elementwise operations between values of one shape are evaluated wherever the last of them is.
  if (readsWhole(made.body, value)) {
    const stack = [value]
    const seen = new Set<Node>(stack)
    for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
      if (g.members.has(n) || familyOf(n) !== 'elementwise') continue
      extra += sizeOf(n.shape) * elementwiseSeconds(n, target)
      for (const x of n.inputs)
        if (chain.has(x) && !seen.has(x)) {
          seen.add(x)
          stack.push(x)
        }
    }
  }
  return together(movingSeconds(bytes, target), compute + extra, target) + target.launch
}

/** Least modelled seconds of a kernel that no longer stores one of its results but has the same members. */
export function leastSecondsWithout(g: Bounded, value: Node, target: Machine): number {
  const { made } = g
  if (made === undefined) return 0
  const { bytesRead, bytesWritten, compute } = made.cost
  const store = made.body.stores.find((t) => t.node === value)
  const bytes = bytesRead + bytesWritten - (store === undefined ? 0 : tensorBytes(store, sizeOf(value.shape)))
  return together(movingSeconds(bytes, target), neededWhole(g, value) ? compute : 0, target) + target.launch
}

/** Whether all elements of a member are needed for another result: elementwise ones in between, or a fold over them. */
function neededWhole(g: Bounded, value: Node): boolean {
  const needed = new Set([value])
  // Inputs come before their users by number.
  for (const n of [...g.members].sort((p, q) => p.id - q.id)) {
    if (!n.inputs.some((x) => needed.has(x))) continue
    if (foldsElements(n)) return true
    if (familyOf(n) !== 'elementwise') continue
    if (g.outputs.includes(n)) return true
    needed.add(n)
  }
  return false
}
