/** The order in which merges are tried, on pairs of numbers. */
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { MergeQueue, type Pair } from '../../src/plan/mergeQueue.ts'

const pair = (from: number, saving: number, epilogue = false, size = 2): Pair => ({
  from,
  to: from + 1,
  saving,
  epilogue,
  size,
})

function drain(queue: MergeQueue): Pair[] {
  const out: Pair[] = []
  for (let p = queue.pop(); p !== undefined; p = queue.pop()) out.push(p)
  return out
}

test('largest saving first, then epilogues, then small groups, then what came last', () => {
  const pairs = [pair(0, 8), pair(1, 16), pair(2, 8, true, 9), pair(3, 8, false, 5), pair(4, 8)]
  expect(drain(new MergeQueue(pairs)).map((p) => p.from)).toEqual([1, 2, 4, 0, 3])
})

test('pairs added later come out as if they had been there from the beginning', () => {
  const any = fc.record({
    from: fc.nat(100),
    to: fc.nat(100),
    saving: fc.constantFrom(0, 4, 8),
    epilogue: fc.boolean(),
    size: fc.integer({ min: 2, max: 4 }),
  })
  fc.assert(
    fc.property(fc.array(any), fc.array(any), (first, later) => {
      const queue = new MergeQueue(first)
      for (const p of later) queue.add(p)
      expect(drain(queue)).toEqual(drain(new MergeQueue([...first, ...later])))
    }),
  )
})
