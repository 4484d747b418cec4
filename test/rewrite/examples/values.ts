/** Programs in which the rules on normal forms and constants fire. */
import { makeNode } from '../../../src/graph/build.ts'
import type { Graph, Node, OpName } from '../../../src/graph/node.ts'
import { scalarOf, writeElement } from '../../../src/scalar/host.ts'
import { type ScalarOp, scalarInfo, scalarOps } from '../../../src/scalar/ops.ts'
import { allDTypes, type DType, dtypeBits, dtypeClass, isFloat } from '../../../src/types/dtype.ts'
import { hostArray } from '../../../src/types/host.ts'
import { rowMajorStrides, sizeOf } from '../../../src/types/shape.ts'
import type { Draw, Example } from '../support.ts'
import { broadcast } from './views.ts'

const make = makeNode
const cast = (x: Node, dtype: DType): Node => make('cast', [x], { dtype })

const ops = (Object.keys(scalarOps) as ScalarOp[]).filter((op) => op !== 'cast' && op !== 'bitcast')

/** Comparisons of i64 and of floats that are places, numbers and shorter integers, and sums and differences of them. */
const positionExamples: Readonly<Record<string, Example>> = Object.fromEntries(
  (['eq', 'ne', 'lt', 'le', 'gt', 'ge'] as const).map((op): [string, Example] => [
    `${op}-of-positions`,
    (d) => {
      if (d.rng.chance(0.3)) return labelled(d, op)
      const shape = [3, 4]
      const dtype = d.rng.pick(['i64', 'f32', 'f16', 'bf16', 'f64'] as const)
      const place = (axis: number): Node => make('iota', [], { axis, shape, dtype })
      const n = d.rng.int(-3, 3)
      const number = d.full(shape, dtype, dtype === 'i64' ? BigInt(n) : n)
      const narrow =
        dtype === 'i64' || dtype === 'f64' ? (['i32', 'i16', 'u8', 'bool'] as const) : (['u8', 'bool'] as const)
      const counted = make('sub', [make('iota', [], { axis: 0, shape, dtype: 'i32' }), d.full(shape, 'i32', 2)], {})
      const short = cast(d.rng.chance(0.3) ? counted : d.param(shape, d.rng.pick(narrow)), dtype)
      const made = d.rng.pick([place(0), number, make('sub', [place(1), place(0)], {}), make('neg', [place(1)], {})])
      const whole = d.rng.chance(0.5) ? make('max', [made, number], {}) : make('add', [made, number], {})
      return d.graph(make(op, d.rng.chance(0.5) ? [short, whole] : [whole, short], {}))
    },
  ]),
)

/** Comparisons of places, of their remainders and quotients, with numbers that they may reach or not. */
const boundExamples: Readonly<Record<string, Example>> = Object.fromEntries(
  (['lt', 'le', 'gt', 'ge'] as const).map((op): [string, Example] => [
    `${op}-of-bounds`,
    (d) => {
      const shape = [3, 4]
      const at = make(
        'sub',
        [make('iota', [], { axis: 1, shape, dtype: 'i32' }), d.full(shape, 'i32', d.rng.int(0, 5))],
        {},
      )
      const by = d.full(shape, 'i32', d.rng.int(1, 4))
      const x = d.rng.pick([at, make('rem', [at, by], {}), make('div', [at, by], {})])
      const y = d.full(shape, 'i32', d.rng.int(-6, 6))
      return d.graph(make(op, d.rng.chance(0.5) ? [x, y] : [y, x], {}))
    },
  ]),
)

/** Comparisons of i64 that stand for several elements each with places. */
const labelled = (d: Draw, op: ScalarOp): Graph => {
  const label = d.rng.chance(0.5) ? d.param([3], 'i64') : cast(d.param([3], d.rng.pick(['u32', 'u64', 'f32'])), 'i64')
  const [x, place] = [broadcast(label, [3, 6], [0]), make('iota', [], { axis: 1, shape: [3, 6], dtype: 'i64' })]
  return d.graph(make<OpName>(op, d.rng.chance(0.5) ? [x, place] : [place, x], {}) as Node)
}

