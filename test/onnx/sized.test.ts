/** ONNX operators whose number of results depends on data: in room for a bound, cut on the host; against plain loops. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { writeNpy } from '../../src/cli/npy.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { jit, tensor } from '../../src/index.ts'
import { importOnnx } from '../../src/onnx.ts'
import { InferenceSession, Tensor } from '../../src/ort.ts'
import { sinter } from '../cli/support.ts'
import { encodeModel, type ModelSpec, type NodeSpec } from './encode.ts'

const FLOAT = 1
const INT64 = 7

const codeOf = (body: () => unknown): string => {
  try {
    body()
  } catch (error) {
    if (error instanceof UserError) return `${error.code} ${error.message}`
    throw error
  }
  return 'nothing was thrown'
}

/** Intersection over union of boxes [y1, x1, y2, x2] in any order of corners; 0 without an area. */
function overlap(a: readonly number[], b: readonly number[]): number {
  const f = Math.fround
  const side = (c: readonly number[], i: number): [number, number] => [
    Math.min(c[i] ?? 0, c[i + 2] ?? 0),
    Math.max(c[i] ?? 0, c[i + 2] ?? 0),
  ]
  const area = (c: readonly number[]): number => f(f(side(c, 0)[1] - side(c, 0)[0]) * f(side(c, 1)[1] - side(c, 1)[0]))
  const common = [0, 1].map((i) => f(Math.min(side(a, i)[1], side(b, i)[1]) - Math.max(side(a, i)[0], side(b, i)[0])))
  if (common.some((d) => d <= 0) || area(a) <= 0 || area(b) <= 0) return 0
  const shared = f((common[0] ?? 0) * (common[1] ?? 0))
  return f(shared / f(f(area(a) + area(b)) - shared))
}

/** Non-maximum suppression in plain loops. */
function suppressed(
  boxes: readonly number[][][],
  scores: readonly number[][][],
  most: number,
  share: number,
  threshold: number,
): number[][] {
  return scores.flatMap((classes, b) =>
    classes.flatMap((list, c) => {
      const order = list
        .map((score, i) => ({ score, i }))
        .filter((x) => x.score > Math.fround(threshold))
        .sort((p, q) => q.score - p.score || p.i - q.i)
      const kept: number[] = []
      for (const { i } of order) {
        if (kept.length === most) break
        const of = boxes[b] ?? []
        if (kept.every((k) => overlap(of[k] ?? [], of[i] ?? []) <= Math.fround(share))) kept.push(i)
      }
      return kept.map((i) => [b, c, i])
    }),
  )
}

const suppression = (most: number, share: number, threshold: number, more: Partial<ModelSpec> = {}): ModelSpec => ({
  nodes: [
    { op: 'NonMaxSuppression', name: 'nms', in: ['boxes', 'scores', 'most', 'share', 'least'], out: ['selected'] },
  ],
  inputs: [
    { name: 'boxes', type: FLOAT, dims: ['batch', 'n', 4] },
    { name: 'scores', type: FLOAT, dims: ['batch', 'classes', 'n'] },
  ],
  outputs: [{ name: 'selected', type: INT64, dims: ['k', 3] }],
  initializers: [
    { name: 'most', type: INT64, dims: [1], int64s: [most] },
    { name: 'share', type: FLOAT, dims: [1], floats: [share] },
    { name: 'least', type: FLOAT, dims: [1], floats: [threshold] },
  ],
  ...more,
})

/** Boxes that overlap, some of them with corners the other way round, some scores equal. */
function scene(batch: number, classes: number, n: number): { boxes: number[][][]; scores: number[][][] } {
  let state = 7
  const next = (): number => {
    state = (state * 48271) % 2147483647
    return Math.fround(state / 2147483647)
  }
  const boxes = Array.from({ length: batch }, () =>
    Array.from({ length: n }, () => {
      const [y, x, h, w] = [next() * 2, next() * 2, next(), next()]
      return (next() < 0.5 ? [y, x, y + h, x + w] : [y + h, x + w, y, x]).map(Math.fround)
    }),
  )
  const scores = Array.from({ length: batch }, () =>
    Array.from({ length: classes }, () => Array.from({ length: n }, () => Math.fround(Math.round(next() * 20) / 20))),
  )
  return { boxes, scores }
}

const fed = ({ boxes, scores }: ReturnType<typeof scene>): Record<string, Tensor> => ({
  boxes: new Tensor('float32', Float32Array.from(boxes.flat(2)), [boxes.length, boxes[0]?.length ?? 0, 4]),
  scores: new Tensor('float32', Float32Array.from(scores.flat(2)), [
    scores.length,
    scores[0]?.length ?? 0,
    scores[0]?.[0]?.length ?? 0,
  ]),
})

