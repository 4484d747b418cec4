/** The verifier's rejections of single statements, each with its message. */
import { describe, expect, test } from 'vitest'
import { axis } from '../../src/affine/expr.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'
import { basePart, verdict, withBody } from './verdict.ts'

describe('dtypes', () => {
  const one = '%0 f32{r, c} = load x[r, c]\n %1 i32{r} = load n[r]\n'
  test('a constant of another dtype', () => {
    const odd = withBody({ kind: 'let', id: 0, dtype: 'i8', axes: [], op: { kind: 'const', value: 128 } })
    expect(() => verifyKernel(odd)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] 128 is not a value of i8
        at kernel base: %0 i8 = const 128]
    `)
  })
  test('an index in floats', () => {
    expect(verdict('%0 f32{r} = index r')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] an index is an integer, not f32
        at kernel bad: %0 f32{r} = index r]
    `)
  })
  test('a predicate in integers', () => {
    expect(verdict('%0 i32{r} = holds 0 <= r < 3')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] a predicate is bool, not i32
        at kernel bad: %0 i32{r} = holds 0 <= r < 3]
    `)
  })
  test('a load in another dtype', () => {
    expect(verdict('%0 f64{r, c} = load x[r, c]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] x is f32, not f64
        at kernel bad: %0 f64{r, c} = load x[r, c]]
    `)
  })
  test('a value of another dtype for masked points', () => {
    const op = { kind: 'load', param: 'n', index: [axis('r', 6)], mask: [], other: 0.5 } as const
    const odd = withBody({ kind: 'let', id: 0, dtype: 'i32', axes: ['r'], op })
    expect(() => verifyKernel(odd)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] 0.5 is not a value of i32
        at kernel base: %0 i32{r} = load n[r] else 0.5]
    `)
  })
  test('operands of two dtypes', () => {
    expect(verdict(`${one}%2 f32{r, c} = add %0, %1`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] add of f32 and i32
        at kernel bad: %2 f32{r, c} = add %0, %1]
    `)
  })
  test('an operation outside its classes', () => {
    expect(verdict(`${one}%2 i32{r} = exp %1`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] exp is not defined on i32
        at kernel bad: %2 i32{r} = exp %1]
    `)
  })
  test('a comparison that is not bool', () => {
    expect(verdict(`${one}%2 f32{r, c} = lt %0, %0`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] lt of f32 gives bool, not f32
        at kernel bad: %2 f32{r, c} = lt %0, %0]
    `)
  })
  test('a selection by a number', () => {
    expect(verdict(`${one}%2 f32{r, c} = select %0, %0, %0`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the condition of select is f32, not bool
        at kernel bad: %2 f32{r, c} = select %0, %0, %0]
    `)
  })
  test('a bitcast to another width', () => {
    expect(verdict(`${one}%2 i8{r, c} = bitcast %0`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] bitcast of f32 to i8: widths differ
        at kernel bad: %2 i8{r, c} = bitcast %0]
    `)
  })
  test('a loose cast that is none of f32 to a half dtype', () => {
    expect(verdict(`${one}%2 f64{r, c} = cast %0 loose`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] cast of f32 to f64 is not loose: only casts of f32 to a half dtype are
        at kernel bad: %2 f64{r, c} = cast %0 loose]
    `)
  })
  test('too few operands', () => {
    const op = { kind: 'scalar', op: 'add', args: [0] } as const
    const odd = withBody(...(basePart?.body ?? []), { kind: 'let', id: 1, dtype: 'f32', axes: ['r', 'c'], op })
    expect(() => verifyKernel(odd)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] add takes 2 operands, not 1
        at kernel base: %1 f32{r, c} = add %0]
    `)
  })
  test('a random key of another dtype', () => {
    expect(verdict(`${one}%2 u32{r} = random %1, %1 at r`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] a random key is u32, not i32
        at kernel bad: %2 u32{r} = random %1, %1 at r]
    `)
  })
  test('random bits of another dtype', () => {
    expect(verdict('%0 u32 = const 1\n %1 i32{r} = random %0, %0 at r')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] random bits are u8, u16, u32, not i32
        at kernel bad: %1 i32{r} = random %0, %0 at r]
    `)
  })
  test('a negative counter', () => {
    expect(verdict('%0 u32 = const 1\n %1 u32{r} = random %0, %0 at r - 1')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the index r - 1 may be negative
        at kernel bad: %1 u32{r} = random %0, %0 at r - 1]
    `)
  })
  test('a reduction that changes the dtype', () => {
    expect(verdict(`${one}%2 f64{r} = reduce sum %0 over c`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] sum of f32 gives f32, not f64
        at kernel bad: %2 f64{r} = reduce sum %0 over c]
    `)
  })
  test('a sum of bool', () => {
    expect(verdict('%0 bool{c} = load bits[c]\n %1 bool = reduce sum %0 over c')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] sum of bool
        at kernel bad: %1 bool = reduce sum %0 over c]
    `)
  })
  test('a float position', () => {
    expect(verdict(`${one}%2 f32{r} = reduce argmax %0 over c`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] argmax gives i32 or i64, not f32
        at kernel bad: %2 f32{r} = reduce argmax %0 over c]
    `)
  })
  test('a product of floats and integers', () => {
    expect(verdict(`${one}%2 f32{r} = dot %0, %1 over c`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] dot of f32 and i32
        at kernel bad: %2 f32{r} = dot %0, %1 over c]
    `)
  })
  test('a product sum in a narrower dtype', () => {
    expect(verdict(`${one}%2 f16{r} = dot %0, %0 over c`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] dot of f32 and f32 cannot accumulate in f16
        at kernel bad: %2 f16{r} = dot %0, %0 over c]
    `)
  })
  test('an accumulator of another dtype', () => {
    expect(verdict(`${one}%2 f64{r} = dot %0, %0 over c acc %1`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] dot in f64 onto an accumulator of i32
        at kernel bad: %2 f64{r} = dot %0, %0 over c acc %1]
    `)
  })
  test('staging in another dtype', () => {
    expect(verdict(`${one}%2 f16{r, c} = stage %0`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %0 is f32, not f16
        at kernel bad: %2 f16{r, c} = stage %0]
    `)
  })
  test('reading a staged tile in another dtype', () => {
    expect(verdict(`${one}%2 f32{r, c} = stage %0\n %3 f16{r, c} = at %2[c: c]`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %2 is f32, not f16
        at kernel bad: %3 f16{r, c} = at %2[c: c]]
    `)
  })
  test('a store of another dtype', () => {
    expect(verdict(`${one}store y[r, 0] = %1`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] y is f32, %1 is i32
        at kernel bad: store y[r, 0] = %1]
    `)
  })
  test('a mask that is not bool', () => {
    expect(verdict(`${one}store y[r, c] = %0 where %1`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the mask %1 is i32, not bool
        at kernel bad: store y[r, c] = %0 where %1]
    `)
  })
  test('a float as an index', () => {
    expect(verdict(`${one}%2 f32{r, c} = load x[r, %0:10]`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the index %0 is f32, not an integer
        at kernel bad: %2 f32{r, c} = load x[r, %0:10]]
    `)
  })
})

