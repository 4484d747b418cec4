/** `InferenceSession` of ONNX Runtime's JavaScript API, by this compiler. */
import { type InferenceSessionFactory, type InferenceSession as Ort, Tensor } from 'onnxruntime-common'

import type { Device } from '../api/device/device.ts'
import { takeKept } from '../api/device/kept.ts'
import { Storage } from '../api/tensor/storage.ts'
import { UserError } from '../diagnostics/errors.ts'
import { kindOf } from '../diagnostics/shown.ts'
import { checkOperators, type LengthRange, type ReadModel, readModel } from '../onnx/index.ts'
import { evaluateConstant } from '../reference/evaluate.ts'
import { hostArray } from '../types/host.ts'
import { showShape } from '../types/shape.ts'
import { type Fed, fedOf, ortTensor, writeInto } from './elements.ts'
import { metadata } from './metadata.ts'
import { Programs } from './programs.ts'
import { deviceFor } from './providers.ts'
import { isStaying, residentTensor, type Staying, stayingOf } from './resident.ts'
import { type OwnOptions, ownOptions, type Source, sourceOf } from './source.ts'
import { dtypeOfOrt } from './types.ts'

/** Outputs by name: those asked for, with tensors to be written, where there are any. */
type Wanted = ReadonlyMap<string, Tensor | undefined>

const isKnown = (shape: readonly (number | string)[]): shape is readonly number[] =>
  shape.every((d) => typeof d === 'number')

/** A made session. `config` and the like may be put on it: it is an ordinary object. */
class Session implements Ort {
  readonly inputNames: readonly string[]
  readonly outputNames: readonly string[]
  readonly inputMetadata: readonly Ort.ValueMetadata[]
  readonly outputMetadata: readonly Ort.ValueMetadata[]
  readonly #programs: Programs
  readonly #fixed: Readonly<Record<string, number>>
  readonly #ranges: ReadonlyMap<string, LengthRange>
  readonly #unranked: ReadonlySet<string>
  readonly #device: Device
  readonly #staying: Staying
  #released = false

