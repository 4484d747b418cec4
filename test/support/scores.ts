/** Scores of queries against keys, [..., queries, keys], that tests of chains change and mask. */
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'

/** What is made of scores, given other inputs. */
export type Score = (s: Node, extra: readonly Node[]) => Node

/** Places of queries and keys, beside scores. */
export const query = (s: Node): Node => c.iota(s.shape, s.shape.length - 2)
export const key = (s: Node): Node => c.iota(s.shape, s.shape.length - 1)

/** The score of a key that a query does not see. */
export const hidden = Number.NEGATIVE_INFINITY
