/**
 * The kernels of a launch plan: emitted for what their parameters share, compiled meanwhile beside each other; where registers spill, by the next of
 * their schedules.
 */
import type { SourceCandidate } from '../../codegen/simt/kernel.ts'
import { invariant } from '../../diagnostics/errors.ts'
import type { Kernel } from '../../kernel/ir.ts'
import { allStmts } from '../../kernel/walk.ts'
import { type Command, overlapping, type Place } from '../../runtime/commands.ts'
import type { KernelStep } from '../../runtime/program.ts'
import type { Resources } from '../../runtime/resources.ts'
import type { SimtMachine } from '../../target/simt.ts'
import type { KernelCache } from './compile.ts'
import { EmittedSources, keyOf, type Variant } from './emitted.ts'
import type { LoadedKernel, Loading } from './loading.ts'

type Launched = Extract<Command, { kind: 'launch' }>

/** A few words kept in the first-level cache cost less than smaller tiles, and than compiling again. */
const toleratedBytes = 32

/** Statements that the code of a matrix product takes as long to compile as, about. */
const statementsOfProduct = 30

/** How much code a kernel becomes, to order kernels by. */
function codeOf({ parts }: Kernel): number {
  let code = 0
  for (const { body } of parts)
    for (const s of allStmts(body)) code += s.kind === 'let' && s.op.kind === 'dot' ? statementsOfProduct : 1
  return code
}

/** A kernel that is to be. */
interface Wanted {
  readonly step: KernelStep
  readonly variant: Variant
  /** The schedules that are left to try. */
  readonly others: Iterator<SourceCandidate, undefined>
  /** The best so far. */
  kernel?: LoadedKernel
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

  /** Compiles the kernels that the commands of a program launch, beside each other and while others are emitted. Comes before `of`. */
  prepare(commands: readonly Command[]): void {
    this.written = writtenBases(commands)
    const loading = this.cache.loading()
    try {
      this.settle(this.askAll(commands, loading), loading)
    } catch (e) {
      loading.drop()
      throw e
    }
  }

  /** Asks for kernels, those of most code first, so that what is left for the end is short; they are given in the order of the program. */
  private askAll(commands: readonly Command[], loading: Loading): readonly Wanted[] {
    const missing: { readonly step: KernelStep; readonly variant: Variant; readonly code: number }[] = []
    const seen = new Map<Kernel, Set<string>>()
    for (const { step, places } of launchesOf(commands)) {
      const variant = this.variantOf(step, places)
      const key = keyOf(variant)
      const keys = seen.get(step.kernel) ?? new Set()
      seen.set(step.kernel, keys)
      if (keys.has(key) || this.made.get(step.kernel)?.has(key) === true) continue
      keys.add(key)
      missing.push({ step, variant, code: codeOf(step.kernel) })
    }
    const wanted: Wanted[] = []
    for (const [i, { step, variant }] of [...missing.entries()].sort(([, p], [, q]) => q.code - p.code)) {
      wanted[i] = this.ask(step, variant, loading)
      loading.next()
    }
    return wanted
  }

  /** The kernel of a step; its code depends on the memory its parameters stand in. */
  of(step: KernelStep, places: readonly Place[]): LoadedKernel {
    const variant = this.variantOf(step, places)
    const key = keyOf(variant)
    const find = (): LoadedKernel | undefined => this.made.get(step.kernel)?.get(key)
    const have = find()
    if (have !== undefined) return have
    const loading = this.cache.loading()
    const wanted = this.ask(step, variant, loading)
    this.settle([wanted], loading)
    const made = find()
    invariant(made !== undefined, 'a kernel that was asked for is not there')
    return made
  }

  all(): LoadedKernel[] {
    return [...this.made.values()].flatMap((v) => [...v.values()])
  }

  private variantOf(step: KernelStep, places: readonly Place[]): Variant {
    const changing = step.kernel.params.filter((_, i) => this.waits && this.written.has(places[i]?.base ?? -1))
    return { shared: sharing(step, places), changing: new Set(changing.map((p) => p.name)) }
  }

  private keep(step: KernelStep, variant: Variant, made: LoadedKernel): void {
    const variants = this.made.get(step.kernel) ?? new Map<string, LoadedKernel>()
    this.made.set(step.kernel, variants)
    variants.set(keyOf(variant), made)
    this.resources.hold(this.cache.letGo, this.cache.hold(made))
  }

  /** Asks for the kernel of a step, by the first of its schedules and, while its registers spill, by the next. */
  private ask(step: KernelStep, variant: Variant, loading: Loading): Wanted {
    const others = this.sources.of(step.kernel, variant)
    const first = this.next(others)
    invariant(first !== undefined, 'a kernel without a schedule')
    const wanted: Wanted = { step, variant, others }
    loading.ask(first.source, (kernel) => {
      wanted.kernel = kernel
      const spilled = kernel.source.programs === 0 ? 0 : this.cache.spills(kernel)
      if (spilled > toleratedBytes) this.again(wanted, spilled, spilled, loading)
    })
    return wanted
  }

  private next(candidates: Iterator<SourceCandidate, undefined>): SourceCandidate | undefined {
    return this.cache.timed('emit', () => candidates.next().value)
  }

  /**
   * Puts the kernel by the next of its schedules in the place of one whose registers spill, until it does not; where all spill, that with the fewest. Of
   * the first `spilled` bytes are, of the one that is kept so far `kept`.
   */
  private again(wanted: Wanted, spilled: number, kept: number, loading: Loading): void {
    const next = this.next(wanted.others)
    if (next === undefined) return
    const { source, form } = next
    const take = (kernel: LoadedKernel): void => {
      const now = this.cache.spills(kernel)
      const spills = now > toleratedBytes
      // Waiting for products at once costs little beside words that spill, smaller tiles some of what they spare.
      const isBetter = !spills || now < (form.waits === true ? kept : kept / 2)
      if (isBetter) wanted.kernel = { ...kernel, replanned: { ...form, spilled } }
      if (spills) this.again(wanted, spilled, isBetter ? now : kept, loading)
    }
    loading.ask(source, take, true)
  }

  /** Keeps what was asked for, once all of it is there. */
  private settle(wanted: readonly Wanted[], loading: Loading): void {
    loading.end()
    for (const { step, variant, kernel } of wanted) {
      invariant(kernel !== undefined, 'a kernel that was asked for is not there')
      this.keep(step, variant, kernel)
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
