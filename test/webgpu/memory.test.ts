/** The pool of buffers, on buffers that only count. */
import { expect, test } from 'vitest'
import { BufferPool, sizeClass } from '../../src/backends/webgpu/memory.ts'
import { makeRng } from '../random/rng.ts'

interface Counted {
  readonly size: number
}

const mib = 1 << 20

function open(limit?: number, maxBufferBytes = 1024 * mib) {
  const live = new Set<Counted>()
  let created = 0
  const pool = new BufferPool<Counted>(
    {
      create: (size) => {
        const b = { size }
        live.add(b)
        created++
        return b
      },
      destroy: (b) => {
        expect(live.delete(b)).toBe(true)
      },
      maxBufferBytes,
    },
    limit,
  )
  const reserved = (): number => [...live].reduce((n, b) => n + b.size, 0)
  const consistent = (): void => expect(pool.used + pool.spareBytes).toBe(reserved())
  return { pool, live, reserved, consistent, created: () => created }
}

test('what is released is given out again at once', () => {
  const { pool, created, consistent } = open()
  const a = pool.take(512 * mib)
  pool.release(a)
  expect(pool.take(512 * mib)).toBe(a)
  // A bit smaller, too; much smaller is another buffer.
  pool.release(a)
  expect(pool.take(400 * mib)).toBe(a)
  pool.release(a)
  expect(pool.take(100 * mib)).not.toBe(a)
  expect(created()).toBe(2)
  consistent()
})

test('a buffer that the caller knows is given out before others, where it is free and fits', () => {
  const { pool, created, consistent } = open()
  const [a, b, c] = [pool.take(mib), pool.take(mib), pool.take(mib)]
  const large = pool.take(4 * mib)
  for (const x of [a, b, c, large]) pool.release(x)
  expect(pool.take(mib, [large, b, a])).toBe(b)
  expect(pool.take(mib, [b, a])).toBe(a)
  expect(pool.take(mib, [b, a])).toBe(c)
  expect([b, a, c]).not.toContain(pool.take(mib, [b, a]))
  expect(created()).toBe(5)
  consistent()
})

test('whatever is taken and released, no buffer is given out twice', () => {
  const { pool, live, consistent } = open(600 * mib)
  const rng = makeRng(3)
  const held: Counted[] = []
  const seen: Counted[] = []
  for (let i = 0; i < 4000; i++) {
    if (held.length > 0 && rng.chance(0.5)) {
      const [b] = held.splice(rng.int(0, held.length - 1), 1)
      if (b !== undefined) pool.release(b)
    } else if (pool.used < 500 * mib) {
      const known = seen.length > 0 ? [rng.pick(seen), rng.pick(seen)] : []
      const b = pool.take(rng.pick([1, 2, 3, 40]) * mib, known)
      expect(held).not.toContain(b)
      expect(live.has(b)).toBe(true)
      held.push(b)
      seen.push(b)
    }
    if (i % 500 === 499) pool.trim()
    consistent()
  }
})

test('large buffers of an earlier phase do not push out those in use', () => {
  const { pool, created } = open()
  const early = [pool.take(1024 * mib), pool.take(1024 * mib)]
  for (const b of early) pool.release(b)
  const inputs = [pool.take(512 * mib), pool.take(512 * mib)]
  const before = created()
  for (let call = 0; call < 5000; call++) pool.release(pool.take(512 * mib))
  expect(created()).toBe(before + 1)
  for (const b of inputs) pool.release(b)
})

test('an earlier peak is forgotten', () => {
  const { pool, reserved, consistent } = open()
  const many = Array.from({ length: 16 }, () => pool.take(512 * mib))
  for (const b of many) pool.release(b)
  for (let call = 0; call < 5000; call++) pool.release(pool.take(mib))
  expect(reserved()).toBeLessThan(300 * mib)
  consistent()
})

test('the limit holds for what is in use, and unused buffers make room', () => {
  const { pool, reserved, consistent } = open(100 * mib)
  const a = pool.take(60 * mib)
  expect(() => pool.take(60 * mib)).toThrow(/E_OUT_OF_MEMORY.*60\.0 MiB of 100\.0 MiB are in use/)
  pool.release(a)
  const b = pool.take(96 * mib)
  expect(reserved()).toBeLessThanOrEqual(100 * mib)
  pool.release(b)
  consistent()
})

test('a device that ran out of memory is not asked for as much again', () => {
  const { pool, live } = open()
  const a = pool.take(300 * mib)
  pool.release(pool.take(200 * mib))
  pool.exhausted()
  expect([...live]).toEqual([a])
  expect(pool.limit).toBe(a.size + sizeClass(200 * mib))
  expect(() => pool.take(300 * mib)).toThrow('E_OUT_OF_MEMORY')
  pool.release(a)
  expect(pool.take(300 * mib)).toBe(a)
})

test('buffers stay within the size a device allows', () => {
  const { pool, consistent } = open(undefined, 100 * mib)
  const a = pool.take(99 * mib)
  expect(a.size).toBe(100 * mib)
  pool.release(a)
  expect(pool.used).toBe(0)
  expect(pool.take(100 * mib)).toBe(a)
  expect(() => pool.take(101 * mib)).toThrow(/this WebGPU device has buffers of at most 100\.0 MiB/)
  consistent()
})

test('sizes are at most an eighth above what is asked for', () => {
  for (const n of [1, 256, 1000, 5000, 70_001, 3 * mib + 5]) {
    expect(sizeClass(n)).toBeGreaterThanOrEqual(n)
    expect(sizeClass(n)).toBeLessThanOrEqual(Math.max(n + 256, 1.125 * n))
    expect(sizeClass(sizeClass(n))).toBe(sizeClass(n))
  }
})

test('a buffer that turned out to have no memory is not given out again', () => {
  const { pool, live, consistent } = open()
  const held = pool.take(100 * mib)
  const hollow = pool.take(300 * mib)
  pool.exhausted(hollow)
  expect(() => pool.take(mib)).toThrow('E_OUT_OF_MEMORY')
  pool.release(hollow)
  expect([...live]).toEqual([held])
  consistent()
  // As much as did not fit is not asked for again; less is.
  expect(() => pool.take(300 * mib)).toThrow('E_OUT_OF_MEMORY')
  expect(pool.take(200 * mib)).not.toBe(hollow)
})
