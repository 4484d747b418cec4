/** How often the memory of programs grows. */
import { expect, test } from 'vitest'
import { Heap } from '../../src/backends/wasm/heap.ts'

const mega = 2 ** 20

/** A heap, and how often its memory grew. */
function counted(limit: number) {
  const memory = new WebAssembly.Memory({ initial: 1, maximum: limit / 65536 })
  const grow = memory.grow.bind(memory)
  const seen = { count: 0 }
  memory.grow = (pages) => {
    seen.count++
    return grow(pages)
  }
  return { heap: new Heap(memory, 0, limit), seen }
}

test('memory that is reserved grows once for all blocks, and not again where free blocks are enough', () => {
  const { heap, seen } = counted(512 * mega)
  const blocks = Array.from({ length: 60 }, (_, i) => (1 + (i % 3)) * mega)
  heap.reserve(blocks)
  expect(seen.count).toBe(1)
  const taken = blocks.map((b) => heap.alloc(b))
  expect(seen.count).toBe(1)
  for (const a of taken) heap.free(a)
  const { byteLength } = heap.memory.buffer
  heap.reserve(blocks)
  expect(heap.memory.buffer.byteLength).toBe(byteLength)
  expect(heap.verify().blocks).toBe(1)
})

test('what is beyond the limit is not reserved, and fails where it is taken', () => {
  const { heap, seen } = counted(32 * mega)
  heap.reserve([20 * mega, 20 * mega])
  expect(seen.count).toBe(0)
  heap.alloc(20 * mega)
  expect(() => heap.alloc(20 * mega)).toThrow(/no room for 20.0 MiB/)
})
