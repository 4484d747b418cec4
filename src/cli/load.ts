/** Loading a model: an `.onnx` file or a program module becomes a graph with named inputs and outputs. */
import { basename, dirname, extname, resolve } from 'node:path'
import { pathToFileURL } from 'node:url'
import { createJiti } from 'jiti'
import { UserError } from '../diagnostics/errors.ts'
import type { Graph } from '../graph/node.ts'
import * as library from '../index.ts'
import {
  type HostTensor,
  type ImportedModel,
  type ImportOptions,
  importModel as importRead,
  OpenShapes,
  type OutputCount,
  type ReadModel,
  readModel,
  type Wording,
} from '../onnx/index.ts'
import { evaluateConstant } from '../reference/evaluate.ts'
import type { DType } from '../types/dtype.ts'
import { type Shape, sameShape, showShape } from '../types/shape.ts'
import type { Console } from './console.ts'
import { externalLoader, readBytes } from './files.ts'
import { awaitModule, callModule } from './modules.ts'
import { yellow } from './style.ts'
import { drawTensor, showType } from './values.ts'

export interface ModelParameter {
  readonly name: string
  readonly shape: Shape
  readonly dtype: DType
}

export interface LoadedModel {
  readonly name: string
  readonly graph: Graph
  /** Parameters of the graph, in order. */
  readonly inputs: readonly ModelParameter[]
  readonly outputNames: readonly string[]
  /** For each output what number its results have, where that depends on data. */
  readonly counts: readonly (OutputCount | undefined)[]
  /** Inputs whose values are part of the program, because they fix shapes. */
  readonly specialised: readonly string[]
  /** Shapes that nobody said: with them the model imports. */
  readonly inferred: ReadonlyMap<string, Shape>
  /** Values known so far: those given, and those a program closes over. */
  readonly values: ReadonlyMap<string, HostTensor>
}

export interface GivenInputs {
  readonly values: ReadonlyMap<string, HostTensor>
  readonly shapes: ReadonlyMap<string, Shape>
  /** Open extents by their names in the model. */
  readonly lengths: ReadonlyMap<string, number>
  /** Most results of nodes whose number of them depends on data, by the node's name or that of an output of it. */
  readonly bounds: ReadonlyMap<string, number>
}

export const nothingGiven: GivenInputs = { values: new Map(), shapes: new Map(), lengths: new Map(), bounds: new Map() }

