/**
 * The kernels of a launch plan: emitted for what their parameters share, compiled together; where registers spill, by the next of their
 * schedules.
 */
import type { KernelSource, SourceCandidate } from '../../codegen/simt/kernel.ts'
import { invariant } from '../../diagnostics/errors.ts'
import type { Kernel } from '../../kernel/ir.ts'
import { type Command, overlapping, type Place } from '../../runtime/commands.ts'
import type { KernelStep } from '../../runtime/program.ts'
import type { Resources } from '../../runtime/resources.ts'
import type { SimtMachine } from '../../target/simt.ts'
import type { KernelCache, LoadedKernel } from './compile.ts'
import { EmittedSources, keyOf, type Variant } from './emitted.ts'

type Launched = Extract<Command, { kind: 'launch' }>

/** A few words kept in the first-level cache cost less than smaller tiles, and than compiling again. */
const toleratedBytes = 32

/** A kernel that is to be, by the first of its schedules. */
interface Wanted {
  readonly step: KernelStep
  readonly variant: Variant
  readonly source: KernelSource
  /** What else there is to try. */
  readonly others: Iterator<SourceCandidate, undefined>
}

export class StepKernels {
  /** Whether the kernels wait by themselves for those they follow. */
  readonly waits: boolean
  private readonly cache: KernelCache
  private readonly sources: EmittedSources
  /** By kernel, then by variant. */
  private readonly made = new Map<Kernel, Map<string, LoadedKernel>>()
  /** Bases that the program writes. */
  private written: ReadonlySet<number> = new Set()
  private readonly resources: Resources

  /** `resources` hold the kernels. */
  constructor(cache: KernelCache, machine: SimtMachine, resources: Resources) {
    this.cache = cache
    this.resources = resources
    this.sources = new EmittedSources(machine)
    this.waits = machine.launchDependents !== undefined
  }

  /** Compiles the kernels that the commands of a program launch, all at once. Comes before `of`. */
  prepare(commands: readonly Command[]): void {
    this.written = writtenBases(commands)
    const wanted: Wanted[] = []
    const seen = new Map<Kernel, Set<string>>()
    for (const { step, places } of launchesOf(commands)) {
      const variant = this.variantOf(step, places)
      const key = keyOf(variant)
      const keys = seen.get(step.kernel) ?? new Set()
      seen.set(step.kernel, keys)
      if (keys.has(key) || this.made.get(step.kernel)?.has(key) === true) continue
      keys.add(key)
      wanted.push(this.wanted(step, variant))
    }
    const loaded = this.cache.loadAll(wanted.map((w) => w.source))
    wanted.forEach((w, i) => {
      const kernel = loaded[i]
      if (kernel !== undefined) this.keep(w, kernel)
    })
    this.shrink(wanted)
  }

  /** The kernel of a step; its code depends on the memory its parameters stand in. */
  of(step: KernelStep, places: readonly Place[]): LoadedKernel {
    const variant = this.variantOf(step, places)
    const key = keyOf(variant)
    const find = (): LoadedKernel | undefined => this.made.get(step.kernel)?.get(key)
    const have = find()
    if (have !== undefined) return have
    const wanted = this.wanted(step, variant)
    const made = this.cache.load(wanted.source)
    this.keep(wanted, made)
    this.shrink([wanted])
    return find() ?? made
  }

  all(): LoadedKernel[] {
    return [...this.made.values()].flatMap((v) => [...v.values()])
  }

  private variantOf(step: KernelStep, places: readonly Place[]): Variant {
    const changing = step.kernel.params.filter((_, i) => this.waits && this.written.has(places[i]?.base ?? -1))
    return { shared: sharing(step, places), changing: new Set(changing.map((p) => p.name)) }
  }

  private keep({ step, variant }: Pick<Wanted, 'step' | 'variant'>, made: LoadedKernel): void {
    const variants = this.made.get(step.kernel) ?? new Map<string, LoadedKernel>()
    this.made.set(step.kernel, variants)
    variants.set(keyOf(variant), made)
    this.resources.hold(this.cache.letGo, this.cache.hold(made))
  }

  private wanted(step: KernelStep, variant: Variant): Wanted {
    const others = this.sources.of(step.kernel, variant)
    const first = this.next(others)
    invariant(first !== undefined, 'a kernel without a schedule')
    return { step, variant, source: first.source, others }
  }

  private next(candidates: Iterator<SourceCandidate, undefined>): SourceCandidate | undefined {
    return this.cache.timed('emit', () => candidates.next().value)
  }

  /** Puts kernels by the next of their schedules in the place of those whose registers spill, until they do not; where all spill, by that with the fewest. */
  private shrink(steps: readonly Wanted[]): void {
    let left = steps.flatMap((wanted) => {
      const kernel = this.made.get(wanted.step.kernel)?.get(keyOf(wanted.variant))
      if (kernel === undefined || kernel.source.programs === 0) return []
      const spilled = this.cache.spills(kernel)
      return spilled > toleratedBytes ? [{ wanted, spilled, kept: spilled }] : []
    })
    while (left.length > 0) {
      const tried = left.flatMap((k) => {
        const next = this.next(k.wanted.others)
        return next === undefined ? [] : [{ ...k, ...next }]
      })
      const loaded = this.cache.loadAll(tried.map((k) => k.source))
      left = tried.flatMap(({ wanted, spilled, kept, form }, i) => {
        const kernel = loaded[i]
        if (kernel === undefined) return [{ wanted, spilled, kept }]
        const now = this.cache.spills(kernel)
        const spills = now > toleratedBytes
        // Waiting for products at once costs little beside words that spill, smaller tiles some of what they spare.
        const isBetter = !spills || now < (form.waits === true ? kept : kept / 2)
        if (isBetter) this.keep(wanted, { ...kernel, replanned: { ...form, spilled } })
        return spills ? [{ wanted, spilled, kept: isBetter ? now : kept }] : []
      })
    }
    this.cache.sweep()
  }
}

/** Commands with those inside control flow; of a long loop the given steps. */
function flattened(commands: readonly Command[], stepsOf: (length: number) => readonly number[]): Command[] {
  return commands.flatMap((c): Command[] => {
    switch (c.kind) {
      case 'cond':
        return [c, ...flattened([...c.whenTrue, ...c.whenFalse], stepsOf)]
      case 'while':
        return [
          c,
          ...flattened(
            c.rounds.flatMap((r) => [...r.test, ...r.body, ...r.finish]),
            stepsOf,
          ),
        ]
      case 'repeat':
        return [c, ...stepsOf(c.length).flatMap((t) => (t < c.length ? flattened(c.at(t), stepsOf) : []))]
      default:
        return [c]
    }
  })
}

/** Launches among commands, those of control flow included (of a long loop's steps the first). */
const launchesOf = (commands: readonly Command[]): Launched[] =>
  flattened(commands, () => [0]).filter((c) => c.kind === 'launch')

/** Bases that commands write; carries of a long loop change places until its last step. */
export function writtenBases(commands: readonly Command[]): Set<number> {
  const out = new Set<number>()
  for (const c of flattened(commands, (length) => [...new Set([0, 1, length - 1])].filter((t) => t >= 0))) {
    if (c.kind === 'launch')
      c.places.forEach((p, i) => {
        if (c.step.kernel.params[i]?.access !== 'read') out.add(p.base)
      })
    else if (c.kind === 'product') out.add(c.out.base)
    else if (c.kind === 'copy') out.add(c.to.base)
    else if (c.kind === 'opaque') out.add(c.output.place.base)
  }
  return out
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
