/** A decoder whose caches have room for an open number of positions and are given away: a step writes its own position, whatever the room. */

import { expect, test } from 'vitest'
import {
  arange,
  dim,
  dynamicUpdateSlice,
  jit,
  layerNorm,
  memory,
  relu,
  setDevice,
  softmax,
  spec,
  type Tensor,
  take,
  tensor,
  where,
  zeros,
} from '../../src/index.ts'
import { nightly, some } from '../support/nightly.ts'
import { uniform } from './numbers.ts'

setDevice('wasm', { threads: 1 })

const [width, heads, words, positions] = [32, 4, 50, 256]
const depth = width / heads

const layers = Array.from({ length: 2 }, (_, i) => ({
  qkv: uniform(4 * i, [width, 3 * width]),
  out: uniform(4 * i + 1, [width, width]),
  up: uniform(4 * i + 2, [width, 2 * width]),
  down: uniform(4 * i + 3, [2 * width, width]),
}))
const [table, places] = [uniform(100, [words, width]), uniform(101, [positions, width])]

/** Keys and values, layer by layer, [batch, heads, room, depth]. */
type Cache = readonly (readonly [keys: Tensor, values: Tensor])[]

/** A token of each sequence at a place [] of the caches: logits [batch, words], and the caches with it. */
function step(ids: Tensor, place: Tensor, cache: Cache): { readonly logits: Tensor; readonly cache: Cache } {
  const [b = 0] = ids.shape
  const room = cache[0]?.[0].shape[2] ?? 0
  const mask = where(arange(room).lessEqual(place), 0, -1e9)
  let x = layerNorm(take(table, ids).add(take(places, place.reshape([1, 1]))))
  const next = layers.map(({ qkv, out, up, down }, i): readonly [Tensor, Tensor] => {
    const parts = x.matmul(qkv).reshape([b, 3, heads, 1, depth])
    const [q, k, v] = [0, 1, 2].map((j) => parts.slice(null, j)) as [Tensor, Tensor, Tensor]
    const [keys, values] = [k, v].map((row, j) => dynamicUpdateSlice(cache[i]?.[j] ?? row, row, [0, 0, place, 0])) as [
      Tensor,
      Tensor,
    ]
    const shares = softmax(
      q
        .matmul(keys.swapaxes(-1, -2))
        .mul(depth ** -0.5)
        .add(mask),
      -1,
    )
    x = layerNorm(x.add(shares.matmul(values).reshape([b, 1, width]).matmul(out)))
    x = layerNorm(x.add(relu(x.matmul(up)).matmul(down)))
    return [keys, values]
  })
  return { logits: x.reshape([b, width]).matmul(table.transpose()), cache: next }
}

const emptied = (b: number, room: number): Cache =>
  layers.map(() => [zeros([b, heads, room, depth]), zeros([b, heads, room, depth])])

/** Caches with more room, their positions copied. */
const widened = (cache: Cache, room: number): Cache =>
  cache.map((pair) =>
    pair.map((t) =>
      t.pad([
        [0, 0],
        [0, 0],
        [0, room - (t.shape[2] ?? 0)],
        [0, 0],
      ]),
    ),
  ) as unknown as Cache

function expectNear(got: Tensor | undefined, want: Tensor | undefined, at: string): void {
  const [x, y] = [got?.dataSync() as Float32Array, want?.dataSync() as Float32Array]
  expect(x.length).toBe(y.length)
  const worst = x.reduce((m, v, i) => Math.max(m, Math.abs(v - (y[i] ?? Number.NaN))), 0)
  expect(worst, at).toBeLessThan(2e-5)
}

const [batch, room] = [dim('batch', 1, 8), dim('room', 1, positions)]
const cached = spec([batch, heads, room, depth])
const declared = [spec([batch, 1], 'i32'), undefined, layers.map(() => [cached, cached])]

const tokens = nightly ? 200 : 80

