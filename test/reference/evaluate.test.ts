/** The reference backend against values worked out by hand. */
import { describe, expect, it } from 'vitest'
import { makeNode, param } from '../../src/graph/build.ts'
import type { AttrsByOp, Node, OpName } from '../../src/graph/node.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, type Rounding, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement, toHost } from '../../src/scalar/host.ts'
import type { Scalar } from '../../src/scalar/ops.ts'
import type { DType } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'

const inf = Number.POSITIVE_INFINITY

/** A literal; values repeat to fill nothing: their number must fit the shape. */
const lit = (values: readonly Scalar[], shape: readonly number[] = [values.length], dtype: DType = 'f32'): Node =>
  makeNode('constant', [], { data: toHost(values, dtype), shape, dtype })

const count = (shape: readonly number[], dtype: DType = 'f32'): Node =>
  lit(
    Array.from({ length: sizeOf(shape) }, (_, i) => (dtype === 'i64' ? BigInt(i) : i)),
    shape,
    dtype,
  )

function evaluate(out: Node, rounding: Rounding = 'f64'): { shape: readonly number[]; values: Scalar[] } {
  const graph = { params: [], outputs: [out], effects: [] }
  verifyGraph(graph)
  const [r] = evaluateGraph(graph, [], { rounding })
  if (r === undefined) throw new Error('no output')
  return { shape: r.shape, values: [...r.data] }
}

/** Values of one op on literals. */
const run = <O extends OpName>(
  op: O,
  inputs: readonly Node[],
  attrs: AttrsByOp[O],
  rounding: Rounding = 'f64',
): Scalar[] => evaluate(makeNode(op, inputs, attrs) as Node, rounding).values

describe('sources', () => {
  it('full, iota', () => {
    expect(run('full', [], { value: true, shape: [2], dtype: 'bool' })).toEqual([1, 1])
    expect(run('full', [], { value: 7n, shape: [2], dtype: 'u64' })).toEqual([7n, 7n])
    expect(run('full', [], { value: 0.1, shape: [1], dtype: 'f32' })).toEqual([Math.fround(0.1)])
    expect(run('iota', [], { axis: 1, shape: [2, 3], dtype: 'i64' })).toEqual([0n, 1n, 2n, 0n, 1n, 2n])
    expect(run('iota', [], { axis: 0, shape: [2, 3], dtype: 'f32' })).toEqual([0, 0, 0, 1, 1, 1])
    expect(run('iota', [], { axis: 0, shape: [130], dtype: 'i8' }).slice(127)).toEqual([127, -128, -127])
    expect(run('iota', [], { axis: 0, shape: [0], dtype: 'f32' })).toEqual([])
  })
  it('random bits count row-major', () => {
    const key = lit([0, 0], [2], 'u32')
    const [first, ...rest] = run('randomBits', [key], { shape: [2, 2], dtype: 'u32' })
    expect(first).toBe(0x6b200159)
    expect(new Set(rest).size).toBe(3)
    expect(run('randomBits', [key], { shape: [4], dtype: 'u32' })).toEqual([first, ...rest])
  })
})

