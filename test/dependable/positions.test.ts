/**
 * Numbers that count positions do not wrap: where a dtype that was given, or the default i32, does not hold them, it is E_OVERFLOW with
 * the remedy; what the library counts for itself is i64 beyond 2^31.
 *
 * Sites looked at: arange, iota, linspace (f32: no integers), full, fullLike and scalars beside integers (E_OVERFLOW before), foriLoop's
 * bounds, argmax and argmin, cumulative positions of ONNX (i64), oneHot, eye, tril, triu, diagonal, pickAlongAxis and asIndex (by the
 * extent), gathers' and scatters' derivatives, running extrema's derivative, causal masks and rotary positions.
 */
import { describe, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import * as s from '../../src/index.ts'
import { indexingTranspose } from '../../src/transforms/transpose/indexing.ts'
import { errorOf } from '../onnx/models.ts'

describe('counting', () => {
  test('arange beyond its dtype', () => {
    const wide = errorOf(() => s.arange(2 ** 33))
    expect(wide.code).toBe('E_OVERFLOW')
    expect(wide.summary).toContain('arange reaches 8589934591, which is no value of i32')
    expect(wide.help).toBe("give a dtype that holds them: arange(0, 8589934592, 1, 'i64')")
    expect(wide.where).toContain('positions.test.ts')
    expect(s.arange(2 ** 33, undefined, 1, 'i64').dtype).toBe('i64')
    expect(s.arange(2 ** 31).dtype).toBe('i32')
    expect(errorOf(() => s.arange(2 ** 31 + 1)).code).toBe('E_OVERFLOW')
    expect(errorOf(() => s.arange(300, undefined, 1, 'u8')).summary).toContain(
      'arange reaches 299, which is no value of u8',
    )
    expect(errorOf(() => s.arange(-1, 3, 1, 'u8')).summary).toContain('arange reaches -1')
    expect(errorOf(() => s.arange(2 ** 40, 2 ** 40 + 3)).summary).toContain(`arange reaches ${2 ** 40}`)
  })

  test('arange up to what its dtype holds', () => {
    const list = (x: s.Tensor): (number | bigint)[] => [...(x.dataSync() as Iterable<number | bigint>)]
    expect(list(s.arange(-100, 100, 1, 'i8'))).toEqual(Array.from({ length: 200 }, (_, i) => i - 100))
    expect(list(s.arange(-100, 100, 150, 'i8'))).toEqual([-100, 50])
    expect(list(s.arange(0, 1, 2 ** 40))).toEqual([0])
    expect(list(s.arange(2 ** 31 - 2, 2 ** 31))).toEqual([2 ** 31 - 2, 2 ** 31 - 1])
    expect(list(s.arange(2 ** 40, 2 ** 40 + 3, 1, 'i64'))).toEqual([2n ** 40n, 2n ** 40n + 1n, 2n ** 40n + 2n])
    expect(list(s.arange(10, 0, -3))).toEqual([10, 7, 4, 1])
    expect(list(s.arange(5, 5))).toEqual([])
    expect(list(s.arange(0, 2, 0.5, 'i32'))).toEqual([0, 0, 1, 1])
  })

  test('iota, argmax, full', () => {
    const wide = errorOf(() => s.iota([4, 2 ** 32], 1))
    expect(wide.code).toBe('E_OVERFLOW')
    expect(wide.help).toContain("iota(shape, 1, 'i64')")
    expect(s.iota([4, 2 ** 32], 1, 'i64').dtype).toBe('i64')
    expect(s.iota([4, 2 ** 32], 0).dtype).toBe('i32')
    expect(errorOf(() => s.full([2], 2 ** 33, 'i32')).code).toBe('E_OVERFLOW')
    expect(errorOf(() => s.full([2], -1, 'u8')).code).toBe('E_OVERFLOW')
    for (const f of [() => s.iota([3], 0, 'bool'), () => s.arange(3, undefined, 1, 'bool')])
      expect(errorOf(f).code).toBe('E_DTYPE')
    expect(errorOf(() => s.arange(3, undefined, 1, 'int' as 'i32')).code).toBe('E_DTYPE')
    withContext(() => {
      const x = param(0, [2 ** 32 + 5], 'u8')
      expect(c.argmax(x).dtype).toBe('i64')
      expect(errorOf(() => c.argmax(x, 0, false, { dtype: 'i32' })).code).toBe('E_OVERFLOW')
    })
  })
})

/** Dtypes of the positions that a node is made of. */
const counted = (...roots: readonly Node[]): string[] => [
  ...new Set(nodesOf({ params: [], outputs: roots, effects: [] }).flatMap((n) => (n.op === 'iota' ? [n.dtype] : []))),
]

test('what the library counts for itself', () => {
  const n = 2 ** 31 + 9
  withContext(() => {
    const labels = param(0, [3], 'i32')
    const wide = (shape: readonly number[]): Node => param(1, shape, 'f32')
    expect(counted(c.oneHot(labels, n))).toEqual(['i64'])
    expect(counted(c.oneHot(labels, 2 ** 31))).toEqual(['i32'])
    expect(counted(c.eye(2, n))).toEqual(['i64'])
    expect(counted(c.eye(2 ** 30, 8, 2 ** 31 - 5))).toEqual(['i64'])
    expect(counted(c.eye(3, 3, 2 ** 40))).toEqual(['i64'])
    expect(counted(c.eye(4))).toEqual(['i32'])
    expect(counted(c.tril(wide([n, 2])))).toEqual(['i64'])
    expect(counted(c.triu(wide([2, n]), 5))).toEqual(['i64'])
    // A view: it counts nothing.
    expect(counted(c.diagonal(wide([2, n]), 2 ** 31))).toEqual([])
    expect(counted(c.pickAlongAxis(wide([1, n]), param(2, [1, 1], 'i32'), 1))).toEqual(['i64'])
  })
})

test('updates of a scatter are counted beyond 2^31 in its derivative', () => {
  withContext(() => {
    const n = 2 ** 31 + 9
    const [target, updates, at] = [param(0, [4], 'f32'), param(1, [n], 'f32'), param(2, [n, 1], 'i32')]
    const node = c.scatterND(target, at, updates)
    if (node.op !== 'scatter') throw new Error('not a scatter')
    const given: Node[] = []
    const rule = indexingTranspose.scatter
    if (typeof rule === 'string') throw new Error('no rule')
    rule({
      node,
      cotangent: c.ones([4]),
      give: (_, ct) => void given.push(ct),
      isLinear: () => true,
    })
    expect(counted(...given)).toContain('i64')
    expect(counted(...given)).not.toContain('i32')
  })
})
