/** Groups of a plan: who stores what several compute. */
import { expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import type { Made } from '../../src/plan/cost/candidateMemo.ts'
import { Groups } from '../../src/plan/fuse/groups.ts'
import { at, trace } from '../compile/support.ts'

test('of groups that compute a value again the one that says so stores it', () => {
  // Another kernel reads `a` and gives what `b` needs: were `a` stored with `b`, each of the two would wait for the other.
  const graph = trace([{ shape: [4] }], (p) => {
    const a = c.tanh(at(p, 0))
    return c.add(a, c.exp(a))
  })
  const [a, beside, b] = nodesOf(graph).filter((n) => n.op !== 'param')
  if (a === undefined || beside === undefined || b === undefined) throw new Error('three nodes')
  const groups = new Groups([new Set([a]), new Set([beside]), new Set([b])], new Set([b]))
  const [first, , last] = [...groups.all.values()]
  if (first === undefined || last === undefined) throw new Error('three groups')
  const made = {} as Made
  groups.replace(
    [first, last],
    [
      { members: new Set([a, b]), made, outputs: [b] },
      { members: new Set([a]), made, outputs: [a] },
    ],
  )
  expect(groups.homeOf(a)?.members).toEqual(new Set([a]))
  expect(groups.homeOf(a)?.outputs).toEqual([a])
  expect(groups.homeOf(b)?.outputs).toEqual([b])
  expect(groups.links.order(() => 0)).toHaveLength(3)
})
