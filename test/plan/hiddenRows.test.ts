/** Rows that see nothing, whose softmax is no number: zero where a condition chooses zero in the place of their weights, as the operations give it apart. */
import { expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, check, trace } from '../compile/support.ts'
import { hidden, key, query } from '../support/scores.ts'

/** Queries from the fourth on see keys at least three places before theirs. */
const before = (s: Node): Node => c.compare('le', key(s), c.sub(query(s), 3))
const some = (s: Node): Node => c.compare('ge', query(s), 3)
const even = (s: Node): Node => c.compare('eq', c.rem(key(s), 2), 0)

const attention = (shape: readonly number[], dtype: DType, weighed: (w: Node, s: Node) => Node): Graph =>
  trace(Array(3).fill({ shape, dtype }), (p) => {
    const s = c.mul(c.matmul(at(p, 0), c.swapAxes(at(p, 1), -1, -2)), 0.25)
    return c.matmul(weighed(c.softmax(c.where(before(s), s, hidden), -1), s), at(p, 2))
  })

test.each<[string, (w: Node, s: Node) => Node]>([
  ['the mask once more', (w, s) => c.where(before(s), w, 0)],
  ['the mask and another', (w, s) => c.where(c.binary('and', before(s), even(s)), w, 0)],
  ['the other way round', (w, s) => c.where(c.unary('not', before(s)), 0, w)],
  ['rows that see something', (w, s) => c.where(some(s), w, 0)],
  ['both, and a number', (w, s) => c.where(some(s), c.mul(c.where(before(s), w, 0), 1.25), 0)],
])('%s', (_, weighed) => {
  for (const target of [undefined, cudaTarget]) {
    const compiled = check(attention([2, 128, 32], 'f32', weighed), target === undefined ? {} : { target })
    expect(compiled.program.steps.filter((step) => step.kind === 'kernel')).toHaveLength(1)
  }
})
