/** Launch scalars: what a launch means, what is refused, and what code may know of extents that it does not. */
import { describe, expect, test } from 'vitest'
import { axis, launched, mul, rangeOf, scaled, strideOf, sub } from '../../src/affine/expr.ts'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { closeKernel, launchValues } from '../../src/kernel/launch.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { printKernel, showExpr } from '../../src/kernel/print.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'
import { isMultiple } from '../../src/schedule/loop/ir/tile.ts'
import { factsOf, scheduleKernel } from '../../src/schedule/loop/scheduleKernel.ts'
import { cudaSimt } from '../../src/target/simt.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { runKernels } from '../wasm/run.ts'
import { loadKernels } from './hard-cases/case.ts'
import { openCases } from './hard-cases/open.ts'

const n = { by: '$n', least: 2, most: 9, multiple: 1 }
const m = { by: '$m', least: 0, most: 4, multiple: 4 }

describe('expressions', () => {
  test('a multiple of a sum is the sum of multiples, whatever the order of factors', () => {
    const [i, j] = [axis('i', 5), axis('j', 7)]
    expect(scaled(sub(mul(i, 3), j), n).key).toBe(sub(mul(scaled(i, n), 3), scaled(j, n)).key)
    expect(scaled(scaled(i, n), m).key).toBe(scaled(scaled(i, m), n).key)
    expect(sub(scaled(i, n), scaled(i, n)).key).toBe('0')
  })
  test('a scalar of one value is that number', () => {
    expect(scaled(axis('i', 5), { ...n, least: 9 }).key).toBe(mul(axis('i', 5), 9).key)
  })
  test('ranges take both bounds', () => {
    expect(rangeOf(sub(launched(n), scaled(axis('i', 5), n)))).toEqual({ lo: 2 - 4 * 9, hi: 9 })
  })
  test('an axis that is scaled has no stride that is known', () => {
    expect(strideOf(scaled(axis('i', 5), n), 'i')).toBeUndefined()
    expect(strideOf(scaled(axis('i', 5), n), 'j')).toBe(0)
  })
  test('the text reads back', () => {
    const text = [
      'kernel k {',
      '  param sizes: i32[2] read',
      '  param y: i32[4000] write',
      '  launch $n: 2 to 9 = sizes[0]',
      '  launch $m: 0 to 4 multiple 4 = sizes[1]',
      '  axes i: $n, j: 7',
      '  grid i',
      '  %0 i32{i, j} = index 3*$m*$n*i + 2*$n*(i.start/2) + ($n*i)/4 + $m - $n*j',
      '  store y[$n*i + j] = %0',
      '}',
      '',
    ].join('\n')
    const kernel = parseKernel(text)
    verifyKernel(kernel)
    expect(printKernel(parseKernel(printKernel(kernel)))).toBe(printKernel(kernel))
    expect(parseKernel(printKernel(kernel))).toEqual(kernel)
    expect(showExpr(scaled(axis('i', 5), n))).toBe('$n*i')
  })
})

const bits = (buffers: Record<string, ArrayBufferView>): Record<string, number[]> =>
  Object.fromEntries(
    Object.entries(buffers).map(([k, b]) => [k, [...new Uint8Array(b.buffer, b.byteOffset, b.byteLength)]]),
  )

describe.each(openCases)('$name', (c) => {
  /** Each kernel with the values of the launch in place of its scalars. */
  const closed = (kernels: readonly Kernel[]): Kernel[] =>
    kernels.map((k) => closeKernel(k, launchValues(k, c.buffers())))

  // Where a coefficient is 0, what it scales does not vary along its axis.
  const isPlain = (k: Kernel): boolean => [...launchValues(k, c.buffers()).values()].every((v) => v > 0)

  test('the closed kernel is sound and has no scalar', () => {
    for (const k of closed(loadKernels(c.file))) {
      if (loadKernels(c.file).every(isPlain)) expect(() => verifyKernel(k)).not.toThrow()
      expect(printKernel(k)).not.toContain('$')
    }
  })
  test('strict loops of the open kernel give every bit of the closed one', () => {
    const strict = loadKernels(c.file).map((k): Kernel => ({ ...k, mode: 'strict' }))
    const [open, shut] = [c.buffers(), c.buffers()]
    runKernels(strict, open)
    runKernels(closed(strict), shut)
    expect(bits(open)).toEqual(bits(shut))
  })
})

const row = (launch: string, axes = 'i: $n', body = '%0 f32{i} = load x[i]\n store y[i] = %0'): Kernel =>
  parseKernel(
    `kernel k {\n param sizes: i32[2] read\n param x: f32[64] read\n param y: f32[64] write\n ${launch}\n axes ${axes}\n grid 1\n ${body}\n}`,
  )

