/** Shape rules, refusals and hash-consing of the graph's ops. */
import { describe, expect, it } from 'vitest'
import { UserError } from '../../src/diagnostics/errors.ts'
import { makeNode, param, withContext } from '../../src/graph/build.ts'
import type { AttrsByOp, Node, OpName } from '../../src/graph/node.ts'
import { opTable, scalarOf } from '../../src/graph/table.ts'
import { scalarOps } from '../../src/scalar/ops.ts'
import type { DType } from '../../src/types/dtype.ts'
import { maxElements } from '../../src/types/shape.ts'

const x = param(0, [2, 3, 5], 'f32')
const of = (shape: readonly number[], dtype: DType = 'f32'): Node => param(1, shape, dtype)
const made = <O extends OpName>(op: O, inputs: readonly Node[], attrs: AttrsByOp[O]): string => {
  const n = makeNode(op, inputs, attrs)
  return `${n.dtype}[${n.shape.join()}]`
}

describe('shape rules', () => {
  it.each<[string, () => string, string]>([
    ['add', () => made('add', [x, x], {}), 'f32[2,3,5]'],
    ['lt', () => made('lt', [x, x], {}), 'bool[2,3,5]'],
    ['select', () => made('select', [of([2], 'bool'), of([2], 'i8'), of([2], 'i8')], {}), 'i8[2]'],
    ['cast', () => made('cast', [x], { dtype: 'u64' }), 'u64[2,3,5]'],
    ['bitcast', () => made('bitcast', [x], { dtype: 'u32' }), 'u32[2,3,5]'],
    ['randomBits', () => made('randomBits', [of([2], 'u32')], { shape: [7], dtype: 'u32' }), 'u32[7]'],
    ['randomBits, narrow', () => made('randomBits', [of([2], 'u32')], { shape: [7], dtype: 'u16' }), 'u16[7]'],
    ['reshape', () => made('reshape', [x], { shape: [30] }), 'f32[30]'],
    ['permute', () => made('permute', [x], { perm: [2, 0, 1] }), 'f32[5,2,3]'],
    ['broadcast', () => made('broadcast', [of([3, 1])], { shape: [2, 3, 4], dims: [1, 2] }), 'f32[2,3,4]'],
    ['slice', () => made('slice', [x], { start: [0, 0, 1], limit: [0, 3, 5], step: [1, 2, 3] }), 'f32[0,2,2]'],
    ['flip', () => made('flip', [x], { axes: [0, 2] }), 'f32[2,3,5]'],
    ['pad', () => made('pad', [of([3])], { low: [1], high: [2], interior: [2], value: 0 }), 'f32[10]'],
    ['pad of nothing', () => made('pad', [of([0])], { low: [1], high: [0], interior: [2], value: 0 }), 'f32[1]'],
    ['concat', () => made('concat', [x, of([2, 0, 5]), of([2, 4, 5])], { axis: 1 }), 'f32[2,7,5]'],
    ['window', () => made('window', [x], { axis: 2, size: 2, stride: 2, dilation: 3 }), 'f32[2,3,1,2]'],
    [
      'gather',
      () =>
        made('gather', [x, of([4], 'i64'), of([4], 'i64'), of([4], 'i64')], {
          shape: [4],
          sources: [0, 1, 2].map((input) => ({ input })),
        }),
      'f32[4]',
    ],
    [
      'scatter',
      () => made('scatter', [of([9]), of([4]), of([4], 'i32')], { combiner: 'max', sources: [{ input: 0 }] }),
      'f32[9]',
    ],
    ['reduce', () => made('reduce', [x], { combiner: 'max', axes: [0, 2] }), 'f32[3]'],
    ['arg-reduce', () => made('reduce', [x], { combiner: 'argmin', axes: [1], dtype: 'i64' }), 'i64[2,5]'],
    ['scan', () => made('scan', [x], { combiner: 'sum', axis: 1, reverse: false, exclusive: false }), 'f32[2,3,5]'],
    [
      'contract',
      () => made('contract', [of([2, 3, 4]), of([2, 4, 6])], { lhs: 'bik', rhs: 'bkj', out: 'jbi' }),
      'f32[6,2,3]',
    ],
  ])('%s', (_, actual, expected) => {
    expect(actual()).toBe(expected)
  })
})

