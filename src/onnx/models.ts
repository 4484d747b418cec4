/** One model at many extents of its named dimensions: it is read once, and imported for each set of them. */
import { UserError } from '../diagnostics/errors.ts'
import { keepingViews } from '../graph/build.ts'
import { importModel } from './import.ts'
import type { ImportedModel, ImportOptions, ReadModel } from './pass.ts'
import type { Dimension } from './proto.ts'
import { type LengthRange, type NamedSum, sumOfNames } from './ranges.ts'

/** Imports that are kept; the one used longest ago goes first. */
const mostImports = 16

/** Extents by name. */
export type Lengths = Readonly<Record<string, number>>

export class Models {
  private readonly read: ReadModel
  private readonly options: ImportOptions
  readonly ranges: readonly LengthRange[]
  /** Extents that are one number. */
  readonly fixed: Lengths
  /** Names that are sums of others, of which the caller says nothing. */
  readonly sums: ReadonlyMap<string, NamedSum>
  private readonly made = new Map<string, ImportedModel>()

  /** `ranges` beside the fixed lengths of `options`. */
  constructor(read: ReadModel, options: ImportOptions, ranges: readonly LengthRange[]) {
    this.read = read
    this.options = options
    this.ranges = ranges
    this.fixed = options.lengths ?? {}
    const given = new Set([...ranges.map((r) => r.name), ...Object.keys(options.lengths ?? {})])
    const names = read.model.graph.input.flatMap((v) => (v.shape ?? []).filter((d) => typeof d === 'string'))
    this.sums = new Map(
      names.flatMap((name) => {
        const sum = given.has(name) ? undefined : sumOfNames(name, given)
        return sum === undefined ? [] : [[name, sum] as const]
      }),
    )
  }

  /** The model at some extents of the names that vary. Throws as `importModel` does. */
  at(extents: Lengths): ImportedModel {
    const key = JSON.stringify(this.ranges.map(({ name }) => extents[name]))
    const have = this.made.get(key)
    const own: Record<string, number> = { ...this.options.lengths, ...extents }
    const sums = [...this.sums].map(([name, { names, plus }]) => [
      name,
      names.reduce((n, x) => n + (own[x] ?? 0), plus),
    ])
    const lengths = { ...own, ...Object.fromEntries(sums) }
    // It stands for the model at other extents.
    const model = have ?? keepingViews(() => importModel(this.read, { ...this.options, lengths }))
    this.made.delete(key)
    this.made.set(key, model)
    for (const [old] of this.made) if (this.made.size > mostImports) this.made.delete(old)
    return model
  }

  /** The model at an end of all ranges. Throws as `importModel` does, saying where. */
  atEnd(end: 'least' | 'most'): ImportedModel {
    try {
      return this.at(Object.fromEntries(this.ranges.map((r) => [r.name, r[end]])))
    } catch (error) {
      if (!(error instanceof UserError)) throw error
      const at = this.ranges.map((r) => `${r.name} is ${r[end]}`).join(' and ')
      const { code, summary, where, help } = error
      throw new UserError(code, `${summary} (where ${at})`, {
        ...(where === undefined ? {} : { where }),
        help: help ?? 'give a range in which the model is one',
        cause: error,
      })
    }
  }

  /** The declared extents of an input; undefined where its rank is not declared. */
  declared(input: string): readonly Dimension[] | undefined {
    return this.read.model.graph.input.find((v) => v.name === input)?.shape
  }
}
