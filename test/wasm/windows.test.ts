/**
 * Windows without a product of their own (channels apart, pooling) on WebAssembly: equal to the reference for random shapes, strides, dilations, paddings,
 * layouts, types, ends and threads, beside NaN and infinities, which padding must not let through.
 */
import { afterAll, describe, test } from 'vitest'
import * as s from '../../src/index.ts'
import type { DType } from '../../src/types/dtype.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { nightly } from '../support/nightly.ts'
import { agree, type F } from './agree.ts'

afterAll(() => s.setDevice('reference'))

/** Whole numbers, so that sums are exact in any order; where asked for, one in fifty is none or infinite. */
function draw(rng: Rng, shape: readonly number[], dtype: DType, wild = false): s.Tensor {
  const n = shape.reduce((a, b) => a * b, 1)
  const one = (): number =>
    wild && rng.chance(0.02)
      ? rng.pick([Number.NaN, Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY])
      : rng.int(-9, 9)
  return s.tensor(Array.from({ length: n }, one), { shape: [...shape], dtype })
}

const first = { there: [0, 1, 2, 3], back: [0, 1, 2, 3] }
const last = { there: [0, 3, 1, 2], back: [0, 2, 3, 1] }

/** Channels apart, in an order of axes, with an end. */
function channelsApart(rng: Rng, i: number): void {
  const { there, back } = rng.pick([first, last])
  const dtype = rng.pick(['f32', 'f32', 'f32', 'f64', 'i32'] as const)
  const [channels, multiplier] = [rng.int(1, 20), rng.pick([1, 1, 1, 2, 3, 5])]
  const sizes = [rng.int(1, 40), rng.int(1, 40)]
  const kernel = [rng.int(1, 5), rng.int(1, 5)]
  const how = {
    stride: rng.pick([1, 1, 1, 2, 3]),
    dilation: rng.pick([1, 1, 2, 3]),
    padding: rng.int(0, 4),
    groups: channels,
  }
  // In fast mode the sum of one term may be -0.
  if (kernel[0] === 1 && kernel[1] === 1) kernel[1] = 2
  if (sizes.some((n, d) => n + 2 * how.padding <= how.dilation * ((kernel[d] ?? 1) - 1))) return
  const shape = [rng.int(1, 2), channels, ...sizes]
  const stored = back.map((d) => shape[d] ?? 1)
  const x = draw(rng, stored, dtype, dtype !== 'i32' && rng.chance(0.3))
  const w = draw(rng, [channels * multiplier, 1, ...kernel], dtype)
  const bias = draw(rng, [channels * multiplier, 1, 1], dtype)
  const end = rng.pick(['none', 'bias', 'relu', 'twice', 'rows'] as const)
  const f: F = (a, b, c) => {
    const y = s.conv2d(a.transpose([...there]), b, how)
    if (end === 'twice') return y.add(y.mul(y)).transpose([...back])
    if (end === 'rows') return y.sub(y.max(-1, { keepdims: true })).transpose([...back])
    const z = end === 'none' ? y : y.add(c)
    return (end === 'relu' ? s.maximum(z, 0) : z).transpose([...back])
  }
  const what = `${i}: ${dtype} [${stored}] by [${kernel}] x ${multiplier} ${JSON.stringify(how)} ${end}`
  agree(f, [x, w, bias], 1 + (i % 2), what)
}

/** Of so many at night a part by day. */
const many = (atNight: number): number => (nightly ? atNight : Math.ceil(0.18 * atNight))

describe('random windows', () => {
  test('of channels apart', () => {
    const rng = makeRng(17)
    for (let i = 0; i < many(150); i++) channelsApart(rng, i)
  })

  test('of several channels, in groups', () => {
    const rng = makeRng(20)
    for (let i = 0; i < many(60); i++) {
      const { there, back } = rng.pick([first, last])
      const dtype = rng.pick(['f32', 'f32', 'f64', 'i32'] as const)
      const groups = rng.pick([1, 1, 2, 5])
      const [from, to] = [rng.int(2, 7), rng.int(1, 13)]
      const sizes = [rng.int(3, 30), rng.int(3, 30)]
      const how = { stride: rng.pick([1, 1, 2, 3]), dilation: rng.pick([1, 1, 2]), padding: rng.int(0, 2), groups }
      const kernel = [rng.int(1, 3), rng.int(1, 3)]
      if (sizes.some((n, d) => n + 2 * how.padding <= how.dilation * ((kernel[d] ?? 1) - 1))) continue
      const shape = [rng.int(1, 3), from * groups, ...sizes]
      const x = draw(
        rng,
        back.map((d) => shape[d] ?? 1),
        dtype,
        dtype !== 'i32' && rng.chance(0.3),
      )
      const w = rng.chance(0.5)
        ? { value: draw(rng, [to * groups, from, ...kernel], dtype), axes: [0, 1, 2, 3] }
        : { value: draw(rng, [...kernel, from, to * groups], dtype), axes: [3, 2, 0, 1] }
      const f: F = (a, b) => s.conv2d(a.transpose([...there]), b.transpose(w.axes), how).transpose([...back])
      agree(f, [x, w.value], 1 + (i % 2), `${i}: ${dtype} [${shape}] to ${to} by [${kernel}] ${JSON.stringify(how)}`)
    }
  })

  test('of one dimension and of three', () => {
    const rng = makeRng(18)
    for (let i = 0; i < many(40); i++) {
      const channels = rng.int(1, 9)
      const n = rng.int(5, 30)
      const how = { stride: rng.pick([1, 2]), padding: rng.int(0, 2), dilation: rng.pick([1, 2]), groups: channels }
      if (i % 2 === 0) {
        const f: F = (a, b) => s.conv(a, b, how)
        agree(f, [draw(rng, [2, channels, n], 'f32', true), draw(rng, [channels, 1, 3], 'f32')], 1, `${i} of ${n}`)
      } else {
        const f: F = (a, b) => s.conv(a, b, how)
        const shape = [1, channels, n, 7, 9]
        agree(f, [draw(rng, shape, 'f32', true), draw(rng, [channels, 1, 2, 3, 2], 'f32')], 2, `${i} of ${n} x 7 x 9`)
      }
    }
  })

  test('of means', () => {
    const rng = makeRng(19)
    for (let i = 0; i < many(30); i++) {
      const shape = [2, rng.int(1, 7), rng.int(6, 33), rng.int(6, 33)]
      const kernel = [rng.pick([2, 4]), rng.pick([2, 4])]
      const options = { stride: rng.pick([1, 2]), padding: rng.int(0, 1), countIncludePad: true }
      const f: F = (a) => s.averagePool(a, kernel, options).mul(16)
      agree(
        f,
        [draw(rng, shape, 'f32', i % 2 === 0)],
        1 + (i % 2),
        `${i}: [${shape}] by [${kernel}] ${JSON.stringify(options)}`,
      )
    }
  })
})