describe('views', () => {
  const x = count([2, 3])
  it.each<[string, () => Scalar[], Scalar[]]>([
    ['reshape', () => run('reshape', [x], { shape: [3, 2] }), [0, 1, 2, 3, 4, 5]],
    ['permute', () => run('permute', [x], { perm: [1, 0] }), [0, 3, 1, 4, 2, 5]],
    ['broadcast to new axes', () => run('broadcast', [count([2])], { shape: [2, 3], dims: [0] }), [0, 0, 0, 1, 1, 1]],
    [
      'broadcast an extent of 1',
      () => run('broadcast', [count([1, 2])], { shape: [2, 2], dims: [0, 1] }),
      [0, 1, 0, 1],
    ],
    ['broadcast transposing', () => run('broadcast', [x], { shape: [3, 2], dims: [1, 0] }), [0, 3, 1, 4, 2, 5]],
    ['slice', () => run('slice', [x], { start: [0, 1], limit: [2, 3], step: [1, 1] }), [1, 2, 4, 5]],
    ['slice with a step', () => run('slice', [count([7])], { start: [1], limit: [7], step: [3] }), [1, 4]],
    ['slice to nothing', () => run('slice', [count([7])], { start: [3], limit: [3], step: [2] }), []],
    ['flip', () => run('flip', [x], { axes: [1] }), [2, 1, 0, 5, 4, 3]],
    ['flip two axes', () => run('flip', [x], { axes: [0, 1] }), [5, 4, 3, 2, 1, 0]],
    ['flip nothing', () => run('flip', [count([0, 3])], { axes: [0, 1] }), []],
    ['pad', () => run('pad', [count([2])], { low: [1], high: [2], interior: [1], value: 9 }), [9, 0, 9, 1, 9, 9]],
    ['pad of nothing', () => run('pad', [count([0])], { low: [1], high: [1], interior: [3], value: 9 }), [9, 9]],
    ['concat', () => run('concat', [x, count([2, 1])], { axis: 1 }), [0, 1, 2, 0, 3, 4, 5, 1]],
    ['concat with nothing', () => run('concat', [count([0, 2]), count([1, 2])], { axis: 0 }), [0, 1]],
    ['window', () => run('window', [count([5])], { axis: 0, size: 2, stride: 2, dilation: 1 }), [0, 1, 2, 3]],
    ['a dilated window', () => run('window', [count([5])], { axis: 0, size: 2, stride: 1, dilation: 3 }), [0, 3, 1, 4]],
    ['64-bit integers', () => run('permute', [count([2, 2], 'i64')], { perm: [1, 0] }), [0n, 2n, 1n, 3n]],
    ['a scalar', () => run('broadcast', [count([])], { shape: [2], dims: [] }), [0, 0]],
  ])('%s', (_, actual, expected) => {
    expect(actual()).toEqual(expected)
  })
})

describe('gather and scatter', () => {
  const x = count([3, 2])
  it('gathers rows, clamping', () => {
    const index = lit(
      [2, -5, 9, 0].flatMap((i) => [i, i]),
      [4, 2],
      'i32',
    )
    expect(run('gather', [x, index], { shape: [4, 2], sources: [{ input: 0 }, { axis: 1 }] })).toEqual([
      4, 5, 0, 1, 4, 5, 0, 1,
    ])
  })
  it('gathers points, with 64-bit indices', () => {
    const rows = lit([0n, 2n ** 40n], [2], 'i64')
    const columns = lit([1n, -(2n ** 40n)], [2], 'i64')
    expect(run('gather', [x, rows, columns], { shape: [2], sources: [{ input: 0 }, { input: 1 }] })).toEqual([1, 4])
  })
  it('scatters, dropping what is out of range', () => {
    const updates = lit([10, 20, 30, 40])
    const index = lit([1, -1, 1, 3], [4], 'i32')
    const base = lit([5, 6, 7])
    const at = (combiner: AttrsByOp['scatter']['combiner']): Scalar[] =>
      run('scatter', [base, updates, index], { combiner, sources: [{ input: 0 }] })
    expect(at('set')).toEqual([5, 30, 7])
    expect(at('sum')).toEqual([5, 46, 7])
    expect(at('prod')).toEqual([5, 1800, 7])
    expect(at('max')).toEqual([5, 30, 7])
    expect(at('min')).toEqual([5, 6, 7])
  })
  it('scatters rows of 64-bit integers', () => {
    const updates = lit([1n, 2n], [1, 2], 'i64')
    const index = lit([1, 1], [1, 2], 'i32')
    expect(
      run('scatter', [count([2, 2], 'i64'), updates, index], { combiner: 'sum', sources: [{ input: 0 }, { axis: 1 }] }),
    ).toEqual([0n, 1n, 3n, 5n])
  })
})