describe('tile axes', () => {
  const one = '%0 f32{r, c} = load x[r, c]\n'
  test('an axis too few', () => {
    expect(verdict('%0 f32{r} = load x[r, c]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the result varies along c, which is not among its axes
        at kernel bad: %0 f32{r} = load x[r, c]]
    `)
  })
  test('an axis too few, by way of an index value', () => {
    expect(verdict('%0 i32{r} = load n[r]\n %1 f32 = load u[%0:10]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the result varies along r, which is not among its axes
        at kernel bad: %1 f32 = load u[%0:10]]
    `)
  })
  test('an axis too many', () => {
    expect(verdict('%0 f32{c, k} = load u[c]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the result does not vary along k
        at kernel bad: %0 f32{c, k} = load u[c]
        help: only const, index and holds may repeat their value along an axis]
    `)
  })
  test('an axis twice', () => {
    expect(verdict('%0 f32{r, r} = const 0')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] an axis is named twice in f32{r, r}
        at kernel bad: %0 f32{r, r} = const 0]
    `)
  })
  test('an axis that is not declared', () => {
    expect(verdict('%0 f32{q} = const 0')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] axis q is not declared
        at kernel bad: %0 f32{q} = const 0]
    `)
  })
  test('a loop axis outside its loop', () => {
    expect(verdict('loop k {\n }\n %0 i32{k} = index k')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] axis k is used outside its loop
        at kernel bad: %0 i32{k} = index k]
    `)
  })
  test('the start of a local axis', () => {
    expect(verdict('%0 i32 = index c.start')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] c.start: only grid and loop axes have a start
        at kernel bad: %0 i32 = index c.start]
    `)
  })
  test('another extent than declared', () => {
    const op = { kind: 'index', expr: axis('c', 11) } as const
    const odd = withBody({ kind: 'let', id: 0, dtype: 'i32', axes: ['c'], op })
    expect(() => verifyKernel(odd)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] axis c is taken to have extent 11, not 10
        at kernel base: %0 i32{c} = index c]
    `)
  })
  test('a reduction over an axis the operand lacks', () => {
    expect(verdict(`${one}%1 f32{r, c} = reduce sum %0 over k`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %0 has no axis k
        at kernel bad: %1 f32{r, c} = reduce sum %0 over k]
    `)
  })
  test('a scan along an axis the operand lacks', () => {
    expect(verdict(`${one}%1 f32{r, c} = scan sum %0 along k`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %0 has no axis k
        at kernel bad: %1 f32{r, c} = scan sum %0 along k]
    `)
  })
  test('a product over an axis neither operand has', () => {
    expect(verdict(`${one}%1 f32{r} = dot %0, %0 over k`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] neither operand of the dot has the axis k
        at kernel bad: %1 f32{r} = dot %0, %0 over k]
    `)
  })
  test('an accumulator with a summed axis', () => {
    expect(verdict(`${one}%1 f32{r} = dot %0, %0 over c acc %0`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the accumulator has the axis c, which is summed over
        at kernel bad: %1 f32{r} = dot %0, %0 over c acc %0]
    `)
  })
  test('a position beyond the operand', () => {
    expect(verdict(`${one}%1 i32{r} = reduce argmax %0 over c position k`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the position varies along k, which %0 does not have
        at kernel bad: %1 i32{r} = reduce argmax %0 over c position k]
    `)
  })
  test('a position of a sum', () => {
    expect(verdict(`${one}%1 f32{r} = reduce sum %0 over c position c`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] sum reports no position
        at kernel bad: %1 f32{r} = reduce sum %0 over c position c]
    `)
  })
  test('arg-max over two axes without a position', () => {
    expect(verdict(`${one}%1 i32 = reduce argmax %0 over r, c`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] argmax over several axes needs a position
        at kernel bad: %1 i32 = reduce argmax %0 over r, c]
    `)
  })
})

describe('memory', () => {
  const one = '%0 f32{r, c} = load x[r, c]\n'
  test('a parameter that is not there', () => {
    expect(verdict('%0 f32{r, c} = load w[r, c]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] there is no parameter w
        at kernel bad: %0 f32{r, c} = load w[r, c]]
    `)
  })
  test('a load of what is written only', () => {
    expect(verdict('%0 f32{r, c} = load y[r, c]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] parameter y is written only: it cannot be loaded
        at kernel bad: %0 f32{r, c} = load y[r, c]]
    `)
  })
  test('a store to what is read only', () => {
    expect(verdict(`${one}store x[r, c] = %0`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] parameter x is read only: it cannot be stored to
        at kernel bad: store x[r, c] = %0]
    `)
  })
  test('a combining store to what is written only', () => {
    expect(verdict(`${one}store y[r, c] += %0`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] a store with a combiner reads what stands there: parameter y must be update
        at kernel bad: store y[r, c] += %0]
    `)
  })
  test('the wrong number of indices', () => {
    expect(verdict('%0 f32{r} = load x[r]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] 1 indices into x, which has 2 axes
        at kernel bad: %0 f32{r} = load x[r]]
    `)
  })
  test('an index below the buffer', () => {
    expect(verdict('%0 f32{r, c} = load x[r, c - 1]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] index 1 of x, c - 1, ranges over [-1, 8], outside [0, 10)
        at kernel bad: %0 f32{r, c} = load x[r, c - 1]
        help: mask it: where 0 <= c - 1 < 10]
    `)
  })
  test('an index above the buffer', () => {
    expect(verdict('%0 f32{r, c, k} = load x[r, c + k]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] index 1 of x, c + k, ranges over [0, 12], outside [0, 10)
        at kernel bad: %0 f32{r, c, k} = load x[r, c + k]
        help: mask it: where 0 <= c + k < 10]
    `)
  })
  test('a mask that is too wide', () => {
    const body = '%0 f32{r, c} = load x[r, c - 1] where 0 <= c - 1 < 11 and -1 <= c - 1 < 10 else 0'
    expect(verdict(body.replace('c - 1]', 'c + 1]'))).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] index 1 of x, c + 1, ranges over [2, 10], outside [0, 10)
        at kernel bad: %0 f32{r, c} = load x[r, c + 1] where 0 <= c - 1 < 11 and -1 <= c - 1 < 10 else 0
        help: mask it: where 0 <= c + 1 < 10]
    `)
  })
  test('a mask on a fraction of the index', () => {
    expect(verdict('%0 f32{r, c, k} = load x[r, 2*c + 2*k - 2] where 0 <= c + k - 1 < 5 else 0')).not.toThrow()
    expect(verdict('%0 f32{r, c, k} = load x[r, 2*c + 2*k - 2] where 0 <= c + k - 1 < 6 else 0')).toThrow('[0, 10]')
    expect(verdict('%0 f32{r, c, k} = load x[r, 8 - 2*c - 2*k] where 0 <= c + k < 5 else 0')).not.toThrow()
  })
  test('an index value of too large an extent', () => {
    expect(verdict('%0 i32{r} = load n[r]\n %1 f32{r} = load u[%0:11]')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] index 0 of u, %0:11, ranges over [0, 10], outside [0, 10)
        at kernel bad: %1 f32{r} = load u[%0:11]
        help: mask it: where 0 <= %0:11 < 10]
    `)
  })
  test('a store that many points make', () => {
    expect(verdict(`${one}store y[r, 0] = %0`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] every point along c is stored to the same element of y
        at kernel bad: store y[r, 0] = %0
        help: name the axis in the index or the mask, or store with a combiner]
    `)
  })
  test('a store that many programs make', () => {
    expect(verdict('%0 f32{c} = load u[c]\n store u[c] = %0')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] every program along r stores to the same elements of u
        at kernel bad: store u[c] = %0
        help: name the axis in the index or the mask, or store with a combiner]
    `)
  })
  test('a sum of bool stored', () => {
    const kernel = parseKernel(
      'kernel k {\n param x: bool[3] update\n axes i: 3\n grid i\n %0 bool{i} = load x[i]\n store x[i] += %0\n}',
    )
    expect(() => verifyKernel(kernel)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] sum of bool
        at kernel k: store x[i] += %0]
    `)
  })
  test('reading a tile that is not staged', () => {
    expect(verdict(`${one}%1 f32{r, c} = at %0[c: 9 - c]`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %0 is not staged: only staged tiles are read at other coordinates
        at kernel bad: %1 f32{r, c} = at %0[c: 9 - c]
        help: read from stage %0]
    `)
  })
  test('reading a staged tile along an axis it lacks', () => {
    expect(verdict(`${one}%1 f32{r, c} = stage %0\n %2 f32{r, c} = at %1[k: 0]`)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] %1 has no axis k
        at kernel bad: %2 f32{r, c} = at %1[k: 0]]
    `)
  })
  test('reading beyond a staged tile', () => {
    const body = `${one}%1 f32{r, c} = stage %0\n %2 f32{r, c, k} = at %1[c: c + k]`
    expect(verdict(body)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_INVALID] the index c + k along c ranges over [0, 12], outside [0, 10)
        at kernel bad: %2 f32{r, c, k} = at %1[c: c + k]]
    `)
  })
})
