/**
 * A recogniser of text whose width varies, as PP-OCR's (Du et al. 2020, Li et al. 2022): convolutions with strides, depthwise ones, gates of
 * channels, a pooling over the height, columns as a sequence, attention, a head. Two compilations serve all widths and batches.
 */
import { expect } from 'vitest'
import {
  averagePool,
  conv,
  dim,
  gelu,
  jit,
  layerNorm,
  memory,
  relu,
  setDevice,
  sigmoid,
  softmax,
  spec,
  type Tensor,
} from '../../src/index.ts'
import { atNight } from '../support/nightly.ts'
import { centred } from './numbers.ts'

setDevice('wasm', { threads: 1 })

const [features, heads, letters] = [48, 4, 97]

/** A depthwise convolution, one of points, a gate of channels. */
const blocks = (
  [
    [8, 16, [2, 1]],
    [16, 24, [1, 1]],
    [24, 32, [2, 2]],
    [32, features, [2, 1]],
  ] as const
).map(([from, to, stride], i) => ({
  stride,
  deep: centred(10 * i + 1, [from, 1, 3, 3]),
  point: centred(10 * i + 2, [to, from, 1, 1]),
  squeeze: centred(10 * i + 3, [to / 4, to, 1, 1]),
  gate: centred(10 * i + 4, [to, to / 4, 1, 1]),
}))
const stem = centred(91, [8, 3, 3, 3])
const [qkv, out, up, down, head] = [
  [features, 3 * features],
  [features, features],
  [features, 2 * features],
  [2 * features, features],
  [features, letters],
].map((shape, i) => centred(100 + i, shape)) as [Tensor, Tensor, Tensor, Tensor, Tensor]

const hardSwish = (x: Tensor): Tensor => x.mul(x.add(3).clip(0, 6).div(6))

function recogniser(x: Tensor): Tensor {
  let y = hardSwish(conv(x, stem, { stride: 2, padding: 1 }))
  for (const { stride, deep, point, squeeze, gate } of blocks) {
    y = hardSwish(conv(y, deep, { stride, padding: 1, groups: y.shape[1] ?? 1 }))
    y = hardSwish(conv(y, point))
    y = y.mul(sigmoid(conv(relu(conv(y.mean([2, 3], { keepdims: true }), squeeze)), gate)))
  }
  y = averagePool(y, [y.shape[2] ?? 1, 2])
  const [n = 1, c = 1, , q = 1] = y.shape
  const columns = y.reshape([n, c, q]).swapaxes(1, 2)
  const all = layerNorm(columns).matmul(qkv)
  const part = (i: number): Tensor =>
    all
      .slice(null, null, [c * i, c * (i + 1)])
      .reshape([n, q, heads, c / heads])
      .transpose([0, 2, 1, 3])
  const shares = softmax(
    part(0)
      .matmul(part(1).swapaxes(-1, -2))
      .mul((c / heads) ** -0.5),
    -1,
  )
  const mixed = columns.add(shares.matmul(part(2)).transpose([0, 2, 1, 3]).reshape([n, q, c]).matmul(out))
  return softmax(mixed.add(gelu(layerNorm(mixed).matmul(up)).matmul(down)).matmul(head), -1)
}

atNight(
  'a recogniser of text at widths 32 to 480 and batches 1 to 8 is two compilations, its memory flat',
  () => {
    const f = jit(recogniser, { dynamic: [spec([dim('batch', 1, 8), 3, 32, dim('width', 32, 480)])] })
    const closed = jit(recogniser)
    const served = new Map<string, Set<string>>()
    const call = (b: number, w: number): Tensor => {
      const x = centred(b + w, [b, 3, 32, w])
      const got = f(x)
      const { open, closed: why } = f.explain(x)
      expect(why, `${b} by ${w}`).toBeUndefined()
      const names = open?.map((d) => d.name).join() ?? ''
      served.set(names, (served.get(names) ?? new Set()).add(JSON.stringify(open)))
      x.dispose()
      return got
    }
    const widths = [320, 100, 48, 161, 203, 32, 480, 256, 90, 77]
    // The greatest sizes of both programs settle what memory is held.
    for (const [b, w] of [
      [8, 480],
      [1, 480],
      [8, 480],
      [1, 480],
    ] as const)
      call(b, w).dispose()
    const { programs, arenaBytes } = memory()
    for (const [i, w] of widths.entries()) for (const b of [1, 2 + (i % 7)]) call(b, w).dispose()
    expect({ programs: memory().programs, arenaBytes: memory().arenaBytes }).toEqual({ programs, arenaBytes })
    expect([...served.keys()].sort()).toEqual(['batch,width', 'width'])
    // Templates, each of one program here.
    for (const ranges of served.values()) expect(ranges.size).toBe(1)
    for (const [b, w] of [
      [1, 320],
      [1, 161],
      [2, 33],
      [3, 100],
      [1, 478],
    ] as const) {
      const x = centred(b + w, [b, 3, 32, w])
      const [got, want] = [call(b, w), closed(x)]
      expect(got.shape).toEqual(want.shape)
      const [a, e] = [got.dataSync() as Float32Array, want.dataSync() as Float32Array]
      expect(a.reduce((m, v, i) => Math.max(m, Math.abs(v - (e[i] ?? Number.NaN))), 0)).toBeLessThan(1e-5)
    }
    f.dispose()
    closed.dispose()
  },
  60_000,
)