describe('reductions', () => {
  const x = count([2, 3])
  const sum = (axes: number[]): Scalar[] => run('reduce', [x], { combiner: 'sum', axes })
  it('sums over each choice of axes', () => {
    expect(sum([0])).toEqual([3, 5, 7])
    expect(sum([1])).toEqual([3, 12])
    expect(sum([1, 0])).toEqual([15])
    expect(sum([])).toEqual([0, 1, 2, 3, 4, 5])
  })
  it('gives identities for nothing', () => {
    const empty = (dtype: DType): Node => lit([], [2, 0], dtype)
    const of = (combiner: 'sum' | 'prod' | 'max' | 'min', dtype: DType): Scalar[] =>
      run('reduce', [empty(dtype)], { combiner, axes: [1] })
    expect(of('sum', 'f32')).toEqual([0, 0])
    expect(of('prod', 'i64')).toEqual([1n, 1n])
    expect(of('max', 'f32')).toEqual([-inf, -inf])
    expect(of('min', 'i8')).toEqual([127, 127])
    expect(of('max', 'bool')).toEqual([0, 0])
    expect(of('min', 'bool')).toEqual([1, 1])
  })
  it('propagates NaN in max and min, orders zeros', () => {
    expect(run('reduce', [lit([1, Number.NaN, 3])], { combiner: 'max', axes: [0] })).toEqual([Number.NaN])
    expect(run('reduce', [lit([1, Number.NaN, 3])], { combiner: 'min', axes: [0] })).toEqual([Number.NaN])
    expect(run('reduce', [lit([-0, 0])], { combiner: 'min', axes: [0] })).toEqual([-0])
  })
  it.each<[string, 'argmax' | 'argmin', number[], boolean, number]>([
    ['first tie', 'argmax', [1, 3, 3], false, 1],
    ['last tie', 'argmax', [1, 3, 3], true, 2],
    ['least', 'argmin', [2, 1, 1], false, 1],
    ['NaN wins', 'argmax', [inf, Number.NaN, inf], false, 1],
    ['first NaN wins', 'argmin', [-inf, Number.NaN, Number.NaN], false, 1],
    ['last NaN wins with last', 'argmin', [Number.NaN, 0, Number.NaN, 0], true, 2],
    ['zeros tie', 'argmax', [-0, 0], false, 0],
    ['all least', 'argmax', [-inf, -inf], false, 0],
  ])('arg: %s', (_, combiner, values, last, expected) => {
    expect(run('reduce', [lit(values)], { combiner, axes: [0], last, dtype: 'i64' })).toEqual([BigInt(expected)])
  })
  it('takes the argument along an inner axis', () => {
    expect(run('reduce', [lit([1, 9, 5, 2, 3, 4], [2, 3])], { combiner: 'argmax', axes: [0] })).toEqual([1, 0, 0])
    expect(run('reduce', [lit([1n, 9n, 5n, 2n], [2, 2], 'u64')], { combiner: 'argmin', axes: [1] })).toEqual([0, 1])
  })
  it('wraps integers', () => {
    expect(run('reduce', [lit([127, 2], [2], 'i8')], { combiner: 'sum', axes: [0] })).toEqual([-127])
    expect(run('reduce', [lit([2n ** 63n, 2n], [2], 'u64')], { combiner: 'prod', axes: [0] })).toEqual([0n])
  })
  it('folds strictly in chunks of 1024', () => {
    const values = Array.from({ length: 2500 }, (_, i) => Math.fround(Math.sin(i) * 1e3))
    let total = 0
    for (let from = 0; from < values.length; from += 1024) {
      const partial = values.slice(from, from + 1024).reduce((s, v) => Math.fround(s + v), 0)
      total = Math.fround(total + partial)
    }
    const strict = run('reduce', [lit(values)], { combiner: 'sum', axes: [0] }, 'strict')
    expect(strict).toEqual([total])
    expect(strict).not.toEqual(run('reduce', [lit(values)], { combiner: 'sum', axes: [0] }, 'dtype'))
  })
})

describe('scans', () => {
  const x = count([2, 3])
  it.each<[boolean, boolean, number[]]>([
    [false, false, [0, 1, 3, 3, 7, 12]],
    [true, false, [3, 3, 2, 12, 9, 5]],
    [false, true, [0, 0, 1, 0, 3, 7]],
    [true, true, [3, 2, 0, 9, 5, 0]],
  ])('reverse %s, exclusive %s', (reverse, exclusive, expected) => {
    expect(run('scan', [x], { combiner: 'sum', axis: 1, reverse, exclusive })).toEqual(expected)
  })
  it('along the first axis', () => {
    expect(run('scan', [x], { combiner: 'prod', axis: 0, reverse: false, exclusive: false })).toEqual([
      0, 1, 2, 0, 4, 10,
    ])
    expect(
      run('scan', [lit([3n, 1n, 2n], [3], 'i64')], { combiner: 'max', axis: 0, reverse: false, exclusive: true }),
    ).toEqual([-(2n ** 63n), 3n, 3n])
  })
  it('of nothing', () => {
    expect(run('scan', [lit([], [0])], { combiner: 'sum', axis: 0, reverse: true, exclusive: true })).toEqual([])
  })
})