const buffersFor = (size: number): { sizes: Int32Array; x: Float32Array; y: Float32Array } => ({
  sizes: Int32Array.of(size, 0),
  x: new Float32Array(64),
  y: new Float32Array(64),
})

describe('launches', () => {
  const kernel = row('launch $n: 4 to 32 multiple 4 = sizes[0]')
  test.each([0, 36, 6, -4])('a scalar of %d is not what the kernel declares', (size) => {
    expect(() => interpretKernel(kernel, buffersFor(size))).toThrow(
      `[E_ARGUMENT] $n is ${size}, not in [4, 32], a multiple of 4`,
    )
  })
  test('a scalar without a buffer', () => {
    expect(() => interpretKernel(kernel, { ...buffersFor(4), sizes: new Int32Array(0) })).toThrow('E_ARGUMENT')
  })
  test('beyond the extent nothing is written', () => {
    const buffers = { ...buffersFor(8), x: new Float32Array(64).fill(3) }
    interpretKernel(kernel, buffers)
    expect([...buffers.y]).toEqual([...new Array(8).fill(3), ...new Array(56).fill(0)])
  })
})

describe('the verifier refuses', () => {
  const refuse = (kernel: Kernel): string => {
    try {
      verifyKernel(kernel)
    } catch (e) {
      return String(e)
    }
    return 'nothing'
  }
  const good = 'launch $n: 0 to 32 = sizes[0]'
  test.each<[string, string, Kernel]>([
    ['bounds that are no range', 'no range of whole numbers', row('launch $n: 9 to 8 = sizes[0]')],
    ['bounds between multiples', 'no multiples of 8', row('launch $n: 0 to 30 multiple 8 = sizes[0]')],
    ['an element that is not there', 'has no element 2', row('launch $n: 0 to 32 = sizes[2]')],
    ['a parameter that is not there', 'no parameter other', row('launch $n: 0 to 32 = other[0]')],
    ['a number that is not i32', 'not from x', row('launch $n: 0 to 32 = x[0]')],
    ['a number that may change', 'not from y', row('launch $n: 0 to 32 = y[0]')],
    ['two of a name', 'declared twice', row(`${good}\n ${good}`)],
    ['an axis that never varies', 'never longer than 1', row('launch $n: 0 to 1 = sizes[0]')],
    ['an index beyond what the scalar may be', 'outside [0, 64)', row('launch $n: 0 to 65 = sizes[0]')],
    [
      'an index beyond a multiple',
      'outside [0, 64)',
      row(good, 'i: 3', '%0 f32{i} = load x[$n*i + 1]\n store y[i] = %0'),
    ],
    [
      'an axis of another extent than its scalar',
      'but $n at most 32',
      { ...row(good), parts: row(good).parts.map((p) => ({ ...p, axes: [{ name: 'i', extent: 31, open: '$n' }] })) },
    ],
    ['a scalar that is not declared', 'which is not declared', (({ scalars: _, ...k }) => k)(row(good))],
  ])('%s', (_, message, kernel) => {
    expect(refuse(kernel)).toContain('E_KERNEL_INVALID')
    expect(refuse(kernel)).toContain(message)
  })
  test('and proves what an index below an open end implies', () => {
    const backward = row(good, 'i: $n', '%0 f32{i} = load x[$n - i - 1]\n store y[i] = %0')
    expect(refuse(backward)).toBe('nothing')
  })
  test('a name of no launch scalar in the text', () => {
    expect(() => row('launch $n: 0 to 32 = sizes[0]', 'i: $q')).toThrow('the launch scalar $q is not declared')
  })
})

describe('what a multiple is known for', () => {
  const copy = (multiple: string): Kernel =>
    row(
      `launch $n: 0 to 8${multiple} = sizes[0]`,
      'i: 8, j: $n',
      '%0 f32{i, j} = load x[$n*i + j]\n store y[$n*i + j] = %0',
    )
  const source = (k: Kernel): string => emitKernel(k, cudaSimt).source

  test('threads move whole vectors of rows that are multiples of four', () => {
    expect(source(copy(' multiple 4'))).toMatch(/float4|int4|uint4/)
    expect(source(copy(''))).not.toMatch(/float4|int4|uint4/)
  })
  test('loops need no partial steps', () => {
    const viewOf = (k: Kernel): boolean => {
      const [part] = scheduleKernel(
        k,
        factsOf(k, wasmTarget, () => false),
      )
      return part !== undefined && isMultiple(part.schedule.axes.view('j'), 4)
    }
    expect([viewOf(copy(' multiple 4')), viewOf(copy(''))]).toEqual([true, false])
  })
})