describe('refusals', () => {
  it.each<[string, string, () => unknown]>([
    ['E_SHAPE', 'add of two shapes', () => makeNode('add', [x, of([3])], {})],
    ['E_DTYPE', 'add of two dtypes', () => makeNode('add', [x, of([2, 3, 5], 'i32')], {})],
    ['E_DTYPE', 'exp of an integer', () => makeNode('exp', [of([2], 'i32')], {})],
    ['E_DTYPE', 'shl of a float', () => makeNode('shl', [x, x], {})],
    ['E_DTYPE', 'a condition that is no bool', () => makeNode('select', [x, x, x], {})],
    ['E_ARGUMENT', 'too few operands', () => makeNode('add', [x], {})],
    ['E_DTYPE', 'bitcast across widths', () => makeNode('bitcast', [x], { dtype: 'i8' })],
    ['E_ARGUMENT', 'a key that is none', () => makeNode('randomBits', [of([2], 'i32')], { shape: [1], dtype: 'u32' })],
    [
      'E_OVERFLOW',
      'more elements than fit',
      () => makeNode('full', [], { value: 0, shape: [maxElements, 2], dtype: 'f32' }),
    ],
    ['E_SHAPE', 'a negative extent', () => param(0, [-1], 'f32')],
    ['E_SHAPE', 'a fractional extent', () => param(0, [1.5], 'f32')],
    [
      'E_SHAPE',
      'a literal of the wrong size',
      () => makeNode('constant', [], { data: Float32Array.of(1), shape: [2], dtype: 'f32' }),
    ],
    ['E_SHAPE', 'a reshape of another size', () => makeNode('reshape', [x], { shape: [31] })],
    ['E_AXIS', 'no permutation', () => makeNode('permute', [x], { perm: [0, 0, 1] })],
    ['E_SHAPE', 'broadcast of 3 to 4', () => makeNode('broadcast', [of([3])], { shape: [4], dims: [0] })],
    ['E_INDEX', 'slice beyond the end', () => makeNode('slice', [of([3])], { start: [0], limit: [4], step: [1] })],
    ['E_INDEX', 'slice with step 0', () => makeNode('slice', [of([3])], { start: [0], limit: [3], step: [0] })],
    [
      'E_ARGUMENT',
      'negative padding',
      () => makeNode('pad', [of([3])], { low: [-1], high: [0], interior: [0], value: 0 }),
    ],
    ['E_SHAPE', 'concat of unlike shapes', () => makeNode('concat', [of([3, 2]), of([3, 3])], { axis: 0 })],
    ['E_DTYPE', 'concat of unlike dtypes', () => makeNode('concat', [of([3]), of([3], 'i32')], { axis: 0 })],
    [
      'E_SHAPE',
      'a window wider than the axis',
      () => makeNode('window', [of([3])], { axis: 0, size: 2, stride: 1, dilation: 3 }),
    ],
    [
      'E_DTYPE',
      'a float index',
      () =>
        makeNode('gather', [x, of([1]), of([1]), of([1])], {
          shape: [1],
          sources: [0, 1, 2].map((input) => ({ input })),
        }),
    ],
    [
      'E_INDEX',
      'gather from nothing',
      () => makeNode('gather', [of([0]), of([1], 'i32')], { shape: [1], sources: [{ input: 0 }] }),
    ],
    [
      'E_DTYPE',
      'a scatter sum of bool',
      () =>
        makeNode('scatter', [of([2], 'bool'), of([2], 'bool'), of([2], 'i32')], {
          combiner: 'sum',
          sources: [{ input: 0 }],
        }),
    ],
    ['E_DTYPE', 'a sum of bool', () => makeNode('reduce', [of([2], 'bool')], { combiner: 'sum', axes: [0] })],
    ['E_AXIS', 'argmax over two axes', () => makeNode('reduce', [x], { combiner: 'argmax', axes: [0, 1] })],
    ['E_SHAPE', 'argmax over nothing', () => makeNode('reduce', [of([0])], { combiner: 'argmax', axes: [0] })],
    [
      'E_SHAPE',
      'contraction of 3 with 4',
      () => makeNode('contract', [of([2, 3]), of([4, 2])], { lhs: 'ik', rhs: 'kj', out: 'ij' }),
    ],
    [
      'E_ARGUMENT',
      'an output label from nowhere',
      () => makeNode('contract', [of([3]), of([3])], { lhs: 'i', rhs: 'i', out: 'z' }),
    ],
    [
      'E_ARGUMENT',
      'a repeated label',
      () => makeNode('contract', [of([3, 3]), of([3])], { lhs: 'ii', rhs: 'i', out: '' }),
    ],
  ])('%s: %s', (code, _, build) => {
    let thrown: unknown
    try {
      build()
    } catch (e) {
      thrown = e
    }
    expect(thrown).toBeInstanceOf(UserError)
    expect(thrown instanceof UserError ? thrown.code : undefined).toBe(code)
  })
})

describe('the table', () => {
  it('has every scalar operation as an elementwise op', () => {
    for (const op of Object.keys(scalarOps) as (keyof typeof scalarOps)[]) {
      expect(opTable[op].scalar).toBe(op)
      expect(opTable[op].arity).toBe(scalarOps[op].arity)
    }
    expect(scalarOf(makeNode('exp', [x], {}))?.cost).toBe('special')
    expect(scalarOf(x)).toBeUndefined()
  })
})

describe('hash-consing', () => {
  it('meets equal nodes within a context only', () => {
    const [a, b] = withContext(() => [makeNode('exp', [x], {}), makeNode('exp', [x], {})])
    expect(a).toBe(b)
    expect(makeNode('exp', [x], {})).not.toBe(makeNode('exp', [x], {}))
  })
  it('tells attributes apart', () => {
    withContext(() => {
      const full = (value: number, dtype: DType = 'f32'): Node => makeNode('full', [], { value, shape: [2], dtype })
      expect(full(0)).toBe(full(0))
      expect(full(0)).not.toBe(full(-0))
      expect(full(0)).not.toBe(full(0, 'i32'))
      const sum = (axes: number[], combiner: 'sum' | 'max' = 'sum'): Node => makeNode('reduce', [x], { combiner, axes })
      expect(sum([0])).toBe(sum([0]))
      expect(sum([0])).not.toBe(sum([1]))
      expect(sum([0])).not.toBe(sum([0], 'max'))
      const lit = (...values: number[]): Node =>
        makeNode('constant', [], { data: Float32Array.from(values), shape: [values.length], dtype: 'f32' })
      expect(lit(1, 2)).toBe(lit(1, 2))
      expect(lit(1, 2)).not.toBe(lit(2, 1))
      expect(lit(0)).not.toBe(lit(-0))
    })
  })
  it('never merges effects', () => {
    const callback = { label: 'print', call: () => {} }
    const [a, b] = withContext(() => [makeNode('inspect', [x], { callback }), makeNode('inspect', [x], { callback })])
    expect(a).not.toBe(b)
  })
})
