/** Emission of kernels, once for those that are equal up to their names: each is handed the sources under its own. */
import { candidateSources, type SourceCandidate } from '../../codegen/simt/kernel.ts'
import type { Kernel } from '../../kernel/ir.ts'
import { printUnnamed } from '../../kernel/print.ts'
import type { SimtMachine } from '../../target/simt.ts'

/** What the code of a step depends on beside its kernel. */
export interface Variant {
  /** Parameters that share memory with another one, one of the two written. */
  readonly shared: ReadonlySet<string>
  /** Parameters whose memory kernels of the program write; none where kernels do not start early. */
  readonly changing: ReadonlySet<string>
}

export const keyOf = ({ shared, changing }: Variant): string => `${[...shared].join()};${[...changing].join()}`

interface Emitted {
  /** The kernel they were emitted for. */
  readonly name: string
  /** By one schedule after another, as far as anyone asked. */
  readonly made: SourceCandidate[]
  readonly more: Iterator<SourceCandidate, undefined>
}

export class EmittedSources {
  private readonly machine: SimtMachine
  /** By variant and text. */
  private readonly emitted = new Map<string, Emitted>()

  constructor(machine: SimtMachine) {
    this.machine = machine
  }

  /** The sources of a kernel by one schedule after another. */
  *of(kernel: Kernel, variant: Variant): Generator<SourceCandidate, undefined> {
    const { name, made, more } = this.find(kernel, variant)
    for (let i = 0; ; i++) {
      if (i === made.length) {
        const next = more.next().value
        if (next === undefined) return undefined
        made.push(next)
      }
      const candidate = made[i]
      if (candidate !== undefined) yield renamed(candidate, name, kernel.name)
    }
  }

  private find(kernel: Kernel, variant: Variant): Emitted {
    const key = `${keyOf(variant)};${printUnnamed(kernel)}`
    const have = this.emitted.get(key)
    if (have !== undefined) return have
    const { shared, changing } = variant
    const facts = { mayAlias: (p: string) => shared.has(p), changing: (p: string) => changing.has(p) }
    const made = { name: kernel.name, made: [], more: candidateSources(kernel, this.machine, facts) }
    this.emitted.set(key, made)
    return made
  }
}

function renamed({ source, form }: SourceCandidate, from: string, to: string): SourceCandidate {
  if (from === to) return { source, form }
  return { source: { ...source, entry: to, source: source.source.replace(new RegExp(`\\b${from}\\b`, 'g'), to) }, form }
}
