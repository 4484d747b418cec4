/**
 * The programs that replay records: examples, ONNX models and node cases, the workloads of the SIMT tests, programs
 * that write over their inputs, random programs. Some have a digest beside this file.
 */
import { existsSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { loadModel } from '../../src/cli/load.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { decodeModel, type HostTensor, importOnnx, readTensorProto } from '../../src/onnx/index.ts'
import { evaluateConstant } from '../../src/reference/evaluate.ts'
import { models, unpack } from '../onnx/archives.ts'
import { randomGraph } from '../random/graphs.ts'
import { workloads } from '../simt/programs/workloads.ts'
import { networkPrograms } from './networks.ts'
import { overwritingPrograms } from './overwriting.ts'
import type { RecordedProgram } from './record.ts'

const strictEvery = 4

async function* examples(root: string): AsyncGenerator<RecordedProgram> {
  for (const file of ['adam.ts', 'attention.ts', 'block.ts', 'layer.ts', 'residual.ts', 'digits/digits.onnx'])
    for (const mode of ['fast', 'strict'] as const)
      yield { name: `examples/${file} ${mode}`, mode, graph: (await loadModel(resolve(root, 'examples', file))).graph }
}

function* gpuWorkloads(): Generator<RecordedProgram> {
  for (const [name, graph] of Object.entries(workloads())) yield { name: `workload ${name}`, graph }
}

function* randoms(first: number, count: number): Generator<RecordedProgram> {
  for (let seed = first; seed < first + count; seed++)
    yield {
      name: `random ${seed}`,
      mode: seed % strictEvery === 0 ? 'strict' : 'fast',
      graph: randomGraph(seed).graph,
    }
}

/** Models of ONNX's layout with the inputs of their first data set, which may fix shapes. */
function importCase(folder: string): RecordedProgram['graph'] {
  const bytes = readFileSync(join(folder, 'model.onnx'))
  const { graph } = decodeModel(bytes)
  const initialised = new Set(graph.initializer.map((t) => t.name))
  const inputValues: Record<string, HostTensor> = {}
  const names = graph.input.map((v) => v.name).filter((name) => !initialised.has(name))
  names.forEach((name, i) => {
    const file = join(folder, 'test_data_set_0', `input_${i}.pb`)
    if (existsSync(file)) inputValues[name] = readTensorProto(readFileSync(file))
  })
  return importOnnx(bytes, { inputValues, evaluate: evaluateConstant }).graph
}

function* onnxCases(names: readonly string[], folder: string, kind: string): Generator<RecordedProgram> {
  for (const name of names) {
    let graph: RecordedProgram['graph']
    try {
      graph = importCase(join(folder, name))
    } catch (error) {
      // What the importer refuses makes no plan.
      if (error instanceof UserError) continue
      throw error
    }
    yield { name: `${kind} ${name}`, graph }
  }
}

/** The same with inputs that results may be written over. */
function* donated(programs: Iterable<RecordedProgram>): Generator<RecordedProgram> {
  for (const p of programs) yield { ...p, name: `${p.name}, donated`, donated: p.graph.params.map(() => true) }
}

/** Programs of this repository that were always among those of the digest. */
export async function* fewPrograms(root: string): AsyncGenerator<RecordedProgram> {
  yield* examples(root)
  yield* gpuWorkloads()
  yield* randoms(1, 12)
  yield* overwritingPrograms()
  yield* donated(randoms(1, 12))
}

/** Programs that need nothing but this repository: those that have a digest. */
export async function* digestPrograms(root: string): AsyncGenerator<RecordedProgram> {
  yield* fewPrograms(root)
  yield* networkPrograms()
}

/** Every program; `nodeCases` lists the folders of ONNX's node cases. */
export async function* allPrograms(
  root: string,
  nodeCases: (folder: string) => readonly string[],
): AsyncGenerator<RecordedProgram> {
  yield* examples(root)
  yield* gpuWorkloads()
  yield* randoms(1, 500)
  yield* overwritingPrograms()
  yield* donated(randoms(1, 500))
  yield* networkPrograms()
  if (process.env.SINTER_SHARED === undefined) {
    console.error('ONNX models and node cases are left out: SINTER_SHARED does not name their folder')
    return
  }
  const folder = unpack(['onnx-models', 'onnx-node-cases'])
  yield* onnxCases(models, folder, 'model')
  yield* onnxCases(nodeCases(folder), folder, 'case')
}
