/**
 * Products in vectors whose operands are gathered: what a loop loads a step early, how threads share the loads, where places are found, and results on the
 * software WebGPU device against the interpreter of kernels. Sums of multiples of 1/16 are exact in any order, so results are equal bit by bit.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { printThreadSchedule } from '../../../src/schedule/simt/print.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { webgpuSimt } from '../../../src/target/simt.ts'
import { type Adapter, type Buffers, openDevice, runWgsl } from '../dialects/wgsl.ts'

interface Window {
  readonly name: string
  readonly dtype?: 'f32' | 'f16'
  /** Images, channels, rows and columns, filters. */
  readonly sizes: readonly [number, number, number, number, number]
  readonly stride: number
  readonly taps: number
  readonly pad: number
  /** Channels of a step, output rows of a program, filters of one. */
  readonly blocks: readonly [number, number, number]
  /** The first tap's axis is a loop of its own inside the one over channels. */
  readonly nested?: boolean
  /** Parts of the channels; the last has fewer. */
  readonly parts?: number
}

const out = ({ sizes: [, , h, w], stride, taps, pad }: Window): [number, number] => [
  Math.floor((h + 2 * pad - taps) / stride) + 1,
  Math.floor((w + 2 * pad - taps) / stride) + 1,
]

function kernelOf(c: Window): Kernel {
  const { dtype: d = 'f32', stride, taps, pad, nested = false, parts = 1 } = c
  const [images, channels, h, w, filters] = c.sizes
  const [step, rows, columns] = c.blocks
  const [oh, ow] = out(c)
  const share = Math.ceil(channels / parts)
  const channel = parts === 1 ? 'm' : `m + ${share}*s`
  const inside = parts * share === channels ? '' : ` and 0 <= ${channel} < ${channels}`
  const limits = parts * share === channels ? '' : ` where 0 <= ${channel} < ${channels} else 0`
  const body = (acc: string, carried: string): string => `
      %3 ${d}{s, i, k, l, m, n, p} = load x[i, ${channel}, ${stride}*k + n - ${pad}, ${stride}*l + p - ${pad}] where 0 <= ${stride}*k + n - ${pad} < ${h} and 0 <= ${stride}*l + p - ${pad} < ${w}${inside} else 0
      %4 ${d}{s, j, m, n, p} = load w[j, ${channel}, n, p]${limits}
      %5 ${d}{s, j, m, n, p} = stage %4
      %6 ${d}{s, m, n, p, i, k, l} = stage %3
      %7 f32{s, j, i, k, l} = dot %5, %6 over m, n, p acc ${acc}
      next ${carried}`
  const text = `kernel windows {
    param x: ${d}[${images}, ${channels}, ${h}, ${w}] read
    param w: ${d}[${filters}, ${channels}, ${taps}, ${taps}] read
    param y: f32[${parts}, ${images}, ${filters}, ${oh}, ${ow}] write
    axes s: ${parts}, i: ${images}, j: ${filters}, k: ${oh}, l: ${ow}, m: ${share}, n: ${taps}, p: ${taps}
    grid s, j/${columns}, i, k/${rows}, l/${ow}
    %0 f32{s, j, i, k, l} = const 0
    %1 = loop m/${step} {
      carry %2 f32{s, j, i, k, l} = %0
      ${nested ? `%8 = loop n/1 {\n      carry %9 f32{s, j, i, k, l} = %2${body('%9', '%7')}\n      }\n      next %8` : body('%2', '%7')}
    }
    store y[s, i, j, k, l] = %1
  }`
  return parseKernel(text)
}

const cases: Window[] = [
  {
    name: 'windows at strides, in parts',
    sizes: [2, 10, 15, 37, 40],
    stride: 2,
    taps: 3,
    pad: 1,
    blocks: [1, 2, 40],
    parts: 3,
  },
  {
    name: 'several channels a step, with a tail',
    sizes: [1, 7, 9, 21, 72],
    stride: 1,
    taps: 3,
    pad: 1,
    blocks: [2, 3, 64],
  },
  { name: 'half precision', dtype: 'f16', sizes: [1, 6, 12, 20, 48], stride: 1, taps: 3, pad: 1, blocks: [1, 2, 48] },
  {
    name: 'taps as a loop, the first of them outside',
    sizes: [1, 3, 12, 34, 33],
    stride: 1,
    taps: 5,
    pad: 2,
    blocks: [1, 1, 33],
    nested: true,
  },
  { name: 'one step ahead of two', sizes: [1, 2, 16, 33, 32], stride: 1, taps: 2, pad: 0, blocks: [1, 1, 32] },
]

