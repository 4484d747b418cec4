/** The interpreter's semantics, one at a time, with results written out by hand. */
import { describe, expect, test } from 'vitest'
import { type InterpretOptions, interpretKernel } from '../../src/kernel/interpret.ts'
import { hostLength } from '../../src/kernel/memory.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { readElement, toHost } from '../../src/scalar/host.ts'
import type { Scalar } from '../../src/scalar/ops.ts'
import { hostArray } from '../../src/types/host.ts'

/** Runs a kernel on inputs by name (outputs start as zeros) and gives its outputs as plain values. */
function run(
  text: string,
  inputs: Record<string, readonly Scalar[]> = {},
  options: InterpretOptions = {},
): Record<string, Scalar[]> {
  const kernel = parseKernel(`kernel k {\n${text}\n}`)
  const buffers = Object.fromEntries(
    kernel.params.map((p) => {
      const given = inputs[p.name]
      return [p.name, given === undefined ? hostArray(p.dtype, hostLength(p)) : toHost(given, p.dtype)]
    }),
  )
  interpretKernel(kernel, buffers, options)
  const outputs = kernel.params.filter((p) => p.access !== 'read')
  return Object.fromEntries(
    outputs.map((p) => {
      const data = buffers[p.name] ?? hostArray(p.dtype, 0)
      return [p.name, Array.from({ length: data.length }, (_, i) => readElement(data, p.dtype, i))]
    }),
  )
}

describe('scans', () => {
  const scan = (how: string): Scalar[] | undefined =>
    run(
      `param x: i32[2, 4] read; param y: i32[2, 4] write
       axes r: 2, c: 4
       grid 1
       %0 i32{r, c} = load x[r, c]
       %1 i32{r, c} = scan ${how}
       store y[r, c] = %1`,
      { x: [3, 1, 4, 1, -5, 9, -2, 6] },
    ).y
  test('forward', () => expect(scan('sum %0 along c')).toEqual([3, 4, 8, 9, -5, 4, 2, 8]))
  test('exclusive', () => expect(scan('sum %0 along c exclusive')).toEqual([0, 3, 4, 8, 0, -5, 4, 2]))
  test('reverse', () => expect(scan('max %0 along c reverse')).toEqual([4, 4, 4, 1, 9, 9, 6, 6]))
  test('reverse, exclusive', () =>
    expect(scan('prod %0 along c reverse exclusive')).toEqual([4, 4, 1, 1, -108, -12, 6, 1]))
  test('along the outer axis', () => expect(scan('sum %0 along r')).toEqual([3, 1, 4, 1, -2, 10, 2, 7]))
})

describe('integers', () => {
  test('64 bits are exact and wrap', () => {
    const { y, s } = run(
      `param x: i64[3] read; param y: i64[3] write; param s: u64[] write
       axes i: 3
       grid 1
       %0 i64{i} = load x[i]
       %1 i64 = const 9007199254740993
       %2 i64{i} = add %0, %1
       store y[i] = %2
       %3 u64{i} = cast %0
       %4 u64 = reduce sum %3 over i
       store s[] = %4`,
      { x: [1n, (1n << 63n) - 1n, -3n] },
    )
    expect(y).toEqual([9007199254740994n, -(1n << 63n) + 9007199254740992n, 9007199254740990n])
    expect(s).toEqual([(1n << 63n) - 3n])
  })
  test('narrow sums wrap, wide product sums do not', () => {
    const { s, d } = run(
      `param x: i8[2] read; param s: i8[] write; param d: i32[] write
       axes i: 2
       grid 1
       %0 i8{i} = load x[i]
       %1 i8 = reduce sum %0 over i
       store s[] = %1
       %2 i32 = const 1000
       %3 i32 = dot %0, %0 over i acc %2
       store d[] = %3`,
      { x: [100, 100] },
    )
    expect([s, d]).toEqual([[-56], [21000]])
  })
})

describe('rounding', () => {
  const text = `param x: f16[2] read; param y: f32[2] write
    axes i: 2
    grid 1
    %0 f16{i} = load x[i]
    %1 f16{i} = mul %0, %0
    %2 f32{i} = cast %1
    store y[i] = %2`
  const third = 1365 / 4096
  test('in double precision', () =>
    expect(run(text, { x: [third, 300] }).y).toEqual([Math.fround(third * third), 90000]))
  test('of every statement', () =>
    expect(run(text, { x: [third, 300] }, { rounding: 'dtype' }).y).toEqual([0.111083984375, Number.POSITIVE_INFINITY]))
})

