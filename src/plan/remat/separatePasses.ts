/** Forward and backward pass kept apart: what the backward pass computes again must not be computed in the forward pass. */
import type { Node } from '../../graph/node.ts'

/** Values of a forward pass that a backward pass computes again: the copies must not be made in the forward pass. */
export interface SeparatePasses {
  readonly early: ReadonlySet<Node>
  /** Copies, and what each is a copy of. */
  readonly copies: ReadonlyMap<Node, Node>
  readonly backward: ReadonlySet<Node>
}

type Members = ReadonlySet<Node>

/** What a group computes for which pass, and what it computes again. */
interface Marks {
  readonly copied: readonly Node[]
  readonly early: boolean
  readonly backward: boolean
}

/** Which groups may not be one kernel for the sake of the two passes. */
export class Separation {
  private readonly apart: SeparatePasses
  private readonly known = new WeakMap<Members, Marks>()

  constructor(apart: SeparatePasses) {
    this.apart = apart
  }

  /** Whether one kernel of both would bring what is computed again next to what it was computed first with. */
  mixes(a: Members, b: Members): boolean {
    const [p, q] = [this.marksOf(a), this.marksOf(b)]
    const copied = [...p.copied, ...q.copied]
    if (copied.length === 0) return false
    if (copied.some((n) => a.has(n) || b.has(n))) return true
    return (p.early || q.early) && !p.backward && !q.backward
  }

  private marksOf(members: Members): Marks {
    const have = this.known.get(members)
    if (have !== undefined) return have
    const { copies, early, backward } = this.apart
    const copied: Node[] = []
    let [hasEarly, hasBackward] = [false, false]
    for (const n of members) {
      const original = copies.get(n)
      if (original !== undefined) copied.push(original)
      hasEarly ||= early.has(n)
      hasBackward ||= backward.has(n)
    }
    const marks = { copied, early: hasEarly, backward: hasBackward }
    this.known.set(members, marks)
    return marks
  }
}