  constructor(
    read: ReadModel,
    { external, options }: Pick<Source, 'external' | 'options'>,
    own: OwnOptions,
    device: Device,
  ) {
    const { inputs, outputs, unranked } = metadata(read)
    this.#unranked = unranked
    this.#device = device
    this.#staying = stayingOf(options.preferredOutputLocation, outputs)
    this.inputMetadata = inputs
    this.outputMetadata = outputs
    this.inputNames = inputs.map((v) => v.name)
    this.outputNames = outputs.map((v) => v.name)
    this.#fixed = { ...options.freeDimensionOverrides, ...own.fixed }
    this.#ranges = new Map(own.ranges.map((r) => [r.name, r]))
    this.#checkNames(own)
    const isFixed = inputs.every((v) => v.isTensor && !unranked.has(v.name) && isKnown(this.#shapeOf(v)))
    const declared = new Map(
      inputs.flatMap((v) => (v.isTensor && !unranked.has(v.name) ? [[v.name, this.#shapeOf(v)] as const] : [])),
    )
    this.#programs = new Programs(read, external, device, 'session', !isFixed, declared, own)
    checkOperators(read, { evaluate: evaluateConstant, external })
    if (isFixed) this.#prepare()
  }

  async run(
    feeds: Ort.FeedsType,
    second?: Ort.FetchesType | Ort.RunOptions,
    third?: Ort.RunOptions,
  ): Promise<Ort.ReturnType> {
    if (this.#released)
      throw new UserError('E_DISPOSED', 'the session has been released', { help: 'release it after its last run' })
    const wanted = this.#wanted(second, third)
    const given = await this.#feeds(feeds)
    const names = [...wanted.keys()]
    // A result that the caller keeps a tensor for is written there.
    const results = await this.#programs.run(
      given,
      names,
      (name, dtype) => wanted.get(name) === undefined && isStaying(this.#staying, name, dtype),
    )
    return Object.fromEntries(
      names.flatMap((name, i) => {
        const r = results[i]
        if (r === undefined) return []
        if (r instanceof Storage) return [[name, residentTensor(r, this.#device)]]
        const made = ortTensor(name, r.data, r.shape, r.dtype)
        const into = wanted.get(name)
        return [[name, into === undefined ? made : writeInto(into, name, made)]]
      }),
    )
  }

  /** Gives back its programs and its weights. Runs afterwards throw E_DISPOSED. */
  release(): Promise<void> {
    this.#released = true
    this.#programs.dispose()
    return Promise.resolve()
  }

  startProfiling(): never {
    throw unsupported('profiling')
  }

  endProfiling(): never {
    throw unsupported('profiling')
  }

  /** Throws E_ONNX_INPUT for lengths by names that no input has. */
  #checkNames({ fixed, ranges }: OwnOptions): void {
    const known = new Set(
      this.inputMetadata.flatMap((v) => (v.isTensor ? v.shape.filter((d) => typeof d === 'string' && d !== '') : [])),
    )
    const odd = [...Object.keys(fixed), ...ranges.map((r) => r.name)].find((name) => !known.has(name))
    if (odd !== undefined)
      throw new UserError('E_ONNX_INPUT', `the model has no open extent named "${odd}"`, {
        help: known.size === 0 ? 'its inputs name none' : `its inputs name ${[...known].join(', ')}`,
      })
  }

  /** The declared shape, with the extents that the options fix. */
  #shapeOf(v: Ort.TensorValueMetadata): readonly (number | string)[] {
    return v.shape.map((d) => (typeof d === 'string' && Object.hasOwn(this.#fixed, d) ? (this.#fixed[d] ?? d) : d))
  }

  /** Compiles before the first run: all shapes are known, and no value is asked for. */
  #prepare(): void {
    const feeds = this.inputMetadata.flatMap((v): (readonly [string, Fed])[] => {
      if (!v.isTensor) return []
      const [shape, dtype] = [this.#shapeOf(v), dtypeOfOrt(v.type)]
      return isKnown(shape) && dtype !== undefined ? [[v.name, { data: hostArray(dtype, 0), shape, dtype }]] : []
    })
    try {
      this.#programs.prepare(new Map(feeds), this.outputNames)
    } catch (error) {
      // The values of inputs come with a run.
      if (!(error instanceof UserError) || error.code !== 'E_ONNX_INPUT') throw error
    }
  }

  async #feeds(feeds: unknown): Promise<Map<string, Fed>> {
    if (typeof feeds !== 'object' || feeds === null || feeds instanceof Tensor)
      throw new UserError('E_ARGUMENT', `the feeds of a run are ${kindOf(feeds)}`, {
        help: `give tensors by name: { ${this.inputNames.join(', ')} }`,
      })
    const given = new Map<string, unknown>(Object.entries(feeds))
    const odd = [...given.keys()].find((name) => !this.inputNames.includes(name))
    if (odd !== undefined)
      throw new UserError('E_ONNX_INPUT', `the model has no input "${odd}"`, {
        help: `its inputs are ${this.inputNames.join(', ') || 'none'}`,
      })
    const out = new Map<string, Fed>()
    for (const v of this.inputMetadata) {
      if (!given.has(v.name))
        throw new UserError('E_ONNX_INPUT', `input '${v.name}' is missing in 'feeds'.`, {
          help: `the model takes ${this.inputNames.join(', ')}`,
        })
      const x = await fedOf(v.name, given.get(v.name), this.#device)
      this.#check(v, x)
      out.set(v.name, x)
    }
    return out
  }

  #check(v: Ort.ValueMetadata, x: Fed): void {
    if (!v.isTensor) return
    if (dtypeOfOrt(v.type) !== x.dtype)
      throw new UserError('E_DTYPE', `the input "${v.name}" is ${x.dtype}, the model takes ${v.type}`, {
        help: `give new Tensor('${v.type}', data, dims)`,
      })
    const shape = this.#shapeOf(v)
    const isIn = shape.length === x.shape.length && shape.every((d, i) => typeof d === 'string' || d === x.shape[i])
    if (!isIn && !this.#unranked.has(v.name))
      throw new UserError(
        'E_SHAPE',
        `the input "${v.name}" is ${showShape(x.shape)}, the model takes [${shape.join(', ')}]`,
        {
          help: 'give the declared extents',
        },
      )
    this.#checkRanges(v, x)
  }

  /** Throws E_SHAPE for an extent outside the range that the options give. */
  #checkRanges(v: Ort.TensorValueMetadata, x: Fed): void {
    for (const [axis, d] of v.shape.entries()) {
      const [range, n] = [typeof d === 'string' ? this.#ranges.get(d) : undefined, x.shape[axis] ?? 0]
      if (range === undefined || (range.least <= n && n <= range.most)) continue
      throw new UserError(
        'E_SHAPE',
        `the input "${v.name}" is ${showShape(x.shape)}, and ${range.name} is from ${range.least} to ${range.most}`,
        { help: 'give extents within the ranges of extra.sinter.lengths, or wider ranges' },
      )
    }
  }

  /** The outputs asked for. */
  #wanted(second: unknown, third: unknown): Wanted {
    const all: Wanted = new Map(this.outputNames.map((name) => [name, undefined]))
    if (second === undefined || second === null) return all
    const known = (name: unknown): string => {
      if (typeof name === 'string' && this.outputNames.includes(name)) return name
      throw new UserError('E_ONNX_INPUT', `the model has no output "${String(name)}"`, {
        help: `its outputs are ${this.outputNames.join(', ')}`,
      })
    }
    if (Array.isArray(second)) {
      if (second.length === 0) throw new UserError('E_ARGUMENT', 'a run is asked for no output')
      return new Map(second.map((name: unknown) => [known(name), undefined]))
    }
    if (typeof second !== 'object')
      throw new UserError('E_ARGUMENT', `the fetches of a run are ${kindOf(second)}`, {
        help: 'give a list of names, or tensors by name',
      })
    const entries: [string, unknown][] = Object.entries(second)
    // With one argument behind the feeds it may be options: those name no output.
    const areOptions = third === undefined && !entries.some(([name]) => this.outputNames.includes(name))
    if (areOptions) return all
    return new Map(entries.map(([name, x]) => [known(name), x === null ? undefined : (x as Tensor)]))
  }
}

const unsupported = (what: string): UserError =>
  new UserError('E_UNSUPPORTED', `a session has no ${what}`, {
    help: 'sinter explain MODEL.onnx says what each kernel does and costs',
  })

/**
 * A session of a model: of a path (Node) or an address, or of bytes, with ONNX Runtime's options behind. The first run for a set of input
 * shapes compiles; a model of fixed shapes is compiled here.
 *
 * Options that count: `executionProviders` (`cpu` and `wasm`, `webgpu`, `cuda`; the first that opens), `intraOpNumThreads`,
 * `freeDimensionOverrides`, `externalData`, `preferredOutputLocation` (`gpu-buffer` leaves results on the session's device, whichever it is; fed
 * to a session on that device they are not copied), `extra: { sinter: { compiled, bounds, lengths } }` (a file of `sinter compile`, by path or bytes; most results of nodes
 * whose number of them depends on data, by name; extents by name, as numbers or as `[least, most]`: one program serves such a range from the first
 * run on). Those about logging, memory and graph optimisation are taken and change nothing.
 * @throws E_ARGUMENT, E_FILE for a source that is none; E_ONNX_MALFORMED, E_ONNX_UNSUPPORTED for the model; E_DEVICE where no provider opens;
 * E_UNSUPPORTED for `enableProfiling`, `optimizedModelFilePath` and locations of outputs other than `cpu` and `gpu-buffer`
 */
async function create(...args: readonly unknown[]): Promise<Ort> {
  const source = await sourceOf(args)
  const { options } = source
  if (options.enableProfiling === true) throw unsupported('profiling')
  if (options.optimizedModelFilePath !== undefined) throw unsupported('optimised model to write')
  const own = await ownOptions(options)
  if (own.compiled !== undefined) takeKept(own.compiled)
  const read = readModel(source.bytes, source.donated)
  return new Session(read, source, own, await deviceFor(options))
}

/**
 * ONNX Runtime's way to a session: `InferenceSession.create(path | bytes, options)`. A run throws E_ONNX_INPUT for feeds and outputs that the
 * model does not have, E_DTYPE and E_SHAPE for feeds of another type, E_DISPOSED after `release`.
 * @example
 * const session = await InferenceSession.create('examples/digits/digits.onnx')
 * const ort = await import('onnxruntime-common')
 * const image = new ort.Tensor('float32', new Float32Array(256 * 16 * 16), [256, 1, 16, 16])
 * const { digit } = await session.run({ image }, ['digit'])
 * digit?.dims // [256]
 */
export const InferenceSession: InferenceSessionFactory = Object.freeze({ create })

/** A session, as onnxruntime-common declares it. */
export type InferenceSession = Ort

/** Types of options, feeds, results and metadata, under the names that onnxruntime-common has for them. */
export declare namespace InferenceSession {
  type OnnxValueMapType = Ort.OnnxValueMapType
  type NullableOnnxValueMapType = Ort.NullableOnnxValueMapType
  type FeedsType = Ort.FeedsType
  type FetchesType = Ort.FetchesType
  type ReturnType = Ort.ReturnType
  type SessionOptions = Ort.SessionOptions
  type ExecutionProviderConfig = Ort.ExecutionProviderConfig
  type RunOptions = Ort.RunOptions
  type ValueMetadata = Ort.ValueMetadata
  type TensorValueMetadata = Ort.TensorValueMetadata
  type NonTensorValueMetadata = Ort.NonTensorValueMetadata
}