describe('storage formats', () => {
  test('bits, the lowest first', () => {
    const text = `kernel k {
      param x: bool[3, 3] read bits; param y: bool[3, 3] write bits
      axes r: 3, c: 3
      grid 1
      %0 bool{r, c} = load x[c, r]
      store y[r, c] = %0
    }`
    // x has elements 1, 2 and 8; its transpose has 3, 6 and 8; spare bits of y stay.
    const [x, y] = [Uint8Array.of(0b110, 1), Uint8Array.of(0xff, 0xf0)]
    interpretKernel(parseKernel(text), { x, y })
    expect([...y]).toEqual([0b01001000, 0xf1])
  })
  test('pairs of int4, the low half first', () => {
    const text = `kernel k {
      param x: i8[3] read int4; param y: i8[3] write; param z: i8[3] write int4
      axes i: 3
      grid 1
      %0 i8{i} = load x[i]
      store y[i] = %0
      store z[i] = %0
    }`
    const [x, y, z] = [Uint8Array.of(0x7f, 0x08), new Int8Array(3), Uint8Array.of(0, 0xa0)]
    interpretKernel(parseKernel(text), { x, y, z })
    expect([...y]).toEqual([-1, 7, -8])
    expect([...z]).toEqual([0x7f, 0xa8])
  })
})

describe('stores', () => {
  const combined = (sign: string): Scalar[] | undefined =>
    run(
      `param x: f32[2, 3] read; param y: f32[3] update
       axes r: 2, c: 3
       grid r
       %0 f32{r, c} = load x[r, c]
       store y[c] ${sign} %0`,
      { x: [2, -3, 5, -1, 4, 2], y: [1, 1, 1] },
    ).y
  test('with a sum', () => expect(combined('+=')).toEqual([2, 2, 8]))
  test('with a product', () => expect(combined('*=')).toEqual([-2, -12, 10]))
  test('with a maximum', () => expect(combined('max=')).toEqual([2, 4, 5]))
  test('with a minimum', () => expect(combined('min=')).toEqual([-1, -3, 1]))
  test('of distinct places, which are held to it', () => {
    const stored = (places: readonly number[]): Scalar[] | undefined =>
      run(
        `param x: i32[4] read; param y: i32[4] write
         axes i: 4
         grid i/2
         %0 i32{i} = load x[i]
         store y[%0:4] = %0 distinct`,
        { x: places },
      ).y
    expect(stored([2, 0, 3, 1])).toEqual([0, 1, 2, 3])
    expect(() => stored([2, 0, 2, 1])).toThrow('two points of a store of distinct places lead to [2]')
  })
  test('under a mask and a bool tile', () => {
    const { y } = run(
      `param x: i32[5] read; param y: i32[5] write
       axes i: 5
       grid i/2
       %0 i32{i} = load x[i]
       %1 i32 = const 0
       %2 bool{i} = gt %0, %1
       store y[i] = %0 where 1 <= i < 4 and %2`,
      { x: [1, 2, -3, 4, 5] },
    )
    expect(y).toEqual([0, 2, 0, 4, 0])
  })
  test('a scalar over an axis of the index', () => {
    const { y } = run('param y: i32[4] write\n axes i: 4\n grid i/3\n %0 i32 = index 7 + i.start\n store y[i] = %0')
    expect(y).toEqual([7, 7, 7, 10])
  })
})

