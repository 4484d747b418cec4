/** When a kernel may write a result over one of its inputs. */
import { describe, expect, test } from 'vitest'
import { mayShare } from '../../src/compile/inPlace.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'

/** A kernel over rows and columns from its parameters and statements. */
function share(params: string, body: string, read = 'x', write = 'y', axes = 'r: 4, c: 4'): boolean {
  const kernel = parseKernel(`kernel k {\n${params}\n  axes ${axes}\n  grid r\n${body}\n}`)
  verifyKernel(kernel)
  return mayShare(kernel, read, write)
}

const xy = '  param x: f32[4, 4] read\n  param y: f32[4, 4] write'

describe('may share', () => {
  test('a point reads what it overwrites', () => {
    expect(share(xy, '  %0 f32{r, c} = load x[r, c]\n  store y[r, c] = %0')).toBe(true)
  })
  test('the same position in other coordinates', () => {
    const params = '  param x: f32[16] read\n  param y: f32[4, 4] write'
    expect(share(params, '  %0 f32{r, c} = load x[4*r + c]\n  store y[r, c] = %0')).toBe(true)
  })
  test('a masked read of the same position', () => {
    expect(share(xy, '  %0 f32{r, c} = load x[r, c] where 1 <= r < 4 else 0\n  store y[r, c] = %0')).toBe(true)
  })
  test('both permuted alike', () => {
    expect(share(xy, '  %0 f32{r, c} = load x[c, r]\n  store y[c, r] = %0')).toBe(true)
  })
  test('a reduction of the row that is then stored', () => {
    const body =
      '  %0 f32{r, c} = load x[r, c]\n  %1 f32{r} = reduce max %0 over c\n  %2 f32{r, c} = sub %0, %1\n  store y[r, c] = %2'
    expect(share(xy, body)).toBe(true)
  })
  test('two stores of elementwise work', () => {
    const params = `${xy}\n  param z: f32[4, 4] write`
    expect(share(params, '  %0 f32{r, c} = load x[r, c]\n  store y[r, c] = %0\n  store z[r, c] = %0')).toBe(true)
  })
  test('an input the kernel does not read', () => {
    expect(share(xy, '  %0 f32{r, c} = const 1\n  store y[r, c] = %0')).toBe(true)
  })
})

describe('may not share', () => {
  test('a permuted read', () => {
    expect(share(xy, '  %0 f32{r, c} = load x[c, r]\n  store y[r, c] = %0')).toBe(false)
  })
  test('a shifted read under a mask', () => {
    expect(share(xy, '  %0 f32{r, c} = load x[r - 1, c] where 1 <= r < 4 else 0\n  store y[r, c] = %0')).toBe(false)
  })
  test('one read of two is elsewhere', () => {
    const body =
      '  %0 f32{r, c} = load x[r, c]\n  %1 f32{r, c} = load x[r, 3 - c]\n  %2 f32{r, c} = add %0, %1\n  store y[r, c] = %2'
    expect(share(xy, body)).toBe(false)
  })
  test('a reduction beside a second store', () => {
    const params = `${xy}\n  param z: f32[4] write`
    const body =
      '  %0 f32{r, c} = load x[r, c]\n  %1 f32{r} = reduce max %0 over c\n  store y[r, c] = %0\n  store z[r] = %1'
    expect(share(params, body)).toBe(false)
  })
  test('a read inside a loop', () => {
    const body = `  %0 f32{r} = const 0
  %1 = loop c/2 {
    carry %2 f32{r} = %0
    %3 f32{r, c} = load x[r, c]
    %4 f32{r} = reduce sum %3 over c
    %5 f32{r} = add %2, %4
    next %5
  }
  store y[r] = %1`
    expect(share('  param x: f32[4, 4] read\n  param y: f32[4] write', body)).toBe(false)
  })
  test('a gathered read', () => {
    const params = '  param x: f32[4] read\n  param i: i32[4] read\n  param y: f32[4] write'
    expect(
      share(params, '  %0 i32{r} = load i[r]\n  %1 f32{r} = load x[%0:4]\n  store y[r] = %1', 'x', 'y', 'r: 4'),
    ).toBe(false)
  })
})
