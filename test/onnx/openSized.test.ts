/** ONNX operators whose number of results depends on data, over ranges of extents: one program gives what the import of each length gives, to the bit. */
import { expect, test } from 'vitest'
import { jit, setDevice, type Tensor, tensor } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { importOnnx, type OnnxModel } from '../../src/onnx.ts'
import { some } from '../support/nightly.ts'
import { encodeModel, type ModelSpec, type NodeSpec } from './encode.ts'
import { numbers } from './lengthModels.ts'

setDevice('wasm', { threads: 1 })

const { FLOAT, INT64, BOOL } = tensorType

type Given = Readonly<Record<string, Tensor>>

const floats = (shape: readonly number[], of: (v: number, i: number) => number): Tensor =>
  tensor(
    Float32Array.from(
      numbers(
        shape.length,
        shape.reduce((n, d) => n * d, 1),
      ).map(of),
    ),
    { shape },
  )

interface Case {
  readonly name: string
  readonly spec: ModelSpec
  readonly given: (n: number) => Given
  readonly bounds?: Readonly<Record<string, number>>
}

const of = (
  nodes: readonly NodeSpec[],
  x: readonly (number | string)[],
  outputs: readonly string[],
  more: Partial<ModelSpec> = {},
): ModelSpec => ({
  nodes,
  inputs: [{ name: 'x', type: FLOAT, dims: x }],
  outputs: outputs.map((name) => ({ name, type: INT64 })),
  ...more,
})

/** About half of them zero. */
const sparse = (...shape: number[]): Tensor => floats(shape, (v) => Math.max(0, v))
/** Few values, many of them equal. */
const few = (...shape: number[]): Tensor => floats(shape, (v) => Math.round(v * 8))

const unique = (attrs: NodeSpec['attrs'] = {}): NodeSpec => ({
  op: 'Unique',
  name: 'u',
  in: ['x'],
  out: ['y', 'first', 'inverse', 'counts'],
  attrs,
})
const all = ['y', 'first', 'inverse', 'counts']

const suppression = (
  boxes: readonly (number | string)[],
  scores: readonly (number | string)[],
  most: number,
): ModelSpec => ({
  nodes: [
    { op: 'NonMaxSuppression', name: 'nms', in: ['boxes', 'scores', 'most', 'share', 'least'], out: ['selected'] },
  ],
  inputs: [
    { name: 'boxes', type: FLOAT, dims: boxes },
    { name: 'scores', type: FLOAT, dims: scores },
  ],
  outputs: [{ name: 'selected', type: INT64 }],
  initializers: [
    { name: 'most', type: INT64, dims: [1], int64s: [most] },
    { name: 'share', type: FLOAT, dims: [1], floats: [0.3] },
    { name: 'least', type: FLOAT, dims: [1], floats: [-0.3] },
  ],
})

const scene = (batch: number, classes: number, n: number): Given => ({
  boxes: floats([batch, n, 4], (v, i) => (i % 4 < 2 ? v : v + 1.2)),
  scores: floats([batch, classes, n], (v) => Math.round(v * 20) / 20),
})