describe('loops', () => {
  const bounds = (from: number, to: number): Scalar[] | undefined =>
    run(
      `param a: i32[] read; param b: i32[] read; param y: i32[7] write
       axes k: 7
       grid 1
       %0 i32 = load a[]
       %1 i32 = load b[]
       loop k/3 from %0 to %1 {
         %2 i32{k} = index 10*k.start + k
         store y[k] = %2
       }`,
      { a: [from], b: [to] },
    ).y
  test('start at `from` and end at `to`', () => expect(bounds(1, 6)).toEqual([0, 11, 12, 13, 44, 45, 0]))
  test('keep to the axis', () => expect(bounds(-5, 50)).toEqual([0, 1, 2, 33, 34, 35, 66]))
  test('may not run at all', () => expect(bounds(4, 2)).toEqual([0, 0, 0, 0, 0, 0, 0]))
  test('pass carries on at once', () => {
    const { y } = run(
      `param y: i32[2] write
       axes k: 5
       grid 1
       %0 i32 = const 0
       %1 i32 = const 1
       %2, %3 = loop k {
         carry %4 i32 = %0
         carry %5 i32 = %1
         %6 i32 = add %4, %5
         next %5, %6
       }
       store y[0] = %2
       store y[1] = %3`,
    )
    expect(y).toEqual([5, 8])
  })
  test('nest', () => {
    const { y } = run(
      `param y: i32[] write
       axes i: 4, j: 6
       grid 1
       %0 i32 = const 0
       %1 = loop i/2 {
         carry %2 i32 = %0
         %3 i32 = index i.start + 1
         %4 = loop j/2 to %3 {
           carry %5 i32 = %2
           %6 i32{i, j} = index 10*i + j
           %7 i32 = reduce sum %6 over i, j
           %8 i32 = add %5, %7
           next %8
         }
         next %4
       }
       store y[] = %1`,
    )
    // i in {0, 1} sees j = 0; i in {2, 3} sees j = 0, 1, 2.
    expect(y).toEqual([10 + (20 * 3 + 3) + (30 * 3 + 3)])
  })
})

describe('the rest', () => {
  test('a staged tile read elsewhere, the last block clipped', () => {
    const { y } = run(
      `param x: i32[7] read; param y: i32[7, 2] write
       axes i: 7, h: 4, k: 2
       grid i/3
       %0 i32{h} = load x[i.start + h] where 0 <= i.start + h < 7 else -1
       %1 i32{h} = stage %0
       %2 i32{i, k} = at %1[h: i - i.start + k]
       store y[i, k] = %2`,
      { x: [0, 1, 2, 3, 4, 5, 6] },
    )
    expect(y).toEqual([0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, -1])
  })
  test('empty axes: folds give identities, grids run nothing', () => {
    const text = (grid: string): string => `param x: f32[0, 3] read; param y: f32[3] write
       axes i: 0, j: 3
       grid ${grid}
       %0 f32{i, j} = load x[i, j]
       %1 f32{j} = reduce max %0 over i
       store y[j] = %1`
    expect(run(text('j')).y).toEqual(Array.from({ length: 3 }, () => Number.NEGATIVE_INFINITY))
    expect(run(text('j, i').replace('store y[j] = %1', 'store y[j] = %1 where 0 <= i < 1')).y).toEqual([0, 0, 0])
  })
  test('a position that numbers two axes', () => {
    const text = `param x: i32[2, 3] read; param y: i64[2] write
       axes i: 2, j: 3
       grid 1
       %0 i32{i, j} = load x[i, j]
       %1 i64 = reduce argmin %0 over i, j position 3*i + j
       %2 i64 = reduce argmin %0 over i, j position 3*i + j last
       store y[0] = %1
       store y[1] = %2`
    expect(run(text, { x: [4, 2, 7, 2, 9, 3] }).y).toEqual([1n, 3n])
  })
  test('a missing buffer', () => {
    const kernel = parseKernel('kernel k {\n param x: f32[3] read\n grid 1\n}')
    expect(() => interpretKernel(kernel, {})).toThrowErrorMatchingInlineSnapshot(
      `[UserError: [E_ARGUMENT] no buffer is given for the parameter x]`,
    )
  })
  test('a short buffer', () => {
    const kernel = parseKernel('kernel k {\n param x: bool[17] read bits\n grid 1\n}')
    expect(() => interpretKernel(kernel, { x: new Uint8Array(2) })).toThrowErrorMatchingInlineSnapshot(
      `[UserError: [E_ARGUMENT] the buffer of x has 2 elements; bool[17] in the format bits needs 3]`,
    )
  })
  test('an index value beyond the extent it claims', () => {
    const text = `param n: i32[2] read; param x: f32[4] read; param y: f32[2] write
       axes i: 2
       grid i
       %0 i32{i} = load n[i]
       %1 f32{i} = load x[%0:4]
       store y[i] = %1`
    expect(() => run(text, { n: [3, 4] })).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_INDEX] index [4] is outside x of shape [4]
        at %1 f32{i} = load x[%0:4]]
    `)
  })
  test('a kernel the verifier rejects', () => {
    expect(() => run('grid 1\n %0 f32 = exp %1')).toThrow('E_KERNEL_INVALID')
  })
})
