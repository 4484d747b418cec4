/**
 * `sinter bench MODEL.onnx --against ort`: the model here and on ONNX Runtime, where it is installed, in turns. What is timed is the same for
 * both: from inputs on the host to results on the host, with as many threads.
 */
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { extname, join, resolve } from 'node:path'
import { UserError } from '../diagnostics/errors.ts'
import { cutOutputs, type HostTensor } from '../onnx/index.ts'
import { dtypeOfOrt, ortTypes } from '../ort/types.ts'
import { counted, showMs } from '../report/format.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import { type BenchOptions, median } from './bench.ts'
import { type Console, exitCodes, printData, UsageError } from './console.ts'
import { fillInputs, type LoadedModel, loadModel } from './load.ts'
import { parseInputs } from './options.ts'
import { Session } from './session.ts'
import { bold, green, red } from './style.ts'
import { defaultTolerance, difference, largestDifference } from './values.ts'

/** What is used of ONNX Runtime's API: any version's. */
interface OrtTensor {
  readonly type: string
  readonly dims: readonly number[]
  readonly data: ArrayBufferView
}
interface OrtSession {
  readonly outputNames: readonly string[]
  run(feeds: Readonly<Record<string, OrtTensor>>): Promise<Readonly<Record<string, OrtTensor>>>
  release?(): Promise<void>
}
interface OrtModule {
  readonly env: {
    logLevel?: string
    readonly versions?: Readonly<Record<string, string | undefined>>
    readonly wasm: { numThreads?: number | undefined }
  }
  readonly Tensor: new (type: string, data: ArrayBufferView, dims: readonly number[]) => OrtTensor
  readonly InferenceSession: { create(path: string, options: object): Promise<OrtSession> }
}

/** Packages of ONNX Runtime, with the provider that runs on the processor. */
const packages = [
  { name: 'onnxruntime-node', provider: 'cpu', build: 'node' },
  { name: 'onnxruntime-web', provider: 'wasm', build: 'web' },
] as const

/** A session on ONNX Runtime. */
interface Rival {
  readonly name: string
  readonly version: string
  run(): Promise<HostTensor[]>
  close(): Promise<void>
}

const messageOf = (error: unknown): string => (error instanceof Error ? error.message : String(error))

const isMissing = (error: unknown): boolean =>
  error instanceof Error && 'code' in error && error.code === 'MODULE_NOT_FOUND'

/** Half precision stands in `Float16Array` where the engine has it, by its bits elsewhere. */
function ortData(data: HostArray, dtype: DType): ArrayBufferView {
  const { Float16Array } = globalThis as {
    readonly Float16Array?: new (buffer: ArrayBufferLike, offset: number, length: number) => ArrayBufferView
  }
  return dtype === 'f16' && Float16Array !== undefined
    ? new Float16Array(data.buffer, data.byteOffset, data.length)
    : data
}

function ortTensorOf(ort: OrtModule, name: string, t: HostTensor): OrtTensor {
  const types: Readonly<Partial<Record<DType, string>>> = ortTypes
  const type = types[t.dtype]
  if (type === undefined)
    throw new UserError('E_UNSUPPORTED', `the input "${name}" is ${t.dtype}, which ONNX Runtime's API has no type for`)
  return new ort.Tensor(type, ortData(t.data, t.dtype), t.shape)
}

function hostTensorOf(name: string, t: OrtTensor): HostTensor {
  const dtype = dtypeOfOrt(t.type)
  if (dtype === undefined)
    throw new UserError('E_UNSUPPORTED', `the output "${name}" is of type ${t.type}, which has no counterpart here`)
  const { data } = t
  const elements = dtype === 'f16' ? new Uint16Array(data.buffer, data.byteOffset, data.byteLength / 2) : data
  return { data: elements as HostArray, shape: t.dims, dtype }
}

/** The values that a model is fed, by the names of its inputs. */
function feedsOf(model: LoadedModel, tensors: readonly HostTensor[]): Map<string, HostTensor> {
  const feeds = new Map<string, HostTensor>()
  model.inputs.forEach((p, i) => {
    const t = tensors[i]
    if (t !== undefined) feeds.set(p.name, t)
  })
  for (const name of model.specialised) {
    const t = model.values.get(name)
    if (t !== undefined) feeds.set(name, t)
  }
  return feeds
}

/**
 * A session of the first package of ONNX Runtime that a folder's modules find and that works. Throws E_DEVICE where none is, E_UNSUPPORTED where
 * ONNX Runtime refuses the model.
 */
async function openRival(
  path: string,
  feeds: ReadonlyMap<string, HostTensor>,
  threads: number,
  from: string,
): Promise<Rival> {
  const require = createRequire(join(from, 'any.js'))
  const failed: string[] = []
  for (const { name, provider, build } of packages) {
    let ort: OrtModule
    try {
      ort = require(name) as OrtModule
    } catch (error) {
      failed.push(`${name} ${isMissing(error) ? 'is not installed' : `does not load: ${messageOf(error)}`}`)
      continue
    }
    ort.env.logLevel = 'error'
    ort.env.wasm.numThreads = threads
    let session: OrtSession
    try {
      session = await ort.InferenceSession.create(resolve(path), {
        executionProviders: [provider],
        graphOptimizationLevel: 'all',
        intraOpNumThreads: threads,
        interOpNumThreads: 1,
      })
    } catch (error) {
      const reason = messageOf(error)
      // A package without its native part: of another system, or one that only has the API.
      if (/no available backend/i.test(reason)) {
        failed.push(`${name} has no ${provider} backend here: ${reason}`)
        continue
      }
      throw new UserError('E_UNSUPPORTED', `${name} does not take the model: ${reason}`, { cause: error })
    }
    const inputs = Object.fromEntries([...feeds].map(([input, t]) => [input, ortTensorOf(ort, input, t)]))
    return {
      name,
      version: ort.env.versions?.[build] ?? ort.env.versions?.common ?? 'unknown',
      run: async () => {
        const results = await session.run(inputs)
        return session.outputNames.flatMap((output) => {
          const t = results[output]
          return t === undefined ? [] : [hostTensorOf(output, t)]
        })
      },
      close: async () => session.release?.(),
    }
  }
  throw new UserError('E_DEVICE', `ONNX Runtime is not found from ${from} (${failed.join('; ')})`, {
    help: 'npm install onnxruntime-node (or onnxruntime-web) in this folder',
  })
}

