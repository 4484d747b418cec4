/** The random programs of performance fuzzing (bench/cliffs): one seed is one program, and what it computes is right at small sizes. */
import { createHash } from 'node:crypto'
import { afterAll, describe, expect, test } from 'vitest'
import { bindGraph } from '../../bench/cliffs/bind.ts'
import { differ } from '../../bench/cliffs/check.ts'
import { dataOf } from '../../bench/cliffs/data.ts'
import { openMachine } from '../../bench/cliffs/machine.ts'
import { graphOf, programClasses, programOf, textOf } from '../../bench/cliffs/programs.ts'
import { lowerBound, quantile } from '../../bench/cliffs/stats.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { DType } from '../../src/types/dtype.ts'
import { nightly, some } from '../support/nightly.ts'

const small = { mostBytes: 4096 }
const machine = await openMachine('wasm', { threads: 1, index: 0, clock: 'wall' })
afterAll(() => machine.backend.dispose())

test('a seed is one program', () => {
  const digest = (text: string): string => createHash('sha256').update(text).digest('hex').slice(0, 16)
  const texts = Array.from({ length: 40 }, (_, i) => textOf(programOf(i)))
  const again = nightly ? 40 : 8
  expect(texts.slice(0, again)).toEqual(Array.from({ length: again }, (_, i) => textOf(programOf(i))))
  expect(new Set(texts).size).toBe(40)
  // Whoever changes the generator changes every figure that names a seed: say so in bench/cliffs/README.md.
  expect(digest(texts.join())).toMatchInlineSnapshot(`"5478ce1f22a13811"`)
})

test('every class is among as many seeds', () => {
  const kinds = new Set(Array.from({ length: nightly ? 300 : 100 }, (_, i) => programOf(i, small).kind))
  expect([...kinds].sort()).toEqual([...programClasses].sort())
})

describe('fused and unfused programs give what the reference gives', () => {
  test.each(
    some(
      Array.from({ length: 50 }, (_, i) => 1000 + i),
      5,
    ),
  )('seed %i', async (seed) => {
    const p = programOf(seed, small)
    const graph = graphOf(p)
    const dtypes = new Set(nodesOf(graph).map((n) => n.dtype))
    const narrowest: DType = dtypes.has('bf16') ? 'bf16' : dtypes.has('f16') ? 'f16' : 'f32'
    const reference = (by?: DType) =>
      evaluateGraph(
        graph,
        p.inputs.map((x, i) => dataOf(x, i + 1, by)),
        { rounding: 'dtype' },
      ).map(toHostArray)
    const [want, moved] = [reference(), reference(narrowest)]
    for (const fuse of [true, false]) {
      const bound = bindGraph(
        machine,
        graph,
        p.inputs.map((x, i) => dataOf(x, i + 1)),
        fuse,
      )
      const got = await bound.results()
      bound.dispose()
      for (const [i, n] of graph.outputs.entries()) {
        const [a, b, c] = [got[i], want[i], moved[i]]
        if (a === undefined || b === undefined || c === undefined) throw new Error(`no result ${i}`)
        const noise = differ(c, b, n.dtype, narrowest).count
        expect(differ(a, b, n.dtype, narrowest).count, `result ${i}\n${textOf(p)}`).toBeLessThanOrEqual(4 * noise)
      }
    }
  })
})

test('order statistics', () => {
  expect(quantile([4, 1, 3, 2], 0.5)).toBe(2.5)
  // Of 15 paired ratios the fourth least: three or fewer lie below the median in 1.8% of cases.
  expect(lowerBound([15, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14])).toBe(4)
  // Four cannot show anything at 95%.
  expect(lowerBound([1, 2, 3, 4])).toBe(0)
})
