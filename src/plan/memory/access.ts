/**
 * What a group of a plan does to memory: the one place that says what it reads and writes. A node whose elements stand in a
 * buffer of its own names that buffer. Order, liveness, reuse and saved values ask it, and what compiles a plan does as it says.
 */

import type { Node } from '../../graph/node.ts'
import type { PartialResult } from '../axes/partials.ts'
import { isEffect, type Reads, readsOfBoundary } from '../body/reads.ts'
import { storageOf } from '../body/region.ts'
import { type SingleGroup, storedBy } from '../plan.ts'

export interface AccessSummary extends Reads {
  /** Buffers that are filled. */
  readonly writes: readonly Node[]
  /** Buffers of its own that live while it runs. */
  readonly partials: readonly PartialResult[]
}

const known = new WeakMap<SingleGroup, AccessSummary>()

function summarise(g: SingleGroup): AccessSummary {
  const writes = storedBy(g)
  if (g.kind !== 'kernel') return { ...readsOfBoundary(g.node), writes, partials: [] }
  // What it computes itself it does not read, though another may store it.
  const buffers = new Set<Node>()
  const follows = new Set<Node>()
  for (const { loads } of g.segments)
    for (const { node } of loads.values()) {
      buffers.add(storageOf(node))
      if (isEffect(node)) follows.add(node)
    }
  return { buffers, follows, writes, partials: [...g.roles.stages.split.values()] }
}

/** What a group reads, writes and follows. */
export function accessOf(g: SingleGroup): AccessSummary {
  const have = known.get(g)
  if (have !== undefined) return have
  const made = summarise(g)
  known.set(g, made)
  return made
}
