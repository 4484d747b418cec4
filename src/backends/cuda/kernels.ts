/**
 * The kernels of a launch plan: emitted for what their parameters share, compiled together, and emitted again with smaller tiles
 * where registers spill.
 */
import type { SimtCaps } from '../../codegen/simt/capability.ts'
import { emitKernel, type KernelSource } from '../../codegen/simt/kernel.ts'
import type { Kernel } from '../../kernel/ir.ts'
import { type Command, overlapping, type Place } from '../../runtime/commands.ts'
import type { KernelStep } from '../../runtime/program.ts'
import type { KernelCache, LoadedKernel } from './compile.ts'

type Launched = Extract<Command, { kind: 'launch' }>

/** Registers a tile may take, one after another, where more than that spill. */
const smallerTiles = [16, 8]

/** A few words kept in the first-level cache cost less than smaller tiles, and than compiling again. */
const toleratedBytes = 32

export class StepKernels {
  private readonly cache: KernelCache
  private readonly caps: SimtCaps
  /** By kernel, then by the parameters that share memory. */
  private readonly made = new Map<Kernel, Map<string, LoadedKernel>>()

  constructor(cache: KernelCache, caps: SimtCaps) {
    this.cache = cache
    this.caps = caps
  }

  /** Compiles the kernels that commands launch, all at once. */
  prepare(commands: readonly Command[]): void {
    const wanted: { readonly step: KernelStep; readonly shared: ReadonlySet<string>; readonly source: KernelSource }[] =
      []
    const seen = new Map<Kernel, Set<string>>()
    for (const { step, places } of launchesOf(commands)) {
      const shared = sharing(step, places)
      const key = keyOf(shared)
      const keys = seen.get(step.kernel) ?? new Set()
      seen.set(step.kernel, keys)
      if (keys.has(key) || this.made.get(step.kernel)?.has(key) === true) continue
      keys.add(key)
      wanted.push({ step, shared, source: this.emit(step, shared) })
    }
    const loaded = this.cache.loadAll(wanted.map((w) => w.source))
    wanted.forEach(({ step, shared }, i) => {
      const kernel = loaded[i]
      if (kernel !== undefined) this.keep(step, shared, kernel)
    })
    this.shrink(wanted.map(({ step, shared }) => ({ step, shared })))
  }

  /** The kernel of a step; its code depends on which parameters share memory. */
  of(step: KernelStep, places: readonly Place[]): LoadedKernel {
    const shared = sharing(step, places)
    const key = keyOf(shared)
    const find = (): LoadedKernel | undefined => this.made.get(step.kernel)?.get(key)
    const have = find()
    if (have !== undefined) return have
    const made = this.cache.load(this.emit(step, shared))
    this.keep(step, shared, made)
    this.shrink([{ step, shared }])
    return find() ?? made
  }

  all(): LoadedKernel[] {
    return [...this.made.values()].flatMap((v) => [...v.values()])
  }

  private keep({ kernel }: KernelStep, shared: ReadonlySet<string>, made: LoadedKernel): void {
    const variants = this.made.get(kernel) ?? new Map<string, LoadedKernel>()
    this.made.set(kernel, variants)
    variants.set(keyOf(shared), made)
  }

  private emit({ kernel }: KernelStep, shared: ReadonlySet<string>, registers?: number): KernelSource {
    return this.cache.timed('emit', () =>
      emitKernel(kernel, 'cuda', {
        ...this.caps,
        mayAlias: (p) => shared.has(p),
        ...(registers === undefined ? {} : { registers }),
      }),
    )
  }

  /** Puts kernels with smaller tiles in the place of those whose registers spill, where they do not. */
  private shrink(steps: readonly { readonly step: KernelStep; readonly shared: ReadonlySet<string> }[]): void {
    let left = steps.flatMap(({ step, shared }) => {
      const kernel = this.made.get(step.kernel)?.get(keyOf(shared))
      if (kernel === undefined || kernel.source.programs === 0) return []
      const spilled = this.cache.spills(kernel)
      return spilled > toleratedBytes ? [{ step, shared, spilled, last: kernel.source.source }] : []
    })
    for (const registers of smallerTiles) {
      const tried = left.flatMap((k) => {
        const source = this.emit(k.step, k.shared, registers)
        return source.source === k.last ? [] : [{ ...k, source }]
      })
      const loaded = this.cache.loadAll(tried.map((k) => k.source))
      const solved = new Set<ReadonlySet<string>>()
      tried.forEach(({ step, shared, spilled }, i) => {
        const kernel = loaded[i]
        if (kernel === undefined || this.cache.spills(kernel) > toleratedBytes) return
        this.keep(step, shared, { ...kernel, replanned: { registers, spilled } })
        solved.add(shared)
      })
      left = left.filter((k) => !solved.has(k.shared))
    }
  }
}

const keyOf = (shared: ReadonlySet<string>): string => [...shared].join()

/** Launches among commands, those of control flow included (of a long loop's steps the first). */
function launchesOf(commands: readonly Command[]): Launched[] {
  return commands.flatMap((c): Launched[] => {
    switch (c.kind) {
      case 'launch':
        return [c]
      case 'cond':
        return [...launchesOf(c.whenTrue), ...launchesOf(c.whenFalse)]
      case 'while':
        return c.rounds.flatMap((r) => [...launchesOf(r.test), ...launchesOf(r.body), ...launchesOf(r.finish)])
      case 'repeat':
        return c.length > 0 ? launchesOf(c.at(0)) : []
      default:
        return []
    }
  })
}

/** Parameters of a kernel that share memory with another one, one of the two written. */
function sharing(step: KernelStep, places: readonly Place[]): ReadonlySet<string> {
  const byBase = new Map<number, { readonly name: string; readonly written: boolean; readonly place: Place }[]>()
  step.kernel.params.forEach(({ name, access }, i) => {
    const place = places[i]
    if (place === undefined) return
    const list = byBase.get(place.base) ?? []
    byBase.set(place.base, list)
    list.push({ name, written: access !== 'read', place })
  })
  const out = new Set<string>()
  for (const list of byBase.values())
    list.forEach((a, i) => {
      for (const b of list.slice(i + 1))
        if ((a.written || b.written) && overlapping(a.place, b.place)) {
          out.add(a.name)
          out.add(b.name)
        }
    })
  return out
}
