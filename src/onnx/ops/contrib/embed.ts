/** Sums of embeddings as BERT has them, and lengths of sequences by their masks. */
import * as n from '../../nodes.ts'

export interface Embeddings {
  /** [batch, sequence]. */
  readonly ids: n.Node
  readonly segments: n.Node | undefined
  readonly word: n.Node
  readonly position: n.Node
  readonly segment: n.Node | undefined
  /** [batch or 1, sequence]; 0, 1, ... unless given. */
  readonly positions: n.Node | undefined
}

/** word[ids] + position[places] (+ segment[segments]): [batch, sequence, width]. */
export function embeddingSum(e: Embeddings): n.Node {
  const sequence = e.ids.shape[1] ?? 1
  const place = e.positions === undefined ? n.sliceAxis(e.position, 0, 0, sequence) : n.take(e.position, e.positions, 0)
  const sum = n.add(n.take(e.word, e.ids, 0), place)
  return e.segment === undefined || e.segments === undefined ? sum : n.add(sum, n.take(e.segment, e.segments, 0))
}

/** How many elements of each row of a mask [batch, sequence] are 1; zeros without a mask. */
export function maskLengths(ids: n.Node, mask: n.Node | undefined): n.Node {
  if (mask === undefined) return n.full([ids.shape[0] ?? 1], 0, 'i32')
  return n.sum(n.cast(n.compare('eq', mask, 1), 'i32'), [1])
}