const caps = { ...webgpuSimt, maxSharedBytes: 32768, leastProduct: 0 }
let machine: Adapter | string

beforeAll(async () => {
  machine = await openDevice()
})

/** Multiples of 1/4 from -1 to 1, as bits of the dtype. */
function operand(dtype: 'f32' | 'f16', n: number, seed: number): Float32Array | Uint16Array {
  let s = seed
  const values = Float32Array.from({ length: n }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return (((s >>> 16) % 4) + 1) * ((s & 0x8000000) === 0 ? 0.25 : -0.25)
  })
  if (dtype === 'f32') return values
  const words = new Uint32Array(values.buffer)
  return Uint16Array.from(
    words,
    (u) => ((u >>> 16) & 0x8000) | ((((u >>> 23) & 255) - 112) << 10) | ((u >>> 13) & 0x3ff),
  )
}

function buffersOf(c: Window): Buffers {
  const { dtype = 'f32', taps, parts = 1 } = c
  const [images, channels, h, w, filters] = c.sizes
  const [oh, ow] = out(c)
  return {
    x: operand(dtype, images * channels * h * w, 1),
    w: operand(dtype, filters * channels * taps * taps, 2),
    y: new Float32Array(parts * images * filters * oh * ow).fill(77),
  }
}

describe.each(cases)('$name', (c) => {
  test('loads both operands a step early, where threads find their places once', () => {
    const kernel = kernelOf(c)
    const schedule = printThreadSchedule(scheduleThreads(kernel, caps)).join('\n')
    expect(schedule).toMatch(/; loads w, x 1 ahead into registers/)
    const { source } = emitKernel(kernel, caps)
    expect(source).toMatch(/w_place(\[0\])? = /)
    // A load of the loop adds one number to its place; the bounds of its window stand before the loop.
    const loop = source.split(/for \(var [mn]_start/).at(-1)
    expect(loop).toMatch(/x\[\(*x_place\[0\] (>> 1u\) )?\+ /)
    expect(source.match(/workgroupBarrier/g)).toHaveLength(c.nested === true ? 3 : 2)
  })

  test('gives what the interpreter gives', { timeout: 60_000 }, async ({ skip }) => {
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const kernel = kernelOf(c)
    const [want, got] = [buffersOf(c), buffersOf(c)]
    interpretKernel(kernel, want, { rounding: 'dtype' })
    await runWgsl({ ...machine, limits: caps }, [kernel], got)
    expect(got.y).toEqual(want.y)
  })
})

/** The schedule of a case on a machine, as text. */
const scheduleOf = (c: Window, machine = caps): string =>
  printThreadSchedule(scheduleThreads(kernelOf(c), machine)).join('\n')

const wide: Window = { name: 'wide', sizes: [1, 8, 16, 64, 64], stride: 1, taps: 3, pad: 1, blocks: [1, 2, 64] }

test('where neighbours lie along the depth, four threads take them and eight take filters', () => {
  const { source } = emitKernel(kernelOf(wide), caps)
  expect(source).toMatch(/let p0 = tid & 3;/)
  expect(source).toMatch(/let j0_2 = \(tid >> 2u\) & 63;/)
  // Rows of 64 are 72 elements apart, so that those threads write into banks of their own; what lies along the result stands without gaps.
  expect(source).toMatch(/var<workgroup> tile_5: array<array<vec4<f32>, 18>, 9>/)
  expect(source).toMatch(/var<workgroup> tile_6: array<array<vec4<f32>, 32>, 9>/)
})

test('machines that copy in the background, and results that leave no registers, load in place', () => {
  expect(scheduleOf(wide)).toMatch(/ahead/)
  expect(scheduleOf(wide, { ...caps, hasAsyncCopy: true })).not.toMatch(/ahead/)
  const many: Window = { ...wide, sizes: [1, 8, 16, 64, 128], blocks: [1, 4, 128] }
  expect(scheduleOf(many, { ...caps, maxThreads: 256, maxSharedBytes: 49152 })).not.toMatch(/ahead/)
})

test('places are found before the loop only where their registers leave room for a second block', () => {
  // 64 results and 12 words twice: with 12 places more than 88.
  const c: Window = { ...wide, sizes: [1, 8, 16, 64, 128], blocks: [1, 2, 128] }
  expect(scheduleOf(c)).toMatch(/loads w, x 1 ahead/)
  expect(emitKernel(kernelOf(c), caps).source).not.toMatch(/_place/)
})
