/** The order in which merges are tried, on pairs of numbers. */
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { MergeQueue, type Pair } from '../../src/plan/algorithms/mergeQueue.ts'

const pair = (from: number, saving: number, epilogue = false, size = 2, smaller = 1): Pair => ({
  from,
  to: from + 1,
  saving,
  epilogue,
  size,
  smaller,
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

test('blocks grow when no smaller kernels are left, and take in less than a block last', () => {
  const pairs = [pair(0, 99, true, 65, 1), pair(1, 8), pair(2, 8, false, 64, 32), pair(3, 7, false, 32, 15)]
  expect(drain(new MergeQueue(pairs)).map((p) => p.from)).toEqual([1, 3, 2, 0])
})

test('among blocks that are alike in the large the one that grew last grows on', () => {
  const pairs = [pair(0, 40, false, 64, 32), pair(1, 20, false, 200, 32), pair(2, 30, false, 96, 32)]
  expect(drain(new MergeQueue(pairs)).map((p) => p.from)).toEqual([2, 1, 0])
})

test('pairs added later come out as if they had been there from the beginning', () => {
  const any = fc.record({
    from: fc.nat(100),
    to: fc.nat(100),
    saving: fc.constantFrom(0, 4, 8),
    epilogue: fc.boolean(),
    size: fc.integer({ min: 2, max: 99 }),
    smaller: fc.constant(1),
  })
  fc.assert(
    fc.property(fc.array(any), fc.array(any), (first, later) => {
      const queue = new MergeQueue(first)
      for (const p of later) queue.add(p)
      expect(drain(queue)).toEqual(drain(new MergeQueue([...first, ...later])))
    }),
  )
})
