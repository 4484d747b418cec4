/** Whole models whose extents vary: at most two compilations serve every batch and length, and memory stays what it is. */

import { expect, test } from 'vitest'
import {
  arange,
  concat,
  dim,
  type Explanation,
  gelu,
  jit,
  layerNorm,
  memory,
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
import { centred, whole } from './numbers.ts'

setDevice('wasm', { threads: 1 })

const [width, heads, inner, words, positions] = [32, 4, 64, 50, 512]

/** The weights of a layer: queries, keys and values, the projection of their mixture, both halves of the feed-forward part. */
type Layer = readonly [qkv: Tensor, out: Tensor, up: Tensor, down: Tensor]

const layersOf = (count: number): readonly Layer[] =>
  Array.from({ length: count }, (_, i) => [
    centred(4 * i, [width, 3 * width]),
    centred(4 * i + 1, [width, width]),
    centred(4 * i + 2, [width, inner]),
    centred(4 * i + 3, [inner, width]),
  ])

const headsOf = (x: Tensor): Tensor => {
  const [b = 0, n = 0] = x.shape
  return x.reshape([b, n, heads, width / heads]).transpose([0, 2, 1, 3])
}

const part = (x: Tensor, i: number): Tensor => headsOf(x.slice(null, null, [i * width, (i + 1) * width]))

function mixed(q: Tensor, k: Tensor, v: Tensor, mask?: Tensor): Tensor {
  const scores = q.matmul(k.swapaxes(-1, -2)).mul((width / heads) ** -0.5)
  const [b = 0, , n = 0] = q.shape
  const shares = softmax(mask === undefined ? scores : scores.add(mask), -1)
  return shares.matmul(v).transpose([0, 2, 1, 3]).reshape([b, n, width])
}

const layers = layersOf(2)
const [wordTable, placeTable, typeTable] = [words, positions, 2].map((n, i) => centred(100 + i, [n, width])) as [
  Tensor,
  Tensor,
  Tensor,
]

/** BERT's encoder (Devlin et al. 2018): learned positions of a table with a place for each of 512, a mask of tokens, two layers. */
function encoder(ids: Tensor, types: Tensor, seen: Tensor): Tensor {
  const [b = 0, n = 0] = ids.shape
  const mask = seen.astype('f32').sub(1).mul(1e9).reshape([b, 1, 1, n])
  const places = placeTable.slice([0, n])
  let x = layerNorm(take(wordTable, ids).add(take(typeTable, types)).add(places))
  for (const [qkv, out, up, down] of layers) {
    const all = x.matmul(qkv)
    x = layerNorm(x.add(mixed(part(all, 0), part(all, 1), part(all, 2), mask).matmul(out)))
    x = layerNorm(x.add(gelu(x.matmul(up)).matmul(down)))
  }
  return x
}

/** Keys and values of the tokens so far, layer by layer. */
type Cache = readonly (readonly [keys: Tensor, values: Tensor])[]

/** A decoder whose cache grows: new tokens behind those of the past; their logits, and what is the past of the next step. */
function decoder(ids: Tensor, past: Cache): { readonly logits: Tensor; readonly present: Cache } {
  const [, n = 0] = ids.shape
  const before = past[0]?.[0].shape[2] ?? 0
  const mask = where(arange(before + n).lessEqual(arange(n).add(before).reshape([n, 1])), 0, -1e9)
  let x = layerNorm(take(wordTable, ids).add(placeTable.slice([before, before + n])))
  const present = layers.map(([qkv, out, up, down], i): readonly [Tensor, Tensor] => {
    const all = x.matmul(qkv)
    const [k, v] = ([0, 1] as const).map((j) => concat([past[i]?.[j] ?? x, part(all, 1 + j)], 2)) as [Tensor, Tensor]
    x = layerNorm(x.add(mixed(part(all, 0), k, v, mask).matmul(out)))
    x = layerNorm(x.add(gelu(x.matmul(up)).matmul(down)))
    return [k, v]
  })
  return { logits: x.slice(null, -1).matmul(wordTable.transpose()), present }
}

/** Programs that have served calls: by the names of their open extents, the ranges. */
type Served = Map<string, Set<string>>

/** Notes which program served a call. One template may have up to four programs, for parts of one range. */
function note(served: Served, { open, closed }: Explanation): void {
  expect(closed, 'why it is closed').toBeUndefined()
  const names = open?.map((d) => d.name).join() ?? ''
  const ranges = open?.map((d) => `${d.name} ${d.least} to ${d.most}`).join() ?? ''
  served.set(names, (served.get(names) ?? new Set()).add(ranges))
}

function expectNear(got: Tensor, want: Tensor, at: string): void {
  expect(got.shape).toEqual(want.shape)
  const [a, b] = [got.dataSync() as Float32Array, want.dataSync() as Float32Array]
  const worst = a.reduce((m, v, i) => Math.max(m, Math.abs(v - (b[i] ?? Number.NaN))), 0)
  expect(worst, at).toBeLessThan(2e-5)
}

/** Bytes that a set of extents keeps: the numbers that its launches hand over. */
const bytesOfExtents = 4096

test('an encoder at batches 1 to 8 and lengths 8 to 512, the end of its table of positions, is two compilations', () => {
  const declared = spec([dim('batch', 1, 8), dim('length', 8, positions)], 'i32')
  const f = jit(encoder, { dynamic: [declared, declared, declared] })
  const closed = jit(encoder)
  const inputs = (b: number, n: number): [Tensor, Tensor, Tensor] => [
    whole(b + n, [b, n], words),
    whole(n, [b, n], 2),
    whole(b, [b, n], 2),
  ]
  const served: Served = new Map()
  const call = (b: number, n: number): Tensor => {
    const args = inputs(b, n)
    const got = f(...args)
    note(served, f.explain(...args))
    for (const t of args) t.dispose()
    return got
  }
  // Of each of both kinds of batch, one after another at both ends.
  for (const [b, n] of [
    [8, 512],
    [2, 8],
    [1, 512],
    [1, 8],
  ] as const)
    call(b, n).dispose()
  const settled = memory()
  for (let i = 0; i < (nightly ? 200 : 30); i++) {
    const [b, n] = [1 + (i % 8), i % 20 === 0 ? positions - (i % 3) : 8 + ((37 * i) % 120)]
    const got = call(b, n)
    expect(got.shape).toEqual([b, n, width])
    got.dispose()
  }
  const { programs, arenaBytes, used } = memory()
  expect({ programs, arenaBytes }).toEqual({ programs: settled.programs, arenaBytes: settled.arenaBytes })
  expect(used - settled.used).toBeLessThan(128 * bytesOfExtents)
  expect([...served.keys()].sort()).toEqual(['batch,length', 'length'])
  for (const ranges of served.values()) expect(ranges.size).toBeLessThanOrEqual(4)
  for (const [b, n] of some(
    [
      [1, 129],
      [2, 512],
      [3, 8],
      [8, 65],
      [1, 512],
    ] as const,
    3,
  ))
    expectNear(call(b, n), closed(...inputs(b, n)), `${b} by ${n}`)
  f.dispose()
  closed.dispose()
})

const tokens = nightly ? 200 : 40

test(`a decoder whose cache grows over ${tokens} tokens is two compilations, one for the prompt and one for a token`, () => {
  const most = 256
  const [fresh, past] = [dim('new', 1, most), dim('past', 0, most)]
  const cached = spec([1, heads, past, width / heads])
  const f = jit(decoder, { dynamic: [spec([1, fresh], 'i32'), layers.map(() => [cached, cached])] })
  const served: Served = new Map()
  let ids = whole(1, [1, 12], words)
  let cache: Cache = layers.map(() => [zeros([1, heads, 0, width / heads]), zeros([1, heads, 0, width / heads])])
  let settled: { readonly programs: number; readonly arenaBytes: number } | undefined
  for (let token = 0; token < tokens; token++) {
    const { logits, present } = f(ids, cache)
    note(served, f.explain(ids, cache))
    if ((nightly && (token === 4 || token === 77)) || token === tokens - 1) {
      const closed = jit(decoder)
      const want = closed(ids, cache)
      expectNear(logits, want.logits, `token ${token}`)
      expectNear(present[1]?.[1] ?? logits, want.present[1]?.[1] ?? logits, `the cache at token ${token}`)
      closed.dispose()
    }
    for (const t of [ids, ...cache.flat()]) t.dispose()
    const row = [...(logits.dataSync() as Float32Array)]
    ids = tensor(Int32Array.of(row.indexOf(Math.max(...row))), { shape: [1, 1] })
    logits.dispose()
    cache = present
    const { programs, arenaBytes } = memory()
    // The second call of a token makes the programs of all parts of its range.
    if (token === 2) settled = { programs, arenaBytes }
    if (token > 2) expect({ programs, arenaBytes }, `at token ${token}`).toEqual(settled)
  }
  expect([...served.keys()].sort()).toEqual(['new', 'past'])
  for (const ranges of served.values()) expect(ranges.size).toBeLessThanOrEqual(4)
  f.dispose()
})