/** An index of 64 bits, counted from the end of an axis or held to it, or neither. */
function wideIndex(d: Draw, n: number): Node {
  const far = [
    0n,
    -1n,
    BigInt(n),
    BigInt(-n),
    2n ** 31n - 1n,
    -(2n ** 31n),
    2n ** 32n + 3n,
    -(2n ** 40n),
    2n ** 63n - 1n,
  ]
  const stored = make('constant', [], {
    data: BigInt64Array.from(far.slice(0, 6).map((v, i) => (d.rng.chance(0.5) ? v : (far[i + 3] ?? v)))),
    shape: [6],
    dtype: 'i64',
  })
  const counted = make('iota', [], { axis: 0, shape: [6], dtype: 'i64' })
  const x = d.rng.pick([
    () => d.param([6], 'i64'),
    () => cast(d.param([6], d.rng.pick(['i32', 'u32', 'u64', 'f32', 'u8'])), 'i64'),
    () => make('flip', [d.param([6], 'i64')], { axes: [0] }),
    () => stored,
    () => make('add', [counted, d.full([6], 'i64', -4n)], {}),
  ])()
  const literal = (v: number): Node => d.full([6], 'i64', BigInt(v))
  const isNegative = make('lt', [x, literal(0)], {})
  const end = make('select', [isNegative, make('add', [x, literal(n)], {}), x], {})
  const held = make('min', [make('max', [end, literal(-2)], {}), literal(n)], {})
  const other = make('select', [d.param([6], 'bool'), end, x], {})
  return make('flip', [d.rng.pick([x, end, held, other])], { axes: d.rng.chance(0.5) ? [0] : [] })
}

