/**
 * Programs of a session for extents that vary, by the names that the model has for them: from the second set of extents on (from the first
 * where ranges are given) one program serves a range (docs/open.md). What a model of those inputs is, is imported at each new set, which is cheap, and compared.
 */
import type { Device } from '../api/device/device.ts'
import { type DeclaredDimension, OpenPrograms, type Served } from '../api/device/openPrograms.ts'
import { UserError } from '../diagnostics/errors.ts'
import { type ImportedModel, type LengthRange, type NamedSum, sumOfNames } from '../onnx/index.ts'
import type { Extents } from '../runtime/extents.ts'
import type { Fed } from './elements.ts'

/** Declared shapes of inputs by name: numbers, and names of extents that vary, which may be empty. */
export type Declared = ReadonlyMap<string, readonly (number | string)[]>

type Shapes = Readonly<Record<string, readonly number[]>>

/** Where the range of a leading extent begins to double: batches are few. */
const firstBatches = 8

export class OpenModels {
  private readonly device: Device
  private readonly name: string
  private readonly declared: ReadonlyMap<string, readonly (number | string)[]>
  private readonly dimensions: readonly DeclaredDimension[]
  /** Names that are sums of dimensions. */
  private readonly sums: ReadonlyMap<string, NamedSum>
  private readonly isAsked: boolean
  private readonly trace: (shapes: Shapes, outputs: readonly string[]) => ImportedModel
  /** By the outputs asked for: the programs, once there were two sets of extents; nothing where values decide what is computed. */
  private readonly families = new Map<string, OpenPrograms<ImportedModel> | 'once' | 'never'>()

  /** `ranges`: what is known of extents by their names; `trace` imports the model for shapes of its inputs, whose values are not known. */
  constructor(
    device: Device,
    name: string,
    declared: Declared,
    ranges: readonly LengthRange[],
    trace: (shapes: Shapes, outputs: readonly string[]) => ImportedModel,
  ) {
    this.device = device
    this.name = name
    this.trace = trace
    this.isAsked = ranges.length > 0
    const named = [...declared].map(
      ([input, shape]) => [input, shape.map((d, axis) => (d === '' ? `${input}[${axis}]` : d))] as const,
    )
    this.declared = new Map(named)
    const first = new Map<string, number | undefined>()
    for (const [, shape] of named)
      shape.forEach((d, axis) => {
        if (typeof d === 'string' && (!first.has(d) || axis > 0)) first.set(d, axis === 0 ? firstBatches : undefined)
      })
    const names = new Set(first.keys())
    this.sums = new Map(
      [...names].flatMap((n) => {
        const sum = sumOfNames(n, names)
        return sum === undefined ? [] : [[n, sum] as const]
      }),
    )
    this.dimensions = [...first].flatMap(([dimension, range]): DeclaredDimension[] => {
      if (this.sums.has(dimension)) return []
      const given = ranges.find((r) => r.name === dimension)
      if (given !== undefined) return [given]
      return [{ name: dimension, least: 0, most: undefined, ...(range === undefined ? {} : { first: range }) }]
    })
  }

  /** A program for feeds; undefined where one shape was asked for so far, and where the model cannot have one. */
  for(feeds: ReadonlyMap<string, Fed>, outputs: readonly string[]): Served<ImportedModel> | undefined {
    const at = this.extents(feeds)
    const key = outputs.join('\0')
    const have = this.families.get(key)
    const isFirst = have === undefined && !this.isAsked
    if (isFirst) this.families.set(key, 'once')
    if (at === undefined || isFirst || have === 'never') return undefined
    const programs = typeof have === 'object' ? have : this.family(outputs)
    this.families.set(key, programs)
    try {
      return programs.at(at)
    } catch (error) {
      if (!(error instanceof UserError)) throw error
      // Values decide what is computed, or these shapes are at fault: the session's own import says so.
      if (programs.count === 0) this.families.set(key, 'never')
      return undefined
    }
  }

  dispose(): void {
    for (const f of this.families.values()) if (typeof f === 'object') f.dispose()
    this.families.clear()
  }

  private family(outputs: readonly string[]): OpenPrograms<ImportedModel> {
    return new OpenPrograms(
      this.device,
      this.dimensions,
      (at) => this.trace(this.shapes(at), outputs),
      ({ graph }) => ({ mode: 'fast', donated: graph.params.map(() => false), name: this.name }),
    )
  }

  private shapes(at: Extents): Shapes {
    const extent = (d: number | string): number => {
      if (typeof d === 'number') return d
      const sum = this.sums.get(d)
      if (sum !== undefined) return sum.names.reduce((n, x) => n + extent(x), sum.plus)
      return at[this.dimensions.findIndex((x) => x.name === d)] ?? 0
    }
    return Object.fromEntries([...this.declared].map(([input, shape]) => [input, shape.map(extent)]))
  }

  /** The extents that feeds give the dimensions; undefined where they contradict each other or the declaration. */
  private extents(feeds: ReadonlyMap<string, Fed>): Extents | undefined {
    if (this.dimensions.length === 0) return undefined
    const at = new Map<string, number>()
    for (const [input, { shape }] of feeds) {
      const declared = this.declared.get(input)
      if (declared === undefined || declared.length !== shape.length) return undefined
      for (const [axis, d] of declared.entries()) {
        const n = shape[axis] ?? 0
        const known = typeof d === 'number' ? d : at.get(d)
        if (known !== undefined && known !== n) return undefined
        if (typeof d === 'string') at.set(d, n)
      }
    }
    for (const [name, { names, plus }] of this.sums)
      if (at.has(name) && at.get(name) !== names.reduce((n, x) => n + (at.get(x) ?? 0), plus)) return undefined
    return this.dimensions.map((d) => at.get(d.name) ?? 0)
  }
}
