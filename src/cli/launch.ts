/** A kernel of a program as a GPU launches it: with what is known of where its parameters stand. */
import { shareParams } from '../backends/webgpu/aliases.ts'
import type { LaunchFacts } from '../codegen/simt/ir/code.ts'
import type { Kernel } from '../kernel/ir.ts'
import { commandsOf, overlapping } from '../runtime/commands.ts'
import type { kernelsOf } from '../runtime/region.ts'
import type { Language } from '../target/simt.ts'

export function launchOf(
  { step, program }: ReturnType<typeof kernelsOf>[number],
  language: Language,
): { readonly kernel: Kernel; readonly launch: LaunchFacts } {
  const { places } = commandsOf({ ...program, steps: [] }, { alignment: 16 })
  const bound = step.buffers.map((b) => places[b] ?? { base: -1, offset: 0, bytes: 0 })
  const joined = shareParams(step.kernel, bound)
  const shared = new Set(
    step.kernel.params.flatMap((p, i) => {
      const mine = bound[i]
      return bound.some((x, k) => k !== i && mine !== undefined && overlapping(x, mine)) ? [p.name] : []
    }),
  )
  const launch = { mayAlias: (p: string) => shared.has(p), writable: (p: string) => joined.writable.has(p) }
  return { kernel: language === 'wgsl' ? joined.kernel : step.kernel, launch }
}
