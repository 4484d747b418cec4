/** Runs ONNX backend-test cases (`model.onnx` and `test_data_set_N/{input,output}_M.pb`) through importer and oracle. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { defaultTolerance, difference, type Tolerance } from '../../src/cli/values.ts'
import { toleranceOf } from '../../src/cli/verify/tolerances.ts'
import type { Graph } from '../../src/graph/node.ts'
import {
  cutOutputs,
  decodeModel,
  type HostTensor,
  type ImportedModel,
  importOnnx,
  readTensorProto,
} from '../../src/onnx/index.ts'
import { evaluateConstant, evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'

export interface CaseResult {
  readonly name: string
  readonly status: 'passed' | 'failed' | 'unsupported'
  readonly message: string
  readonly specialised: readonly string[]
}

function readAll(dir: string, kind: 'input' | 'output'): HostTensor[] {
  const out: HostTensor[] = []
  for (let i = 0; existsSync(join(dir, `${kind}_${i}.pb`)); i++)
    out.push(readTensorProto(readFileSync(join(dir, `${kind}_${i}.pb`))))
  return out
}

/** A model imported for a data set of its case. */
function importSet(
  bytes: Uint8Array,
  dir: string,
): { readonly model: ImportedModel; readonly inputs: HostTensor['data'][] } {
  const { graph } = decodeModel(bytes)
  const initialised = new Set(graph.initializer.map((t) => t.name))
  const names = graph.input.map((v) => v.name).filter((name) => !initialised.has(name))
  const values = readAll(dir, 'input')
  const inputValues: Record<string, HostTensor> = {}
  names.forEach((name, i) => {
    const v = values[i]
    if (v !== undefined) inputValues[name] = v
  })
  const model = importOnnx(bytes, { inputValues, evaluate: evaluateConstant })
  const inputs = model.inputNames.map((name) => {
    const v = inputValues[name]
    if (v === undefined) throw new Error(`no value for input ${name}`)
    return v.data
  })
  return { model, inputs }
}

/** The graph of a case, with what its first data set gives. */
export const graphOf = (root: string, name: string): Graph =>
  importSet(readFileSync(join(root, name, 'model.onnx')), join(root, name, 'test_data_set_0')).model.graph

function runSet(
  bytes: Uint8Array,
  dir: string,
  tolerance: Tolerance,
): { message: string | undefined; specialised: readonly string[] } {
  const { model, inputs } = importSet(bytes, dir)
  const computed = evaluateGraph(model.graph, inputs, { rounding: 'dtype' })
  const results = cutOutputs(
    model.counts,
    computed.map((t) => ({ data: toHostArray(t), shape: t.shape, dtype: t.dtype })),
  )
  const wanted = readAll(dir, 'output')
  for (const [i, want] of wanted.entries()) {
    const got = results[i]
    if (got === undefined) return { message: `output ${i} is missing`, specialised: model.specialised }
    const wrong = difference(got, want, tolerance)
    if (wrong !== undefined)
      return { message: `output ${i} (${model.outputNames[i]}): ${wrong}`, specialised: model.specialised }
  }
  return { message: undefined, specialised: model.specialised }
}

/** Runs every data set of a case. */
export function runCase(root: string, name: string): CaseResult {
  const dir = join(root, name)
  let specialised: readonly string[] = []
  try {
    const bytes = readFileSync(join(dir, 'model.onnx'))
    const tolerance = toleranceOf(dir, defaultTolerance)
    for (const set of readdirSync(dir).filter((d) => d.startsWith('test_data_set_'))) {
      const r = runSet(bytes, join(dir, set), tolerance)
      specialised = r.specialised
      if (r.message !== undefined) return { name, status: 'failed', message: r.message, specialised }
    }
    return { name, status: 'passed', message: '', specialised }
  } catch (error) {
    const message = error instanceof Error ? error.message : String(error)
    const status = message.includes('E_ONNX_UNSUPPORTED') ? 'unsupported' : 'failed'
    return { name, status, message, specialised }
  }
}
