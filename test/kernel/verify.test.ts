/** The verifier's rejections of kernels, parts and loops, each with its message; the index ranges it proves. */
import { describe, expect, test } from 'vitest'
import { constant, value } from '../../src/affine/expr.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'
import { base, changed, verdict, withBody } from './verdict.ts'

test('a sound kernel passes', () => {
  expect(() => verifyKernel(base)).not.toThrow()
})

describe('parameters and axes', () => {
  test('a parameter twice', () => {
    const kernel = parseKernel('kernel k {\n param x: f32[1] read\n param x: f32[1] write\n grid 1\n}')
    expect(() => verifyKernel(kernel)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] parameter x is declared twice
        at kernel k: param x: f32[1] write]
    `)
  })
  test('a parameter whose name the text form cannot say', () => {
    const params = [{ name: 'a b', dtype: 'f32', shape: [], access: 'read', format: 'plain' } as const]
    expect(() => verifyKernel({ ...base, params })).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] "a b" is not a name
        at kernel base: param a b: f32[] read
        help: use letters, digits and underscores]
    `)
  })
  test('bits of a number', () => {
    const kernel = parseKernel('kernel k {\n param x: u8[8] read bits\n grid 1\n}')
    expect(() => verifyKernel(kernel)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the format bits holds bool, not u8
        at kernel k: param x: u8[8] read bits]
    `)
  })
  test('int4 of another integer', () => {
    const kernel = parseKernel('kernel k {\n param x: u8[8] read int4\n grid 1\n}')
    expect(() => verifyKernel(kernel)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the format int4 holds i8, not u8
        at kernel k: param x: u8[8] read int4]
    `)
  })
  test('an axis whose name the text form cannot say', () => {
    expect(changed({ axes: [{ name: 'r.start', extent: 6 }] })).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] "r.start" is not a name
        at kernel base: axes and grid
        help: use letters, digits and underscores]
    `)
  })
  test('an axis twice', () => {
    const r = { name: 'r', extent: 6 }
    expect(changed({ axes: [r, r] })).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] axis r is declared twice
        at kernel base: axes and grid]
    `)
  })
  test('an extent that is not whole', () => {
    expect(changed({ axes: [{ name: 'r', extent: 1.5 }] })).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the extent 1.5 of axis r is not a whole number
        at kernel base: axes and grid]
    `)
  })
  test('a grid axis that is not there', () => {
    expect(changed({ grid: [{ axis: 'q', block: 1 }] })).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] grid axis q is not declared
        at kernel base: axes and grid]
    `)
  })
  test('a grid axis twice', () => {
    const r = { axis: 'r', block: 1 }
    expect(changed({ grid: [r, r] })).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] axis r is twice on the grid
        at kernel base: axes and grid]
    `)
  })
  test('a block of nothing', () => {
    expect(changed({ grid: [{ axis: 'r', block: 0 }] })).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the block 0 of grid axis r is not a positive whole number
        at kernel base: axes and grid]
    `)
  })
  test('the part at fault is named', () => {
    const kernel = parseKernel('kernel k {\n part {\n grid 1\n }\n part {\n grid 1\n %0 f32 = exp %1\n }\n}')
    expect(() => verifyKernel(kernel)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %1 is not defined before its use
        at kernel k: part 1, %0 f32 = exp %1]
    `)
  })
})

describe('definitions', () => {
  test('a use before the definition', () => {
    expect(verdict('%0 f32 = exp %1\n %1 f32 = const 0')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %1 is not defined before its use
        at kernel bad: %0 f32 = exp %1]
    `)
  })
  test('a value defined twice', () => {
    expect(verdict('%0 f32 = const 0\n %0 f32 = const 1')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %0 is defined twice
        at kernel bad: %0 f32 = const 1]
    `)
  })
  test('a value number that is not whole', () => {
    const odd = withBody({ kind: 'let', id: -1, dtype: 'f32', axes: [], op: { kind: 'const', value: 0 } })
    expect(() => verifyKernel(odd)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the value number -1 is not a whole number
        at kernel base: %-1 f32 = const 0]
    `)
  })
  test('a value of a loop used behind it', () => {
    expect(verdict('loop k {\n %0 f32 = const 0\n }\n %1 f32 = exp %0')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %0 is used outside the loop that defines it
        at kernel bad: %1 f32 = exp %0]
    `)
  })
  test('an index value that is not defined', () => {
    expect(verdict('%0 f32{r} = load x[r, %7:10]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %7 is not defined before its use
        at kernel bad: %0 f32{r} = load x[r, %7:10]]
    `)
  })
})

