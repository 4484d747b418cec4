/**
 * Where statements of a part run, as far as scheduling knows: under which layout, which axes are at a definite block or chunk, and what
 * is held of the values computed so far.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { KernelParam, NumericsMode, StoreStmt, ValueId } from '../../../kernel/ir.ts'
import type { SimtMachine } from '../../../target/simt.ts'
import { type Layout, registersOf, spanOf } from '../layout/layout.ts'
import type { Part } from '../part/part.ts'
import type { SharedMemory } from '../storage/sharedMemory.ts'
import type { LoadPlan } from './loadPlan.ts'

/** What all of a kernel's schedule rests on. */
export interface Setting {
  readonly machine: SimtMachine
  readonly mode: NumericsMode
  readonly params: ReadonlyMap<string, KernelParam>
  /** Whether a parameter may share memory with another. */
  readonly mayAlias: (param: string) => boolean
  /** Blocks that run a program. */
  readonly cluster: number
  /** Blocks that a multiprocessor has room for together. */
  readonly together: number
  /** Whether loops may load ahead of what they compute. */
  readonly loadsAhead: boolean
  /** Whether products of a chain are waited for at once. */
  readonly waits: boolean
  /** Whether loops of axes whose indices are divided go around others, beside a product. */
  readonly divided: boolean
  /** Whether the kernel has loops: exchanges between blocks inside have no fixed number. */
  readonly hasLoops: boolean
  /** What the kernel has taken of shared memory so far. */
  readonly shared: SharedMemory
}

/** How a value is held. */
export interface HeldAs {
  readonly kind: 'scalar' | 'registers' | 'shared' | 'position'
  /** Of registers. */
  readonly layout?: Layout
}

/** The indices of an axis that a program holds now, where they are known. */
export interface KnownRange {
  readonly start: number | undefined
  readonly end: number | undefined
}

/** What one loop over chunks does. Values along the chunked axes are computed anew in each loop that needs them. */
export interface Phase {
  readonly values: ReadonlySet<ValueId>
  /** The folds and stores it computes them for. */
  readonly folds: ReadonlySet<ValueId>
  readonly stores: ReadonlySet<StoreStmt>
  /** Those folds that are streaming sums of exponentials (streams.ts). */
  readonly streams: ReadonlySet<ValueId>
}

/** Loads that were made early, under a layout: what they copied is read instead of memory. */
export interface LoadedEarly {
  readonly layout: Layout
  readonly loads: readonly LoadPlan[]
  /** Of a stage: it is computed as fragments, in the registers of those who multiply it. */
  readonly asFragments?: true
}

/** Whether an axis may have registers beyond the program's range. */
export function reachesBeyond(
  { part, layout, exact }: { readonly part: Part; readonly layout: Layout; readonly exact: ReadonlySet<string> },
  axis: string,
): boolean {
  const a = layout.find(axis)
  if (a === undefined || exact.has(axis)) return false
  return part.axis(axis).tail || a.chunks * spanOf(a) !== a.size
}

interface Change {
  readonly layout?: Layout
  readonly open?: ReadonlySet<string>
  readonly ranges?: ReadonlyMap<string, KnownRange>
  readonly exact?: ReadonlySet<string>
  readonly phase?: Phase | undefined
  readonly copied?: LoadedEarly | undefined
  readonly words?: ReadonlyMap<ValueId, LoadPlan>
  readonly stages?: ReadonlyMap<ValueId, LoadedEarly>
}

export class Place {
  readonly setting: Setting
  readonly part: Part
  readonly layout: Layout
  /** Axes at a definite block or chunk. */
  readonly open: ReadonlySet<string>
  readonly ranges: ReadonlyMap<string, KnownRange>
  readonly held: Map<ValueId, HeldAs>
  /** Chunked axes that need no check for the tail here. */
  readonly exact: ReadonlySet<string>
  /** The loop over chunks that this place stands in, if its values go nowhere else. */
  readonly phase: Phase | undefined
  /** What was copied into shared memory early; loads whose words registers have; what stages are computed from. */
  readonly copied: LoadedEarly | undefined
  readonly words: ReadonlyMap<ValueId, LoadPlan>
  readonly stages: ReadonlyMap<ValueId, LoadedEarly>

  constructor(setting: Setting, part: Part, layout: Layout, change: Change = {}, held = new Map<ValueId, HeldAs>()) {
    this.setting = setting
    this.part = part
    this.layout = layout
    this.open = change.open ?? new Set()
    this.ranges = change.ranges ?? new Map()
    this.exact = change.exact ?? new Set()
    this.phase = change.phase
    this.copied = change.copied
    this.words = change.words ?? new Map()
    this.stages = change.stages ?? new Map()
    this.held = held
  }

  /** A place inside, with values of its own. */
  inside(change: Change): Place {
    return new Place(this.setting, this.part, change.layout ?? this.layout, { ...this, ...change }, new Map(this.held))
  }

  /** The same with axes opened that are not chunked. */
  openWhole(axes: Iterable<string>): Place {
    const open = new Set(this.open)
    for (const a of axes) if (this.layout.find(a)?.chunks === 1) open.add(a)
    return this.inside({ open })
  }

  range(axis: string): KnownRange {
    const { extent, open } = this.part.axis(axis)
    return this.ranges.get(axis) ?? { start: 0, end: open === undefined ? extent : undefined }
  }

  /** Axes cut into chunks whose loop is not open. */
  isChunked = (axis: string): boolean => !this.open.has(axis) && (this.layout.find(axis)?.chunks ?? 1) > 1

  needsCheck(axis: string): boolean {
    return reachesBeyond(this, axis)
  }

  /** Registers of a tile over axes. */
  registers(axes: Iterable<string>): number {
    return this.layout.spread(axes).reduce((n, a) => n * registersOf(a), 1)
  }

  param(name: string): KernelParam {
    const p = this.setting.params.get(name)
    invariant(p !== undefined, `there is no parameter ${name}`)
    return p
  }

  holds(id: ValueId, as: HeldAs['kind']): void {
    this.held.set(id, { kind: as, layout: this.layout })
  }

  get shared(): SharedMemory {
    return this.setting.shared
  }
}
