/** Small models of tests: imported, run by the reference interpreter, and what importing them throws. */

import { UserError } from '../../src/diagnostics/errors.ts'
import type { HostTensor, ImportedModel, ImportOptions } from '../../src/onnx/index.ts'
import { importOnnx } from '../../src/onnx/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { evaluateConstant, evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { encodeModel, type ModelSpec } from './encode.ts'

const { FLOAT } = tensorType

export const load = (m: ModelSpec, options: Partial<ImportOptions> = {}): ImportedModel =>
  importOnnx(encodeModel(m), { evaluate: evaluateConstant, ...options })

export const floats = (...values: number[]): HostTensor => ({
  data: Float32Array.from(values),
  shape: [values.length],
  dtype: 'f32',
})
export const longs = (...values: number[]): HostTensor => ({
  data: BigInt64Array.from(values, BigInt),
  shape: [values.length],
  dtype: 'i64',
})

export function run(
  model: ImportedModel,
  values: Record<string, HostTensor>,
): { shape: readonly number[]; data: unknown[] }[] {
  const inputs = model.inputNames.map((name) => values[name]?.data ?? new Float32Array(0))
  return evaluateGraph(model.graph, inputs, { rounding: 'dtype' }).map((t) => ({
    shape: t.shape,
    data: Array.from(toHostArray(t) as ArrayLike<unknown>),
  }))
}

/** The error a body throws; fails when it throws none or one that is not the user's. */
export function errorOf(body: () => unknown): UserError {
  try {
    body()
  } catch (error) {
    if (error instanceof UserError) return error
    throw error
  }
  throw new Error('nothing was thrown')
}

export const relu: ModelSpec = {
  nodes: [{ op: 'Relu', name: 'r', in: ['x'], out: ['y'] }],
  inputs: [{ name: 'x', type: FLOAT, dims: [3] }],
  outputs: [{ name: 'y', type: FLOAT, dims: [3] }],
}
