/** Small programs for every op of the table, at odd sizes: what derivatives and batching are tested on. */
import { cast, compare, condNodes, customNodes, mul, whileNodes } from '../../src/compose/index.ts'
import { makeNode } from '../../src/graph/build.ts'
import type { IndexSource, InspectCallback, OpaqueKernel, OpName } from '../../src/graph/node.ts'
import type { DType } from '../../src/types/dtype.ts'
import { constant, elementwiseCases, make, type OpCase, smooth } from './elementwise.ts'
import { branches, doubling, growing, looped, recurrent, recurrentInputs, scaled } from './regions.ts'
import type { Input, Program } from './support.ts'

const index = (shape: readonly number[], lo: number, hi: number, dtype: DType = 'i32'): Input => ({
  shape,
  dtype,
  lo,
  hi,
})

const points: readonly IndexSource[] = [{ input: 0 }, { axis: 1 }, { input: 1 }]
const folds = ['sum', 'prod', 'max', 'min'] as const

const scatters = (['set', 'sum', 'prod', 'max', 'min'] as const).map((combiner): OpCase => {
  const inputs: Input[] = [
    { shape: [5, 3, 4], distinct: true },
    { shape: [6, 3], distinct: true, lo: -3, hi: 3 },
    index([6, 3], -1, 5),
    index([6, 3], 0, 4, 'i64'),
  ]
  const build: Program['build'] = (x, u, i, j) =>
    make(
      'scatter',
      [x, u, i, j].filter((n) => n !== undefined),
      { combiner, sources: points },
    )
  return combiner === 'prod' ? constant('scatter.prod', inputs, build) : smooth(`scatter.${combiner}`, inputs, build)
})

const window = (n: number, size: number, stride: number, dilation: number): OpCase =>
  smooth(`window ${size}/${stride}/${dilation} of ${n}`, [{ shape: [3, n, 2] }], (x) =>
    make('window', [x], { axis: 1, size, stride, dilation }),
  )

const contraction = (lhs: string, rhs: string, out: string): OpCase => {
  const extents: Readonly<Record<string, number>> = { a: 3, b: 5, c: 4, d: 2 }
  const shape = (labels: string): number[] => [...labels].map((l) => extents[l] ?? 1)
  return smooth(`contract ${lhs},${rhs}->${out}`, [{ shape: shape(lhs) }, { shape: shape(rhs) }], (x, y) =>
    make('contract', [x, y], { lhs, rhs, out }),
  )
}

const twice: OpaqueKernel = {
  name: 'twice',
  shapeRule: ([x]) => ({ shape: x?.shape ?? [], dtype: x?.dtype ?? 'f64' }),
  run: ([x], output) => {
    for (let i = 0; i < output.length; i++) output[i] = 2 * Number(x?.[i])
  },
}
const nobody: InspectCallback = { label: 'unseen', call: () => {} }

const one = (...xs: readonly OpCase[]): readonly OpCase[] => xs