export const valueExamples: Readonly<Record<string, Example>> = {
  ...positionExamples,
  ...boundExamples,
  'gather-at-short-indices': (d) => {
    const n = d.rng.int(1, 7)
    const attrs = { shape: [6], sources: [{ input: 0 }, { input: 1 }] } as const
    return d.graph(make('gather', [d.param([n, n + 1]), wideIndex(d, n), wideIndex(d, n + 1)], attrs))
  },
  'scatter-at-short-indices': (d) => {
    const n = d.rng.int(1, 7)
    const combiner = d.rng.pick(['set', 'sum', 'max'] as const)
    const attrs = { sources: [{ input: 0 }], combiner } as const
    return d.graph(make('scatter', [d.param([n]), d.param([6]), wideIndex(d, n)], attrs))
  },
  'empty-result': (d) => d.graph(make('exp', [d.param([0, 3], d.float())], {}), make('neg', [d.param([2], 'f32')], {})),
  commute: (d) => {
    const dtype = d.number()
    const [a, b] = [d.param([3], dtype), d.rng.chance(0.5) ? d.full([3], dtype) : d.param([3], dtype)]
    const op = d.rng.pick(['add', 'mul', 'max', 'min', 'eq', 'ne'] as const)
    return d.graph(make(op, [b, a], {}), make(op, [a, b], {}))
  },
  'cast-same': (d) => {
    const dtype = d.any()
    return d.graph(cast(d.param([3], dtype), dtype))
  },
  'cast-cast': (d) => {
    const pick = (): DType => d.rng.pick(allDTypes)
    const x = d.param([16], pick())
    return d.graph(...Array.from({ length: 8 }, () => cast(cast(x, pick()), pick())))
  },
  'bitcast-same': (d) => d.graph(make('bitcast', [d.param([3], 'u32')], { dtype: 'u32' })),
  'bitcast-there-and-back': (d) => {
    const dtype = d.rng.pick(['f32', 'f64', 'f16'] as const)
    const bits = ({ f32: 'i32', f64: 'i64', f16: 'u16' } as const)[dtype]
    return d.graph(make('bitcast', [make('bitcast', [d.param([5], dtype)], { dtype: bits })], { dtype }))
  },
  'bitcast-bitcast': (d) => {
    const x = d.param([9], d.rng.pick(['u32', 'i32'] as const))
    const y = make('bitcast', [x], { dtype: x.dtype === 'u32' ? 'i32' : 'u32' })
    return d.graph(make('bitcast', [y], { dtype: d.rng.pick(['f32', 'i32', 'u32'] as const) }))
  },
  'view-of-full': (d) => {
    const x = d.full([2, 3], d.any())
    return d.graph(
      d.rng.pick([
        () => make('reshape', [x], { shape: [6] }),
        () => make('permute', [x], { perm: [1, 0] }),
        () => broadcast(x, [4, 2, 3], [1, 2]),
        () => make('slice', [x], { start: [0, 1], limit: [2, 3], step: [1, 2] }),
        () => make('flip', [x], { axes: [0] }),
        () => make('concat', [x, x], { axis: 1 }),
        () => make('window', [x], { axis: 1, size: 2, stride: 1, dilation: 1 }),
        () => make('gather', [x, d.param([4], 'i32')], { shape: [4], sources: [{ input: 0 }, { input: 0 }] }),
      ])(),
    )
  },
  'pad-of-full': (d) => {
    const x = d.rng.chance(0.5) ? d.full([2], 'f32', -0) : d.param([0], 'f32')
    return d.graph(make('pad', [x], { low: [1], high: [2], interior: [1], value: -0 }))
  },
  'iota-of-unit': (d) => d.graph(make('iota', [], { axis: 1, shape: [3, 1, 2], dtype: d.number() })),
  'broadcast-of-iota': (d) =>
    d.graph(broadcast(make('iota', [], { axis: 1, shape: [2, 3], dtype: d.number() }), [2, 4, 3], [0, 2])),
  'permute-of-iota': (d) =>
    d.graph(make('permute', [make('iota', [], { axis: 1, shape: [2, 3, 4], dtype: d.number() })], { perm: d.perm(3) })),
  'constant-by-place': (d) => {
    const shape = d.rng.pick([[33, 40], [3, 20, 20], [1, 1, 33, 33], [40, 33, 1], [1100]])
    const [p, q] = d.rng.shuffle(shape.flatMap((n, axis) => (n > 1 ? [axis] : []))).sort()
    const dtype = d.any()
    const data = hostArray(dtype, sizeOf(shape))
    const [first, by, lo, band] = [
      d.rng.int(0, 5),
      d.rng.pick([-1, 1, 3]),
      d.rng.int(-9, 9),
      d.rng.chance(0.5) ? 5 : 999,
    ]
    const isCounted = d.rng.chance(0.5)
    const strides = rowMajorStrides(shape)
    for (let i = 0; i < data.length; i++) {
      const at = (axis: number | undefined): number =>
        axis === undefined ? 0 : Math.floor(i / (strides[axis] ?? 1)) % (shape[axis] ?? 1)
      const distance = at(q) - at(p)
      const inside = distance >= lo && distance < lo + band
      const value = isCounted ? first + by * at(p) - at(q) : inside ? 7 : Number.NEGATIVE_INFINITY
      writeElement(data, dtype, i, scalarOf(dtype, isFloat(dtype) || Number.isFinite(value) ? value : 0))
    }
    return d.graph(make('constant', [], { data, shape, dtype }))
  },
  'constant-uniform': (d) => {
    const like = d.constant([1], d.any())
    if (like.op !== 'constant') throw new Error('no literal')
    const data = like.attrs.data.slice()
    return d.graph(make('constant', [], { ...like.attrs, data }))
  },
  'fold-full': (d) => {
    const op = d.rng.pick(ops)
    const info = scalarInfo(op)
    const dtype = d.rng.pick(allDTypes.filter((t) => info.on.includes(dtypeClass(t))))
    const inputs = Array.from({ length: info.arity }, (_, i) =>
      d.full([3], op === 'select' && i === 0 ? 'bool' : dtype),
    )
    const to = d.rng.pick(allDTypes)
    const x = d.full([2], d.rng.pick(allDTypes.filter((t) => dtypeBits(t) === dtypeBits(to) && t !== 'bool')))
    const outputs = [make<OpName>(op, inputs, {}) as Node, cast(d.full([2], dtype), to)]
    return d.graph(...outputs, ...(to === 'bool' ? [] : [make('bitcast', [x], { dtype: to })]))
  },
  'fold-constant': (d) => {
    const dtype = d.number()
    const a = d.constant([4, 3], dtype)
    const b = d.rng.chance(0.3) ? make('iota', [], { axis: 0, shape: [4, 3], dtype }) : d.constant([4, 3], dtype)
    return d.graph(
      make('add', [a, b], {}),
      make('permute', [a], { perm: [1, 0] }),
      make('reduce', [a], { combiner: 'max', axes: [0] }),
      make('mul', [a, broadcast(d.constant([3], dtype), [4, 3], [1])], {}),
      make('slice', [a], { start: [1, 0], limit: [4, 3], step: [2, 1] }),
      make('contract', [a, b], { lhs: 'ab', rhs: 'cb', out: 'ac' }),
    )
  },
  'sub-literals': (d) => {
    const dtype = d.number()
    const k = d.rng.chance(0.5) ? broadcast(d.constant([3], dtype), [2, 3], [1]) : d.constant([2, 3], dtype)
    return d.graph(make('sub', [d.param([2, 3], dtype), k], {}))
  },
  'div-literals': (d) =>
    d.graph(make('div', [d.param([2, 3], 'f32'), broadcast(d.constant([3], 'f32', true), [2, 3], [1])], {})),
  ...Object.fromEntries(
    (['add', 'mul'] as const).flatMap((op) =>
      ([`${op}-literals`, `${op}-literals-float`] as const).map((name): [string, Example] => [
        name,
        (d) => {
          const isFast = name.endsWith('float')
          const dtype = isFast ? d.rng.pick(['f32', 'f64'] as const) : d.integer()
          const k = (): Node => broadcast(d.constant([3], dtype, isFast), [2, 3], [1])
          return d.graph(make(op, [make(op, [d.param([2, 3], dtype), k()], {}), k()], {}))
        },
      ]),
    ),
  ),
}
