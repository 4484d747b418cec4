/**
 * `sinter compile MODEL.onnx -o FILE`: compiles a model as `sinter/ort` and `importOnnx` do, and keeps plans and code in a file that both take. The model runs
 * once in each way, on inputs that are drawn.
 */
import { statSync } from 'node:fs'
import { extname } from 'node:path'
import { recording } from '../api/device/kept.ts'
import { UserError } from '../diagnostics/errors.ts'
import { evaluate, jit, setDevice, tensor } from '../index.ts'
import type { HostTensor } from '../onnx/index.ts'
import { importOnnx } from '../onnx.ts'
import { ortTensor } from '../ort/elements.ts'
import { InferenceSession } from '../ort.ts'
import { counted, showBytes, showMs } from '../report/format.ts'
import { type Console, printData } from './console.ts'
import { externalLoader, readBytes, typedPath, writeBytes } from './files.ts'
import { fillInputs, type LoadedModel, loadModel } from './load.ts'
import { type InputTexts, parseInputs } from './options.ts'
import { bold } from './style.ts'

export interface CompileCommandOptions extends InputTexts {
  readonly out: string
  readonly threads?: number
  readonly json: boolean
}

/** The values of all inputs by name. */
function valuesOf(model: LoadedModel): Map<string, HostTensor> {
  const { tensors } = fillInputs(model, 0)
  const values = new Map(model.values)
  model.inputs.forEach(({ name }, i) => {
    const t = tensors[i]
    if (t !== undefined) values.set(name, t)
  })
  return values
}

/** Runs a session of the model once. */
async function runSession(
  path: string,
  values: ReadonlyMap<string, HostTensor>,
  lengths: Record<string, number>,
  bounds: Record<string, number>,
): Promise<void> {
  const options = Object.keys(lengths).length === 0 ? {} : { freeDimensionOverrides: lengths }
  const session = await InferenceSession.create(path, { ...options, extra: { sinter: { bounds } } })
  const feeds = [...values].map(
    ([name, { data, shape, dtype }]) => [name, ortTensor(name, data, shape, dtype)] as const,
  )
  await session.run(Object.fromEntries(feeds))
  await session.release()
}

/** Runs the model as a function of the library once. */
function runFunction(path: string, values: ReadonlyMap<string, HostTensor>, bounds: Record<string, number>): void {
  const tensors = Object.fromEntries(
    [...values].map(([name, { data, shape, dtype }]) => [name, tensor(data as Float32Array, { shape, dtype })]),
  )
  const model = importOnnx(readBytes(path), {
    inputValues: tensors,
    bounds,
    external: externalLoader(path),
    donated: true,
  })
  const inputs = Object.fromEntries(
    Object.keys(model.inputs).flatMap((name) => {
      const t = tensors[name]
      return t === undefined ? [] : [[name, t] as const]
    }),
  )
  const run = jit(model.apply)
  evaluate(run(model.parameters, inputs))
  run.dispose()
}

/** Compiles a model into a file. Throws E_FILE for what is no .onnx file, and as imports and compilations do. */
export async function compileCommand(path: string, options: CompileCommandOptions, console: Console): Promise<number> {
  if (extname(path) !== '.onnx')
    throw new UserError('E_FILE', `${path} is no .onnx file`, { help: 'program modules are compiled when they run' })
  const given = parseInputs(options)
  const model = await loadModel(path, given, console)
  const values = valuesOf(model)
  if (options.threads !== undefined) setDevice('wasm', { threads: options.threads })
  const started = performance.now()
  console.progress(`compiling ${model.name}`)
  const { file, programs } = await recording(async () => {
    const bounds = Object.fromEntries(given.bounds)
    await runSession(path, values, {}, bounds)
    if (given.lengths.size > 0) await runSession(path, values, Object.fromEntries(given.lengths), bounds)
    runFunction(path, values, bounds)
  })
  console.progress(undefined)
  if (programs === 0)
    throw new UserError('E_UNSUPPORTED', `nothing of ${path} can be kept`, {
      help: 'programs with functions of the user, and those for GPUs, are compiled where they run',
    })
  writeBytes(options.out, file)
  const ms = performance.now() - started
  if (options.json) {
    printData({ model: model.name, file: options.out, bytes: statSync(options.out).size, programs, ms }, console)
    return 0
  }
  console.line(
    `${bold(model.name)}: ${counted(programs, 'program')} in ${typedPath(options.out)}, ${showBytes(file.length)}, compiled in ${showMs(ms)} ms`,
  )
  const shapes = [...values].map(([name, t]) => `${name} [${t.shape.join(', ')}]`).join(', ')
  if (shapes !== '') console.line(`  for ${shapes}`)
  console.line(
    "  taken by importOnnx(bytes, { compiled }) and, in sinter/ort, by { extra: { sinter: { compiled: 'FILE' } } }",
  )
  return 0
}