/** Every fourth one by day: of each operator one. */
const cases: readonly Case[] = [
  {
    name: 'NonZero of a vector',
    spec: of([{ op: 'NonZero', in: ['x'], out: ['where'] }], ['n'], ['where']),
    given: (n) => ({ x: sparse(n) }),
  },
  {
    name: 'NonZero of rows',
    spec: of([{ op: 'NonZero', in: ['x'], out: ['where'] }], ['n', 3], ['where']),
    given: (n) => ({ x: sparse(n, 3) }),
  },
  {
    name: 'NonZero in room for a bound',
    spec: of([{ op: 'NonZero', name: 'nz', in: ['x'], out: ['where'] }], ['n'], ['where']),
    given: (n) => ({ x: sparse(n) }),
    bounds: { nz: 9 },
  },
  {
    name: 'NonZero of columns, and what is gathered there',
    spec: of(
      [
        { op: 'NonZero', name: 'nz', in: ['x'], out: ['where'] },
        { op: 'Transpose', in: ['where'], out: ['rows'] },
        { op: 'GatherND', in: ['x', 'rows'], out: ['values'] },
      ],
      [3, 'n'],
      ['rows', 'values'],
    ),
    given: (n) => ({ x: sparse(3, n) }),
  },
  ...(
    [
      ['elements', {}],
      ['rows', { axis: { int: 0 } }],
      ['columns', { axis: { int: 1 } }],
    ] as const
  ).map(([what, attrs]) => ({
    name: `Compress of ${what}`,
    spec: {
      nodes: [
        { op: 'Greater', in: ['c', 'zero'], out: ['mask'] },
        { op: 'Compress', name: 'c', in: ['x', 'mask'], out: ['y'], attrs },
      ],
      inputs: [
        { name: 'x', type: FLOAT, dims: what === 'columns' ? [3, 'n'] : ['n', 3] },
        { name: 'c', type: FLOAT, dims: ['n'] },
      ],
      outputs: [{ name: 'y', type: FLOAT }],
      initializers: [{ name: 'zero', type: FLOAT, dims: [], floats: [0] }],
    },
    given: (n: number) => ({ x: what === 'columns' ? sparse(3, n) : sparse(n, 3), c: sparse(n) }),
  })),
  {
    name: 'Compress by a condition of another length',
    spec: {
      nodes: [{ op: 'Compress', in: ['x', 'mask'], out: ['y'], attrs: { axis: { int: 0 } } }],
      inputs: [
        { name: 'x', type: FLOAT, dims: ['n', 3] },
        { name: 'mask', type: BOOL, dims: [5] },
      ],
      outputs: [{ name: 'y', type: FLOAT }],
    },
    given: (n) => ({ x: sparse(n, 3), mask: tensor([true, false, true, true, false]) }),
  },
  { name: 'Unique of a vector', spec: of([unique()], ['n'], all), given: (n) => ({ x: few(n) }) },
  {
    name: 'Unique in order of appearance',
    spec: of([unique({ sorted: { int: 0 } })], ['n', 2], all),
    given: (n) => ({ x: few(n, 2) }),
  },
  {
    name: 'Unique rows',
    spec: of([unique({ axis: { int: 0 } })], ['n', 2], all),
    given: (n) => ({ x: few(n, 2) }),
  },
  {
    name: 'Unique in room for a bound',
    spec: of([unique()], ['n'], all),
    given: (n) => ({ x: few(n) }),
    bounds: { u: 6 },
  },
  {
    name: 'NonMaxSuppression of many boxes',
    spec: suppression([1, 'n', 4], [1, 2, 'n'], 5),
    given: (n) => scene(1, 2, n),
  },
  {
    name: 'NonMaxSuppression that may keep all boxes',
    spec: suppression([1, 'n', 4], [1, 2, 'n'], 1000),
    given: (n) => scene(1, 2, n),
  },
  {
    name: 'NonMaxSuppression of many batches',
    spec: suppression(['n', 9, 4], ['n', 2, 9], 5),
    given: (n) => scene(n, 2, 9),
  },
  {
    name: 'NonMaxSuppression of many classes, in room for a bound',
    spec: suppression([1, 9, 4], [1, 'n', 9], 5),
    given: (n) => scene(1, n, 9),
    bounds: { nms: 12 },
  },
]

const bits = (r: Readonly<Record<string, Tensor>>) =>
  Object.fromEntries(Object.entries(r).map(([k, t]) => [k, { shape: t.shape, data: t.dataSync() }]))

test.for(some(cases, 4))('$name', ({ spec, given, bounds }) => {
  const bytes = encodeModel(spec)
  const options = bounds === undefined ? {} : { bounds }
  const importing = (n: number | readonly [number, number]): OnnxModel =>
    importOnnx(bytes, { lengths: { n }, ...options })
  const model = importing([0, 64])
  const f = jit(model.apply, { mode: 'strict' })
  for (const n of [23, ...some([1, 64, 40, 2, 5, 17, 3], 7), 0]) {
    const alone = importing(n)
    const closed = jit(alone.apply, { mode: 'strict' })
    expect(bits(f(model.parameters, given(n))), `at ${n}`).toEqual(bits(closed(alone.parameters, given(n))))
    closed.dispose()
    if (n >= 17) {
      const { closed: why, open } = f.explain(model.parameters, given(n))
      expect([why, open?.map((d) => d.name)], `at ${n}`).toEqual([undefined, ['n']])
    }
  }
  f.dispose()
})