describe('contraction', () => {
  const a = lit([1, 2, 3, 4, 5, 6], [2, 3])
  const b = lit([7, 8, 9, 10, 11, 12], [3, 2])
  const contract = (lhs: string, rhs: string, out: string, x = a, y = b): Scalar[] =>
    run('contract', [x, y], { lhs, rhs, out })
  it('multiplies matrices in every layout', () => {
    expect(contract('ik', 'kj', 'ij')).toEqual([58, 64, 139, 154])
    expect(contract('ik', 'kj', 'ji')).toEqual([58, 139, 64, 154])
    expect(contract('ki', 'jk', 'ij')).toEqual([39, 49, 59, 54, 68, 82, 69, 87, 105])
  })
  it('takes batches, outer products, full sums and one-sided sums', () => {
    expect(contract('bk', 'kb', 'b')).toEqual([1 * 7 + 2 * 9 + 3 * 11, 4 * 8 + 5 * 10 + 6 * 12])
    expect(contract('i', 'j', 'ij', lit([1, 2]), lit([3, 4, 5]))).toEqual([3, 4, 5, 6, 8, 10])
    expect(contract('i', 'i', '', lit([1, 2]), lit([3, 4]))).toEqual([11])
    expect(contract('ij', 'k', 'i', a, lit([1, 10]))).toEqual([6 * 11, 15 * 11])
    expect(contract('ik', 'kj', 'ij', lit([], [2, 0]), lit([], [0, 2]))).toEqual([0, 0, 0, 0])
  })
  it('wraps integers', () => {
    const x = lit([100, 100], [1, 2], 'i8')
    expect(contract('ik', 'jk', 'ij', x, x)).toEqual([(20000 << 24) >> 24])
    const y = lit([2n ** 62n, 3n], [2], 'u64')
    expect(contract('i', 'i', '', y, lit([4n, 5n], [2], 'u64'))).toEqual([15n])
  })
  it('accumulates strictly in order with separate roundings', () => {
    const xs = Array.from({ length: 300 }, (_, i) => Math.fround(Math.cos(i)))
    const ys = Array.from({ length: 300 }, (_, i) => Math.fround(Math.sin(3 * i)))
    const expected = xs.reduce((s, x, i) => Math.fround(s + Math.fround(x * (ys[i] ?? 0))), 0)
    expect(run('contract', [lit(xs), lit(ys)], { lhs: 'k', rhs: 'k', out: '' }, 'strict')).toEqual([expected])
  })
  it('does odd sizes as a plain loop does', () => {
    const m = 5
    const k = 7
    const n = 9
    const x = Array.from({ length: m * k }, (_, i) => (i * 7) % 11)
    const y = Array.from({ length: k * n }, (_, i) => (i * 5) % 13)
    const expected: number[] = []
    for (let i = 0; i < m; i++)
      for (let j = 0; j < n; j++) {
        let s = 0
        for (let p = 0; p < k; p++) s += (x[i * k + p] ?? 0) * (y[p * n + j] ?? 0)
        expected.push(s)
      }
    expect(contract('ik', 'kj', 'ij', lit(x, [m, k]), lit(y, [k, n]))).toEqual(expected)
  })
})