/** As a shell takes it; what cannot be typed stays. */
const shellWord = (text: string): string =>
  /^[\w.,:/=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

/** How the command line gives shapes and values. */
const asOptions: Wording = {
  shapes: (shapes) =>
    `say ${shapes.map(([name, s]) => `--shape ${shellWord(`${name}=${s.map((d) => d ?? '?').join(',')}`)}`).join(' ')}`,
  values: 'a value with --input NAME=FILE.npy',
}

/** A file's name without its ending; its folder's where files are just called "model". */
export function modelName(path: string): string {
  const name = basename(path, extname(path))
  return name === 'model' ? basename(dirname(resolve(path))) || name : name
}

/** A model that was imported, with the shapes that were inferred for it. */
export interface Inferred {
  readonly imported: ImportedModel
  readonly inferred: ReadonlyMap<string, Shape>
}

/**
 * Imports a model that was read, from a path, with the inputs given; shapes that it leaves open are those found to import, where
 * there are any. Throws E_ONNX_*.
 */
export function inferShapes(
  read: ReadModel,
  path: string,
  given: GivenInputs,
  onRefused?: ImportOptions['onRefused'],
): Inferred {
  const attempt = (shapes: GivenInputs['shapes']): ImportedModel =>
    importRead(read, {
      evaluate: evaluateConstant,
      external: externalLoader(path),
      inputValues: Object.fromEntries(given.values),
      inputShapes: Object.fromEntries(shapes),
      lengths: Object.fromEntries(given.lengths),
      bounds: Object.fromEntries(given.bounds),
      ...(onRefused === undefined ? {} : { onRefused }),
    })
  try {
    return { imported: attempt(given.shapes), inferred: new Map() }
  } catch (error) {
    if (!(error instanceof OpenShapes)) throw error
    if (error.remedy === undefined) throw error.worded(asOptions)
    const imported = attempt(new Map([...given.shapes, ...error.remedy]))
    const open = new Set(error.open.map((x) => x.name))
    const inferred = imported.graph.params.flatMap((p, i): [string, Shape][] => {
      const name = imported.inputNames[i] ?? ''
      return open.has(name) ? [[name, p.shape]] : []
    })
    return { imported, inferred: new Map(inferred) }
  }
}

/** Imports an ONNX model's bytes, which may be `donated`, with the inputs given. */
export function importModel(bytes: Uint8Array, path: string, given: GivenInputs, donated = false): LoadedModel {
  const { imported: model, inferred } = inferShapes(readModel(bytes, donated), path, given)
  return {
    name: modelName(path),
    graph: model.graph,
    inputs: model.graph.params.map((p, i) => ({
      name: model.inputNames[i] ?? `input.${i}`,
      shape: p.shape,
      dtype: p.dtype,
    })),
    outputNames: model.outputNames,
    counts: model.counts,
    specialised: model.specialised,
    inferred,
    values: given.values,
  }
}

/** Says which shapes were inferred. */
export function noteInferred({ inferred }: Pick<LoadedModel, 'inferred'>, console: Pick<Console, 'note'>): void {
  for (const [name, shape] of inferred)
    console.note(
      yellow(
        `input ${name} is taken as ${showShape(shape)}, which the model leaves open: ${asOptions.shapes([[name, shape]])}`,
      ),
    )
}

const moduleExtensions = new Set(['.ts', '.mts', '.js', '.mjs'])

/** Imports a program module; `sinter` inside it is this library. */
async function importProgram(path: string): Promise<library.ProgramModule> {
  const source = new TextDecoder().decode(readBytes(path))
  const file = resolve(path)
  const jiti = createJiti(pathToFileURL(file).href, {
    // Loading is not left to the engine: by the name `sinter` it may find another copy of the library.
    tryNative: false,
    fsCache: false,
    moduleCache: false,
    virtualModules: { sinter: { ...library } },
  })
  const load = async (): Promise<unknown> =>
    jiti.evalModule(source, { filename: file, async: true, forceTranspile: true })
  const exported: unknown = await awaitModule(path, load)
  const loaded =
    typeof exported === 'object' && exported !== null && 'default' in exported ? exported.default : exported
  if (!library.isProgram(loaded))
    throw new UserError('E_FILE', `the default export of ${path} is not a program`, {
      help: 'export default program(({ x }) => tanh(x), { x: { shape: [8, 4] } })',
    })
  return loaded
}

async function loadProgram(path: string, given: GivenInputs): Promise<LoadedModel> {
  const module = await importProgram(path)
  const names = Object.keys(module.specs)
  for (const name of [...given.values.keys(), ...given.shapes.keys()])
    if (!names.includes(name))
      throw new UserError('E_ARGUMENT', `${path} has no input "${name}"`, {
        help: `its inputs are ${names.join(', ') || 'none'}`,
      })
  if (given.bounds.size > 0)
    throw new UserError('E_ARGUMENT', 'a program module states its own sizes', { help: 'leave --bound away' })
  if (given.shapes.size > 0 || given.lengths.size > 0)
    throw new UserError('E_ARGUMENT', 'a program module states its own shapes', {
      help: 'leave --shape and --length away',
    })
  const traced = callModule(path, () => module.trace())
  const inputs = traced.graph.params.map((p, i) => ({
    name: traced.inputs[i] ?? `input.${i}`,
    shape: p.shape,
    dtype: p.dtype,
  }))
  const name = module.name === 'program' ? modelName(path) : module.name
  return {
    name,
    graph: traced.graph,
    inputs,
    outputNames: traced.outputs,
    counts: traced.outputs.map(() => undefined),
    specialised: [],
    inferred: new Map(),
    values: new Map([...given.values, ...Object.entries(traced.captured)]),
  }
}

/** Loads MODEL; says on the console what it infers. Throws E_FILE, E_ONNX_*, E_ARGUMENT. */
export async function loadModel(
  path: string,
  given: GivenInputs = nothingGiven,
  console?: Pick<Console, 'note' | 'progress'>,
): Promise<LoadedModel> {
  const extension = extname(path)
  if (extension === '.onnx') {
    console?.progress(`importing ${modelName(path)}`)
    const model = importModel(readBytes(path), path, given, true)
    console?.progress(undefined)
    if (console !== undefined) noteInferred(model, console)
    return model
  }
  if (moduleExtensions.has(extension)) return loadProgram(path, given)
  throw new UserError('E_FILE', `${path} is no model`, {
    help: 'a model is an .onnx file or a program module (.ts, .js, .mjs)',
  })
}

export interface FilledInputs {
  /** By parameter number. */
  readonly tensors: readonly HostTensor[]
  /** Names of those drawn at random. */
  readonly drawn: readonly string[]
}

/** The value of every parameter: given, closed over, or drawn. Throws E_SHAPE, E_DTYPE for a value that does not fit. */
export function fillInputs(model: LoadedModel, seed: number): FilledInputs {
  const drawn: string[] = []
  const tensors = model.inputs.map((p, i) => {
    const value = model.values.get(p.name)
    if (value === undefined) {
      drawn.push(p.name)
      return drawTensor(p.shape, p.dtype, seed, i)
    }
    if (value.dtype !== p.dtype)
      throw new UserError('E_DTYPE', `input "${p.name}" is ${showType(p)}, but its value is ${showType(value)}`)
    if (!sameShape(value.shape, p.shape))
      throw new UserError('E_SHAPE', `input "${p.name}" is ${showShape(p.shape)}, but its value is ${showType(value)}`)
    return value
  })
  return { tensors, drawn }
}