describe('loops', () => {
  test('over an axis that is not declared', () => {
    const odd = withBody({ kind: 'loop', axis: 'q', block: 1, carries: [], body: [] })
    expect(() => verifyKernel(odd)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] loop axis q is not declared
        at kernel base: loop q]
    `)
  })
  test('over a grid axis', () => {
    expect(verdict('loop r {\n }')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] loop axis r is on the grid
        at kernel bad: loop r]
    `)
  })
  test('inside a loop over the same axis', () => {
    expect(verdict('loop k/2 {\n loop k {\n }\n }')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] axis k is looped over inside its own loop
        at kernel bad: loop k]
    `)
  })
  test('in blocks of nothing', () => {
    expect(verdict('loop k/0 {\n }')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the block 0 of the loop is not a positive whole number
        at kernel bad: loop k/0]
    `)
  })
  test('up to a bound of another dtype', () => {
    expect(verdict('%0 u32 = const 3\n loop k to %0 {\n }')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the bound to %0 is u32, not i32 or i64
        at kernel bad: loop k to %0]
    `)
  })
  test('from a bound that varies inside the program', () => {
    expect(verdict('%0 i32{c} = index c\n loop k from %0 {\n }')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the bound from %0 is not scalar: it varies along c
        at kernel bad: loop k from %0]
    `)
  })
  test('carrying from another type', () => {
    const body = '%0 f32 = const 0\n %1 = loop k {\n carry %2 f32{r} = %0\n next %2\n }'
    expect(verdict(body)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the carry %2 is f32{r} but starts from %0, which is f32{}
        at kernel bad: %1 = loop k]
    `)
  })
  test('passing on another type', () => {
    const body = '%0 f32 = const 0\n %1 = loop k {\n carry %2 f32 = %0\n %3 i32 = index k.start\n next %3\n }'
    expect(verdict(body)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the carry %2 is f32{} but passes on %3, which is i32{}
        at kernel bad: %1 = loop k]
    `)
  })
  test('carrying along the loop axis', () => {
    const op = { kind: 'const', value: 0 } as const
    const carry = { init: 0, param: 1, next: 1, result: 2, dtype: 'f32', axes: ['k'] } as const
    const odd = withBody(
      { kind: 'let', id: 0, dtype: 'f32', axes: ['k'], op },
      { kind: 'loop', axis: 'k', block: 1, carries: [carry], body: [] },
    )
    expect(() => verifyKernel(odd)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] axis k is used outside its loop
        at kernel base: %0 f32{k} = const 0]
    `)
  })
})

describe('indices proved in range', () => {
  const accepted = (body: string, grid?: string): void => expect(verdict(body, grid)).not.toThrow()
  test('by a mask on the same expression', () =>
    accepted('%0 f32{r, c} = load x[r, c - 1] where 0 <= c - 1 < 9 else 0'))
  test('by a mask on a shifted expression', () => accepted('%0 f32{r, c} = load x[r, c - 3] where 3 <= c < 10 else 0'))
  test('by a mask inside a quotient', () =>
    accepted('%0 f32{r, c, k} = load x[r, (c + 4*k - 3)/2] where 0 <= c + 4*k - 3 < 18 else 0'))
  test('by a mask on a reflected expression', () =>
    accepted('%0 f32{r, c, k} = load x[r, 7 - c + k] where 0 <= c - k < 8 else 0'))
  test('by blocks: an axis less its start', () => accepted('%0 f32{r, c} = load x[r - r.start, c]', 'r/3'))
  test('by blocks: starts are multiples', () => accepted('%0 f32{c} = load x[r.start/2, c]', 'r/2'))
  test('by a mask at points of value masks', () =>
    accepted('%0 bool{c} = load bits[c]\n %1 f32{r, c} = load x[r, c + 1] where 0 <= c < 9 and %0 else 0'))
  test('vacuously, where no point exists', () => {
    const text = 'kernel k {\n param x: f32[0] read\n axes i: 0\n grid 1\n %0 f32{i} = load x[i]\n}'
    expect(() => verifyKernel(parseKernel(text))).not.toThrow()
  })
  test('by the extent a value claims', () => {
    const op = { kind: 'load', param: 'u', index: [value(0, 10)], mask: [], other: 0 } as const
    const load = { kind: 'load', param: 'n', index: [constant(2)], mask: [], other: 0 } as const
    const kernel = withBody(
      { kind: 'let', id: 0, dtype: 'i32', axes: [], op: load },
      { kind: 'let', id: 1, dtype: 'f32', axes: [], op },
    )
    expect(() => verifyKernel(kernel)).not.toThrow()
  })
})