describe('rounding', () => {
  const third = (): Node => makeNode('div', [lit([1]), lit([3])], {})
  it('keeps doubles between operations, or rounds each result', () => {
    expect(evaluate(third()).values).toEqual([1 / 3])
    expect(evaluate(third(), 'dtype').values).toEqual([Math.fround(1 / 3)])
  })
  it('rounds the operands of discontinuous operations', () => {
    const almost = makeNode('mul', [third(), lit([3])], {})
    const above = makeNode('add', [almost, lit([1e-12])], {})
    expect(run('gt', [above, lit([1])], {})).toEqual([0])
    expect(run('floor', [makeNode('sub', [lit([1]), lit([1e-12])], {})], {})).toEqual([1])
    const pair = makeNode('concat', [lit([1]), above], { axis: 0 })
    expect(run('reduce', [pair], { combiner: 'argmax', axes: [0] })).toEqual([0])
  })
  it('rounds explicit casts', () => {
    expect(run('cast', [lit([1.0001])], { dtype: 'f16' })).toEqual([1])
    expect(run('cast', [lit([1.01])], { dtype: 'bf16' })).toEqual([1.0078125])
  })
  it('gives host arrays of the dtype', () => {
    const [r] = evaluateGraph({ params: [], outputs: [lit([1.5, -2], [2], 'f16')], effects: [] }, [])
    expect(r === undefined ? undefined : toHostArray(r)).toEqual(Uint16Array.of(0x3e00, 0xc000))
  })
})

describe('boundaries', () => {
  it('runs opaque kernels on host arrays', () => {
    const kernel = {
      name: 'reverse',
      shapeRule: ([x]: readonly { shape: readonly number[]; dtype: DType }[]) => ({
        shape: x?.shape ?? [],
        dtype: x?.dtype ?? 'f32',
      }),
      run: ([x]: readonly ArrayLike<number | bigint>[], out: { [i: number]: number | bigint }) => {
        for (let i = 0; i < (x?.length ?? 0); i++) out[i] = x?.[(x?.length ?? 0) - 1 - i] ?? 0
      },
    }
    expect(run('opaque', [lit([1, 2, 3], [3], 'f16')], { kernel })).toEqual([3, 2, 1])
  })
  it('calls effects in order, with rounded host values', () => {
    const seen: unknown[] = []
    const see = (label: string): AttrsByOp['inspect'] => ({
      callback: { label, call: (data, shape, dtype) => seen.push([label, readElement(data, dtype, 0), shape, dtype]) },
    })
    const x = param(0, [1], 'f32')
    const first = makeNode('inspect', [makeNode('div', [x, lit([3])], {})], see('first'))
    const second = makeNode('inspect', [x, first], see('second'))
    const graph = { params: [x], outputs: [second], effects: [second] }
    verifyGraph(graph)
    const [r] = evaluateGraph(graph, [Float32Array.of(1)])
    expect(seen).toEqual([
      ['first', Math.fround(1 / 3), [1], 'f32'],
      ['second', 1, [1], 'f32'],
    ])
    expect([...(r?.data ?? [])]).toEqual([1])
  })
  it('reports wrong inputs and throwing callbacks with a code', () => {
    const x = param(0, [2], 'f32')
    const graph = { params: [x], outputs: [x], effects: [] }
    expect(() => evaluateGraph(graph, [])).toThrow(/E_ARGUMENT/)
    expect(() => evaluateGraph(graph, [Float32Array.of(1)])).toThrow(/E_ARGUMENT/)
    expect(() => evaluateGraph(graph, [Float64Array.of(1, 2)])).toThrow(/E_ARGUMENT/)
    const bad = makeNode('inspect', [x], {
      callback: {
        label: 'bad',
        call: () => {
          throw new Error('no')
        },
      },
    })
    expect(() => evaluateGraph({ params: [x], outputs: [bad], effects: [bad] }, [Float32Array.of(1, 2)])).toThrow(
      /E_CALLBACK.*bad.*no/,
    )
  })
})

describe('size', () => {
  it('does a million elements and a 128^3 contraction', () => {
    const x = param(0, [1_000_000], 'f32')
    const data = new Float32Array(1_000_000).fill(0.5)
    const chain = makeNode('mul', [makeNode('exp', [makeNode('add', [x, x], {})], {}), x], {})
    const [y] = evaluateGraph({ params: [x], outputs: [chain], effects: [] }, [data])
    expect(y?.data.length).toBe(1_000_000)
    expect(y?.data.at(-1)).toBeCloseTo(Math.E / 2, 12)
    const m = param(0, [128, 128], 'f32')
    const product = makeNode('contract', [m, m], { lhs: 'ik', rhs: 'kj', out: 'ij' })
    const [z] = evaluateGraph({ params: [m], outputs: [product], effects: [] }, [data.slice(0, 128 * 128)])
    expect(z?.data.every((v) => v === 32)).toBe(true)
  })
})