describe('NonMaxSuppression', () => {
  it.each([
    [1, 1, 30, 5, 0.3, 0.2],
    [2, 3, 20, 4, 0.5, 0.4],
    [1, 2, 12, 100, 0.1, 0],
    [1, 1, 10, 3, 0.5, 2],
    [1, 2, 6, 0, 0.5, 0],
  ])(
    '%i batches of %i classes, %i boxes, at most %i, share %f, threshold %f',
    async (batch, classes, n, most, share, least) => {
      const session = await InferenceSession.create(encodeModel(suppression(most, share, least)))
      const given = scene(batch, classes, n)
      const { selected } = await session.run(fed(given))
      const wanted = suppressed(given.boxes, given.scores, most, share, least)
      expect(selected?.dims).toEqual([wanted.length, 3])
      expect(Array.from(selected?.data as BigInt64Array, Number)).toEqual(wanted.flat())
    },
  )

  it('what is taken of it row by row is cut too', async () => {
    const rows: NodeSpec[] = [
      { op: 'Gather', in: ['selected', 'two'], out: ['which'], attrs: { axis: { int: 1 } } },
      { op: 'Gather', in: ['boxes', 'which'], out: ['picked'], attrs: { axis: { int: 1 } } },
      { op: 'Mul', in: ['picked', 'picked'], out: ['squares'] },
      { op: 'ReduceSum', in: ['squares', 'last'], out: ['norms'], attrs: { keepdims: { int: 0 } } },
    ]
    const base = suppression(4, 0.3, 0.2)
    const session = await InferenceSession.create(
      encodeModel({
        ...base,
        nodes: [...base.nodes, ...rows],
        initializers: [
          ...(base.initializers ?? []),
          { name: 'two', type: INT64, dims: [], int64s: [2] },
          { name: 'last', type: INT64, dims: [1], int64s: [-1] },
        ],
        outputs: [{ name: 'norms', type: FLOAT }],
      }),
    )
    const given = scene(1, 1, 15)
    const { norms } = await session.run(fed(given))
    const wanted = suppressed(given.boxes, given.scores, 4, 0.3, 0.2).map(([, , i]) =>
      (given.boxes[0]?.[i ?? 0] ?? []).reduce((sum, v) => sum + v * v, 0),
    )
    expect(norms?.dims).toEqual([1, wanted.length])
    for (const [i, v] of wanted.entries()) expect(Number(norms?.data[i])).toBeCloseTo(v, 4)
  })
})

const dir = mkdtempSync(join(tmpdir(), 'sinter-sized-'))
afterAll(() => rmSync(dir, { recursive: true, force: true }))

const nonZero = (more: readonly NodeSpec[] = [], output = 'where'): ModelSpec => ({
  nodes: [{ op: 'NonZero', name: 'nz', in: ['x'], out: ['where'] }, ...more],
  inputs: [{ name: 'x', type: FLOAT, dims: [2, 3] }],
  outputs: [{ name: output, type: INT64 }],
  initializers: [{ name: 'axes', type: INT64, dims: [1], int64s: [1] }],
})
const data = Float32Array.of(0, 5, 0, 7, 0, 9)

