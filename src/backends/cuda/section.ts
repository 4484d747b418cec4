/**
 * Launches that run one after another: kernel by kernel the first time, as one graph from the second run on. A kernel alone too: the
 * launch of a graph takes the host two thirds of what the launch of a kernel does (bench/NOTES.md).
 */
import type { Extents } from '../../runtime/extents.ts'
import { dependenciesOf, type Touch } from './dependencies.ts'
import type { CudaContext, GraphRun, StreamWork } from './driver.ts'

/** Addresses in device memory, for kernels with more parameters than arguments; written again when they change. */
export interface PointerTable {
  /** Brings device memory up to date, before the launches of this run. */
  refresh(): void
}

export type SectionLaunch = StreamWork & {
  /** Step of the program it belongs to. */
  readonly top: number
  /** Kernel's name, for reports. */
  readonly name: string
  /** Bases whose address its arguments hold, where they change from run to run. */
  readonly bound: readonly number[]
  /** Memory it reads and writes. */
  readonly touches: readonly Touch[]
  readonly table: PointerTable | undefined
  /** Whether its arguments or its grid follow from the extents of a run. */
  readonly varies: boolean
}

/** A graph, the addresses its launches hold, and the extents they are for. */
interface Variant {
  readonly graph: GraphRun
  readonly addresses: Float64Array
  extents: Extents | undefined
}

/**
 * Calls in a row usually alternate between few sets of addresses (the pool gives freed memory out again), so that many graphs
 * are kept; a call with other addresses or other extents updates the one used longest ago.
 */
const maxVariants = 4

const same = (a: Extents | undefined, b: Extents | undefined): boolean =>
  a === b || (a !== undefined && a.length === b?.length && a.every((n, i) => n === b[i]))

export class Section {
  readonly launches: readonly SectionLaunch[]
  private readonly context: CudaContext
  /** Bases whose addresses change, in the order of `addresses`. */
  private readonly bases: readonly number[]
  private readonly variants: Variant[] = []
  private readonly tables: readonly PointerTable[]
  private runs = 0
  /** Whether calls of a library are among the launches, some of which vary. */
  private readonly isCaptured: boolean
  /** The extents that were new the last time. */
  private lately: Extents | undefined

  constructor(context: CudaContext, launches: readonly SectionLaunch[]) {
    this.context = context
    this.launches = launches
    this.isCaptured = launches.some((l) => 'enqueue' in l) && launches.some((l) => l.varies)
    this.tables = launches.flatMap((l) => l.table ?? [])
    this.bases = [...new Set(launches.flatMap((l) => l.bound))]
  }

  /** `addresses` by base, and the extents of the run; the launches' arguments hold them already. */
  run(addresses: Float64Array, extents?: Extents): void {
    this.refresh()
    if (this.runs++ === 0 || this.isNew(extents)) {
      for (const l of this.launches) this.context.launch(l)
      return
    }
    this.variant(addresses, extents).graph.launch()
  }

  /**
   * Whether extents came for the first time in a section with a library's calls: other calls are captured anew, which takes more than
   * launching all once.
   */
  private isNew(extents: Extents | undefined): boolean {
    if (!this.isCaptured || same(this.lately, extents) || this.variants.some((v) => same(v.extents, extents)))
      return false
    this.lately = extents
    return true
  }

  /** Brings tables of pointers up to date. */
  refresh(): void {
    for (const t of this.tables) t.refresh()
  }

  private variant(addresses: Float64Array, extents: Extents | undefined): Variant {
    const { bases, variants } = this
    const at = variants.findIndex(
      (v) => same(v.extents, extents) && bases.every((b, i) => v.addresses[i] === addresses[b]),
    )
    const have = variants[at]
    if (have !== undefined) {
      if (at > 0) {
        variants.splice(at, 1)
        variants.unshift(have)
      }
      return have
    }
    const made = variants.length < maxVariants ? this.make(addresses, extents) : this.updated(addresses, extents)
    variants.unshift(made)
    return made
  }

  private make(addresses: Float64Array, extents: Extents | undefined): Variant {
    return {
      graph: this.context.makeGraph(this.launches, dependenciesOf(this.launches.map((l) => l.touches))),
      addresses: Float64Array.from(this.bases, (b) => addresses[b] ?? 0),
      extents,
    }
  }

  private updated(addresses: Float64Array, extents: Extents | undefined): Variant {
    const v = this.variants.pop()
    if (v === undefined) return this.make(addresses, extents)
    const isElsewhere = !same(v.extents, extents)
    v.extents = extents
    const changed = new Set<number>()
    this.bases.forEach((b, i) => {
      const now = addresses[b] ?? 0
      if (v.addresses[i] === now) return
      v.addresses[i] = now
      changed.add(b)
    })
    try {
      const isOther = (l: SectionLaunch): boolean => (isElsewhere && l.varies) || l.bound.some((b) => changed.has(b))
      v.graph.update(this.launches.flatMap((l, i) => (isOther(l) ? [i] : [])))
    } catch (e) {
      v.graph.dispose()
      throw e
    }
    return v
  }

  dispose(): void {
    for (const v of this.variants) v.graph.dispose()
    this.variants.length = 0
  }
}