/** Two systems on one model. */
export interface Comparison {
  readonly model: string
  readonly against: string
  readonly version: string
  readonly threads: number
  readonly rounds: number
  /** Medians, in milliseconds. */
  readonly ms: number
  readonly againstMs: number
  /** How many times as fast as the other this library is. */
  readonly ratio: number
  /** By output: the largest difference, and what is wrong with it where the two disagree. */
  readonly outputs: readonly { readonly name: string; readonly largestDifference: number; readonly wrong?: string }[]
}

const fewestRounds = 5
const warmUps = 3

/** Measures a model here and on ONNX Runtime, looked for in the modules of a folder. */
export async function compareModel(
  path: string,
  options: BenchOptions,
  console: Console,
  from = process.cwd(),
): Promise<Comparison> {
  if (options.device !== 'wasm')
    throw new UsageError(`--against ort on ${options.device}`, 'the two are compared on the processor: --device wasm')
  if (extname(path) !== '.onnx') throw new UsageError(`--against ort with ${path}`, 'it takes an .onnx file')
  const model = await loadModel(path, parseInputs(options), console)
  const { tensors } = fillInputs(model, options.seed)
  const threads = options.threads ?? availableParallelism()
  console.progress('opening ONNX Runtime')
  const rival = await openRival(path, feedsOf(model, tensors), threads, from)
  try {
    const session = await Session.open('wasm', { threads })
    try {
      console.progress(`compiling ${model.name}`)
      const prepared = session.prepare(model.graph, { name: model.name, mode: options.mode })
      const systems = [async () => cutOutputs(model.counts, await prepared.run(tensors)), () => rival.run()]
      const times = systems.map((): number[] => [])
      const results: HostTensor[][] = systems.map(() => [])
      const until = performance.now() + options.seconds * 1e3
      for (let round = -warmUps; round < fewestRounds || performance.now() < until; round++) {
        console.progress(round < 0 ? 'warming up' : `round ${round + 1}`)
        for (const [i, run] of systems.entries()) {
          const started = performance.now()
          const outputs = await run()
          if (round >= 0) times[i]?.push(performance.now() - started)
          results[i] = outputs
        }
      }
      prepared.dispose()
      console.progress(undefined)
      const [mine = [], theirs = []] = results
      const [ms = Number.NaN, againstMs = Number.NaN] = times.map(median)
      return {
        model: model.name,
        against: rival.name,
        version: rival.version,
        threads,
        rounds: times[0]?.length ?? 0,
        ms,
        againstMs,
        ratio: againstMs / ms,
        outputs: model.outputNames.map((name, i) => compared(name, mine[i], theirs[i])),
      }
    } finally {
      session.close()
    }
  } finally {
    await rival.close()
  }
}

function compared(name: string, a: HostTensor | undefined, b: HostTensor | undefined): Comparison['outputs'][number] {
  if (a === undefined || b === undefined)
    return { name, largestDifference: Number.POSITIVE_INFINITY, wrong: 'one of the two does not give it' }
  const wrong = difference(a, b, defaultTolerance)
  const isLike = a.data.length === b.data.length
  return {
    name,
    largestDifference: isLike ? largestDifference(a, b) : Number.POSITIVE_INFINITY,
    ...(wrong === undefined ? {} : { wrong }),
  }
}

/** Prints a comparison; a result that differs is a failure. */
export async function againstCommand(
  path: string,
  options: BenchOptions,
  console: Console,
  from?: string,
): Promise<number> {
  const r = await compareModel(path, options, console, from)
  const code = r.outputs.some((o) => o.wrong !== undefined) ? exitCodes.failed : 0
  if (options.json) {
    printData(r, console)
    return code
  }
  console.line(
    `${bold(r.model)} on ${counted(r.threads, 'thread')} each, from inputs to results on the host; medians of ${r.rounds} interleaved rounds`,
  )
  console.line(`  sinter            ${showMs(r.ms).padStart(8)} ms`)
  console.line(`  ${r.against.padEnd(17)} ${showMs(r.againstMs).padStart(8)} ms  (${r.version})`)
  const factor = r.ratio >= 1 ? `${r.ratio.toFixed(2)}x as fast as` : `${(1 / r.ratio).toFixed(2)}x slower than`
  console.line(bold(`  sinter is ${factor} ${r.against}`))
  for (const o of r.outputs)
    console.line(
      o.wrong === undefined
        ? green(`  ${o.name} agrees; largest difference ${o.largestDifference.toPrecision(2)}`)
        : red(`  ${o.name} differs: ${o.wrong}`),
    )
  return code
}
