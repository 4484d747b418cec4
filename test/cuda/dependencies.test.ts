/** Launches side by side: an order along the edges is as good as the order of the list. */
import { describe, expect, test } from 'vitest'
import { dependenciesOf, type Touch } from '../../src/backends/cuda/dependencies.ts'
import { makeRng } from '../random/rng.ts'

const read = (base: number, offset = 0, bytes = 8): Touch => ({ place: { base, offset, bytes }, written: false })
const write = (base: number, offset = 0, bytes = 8): Touch => ({ place: { base, offset, bytes }, written: true })

describe('dependencies of launches', () => {
  test('products of one input run side by side, their sum after both', () => {
    expect(
      dependenciesOf([
        [read(0), write(1)],
        [read(0), write(2)],
        [read(1), read(2), write(3)],
      ]),
    ).toEqual([[], [], [0, 1]])
  })

  test('a chain has an edge a step', () => {
    expect(
      dependenciesOf([
        [read(0), write(1)],
        [read(1), write(2)],
        [read(0), read(1), read(2), write(3)],
      ]),
    ).toEqual([[], [0], [1]])
  })

  test('memory that is used again waits for its readers', () => {
    expect(
      dependenciesOf([
        [write(0, 0, 16)],
        [read(0, 0, 8), write(1)],
        [read(0, 8, 8), write(2)],
        [write(0, 4, 8)],
        [write(0, 64, 8)],
      ]),
    ).toEqual([[], [0], [0], [1, 2], []])
  })

  test('of a loop of 20,000 launches each has the edges that its neighbours give it', () => {
    const launches = Array.from({ length: 20_000 }, (_, i) => [
      read(0, 64 * i, 64),
      read(1, 64 * (i % 2), 64),
      write(1, 64 * ((i + 1) % 2), 64),
      write(2, 64 * i, 64),
      read(4, 0, 1024),
    ])
    const after = dependenciesOf([...launches, [read(2, 0, 64 * launches.length), write(3)]])
    expect(after.slice(0, 3)).toEqual([[], [0], [1]])
    expect(after.slice(2, -1).every((a, i) => a.length === 1 && a[0] === i + 1)).toBe(true)
    expect(after.at(-1)).toContain(launches.length - 1)
  })

  test('any order along the edges leaves every launch what the list gives it', () => {
    for (let seed = 0; seed < 300; seed++) {
      const rng = makeRng(seed)
      const int = (n: number): number => Math.floor(rng.unit() * n)
      const launches = Array.from({ length: 12 }, () =>
        Array.from({ length: 1 + int(3) }, () => {
          const make = rng.unit() < 0.5 ? read : write
          return make(int(2), int(6), 1 + int(4))
        }),
      )
      const after = dependenciesOf(launches)
      /** What each launch sees: the launch that last wrote every byte it reads or writes over. */
      const run = (order: readonly number[]): string[][] => {
        const memory = new Map<string, number>()
        const seen: string[][] = []
        for (const i of order) {
          const bytes = (t: Touch): string[] =>
            Array.from({ length: t.place.bytes }, (_, k) => `${t.place.base}:${t.place.offset + k}`)
          const touches = launches[i] ?? []
          seen[i] = touches.flatMap((t) => bytes(t).map((b) => `${b}=${memory.get(b)}`))
          for (const t of touches) if (t.written) for (const b of bytes(t)) memory.set(b, i)
        }
        return seen
      }
      const left = new Set(launches.keys())
      const order: number[] = []
      while (left.size > 0) {
        const ready = [...left].filter((i) => (after[i] ?? []).every((j) => !left.has(j)))
        const next = ready[int(ready.length)] ?? 0
        order.push(next)
        left.delete(next)
      }
      const inList = run([...launches.keys()])
      const along = run(order)
      launches.forEach((touches, i) => {
        const reads = touches.some((t) => !t.written)
        if (reads) expect(along[i], `seed ${seed}, launch ${i}`).toEqual(inList[i])
      })
    }
  })
})
