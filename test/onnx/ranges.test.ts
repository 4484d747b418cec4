/** `importOnnx` with ranges of named extents: `jit(model.apply)` serves them all, results are those of the model at each, and what is no range is refused. */
import { expect, test } from 'vitest'
import { dim, grad, jit, memory, setDevice, spec, type Tensor, tensor } from '../../src/index.ts'
import { importOnnx } from '../../src/onnx.ts'
import { nightly, some } from '../support/nightly.ts'
import { encodeModel } from './encode.ts'
import { encoder, masked, numbers, places, words } from './lengthModels.ts'

setDevice('wasm', { threads: 1 })

const bytes = encodeModel(encoder())

const inputs = (b: number, n: number): { ids: Tensor; mask: Tensor } => {
  const ids = BigInt64Array.from(numbers(b + 13 * n, b * n).map((v) => BigInt(Math.floor((v + 0.5) * words))))
  return {
    ids: tensor(ids, { shape: [b, n] }),
    mask: tensor(new BigInt64Array(b * n).fill(1n), { shape: [b, n] }),
  }
}

const furthest = (a: Tensor | undefined, b: Tensor | undefined): number => {
  expect(a?.shape).toEqual(b?.shape)
  if (a === undefined || b === undefined) return Number.NaN
  const want = b.dataSync() as Float32Array
  return (a.dataSync() as Float32Array).reduce((m, v, i) => Math.max(m, Math.abs(v - (want[i] ?? Number.NaN))), 0)
}

test('batches 1 to 8 and lengths 8 to 512 are two compilations of one imported model', () => {
  const model = importOnnx(bytes, { lengths: { batch: [1, 8], sequence: [8, places] } })
  expect(model.inputs.ids?.shape).toEqual([8, places])
  expect(model.varying.ids?.shape.map(String)).toHaveLength(2)
  const f = jit(model.apply)
  const before = memory().programs
  const shapes = [
    [8, 512],
    [2, 8],
    [1, 512],
    [1, 8],
    [5, 509],
    [1, 511],
    [3, 100],
  ] as const
  for (const [b, n] of shapes) {
    f(model.parameters, inputs(b, n)).y?.dispose()
    expect(f.explain(model.parameters, inputs(b, n)).closed).toBeUndefined()
  }
  // Each compilation has three programs, for parts of the range of lengths.
  expect(memory().programs - before).toBe(6)
  for (const [b, n] of some(
    [
      [3, 100],
      [1, 512],
    ] as const,
    2,
  )) {
    const alone = importOnnx(bytes, { lengths: { batch: b, sequence: n } })
    const want = jit(alone.apply)(alone.parameters, inputs(b, n))
    expect(furthest(f(model.parameters, inputs(b, n)).y, want.y)).toBeLessThan(1e-5)
    // Without jit, at once.
    expect(furthest(model.apply(model.parameters, inputs(b, n)).y, want.y)).toBeLessThan(1e-5)
  }
  expect(() => f(model.parameters, inputs(9, 8))).toThrow(/E_SHAPE.*batch is from 1 to 8/)
  expect(() => model.apply(model.parameters, inputs(2, 7))).toThrow(/E_SHAPE.*sequence is from 8 to 512/)
  expect(() => jit(model.apply, { savedBudget: 1000 })).toThrow(/E_ARGUMENT.*savedBudget/)
  f.dispose()
})

test('derivatives in parameters, over a range', () => {
  const model = importOnnx(bytes, { lengths: { batch: 2, sequence: [8, 64] } })
  type Given = { ids: Tensor; mask: Tensor }
  const loss = (w_q: Tensor, given: Given): Tensor =>
    (model.apply({ ...model.parameters, w_q }, given).y as Tensor).square().mul(0.5).slice(null, 1).mean()
  const step = (w_q: Tensor, given: Given): Tensor => grad(loss)(w_q, given)
  const f = jit(step, { dynamic: [undefined, model.varying] })
  const w = model.parameters.w_q as Tensor
  for (const n of nightly ? [8, 33, 64, 21] : [33]) {
    const [got, want] = [f(w, inputs(2, n)), jit(step)(w, inputs(2, n))]
    expect(f.explain(w, inputs(2, n)).open?.map((d) => d.name)).toEqual(['sequence'])
    expect(furthest(got, want)).toBeLessThan(1e-6)
  }
  f.dispose()
})

test('a name that is a sum of others follows from them', () => {
  const model = importOnnx(encodeModel(masked), { lengths: { batch: 1, new: [1, 16], past: [0, 64] } })
  expect(model.inputs.mask?.shape).toEqual([1, 80])
  const f = jit(model.apply)
  const given = (n: number, p: number, mask = n + p): { x: Tensor; past: Tensor; mask: Tensor } => ({
    x: tensor(Float32Array.from(numbers(n, 4 * n)), { shape: [1, n, 4] }),
    past: tensor(Float32Array.from(numbers(p, 4 * p)), { shape: [1, p, 4] }),
    mask: tensor(new Float32Array(mask), { shape: [1, mask] }),
  })
  for (const [n, p] of [
    [7, 5],
    [1, 12],
    [16, 64],
    [3, 40],
  ] as const) {
    const alone = importOnnx(encodeModel(masked), { lengths: { batch: 1, new: n, past: p, 'past + new': n + p } })
    const want = jit(alone.apply)({}, given(n, p))
    expect(furthest(f({}, given(n, p)).y, want.y)).toBeLessThan(1e-5)
    expect(f.explain({}, given(n, p)).closed).toBeUndefined()
  }
  expect(() => f({}, given(2, 3, 6))).toThrow(/E_SHAPE.*extent 6 on axis 1, where past \+ new is 5/)
  f.dispose()
})

test('sums of dimensions in a declaration', () => {
  const [past, fresh] = [dim('past', 0, 64), dim('new', 1, 8)]
  const total = past.plus(fresh).plus(1)
  expect([total.name, total.least, total.most]).toEqual(['past + new + 1', 2, 73])
  expect(dim('a').plus(2).most).toBeUndefined()
  const f = jit((x: Tensor, m: Tensor) => x.sum().add(m.sum()), { dynamic: [spec([past]), spec([past.plus(2)])] })
  const ones = (n: number): Tensor => tensor(new Float32Array(n).fill(1))
  expect(f(ones(5), ones(7)).item()).toBe(12)
  expect(() => f(ones(5), ones(6))).toThrow(/E_SHAPE.*where past \+ 2 is 7/)
  expect(() => jit((x: Tensor) => x, { dynamic: [spec([past.plus(fresh)])] })).toThrow(/E_ARGUMENT.*sum of past, which/)
  expect(() => past.plus(-1)).toThrow(/E_ARGUMENT/)
  f.dispose()
})

test('what is no range, and ranges in which the model is none, are refused by name', () => {
  const importing = (lengths: Record<string, number | readonly [number, number]>) => () =>
    importOnnx(bytes, { lengths })
  expect(importing({ batch: 1, sequence: [8, places + 1] })).toThrow(/E_SHAPE.*\(where sequence is 513\)/)
  expect(importing({ batch: 1, sequence: [8, 4] })).toThrow(/E_ONNX_INPUT.*range of the extent "sequence"/)
  expect(importing({ batch: 1, length: [8, 16] })).toThrow(/E_ONNX_INPUT.*no open extent named "length"/)
  expect(importing({ sequence: [8, 16] })).toThrow(/E_ONNX_INPUT.*batch/)
})
