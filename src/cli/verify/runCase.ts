/** One case in the layout of ONNX's backend tests: `model.onnx` and `test_data_set_N/{input,output}_M.pb`. */
import { existsSync, readdirSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { touched } from '../../compile/steps.ts'
import { UserError } from '../../diagnostics/errors.ts'
import type { Graph, Node } from '../../graph/node.ts'
import { cutOutputs, decodeModel, type HostTensor, type ModelProto, readTensorProto } from '../../onnx/index.ts'
import type { Program } from '../../runtime/program.ts'
import { sizeOf } from '../../types/shape.ts'
import { errorData } from '../console.ts'
import { readBytes } from '../files.ts'
import { importModel } from '../load.ts'
import type { Mode, Session } from '../session.ts'
import { difference, type Tolerance } from '../values.ts'
import { shapeFixingValues } from './operands.ts'
import { toleranceOf } from './tolerances.ts'

export interface CaseOptions {
  readonly mode: Mode
  /** Where the case brings none along. */
  readonly tolerance: Tolerance
  readonly skipUnsupported: boolean
  /** Open extents by their names: the cases have to have them so. */
  readonly lengths: Readonly<Record<string, number>>
}

export interface CaseResult {
  readonly name: string
  readonly status: 'passed' | 'failed' | 'skipped'
  /** Why it did not pass: an error code, or one of `MISMATCH`, `FOLDED_INPUT`. */
  readonly code?: string
  readonly message?: string
  /** Inputs whose values are part of the program, because they fix shapes. */
  readonly specialised: readonly string[]
  /** Kernels of the compiled program; absent on the reference device. */
  readonly kernels?: number
  readonly ms: number
}

/** A case that runs but gives the wrong answer. */
class CaseFailure extends Error {
  readonly code: string
  constructor(code: string, message: string) {
    super(message)
    this.code = code
  }
}

export const isCase = (dir: string): boolean => existsSync(join(dir, 'model.onnx'))

const numbered = (dir: string, kind: 'input' | 'output'): string[] => {
  const files: string[] = []
  for (let i = 0; existsSync(join(dir, `${kind}_${i}.pb`)); i++) files.push(join(dir, `${kind}_${i}.pb`))
  return files
}

/** Inputs the caller must feed, with the values a data set has for them; inputs that are no tensors stay for the importer to refuse. */
function readInputs(model: ModelProto, dir: string): Map<string, HostTensor> {
  const initialised = new Set(model.graph.initializer.map((t) => t.name))
  const infos = model.graph.input.filter((v) => !initialised.has(v.name))
  const values = new Map<string, HostTensor>()
  numbered(dir, 'input').forEach((file, i) => {
    const info = infos[i]
    if (info !== undefined && info.kind === 'tensor') values.set(info.name, readTensorProto(readBytes(file)))
  })
  return values
}

/** Parameters whose elements the graph's results depend on; a tensor without elements depends on nothing. */
function usedParams(graph: Graph): Set<number> {
  const used = new Set<number>()
  const seen = new Set<Node>()
  const stack: Node[] = [...graph.outputs, ...graph.effects]
  for (let n = stack.pop(); n !== undefined; n = stack.pop()) {
    if (seen.has(n) || sizeOf(n.shape) === 0) continue
    seen.add(n)
    if (n.op === 'param') used.add(n.attrs.index)
    stack.push(...n.inputs)
  }
  return used
}

/** Inputs a compiled program reads. */
function readInputsOf(program: Program): Set<number> {
  const read = new Set<number>([...program.outputs, ...program.steps.flatMap(touched)])
  return new Set(program.inputs.flatMap((b, i) => (read.has(b) ? [i] : [])))
}

/** Throws unless every input is a run-time input of the program or fixes shapes. */
function checkNothingFolded(
  model: ModelProto,
  specialised: readonly string[],
  names: readonly string[],
  graph: Graph,
  program: Program | undefined,
): void {
  const fixing = shapeFixingValues(model)
  const folded: string[] = [...specialised]
  if (program !== undefined) {
    const read = readInputsOf(program)
    for (const i of usedParams(graph)) if (!read.has(i)) folded.push(names[i] ?? `input.${i}`)
  }
  // What decides how many results there are may be needed for nothing else, or not at all where there can be one alone.
  const data = folded.filter((name) => !fixing.has(name))
  if (data.length > 0)
    throw new CaseFailure('FOLDED_INPUT', `the program does not read the data input ${data.join(', ')}`)
}

interface SetResult {
  readonly specialised: readonly string[]
  readonly kernels: number | undefined
}

async function runSet(
  bytes: Uint8Array,
  path: string,
  dir: string,
  session: Session,
  mode: Mode,
  tolerance: Tolerance,
  lengths: ReadonlyMap<string, number>,
): Promise<SetResult> {
  const proto = decodeModel(bytes)
  const values = readInputs(proto, dir)
  const model = importModel(bytes, path, { values, shapes: new Map(), lengths, bounds: new Map() })
  const inputs = model.inputs.map((p) => {
    const v = values.get(p.name)
    if (v === undefined) throw new UserError('E_ONNX_INPUT', `${basename(dir)} has no value for input "${p.name}"`)
    return v
  })
  const prepared = session.prepare(model.graph, { name: model.name, mode })
  try {
    const names = model.inputs.map((p) => p.name)
    checkNothingFolded(proto, model.specialised, names, model.graph, prepared.compiled?.program)
    const outputs = cutOutputs(model.counts, await prepared.run(inputs))
    const wanted = numbered(dir, 'output')
    if (wanted.length === 0) throw new UserError('E_FILE', `${basename(dir)} has no expected output`)
    wanted.forEach((file, i) => {
      const got = outputs[i]
      const what = `output ${i} (${model.outputNames[i] ?? '?'})`
      if (got === undefined) throw new CaseFailure('MISMATCH', `${what} is missing`)
      const wrong = difference(got, readTensorProto(readBytes(file)), tolerance)
      if (wrong !== undefined) throw new CaseFailure('MISMATCH', `${what}: ${wrong}`)
    })
    return { specialised: model.specialised, kernels: prepared.compiled?.report.totals.kernels }
  } finally {
    prepared.dispose()
  }
}

/** Runs every data set of a case; never throws. */
export async function runCase(dir: string, session: Session, options: CaseOptions): Promise<CaseResult> {
  const started = performance.now()
  const name = basename(dir)
  let done: SetResult = { specialised: [], kernels: undefined }
  const result = (rest: Pick<CaseResult, 'status' | 'code' | 'message'>): CaseResult => ({
    name,
    ...rest,
    specialised: done.specialised,
    ...(done.kernels === undefined ? {} : { kernels: done.kernels }),
    ms: performance.now() - started,
  })
  try {
    const path = join(dir, 'model.onnx')
    const bytes = readBytes(path)
    const sets = readdirSync(dir).filter((d) => /^test_data_set_\d+$/.test(d))
    if (sets.length === 0) throw new UserError('E_FILE', 'the case has no test_data_set folder')
    const tolerance = toleranceOf(resolve(dir), options.tolerance)
    const lengths = new Map(Object.entries(options.lengths))
    for (const set of sets.sort())
      done = await runSet(bytes, path, join(dir, set), session, options.mode, tolerance, lengths)
    return result({ status: 'passed' })
  } catch (error) {
    const { code, message } =
      error instanceof CaseFailure ? { code: error.code, message: error.message } : errorData(error)
    const skipped = options.skipUnsupported && (code === 'E_ONNX_UNSUPPORTED' || code === 'E_UNSUPPORTED')
    return result({ status: skipped ? 'skipped' : 'failed', code, message: message.replace(/\s*\n\s*/g, ' ') })
  }
}
