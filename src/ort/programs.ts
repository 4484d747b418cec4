/**
 * The programs of a session: for each set of input shapes (and of values that fix shapes) and of outputs that are asked for, one of its own or one that
 * serves a range (`openModels.ts`). Weights
 * of a model whose extents vary are inputs of its programs, so all of them share one copy on the device.
 */
import type { Compiled, Device } from '../api/device/device.ts'
import { Storage } from '../api/tensor/storage.ts'
import { invariant, UserError } from '../diagnostics/errors.ts'
import {
  cutOutputs,
  type HostTensor,
  type ImportedModel,
  type ImportOptions,
  importModel,
  onlyOutputs,
  type ReadModel,
} from '../onnx/index.ts'
import { evaluateConstant } from '../reference/evaluate.ts'
import type { DeviceBuffer } from '../runtime/backend.ts'
import type { DType } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import { sizeOf } from '../types/shape.ts'
import type { Fed } from './elements.ts'
import { type Declared, OpenModels } from './openModels.ts'
import type { OwnOptions } from './source.ts'

/** Programs kept; the least recently used goes first. */
const mostPrograms = 16

type Feeds = ReadonlyMap<string, Fed>

interface Entry {
  readonly key: string
  /** Inputs whose values are part of the program, with them. */
  readonly specialised: ReadonlyMap<string, HostArray>
  readonly imported: ImportedModel
  readonly compiled: Compiled
}

const sameElements = (a: HostArray, b: HostArray | undefined): boolean =>
  b !== undefined && a.length === b.length && a.every((x, i) => Object.is(x, b[i]))

/** Shapes of the inputs, and outputs asked for. */
const keyOf = (feeds: Feeds, outputs: readonly string[]): string =>
  JSON.stringify([[...feeds].map(([name, x]) => [name, x.shape]), outputs])

/** The feeds whose elements are known. */
const valuesOf = (feeds: Feeds): Record<string, HostTensor> =>
  Object.fromEntries(
    [...feeds].flatMap(([name, { data, shape, dtype }]) =>
      data === undefined ? [] : [[name, { data, shape, dtype }] as const],
    ),
  )

/** Feeds with the elements of those named on the host. */
async function withValues(feeds: Feeds, names: Iterable<string>): Promise<Feeds> {
  const out = new Map(feeds)
  for (const name of new Set(names)) {
    const x = feeds.get(name)
    if (x?.data === undefined && x?.resident !== undefined) out.set(name, { ...x, data: await x.resident.read() })
  }
  return out
}

export class Programs {
  /** Most recently used first. */
  readonly #entries: Entry[] = []
  readonly #model: ReadModel
  readonly #external: NonNullable<ImportOptions['external']>
  readonly #device: Device
  readonly #name: string
  /** Whether weights are inputs of the programs. */
  readonly #sharesWeights: boolean
  readonly #weights = new Map<string, DeviceBuffer>()
  readonly #open: OpenModels
  readonly #bounds: Readonly<Record<string, number>>

  /** `declared`: the shapes of inputs, by name; `bounds` and `ranges`: what the session's options say of numbers of results and of extents. */
  constructor(
    model: ReadModel,
    external: NonNullable<ImportOptions['external']>,
    device: Device,
    name: string,
    sharesWeights: boolean,
    declared: Declared,
    { bounds, ranges }: Pick<OwnOptions, 'bounds' | 'ranges'>,
  ) {
    this.#model = model
    this.#external = external
    this.#device = device
    this.#name = name
    this.#sharesWeights = sharesWeights
    this.#bounds = bounds
    this.#open = new OpenModels(device, name, declared, ranges, (shapes, outputs) => this.#import(shapes, {}, outputs))
  }

