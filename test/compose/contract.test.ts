/** Products composed of contractions (matmul, einsum, tensordot, outer) against values worked out by hand. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { numbers, ramp } from './run.ts'

describe('matmul', () => {
  const a = ramp([2, 3])
  it('matrices and vectors', () => {
    expect(numbers(c.matmul(a, ramp([3, 2])))).toEqual([10, 13, 28, 40])
    expect(numbers(c.matmul(a, ramp([3])))).toEqual([5, 14])
    expect(numbers(c.matmul(ramp([2]), a))).toEqual([3, 4, 5])
    const v = c.matmul(ramp([3]), ramp([3]))
    expect([v.shape, numbers(v)]).toEqual([[], [5]])
  })
  it('broadcasts batch axes without a broadcast node', () => {
    const y = c.matmul(ramp([2, 1, 2, 3]), ramp([5, 3, 1]))
    expect(y.shape).toEqual([2, 5, 2, 1])
    expect(y.op).toBe('contract')
    expect(y.inputs.map((x) => x.op)).toEqual(['reshape', 'constant'])
    const z = c.matmul(ramp([4, 2, 3]), ramp([3, 2]))
    expect(z.shape).toEqual([4, 2, 2])
    expect(numbers(z).slice(0, 4)).toEqual([10, 13, 28, 40])
  })
  it('promotes and refuses', () => {
    expect(c.matmul(ramp([2, 2], 'i32'), ramp([2, 2], 'f16')).dtype).toBe('f16')
    expect(() => c.matmul(a, a)).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_SHAPE] matmul of shapes [2, 3] and [2, 3]: inner extents 3 and 2 differ
        help: the last extent of the first must equal the next-to-last of the second]
    `)
    expect(() => c.matmul(a, c.full([], 1, 'f32'))).toThrow(/E_SHAPE/)
  })
})

describe('einsum', () => {
  const a = ramp([2, 3])
  it.each([
    ['ij->ji', [a], [0, 3, 1, 4, 2, 5]],
    ['ij->', [a], [15]],
    ['ji', [a], [0, 3, 1, 4, 2, 5]],
    ['ij,ij->i', [a, a], [5, 50]],
    ['ij,ij->ij', [a, a], [0, 1, 4, 9, 16, 25]],
    ['ij, jk', [a, ramp([3, 1])], [5, 14]],
    ['ij,k->ki', [a, ramp([2])], [0, 0, 3, 12]],
    ['ij,jk,k->i', [a, ramp([3, 2]), ramp([2])], [13, 40]],
    ['ij,kj->ik', [ramp([2, 1]), ramp([1, 3])], [0, 3]],
    ['ii->i', [ramp([3, 3])], [0, 4, 8]],
    ['ii', [ramp([3, 3])], [12]],
    ['iji->j', [ramp([2, 3, 2])], [7, 11, 15]],
    ['iii->i', [ramp([2, 2, 2])], [0, 7]],
    ['ijij->ij', [ramp([2, 2, 2, 2])], [0, 5, 10, 15]],
    ['ii,ij->j', [ramp([2, 2]), ramp([2, 2])], [6, 9]],
    ['...ii->...i', [ramp([2, 2, 2])], [0, 3, 4, 7]],
    ['i...->...', [a], [3, 5, 7]],
    ['...i', [a], [0, 1, 2, 3, 4, 5]],
    ['...->...', [a], [0, 1, 2, 3, 4, 5]],
    ['...i,...i->...', [a, ramp([3])], [5, 14]],
    ['...ij,...jk', [ramp([2, 1, 2]), ramp([2, 1])], [1, 3]],
    [
      '...i,j...->...ij',
      [ramp([2, 1, 2]), ramp([2, 3])],
      [0, 0, 0, 3, 0, 0, 1, 4, 0, 0, 2, 5, 0, 6, 0, 9, 2, 8, 3, 12, 4, 10, 6, 15],
    ],
  ])('%s', (spec, operands, expected) => expect(numbers(c.einsum(spec, operands))).toEqual(expected))
  it('refuses what it does not know', () => {
    expect(() => c.einsum('ii->i', [a])).toThrow(/E_SHAPE.*diagonal of axes 0 and 1/)
    expect(() => c.einsum('...i->i', [a])).toThrow(/E_ARGUMENT.*lacks the ellipsis/)
    expect(() => c.einsum('...ijk', [a])).toThrow(/E_SHAPE.*labels/)
    expect(() => c.einsum('..i', [a])).toThrow(/E_ARGUMENT.*form/)
    expect(() => c.einsum('...i...', [a])).toThrow(/E_ARGUMENT.*form/)
    expect(() => c.einsum('...i,...j->...ij', [a, ramp([3, 2])])).toThrow(/E_SHAPE/)
    expect(() => c.einsum('ij,jk->ik', [a])).toThrow(/E_ARGUMENT/)
    expect(() => c.einsum('ij->ik', [a])).toThrow(/E_ARGUMENT/)
    expect(() => c.einsum('ij,jk->ik', [a, a])).toThrow(/E_SHAPE/)
  })
})

it('tensordot and outer', () => {
  expect(numbers(c.tensordot(ramp([2, 3]), ramp([3, 2]), 1))).toEqual([10, 13, 28, 40])
  expect(numbers(c.tensordot(ramp([2, 3]), ramp([2, 3]), [[0], [0]]))).toEqual([9, 12, 15, 12, 17, 22, 15, 22, 29])
  expect(c.tensordot(ramp([2]), ramp([3]), 0).shape).toEqual([2, 3])
  expect(numbers(c.outer(ramp([2]), ramp([2], 'f32', 1)))).toEqual([0, 0, 1, 2])
})
