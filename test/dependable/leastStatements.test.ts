/**
 * Issue: compile time is near-linear. What spares trials of full kernels is a bound from below, in every kernel made of two.
 * Sites looked at: `leastStatements` (loads of one tensor at one place, at others, under masks, at positions that are data, folded).
 */
import { expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { buildBody } from '../../src/plan/body/buildBody.ts'
import { isFree } from '../../src/plan/body/region.ts'
import { leastStatements } from '../../src/plan/body/statements.ts'

test('two kernels have no fewer statements as one than is said', () => {
  withContext(() => {
    const [x, at] = [param(0, [8, 8], 'f32'), param(1, [8, 8], 'i32')]
    const results: readonly Node[] = [
      c.exp(x),
      c.mul(x, 2),
      c.mul(c.permute(x, [1, 0]), 2),
      c.unary('sin', c.flip(x, [1])),
      c.add(c.flip(x, [1]), x),
      c.tanh(
        c.sliceAxis(
          c.pad(x, [
            [1, 1],
            [0, 0],
          ]),
          0,
          0,
          8,
        ),
      ),
      c.exp(c.takeAlongAxis(x, at, 0)),
      c.unary('sin', c.takeAlongAxis(x, at, 0)),
      c.add(x, c.sum(x, 1, true)),
      c.mul(x, c.reduceMax(x, 1, true)),
      c.sub(x, c.sum(x, 0, true)),
    ]
    const computed = (roots: readonly Node[]) => ({
      members: new Set(
        [...nodesOf({ params: [], outputs: [...roots], effects: [] })].filter((n) => !isFree(n) && n.op !== 'param'),
      ),
      outputs: roots,
    })
    let exact = 0
    for (const a of results)
      for (const b of results) {
        const [p, q, both] = [computed([a]), computed([b]), computed([a, b])]
        if ([...p.members].some((n) => q.members.has(n))) continue
        const [one, other, made] = [p, q, both].map((r) => buildBody(r))
        if (one?.ok !== true || other?.ok !== true || made?.ok !== true) continue
        const least = leastStatements({ members: p.members, body: one.body }, { members: q.members, body: other.body })
        expect(least).toBeLessThanOrEqual(made.body.lets.length)
        if (least === made.body.lets.length) exact++
      }
    expect(exact).toBeGreaterThan(20)
  })
})