test(`a decoder of ${tokens} tokens whose caches are given away, and widened on the way, is one template, its memory flat`, () => {
  const f = jit(step, { dynamic: declared, donate: [2] })
  const [b, more] = [2, nightly ? 24 : 14]
  const served = new Set<string>()
  let cache = emptied(b, more)
  const compiled: number[] = []
  for (let token = 0; token < tokens; token++) {
    const have = cache[0]?.[0].shape[2] ?? 0
    if (token >= have) {
      const wider = widened(cache, have + more)
      for (const t of wider.flat()) t.dataSync()
      for (const t of cache.flat()) t.dispose()
      cache = wider
    }
    const place = tensor(Int32Array.of(token), { shape: [] })
    const ids = tensor(Int32Array.of((5 * token) % words, (11 * token) % words), { shape: [b, 1] })
    let want: ReturnType<typeof step> | undefined
    if (token === 5 || (nightly && token === 150) || token === tokens - 1) {
      const closed = jit(step)
      want = closed(ids, place, cache)
      for (const t of [want.logits, ...want.cache.flat()]) t.dataSync()
      closed.dispose()
    }
    const before = memory()
    const { closed: why, open } = f.explain(ids, place, cache)
    expect(why).toBeUndefined()
    served.add(open?.map((d) => `${d.name} ${d.least} to ${d.most}`).join() ?? '')
    const made = f(ids, place, cache)
    for (const t of cache.flat()) expect(t.disposed).toBe(true)
    if (want !== undefined) {
      expectNear(made.logits, want.logits, `token ${token}`)
      expectNear(made.cache[1]?.[1], want.cache[1]?.[1], `the cache at token ${token}`)
      for (const t of [want.logits, ...want.cache.flat()]) t.dispose()
    }
    for (const t of [ids, place, made.logits]) t.dispose()
    cache = made.cache
    const after = memory()
    if (after.programs > before.programs) compiled.push(token)
    if (token > more * 4) expect(after.arenaBytes).toBe(before.arenaBytes)
    if (want === undefined && !compiled.includes(token))
      expect(after.used - before.used, 'numbers of launches at most').toBeLessThan(4096)
  }
  // One template, of which each part of the range is got ready when it is first used.
  expect(compiled.length).toBeLessThanOrEqual(4)
  expect(served.size).toBeLessThanOrEqual(4)
  f.dispose()
})

test('a step moves one position of each sequence a layer, and is bit-equal to the static program in strict mode', () => {
  const f = jit(step, { mode: 'strict', donate: [2], dynamic: declared })
  const closed = jit(step, { mode: 'strict', donate: [2] })
  for (const [b, n, at] of some(
    [
      [8, 256, 300],
      [3, 41, 40],
      [2, 30, 7],
    ] as const,
    3,
  )) {
    const args = (): [Tensor, Tensor, Cache] => [
      tensor(
        Int32Array.from({ length: b }, (_, i) => (7 * i) % words),
        { shape: [b, 1] },
      ),
      tensor(Int32Array.of(at), { shape: [] }),
      layers.map((_, i) => [uniform(i, [b, heads, n, depth]), uniform(i + 9, [b, heads, n, depth])]),
    ]
    const [got, want] = [f(...args()), closed(...args())]
    for (const [i, t] of [got.logits, ...got.cache.flat()].entries())
      expect(t.dataSync(), `${b} by ${n}`).toEqual([want.logits, ...want.cache.flat()][i]?.dataSync())
    const { closed: why, kernels, memory: placed } = f.explain(...args())
    expect(why).toBeUndefined()
    const steps = kernels.filter((k) => k.kind === 'scatter')
    expect(steps.length).toBe(2 * layers.length)
    // Rows of at most eight sequences, and a place: nothing that grows with the room.
    for (const { bytesRead, bytesWritten } of steps) {
      expect(bytesWritten).toBeLessThanOrEqual(8 * width * 4)
      expect(bytesRead).toBe(bytesWritten + 4)
    }
    expect(placed.inPlace).toBeGreaterThanOrEqual(steps.length)
  }
  f.dispose()
  closed.dispose()
})