/** Cases by op: at least one for each. */
export const opCases = {
  ...elementwiseCases,
  param: [smooth('param', [{ shape: [3] }, { shape: [2] }], (x, y) => [x, y, x])],
  constant: [
    smooth('constant', [{ shape: [3] }], (x) =>
      mul(x, make('constant', [], { data: Float64Array.from([1, -2, 3]), shape: [3], dtype: 'f64' })),
    ),
  ],
  full: [
    smooth('full', [{ shape: [3] }], (x) => [mul(x, 2), make('full', [], { value: 1, shape: [2], dtype: 'f64' })]),
  ],
  iota: [
    smooth('iota', [{ shape: [3, 2] }], (x) => mul(x, make('iota', [], { axis: 0, shape: [3, 2], dtype: 'f64' }))),
  ],
  randomBits: [
    constant('randomBits', [{ shape: [2], dtype: 'u32', lo: 0, hi: 4e9 }], (k) =>
      make('randomBits', [k], { shape: [3, 5], dtype: 'u32' }),
    ),
    smooth('random noise', [{ shape: [2], dtype: 'u32', lo: 0, hi: 4e9 }, { shape: [5] }], (k, x) =>
      mul(x, cast(make('randomBits', [k], { shape: [5], dtype: 'u32' }), 'f64')),
    ),
  ],
  randomMask: [
    constant('randomMask', [{ shape: [2], dtype: 'u32', lo: 0, hi: 4e9 }], (k) =>
      make('randomMask', [k], { shape: [3, 5], chance: 20000 }),
    ),
    smooth('random choice', [{ shape: [2], dtype: 'u32', lo: 0, hi: 4e9 }, { shape: [5] }], (k, x) =>
      mul(x, cast(make('randomMask', [k], { shape: [5], chance: 40000 }), 'f64')),
    ),
  ],
  reshape: [smooth('reshape', [{ shape: [3, 4, 5] }], (x) => make('reshape', [x], { shape: [5, 12] }))],
  permute: [smooth('permute', [{ shape: [3, 4, 5] }], (x) => make('permute', [x], { perm: [2, 0, 1] }))],
  broadcast: one(
    smooth('broadcast', [{ shape: [3, 1] }], (x) => make('broadcast', [x], { shape: [2, 3, 5], dims: [1, 2] })),
    smooth('broadcast out of order', [{ shape: [3, 1, 2] }], (x) =>
      make('broadcast', [x], { shape: [2, 4, 3, 5], dims: [2, 1, 0] }),
    ),
  ),
  slice: [
    smooth('slice', [{ shape: [7, 5] }], (x) => make('slice', [x], { start: [1, 0], limit: [7, 4], step: [3, 1] })),
    smooth('empty slice', [{ shape: [7] }], (x) => [x, make('slice', [x], { start: [2], limit: [2], step: [1] })]),
  ],
  flip: [smooth('flip', [{ shape: [3, 4, 5] }], (x) => make('flip', [x], { axes: [0, 2] }))],
  pad: [
    smooth('pad', [{ shape: [3, 5] }], (x) =>
      make('pad', [x], { low: [1, 0], high: [0, 2], interior: [2, 0], value: 7 }),
    ),
  ],
  concat: [
    smooth('concat', [{ shape: [3, 2] }, { shape: [3, 5] }], (x, y) =>
      make('concat', [x, y, make('full', [], { value: 1, shape: [3, 1], dtype: 'f64' }), x], { axis: 1 }),
    ),
  ],
  window: [
    window(7, 3, 1, 1),
    window(9, 3, 2, 1),
    window(9, 3, 2, 2),
    window(10, 2, 3, 1),
    window(7, 7, 1, 1),
    window(25, 18, 1, 1),
    window(43, 18, 3, 2),
  ],
  gather: one(
    smooth('gather', [{ shape: [5, 3, 4] }, index([6, 3], -2, 6), index([6, 3], 0, 3, 'i64')], (x, i, j) =>
      make('gather', [x, i, j], { shape: [6, 3], sources: points }),
    ),
    smooth('gather of a part of an axis', [{ shape: [5, 4] }, index([3, 2], 0, 3)], (x, i) =>
      make('gather', [x, i], { shape: [3, 2], sources: [{ axis: 0 }, { input: 0 }] }),
    ),
    smooth('gather of one a row', [{ shape: [3, 4, 5] }, index([5, 1, 3], -1, 5)], (x, i) =>
      make('gather', [x, i], { shape: [5, 1, 3], sources: [{ axis: 2 }, { input: 0 }, { axis: 0 }] }),
    ),
  ),
  scatter: scatters,
  reduce: [
    ...folds.map((combiner) =>
      smooth(`reduce.${combiner}`, [{ shape: [3, 4, 5], distinct: true }], (x) =>
        make('reduce', [x], { combiner, axes: [2, 0] }),
      ),
    ),
    smooth('reduce.max with ties', [{ shape: [3, 5] }], (x) =>
      make('reduce', [make('broadcast', [x], { shape: [3, 5, 2], dims: [0, 1] })], { combiner: 'max', axes: [1, 2] }),
    ),
    smooth('argmax', [{ shape: [3, 5], distinct: true }], (x) => [
      mul(x, x),
      make('reduce', [x], { combiner: 'argmax', axes: [1] }),
    ]),
  ],
  scan: folds.flatMap((combiner) =>
    [
      [false, false],
      [true, true],
    ].map(([reverse = false, exclusive = false]) =>
      smooth(
        `scan.${combiner}${reverse ? ' reverse' : ''}${exclusive ? ' exclusive' : ''}`,
        [{ shape: [3, 7], distinct: true }],
        (x) => {
          const y = make('scan', [x], { combiner, axis: 1, reverse, exclusive })
          // An exclusive extremum starts at an infinity, of which no differences can be taken.
          if (!exclusive || combiner === 'sum' || combiner === 'prod') return y
          return make('slice', [y], { start: [0, 0], limit: [3, 6], step: [1, 1] })
        },
      ),
    ),
  ),
  contract: [
    contraction('ab', 'bc', 'ac'),
    contraction('dab', 'dbc', 'dac'),
    contraction('ab', 'b', 'a'),
    contraction('abc', 'cd', 'dba'),
    contraction('abc', 'bd', 'ad'),
    contraction('ab', 'ab', ''),
    contraction('a', 'b', 'ba'),
  ],
  opaque: [constant('opaque', [{ shape: [3], dtype: 'f32' }], (x) => make('opaque', [x], { kernel: twice }))],
  cond: one(
    ...[1, -1].map((sign) =>
      smooth(`cond ${sign > 0 ? 'taken' : 'not taken'}`, [{ shape: [3] }, { shape: [2, 3] }], (x, y) => {
        const test = compare('lt', makeNode('full', [], { value: 0, shape: [], dtype: 'f64' }), sign)
        return condNodes(test, [x, y], branches.first, branches.second)
      }),
    ),
    smooth('cond of a value', [{ shape: [], distinct: true }, { shape: [3] }, { shape: [2, 3] }], (t, x, y) =>
      condNodes(compare('gt', t, 0), [x, y], branches.first, branches.second),
    ),
  ),
  while: [
    constant('while', [{ shape: [], lo: 30, hi: 90 }, { shape: [3] }], (bound, x) =>
      whileNodes(doubling.test, doubling.body, [bound], [x]),
    ),
  ],
  loop: one(
    smooth('loop', [...recurrentInputs, { shape: [5, 3] }], looped(recurrent(5))),
    smooth('loop reverse', [...recurrentInputs, { shape: [4, 3] }], looped(recurrent(4, true))),
    smooth('loop of no steps', [...recurrentInputs, { shape: [0, 3] }], looped(recurrent(0))),
    smooth('loop whose carries get tangents on the way', [{ shape: [2] }, { shape: [2] }, { shape: [2] }], (x, a, b) =>
      looped(growing)(x, a, b, makeNode('full', [], { value: 1, shape: [], dtype: 'f64' })),
    ),
  ),
  custom: [
    smooth('custom', [{ shape: [3] }, { shape: [3] }, { shape: [3], dtype: 'i32', lo: 1, hi: 4 }], (x, y, n) =>
      customNodes(scaled.body, scaled.jvp, [x, y, n]),
    ),
    constant(
      'custom by its transpose',
      [{ shape: [3] }, { shape: [3] }, { shape: [3], dtype: 'i32', lo: 1, hi: 4 }],
      (x, y, n) => customNodes(scaled.body, scaled.vjp, [x, y, n]),
    ),
  ],
  customLinear: [],
  result: [],
  inspect: [smooth('inspect', [{ shape: [3] }], (x) => mul(make('inspect', [x], { callback: nobody }), x))],
} satisfies { readonly [O in OpName]: readonly OpCase[] }

export const allCases: readonly OpCase[] = Object.values(opCases).flat()