describe('NonZero', () => {
  it('on the command line: cut to the number', async () => {
    const path = join(dir, 'nonzero.onnx')
    writeFileSync(path, encodeModel(nonZero([{ op: 'Transpose', in: ['where'], out: ['rows'] }], 'rows')))
    const x = join(dir, 'x.npy')
    writeFileSync(x, writeNpy({ data, shape: [2, 3], dtype: 'f32' }))
    for (const device of ['wasm', 'reference']) {
      const r = await sinter('run', path, '--input', `x=${x}`, '--device', device)
      expect(r.out).toContain('rows  i64[3, 2]')
      expect(r.out).toContain('[0, 1, 1, 0, 1, 2]')
    }
  })

  it('on the command line: in room for a bound', async () => {
    const path = join(dir, 'bounded.onnx')
    writeFileSync(path, encodeModel(nonZero()))
    const [x, few] = [join(dir, 'many.npy'), join(dir, 'few.npy')]
    writeFileSync(x, writeNpy({ data, shape: [2, 3], dtype: 'f32' }))
    writeFileSync(few, writeNpy({ data: Float32Array.of(0, 0, 3, 0, 0, 0), shape: [2, 3], dtype: 'f32' }))
    const r = await sinter('run', path, '--input', `x=${few}`, '--bound', 'nz=2')
    expect(r.out).toContain('where  i64[2, 1]')
    const over = await sinter('run', path, '--input', `x=${x}`, '--bound', 'where=2')
    expect(over.err).toMatch(/E_OVERFLOW/)
    expect((await sinter('explain', path, '--bound', 'nz=2', '--graph')).out).toContain('i64[2, 2]')
    expect((await sinter('explain', path, '--bound', 'x=2')).err).toMatch(/E_ONNX_INPUT.*these have: nz, where/s)
    const kept = join(dir, 'bounded.kept')
    expect((await sinter('compile', path, '--bound', 'nz=2', '--input', `x=${few}`, '-o', kept)).code).toBe(0)
    expect((await sinter('run', path, '--bound', 'nz')).code).toBe(2)
  })

  it('in the library: room, and the number beside it', () => {
    const model = importOnnx(encodeModel(nonZero()))
    expect(model.counts).toEqual({ where: { axis: 1, count: 'where.count' } })
    const results = jit(model.apply)(model.parameters, {
      x: tensor([
        [0, 5, 0],
        [7, 0, 9],
      ]),
    })
    expect(results.where?.shape).toEqual([2, 6])
    expect(Number(results['where.count']?.item())).toBe(3)
    const small = importOnnx(encodeModel(nonZero()), { bounds: { nz: 2 } })
    const cut = jit(small.apply)(small.parameters, {
      x: tensor([
        [0, 5, 0],
        [7, 0, 9],
      ]),
    })
    expect(Array.from(cut.where?.dataSync() as BigInt64Array, Number)).toEqual([0, 1, 1, 0])
    expect(Number(cut['where.count']?.item())).toBe(3)
  })

  it('of a constant is as long as it is', () => {
    const model = importOnnx(
      encodeModel({
        nodes: [
          { op: 'NonZero', in: ['k'], out: ['where'] },
          { op: 'Shape', in: ['where'], out: ['shape'] },
        ],
        outputs: [{ name: 'shape', type: INT64 }],
        initializers: [{ name: 'k', type: FLOAT, dims: [4], floats: [1, 0, 2, 0] }],
      }),
    )
    expect(model.counts).toEqual({})
    expect(Array.from(model.apply({}, {}).shape?.dataSync() as BigInt64Array, Number)).toEqual([1, 2])
  })

  it.each<[string, NodeSpec]>([
    ['their number', { op: 'Shape', in: ['where'], out: ['y'] }],
    ['a sum over them', { op: 'ReduceSum', in: ['where', 'axes'], out: ['y'] }],
    ['elements of all axes', { op: 'Flatten', in: ['where'], out: ['y'], attrs: { axis: { int: 0 } } }],
    ['another of the kind', { op: 'NonZero', in: ['where'], out: ['y'] }],
    ['what stands behind them', { op: 'Concat', in: ['where', 'where'], out: ['y'], attrs: { axis: { int: 1 } } }],
  ])('what needs all of them together is refused: %s', (_, node) => {
    expect(codeOf(() => importOnnx(encodeModel(nonZero([node], 'y'))))).toMatch(/^E_ONNX_UNSUPPORTED.*depends on data/s)
  })

  it('bounds of what takes none, and what is no bound', () => {
    const bytes = encodeModel(nonZero())
    expect(codeOf(() => importOnnx(bytes, { bounds: { x: 3 } }))).toMatch(/^E_ONNX_INPUT.*these have: nz, where/s)
    expect(codeOf(() => importOnnx(bytes, { bounds: { nz: -1 } }))).toMatch(/^E_ONNX_INPUT/)
  })
})

describe('Unique and Compress', () => {
  it('Unique: values, where each comes first, places, counts', async () => {
    const session = await InferenceSession.create(
      encodeModel({
        nodes: [{ op: 'Unique', in: ['x'], out: ['y', 'first', 'inverse', 'counts'], attrs: { sorted: { int: 0 } } }],
        inputs: [{ name: 'x', type: FLOAT, dims: ['n'] }],
        outputs: ['y', 'first', 'inverse', 'counts'].map((name) => ({ name, type: name === 'y' ? FLOAT : INT64 })),
      }),
    )
    const r = await session.run({ x: new Tensor('float32', Float32Array.of(2, 1, 1, 3, 4, 3), [6]) })
    const of = (name: string): number[] => Array.from(r[name]?.data as ArrayLike<number | bigint>, Number)
    expect(of('y')).toEqual([2, 1, 3, 4])
    expect(of('first')).toEqual([0, 1, 3, 4])
    expect(of('inverse')).toEqual([0, 1, 1, 2, 3, 2])
    expect(of('counts')).toEqual([1, 2, 2, 1])
    const only = await session.run({ x: new Tensor('float32', Float32Array.of(2, 1, 1, 3, 4, 3), [6]) }, [
      'counts',
      'inverse',
    ])
    expect(Object.keys(only)).toEqual(['counts', 'inverse'])
    expect(only.counts?.dims).toEqual([4])
  })

  it('Compress by a condition that is computed', async () => {
    const session = await InferenceSession.create(
      encodeModel({
        nodes: [
          { op: 'Greater', in: ['c', 'zero'], out: ['mask'] },
          { op: 'Compress', in: ['x', 'mask'], out: ['y'], attrs: { axis: { int: 1 } } },
        ],
        inputs: [
          { name: 'x', type: FLOAT, dims: [2, 4] },
          { name: 'c', type: FLOAT, dims: [3] },
        ],
        outputs: [{ name: 'y', type: FLOAT }],
        initializers: [{ name: 'zero', type: FLOAT, dims: [], floats: [0] }],
      }),
    )
    const x = new Tensor(
      'float32',
      Float32Array.from({ length: 8 }, (_, i) => i),
      [2, 4],
    )
    for (const [c, wanted] of [
      [
        [1, 0, 1],
        [0, 2, 4, 6],
      ],
      [[0, 0, 0], []],
    ] as const) {
      const { y } = await session.run({ x, c: new Tensor('float32', Float32Array.from(c), [3]) })
      expect(y?.dims).toEqual([2, wanted.length / 2])
      expect(Array.from((y?.data ?? []) as ArrayLike<number>)).toEqual([...wanted])
    }
  })
})