  /** Results for feeds, in the order of the outputs asked for; those that stay stand on the device. */
  async run(
    feeds: Feeds,
    outputs: readonly string[],
    stays: (name: string, dtype: DType) => boolean,
  ): Promise<(HostTensor | Storage)[]> {
    const { imported, compiled } = await this.#ready(feeds, outputs)
    const device = this.#device
    // What is cut to a number of results is so on the host.
    const staying = imported.graph.outputs.map(
      (n, i) => i < outputs.length && imported.counts[i] === undefined && stays(outputs[i] ?? '', n.dtype),
    )
    const uploaded: DeviceBuffer[] = []
    const inputs = imported.inputNames.map((name) => {
      const x = feeds.get(name)
      invariant(x !== undefined, `no feed for ${name}`)
      if (x.resident !== undefined) return x.resident.on(device)
      invariant(x.data !== undefined, `no elements of ${name}`)
      const buffer = device.upload(x.data)
      uploaded.push(buffer)
      return buffer
    })
    const weights = imported.parameters.map(({ name, value }) => this.#weight(name, value.data))
    let results: DeviceBuffer[] = []
    try {
      results = compiled.run([...inputs, ...weights])
      const read = await Promise.all(
        results.map(async (buffer, i): Promise<HostTensor | Storage> => {
          const node = imported.graph.outputs[i]
          invariant(node !== undefined, 'a result without a node')
          const { shape, dtype } = node
          if (staying[i] === true) return Storage.ofBuffer(device, buffer, shape, dtype)
          return { data: await device.read(buffer, dtype, sizeOf(shape)), shape, dtype }
        }),
      )
      return cutOutputs(imported.counts, read)
    } finally {
      for (const buffer of [...uploaded, ...results.filter((_, i) => staying[i] !== true)]) device.free(buffer)
    }
  }

  /** Compiles for feeds whose elements are not known; they fix no shapes. */
  prepare(feeds: Feeds, outputs: readonly string[]): void {
    this.#compile(feeds, outputs, false)
  }

  dispose(): void {
    for (const { compiled } of this.#entries.splice(0)) compiled.dispose()
    this.#open.dispose()
    for (const buffer of this.#weights.values()) this.#device.free(buffer)
    this.#weights.clear()
  }

  #weight(name: string, data: HostArray): DeviceBuffer {
    const have = this.#weights.get(name) ?? this.#device.upload(data)
    this.#weights.set(name, have)
    return have
  }

  /** The program for feeds; values of theirs that fix shapes are fetched where they stand on the device alone. */
  async #ready(feeds: Feeds, outputs: readonly string[]): Promise<Entry> {
    const key = keyOf(feeds, outputs)
    const compared = this.#entries.flatMap((e) => (e.key === key ? [...e.specialised.keys()] : []))
    const known = await withValues(feeds, compared)
    const found = this.#find(known, outputs)
    if (found !== undefined) return found
    try {
      return this.#compile(known, outputs)
    } catch (error) {
      const isAsked = error instanceof UserError && error.code === 'E_ONNX_INPUT'
      if (!isAsked || [...known.values()].every((x) => x.data !== undefined)) throw error
      return this.#compile(await withValues(known, known.keys()), outputs)
    }
  }

  #find(feeds: Feeds, outputs: readonly string[]): Entry | undefined {
    const key = keyOf(feeds, outputs)
    const at = this.#entries.findIndex(
      (e) => e.key === key && [...e.specialised].every(([name, value]) => sameElements(value, feeds.get(name)?.data)),
    )
    const [found] = at < 0 ? [] : this.#entries.splice(at, 1)
    if (found !== undefined) this.#entries.unshift(found)
    return found
  }

  /** The model for shapes, and values, of its inputs, with the outputs asked for. */
  #import(
    inputShapes: Readonly<Record<string, readonly number[]>>,
    inputValues: Readonly<Record<string, HostTensor>>,
    outputs: readonly string[],
  ): ImportedModel {
    const whole = importModel(this.#model, {
      evaluate: evaluateConstant,
      external: this.#external,
      parameters: this.#sharesWeights,
      inputShapes,
      inputValues,
      bounds: this.#bounds,
    })
    return onlyOutputs(whole, outputs)
  }

  #compile(feeds: Feeds, outputs: readonly string[], hasValues = true): Entry {
    const open = hasValues ? this.#open.for(feeds, outputs) : undefined
    if (open !== undefined) return this.#keep(feeds, outputs, open.traced, open.compiled)
    const shapes = Object.fromEntries([...feeds].map(([name, { shape }]) => [name, shape]))
    const imported = this.#import(shapes, hasValues ? valuesOf(feeds) : {}, outputs)
    const compiled = this.#device.compile(imported.graph, {
      mode: 'fast',
      donated: imported.graph.params.map(() => false),
      name: this.#name,
    })
    return this.#keep(feeds, outputs, imported, compiled)
  }

  #keep(feeds: Feeds, outputs: readonly string[], imported: ImportedModel, compiled: Compiled): Entry {
    const specialised = new Map(
      imported.specialised.flatMap((name) => {
        const x = feeds.get(name)
        return x?.data === undefined ? [] : [[name, x.data.slice()] as const]
      }),
    )
    const entry = { key: keyOf(feeds, outputs), specialised, imported, compiled }
    this.#entries.unshift(entry)
    for (const { compiled: old } of this.#entries.splice(mostPrograms)) old.dispose()
    return entry
  }
}
