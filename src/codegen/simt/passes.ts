/** What is done to thread code between emission and printing, in order. */
import { debug } from '../../schedule/debug.ts'
import { dialects } from './dialects/table.ts'
import type { ThreadCode } from './ir/code.ts'
import { verifyThreadCode } from './ir/verify.ts'
import { alignedQuotients } from './passes/alignedQuotients.ts'
import { calledFunctions } from './passes/calledFunctions.ts'
import { hoistCopyAddresses } from './passes/copyAddresses.ts'
import { foldExtremes } from './passes/foldExtremes.ts'
import { groupLoads } from './passes/groupLoads.ts'
import { withoutIdleBarriers } from './passes/idleBarriers.ts'
import { movedHalves } from './passes/movedHalves.ts'
import { repeatLoops } from './passes/repeatLoops.ts'
import { shareReciprocals } from './passes/shareReciprocals.ts'
import type { Dialect } from './unit.ts'

interface Pass {
  readonly name: string
  /** Whether it has anything to do. */
  readonly when: (code: ThreadCode, dialect: Dialect) => boolean
  readonly run: (code: ThreadCode) => Partial<ThreadCode>
}

export const passes: readonly Pass[] = [
  {
    // Exchanges end with barriers that guard their slots: those that guard them against nothing go.
    name: 'idleBarriers',
    when: () => true,
    run: ({ body, shared }) => ({
      body: withoutIdleBarriers(body, new Set(shared.flatMap((a) => (a.own === true ? [] : [a.name])))),
    }),
  },
  {
    // What of the addresses of background copies no iteration of a loop changes is found before the loop.
    name: 'copyAddresses',
    when: ({ machine }) => machine.hasAsyncCopy,
    run: ({ body }) => ({ body: hoistCopyAddresses(body) }),
  },
  {
    // Special functions that would stand in many places are called, so that compiling stays a matter of a second.
    name: 'calledFunctions',
    when: (_, dialect) => dialect.inlinesFunctions,
    run: ({ body }) => ({ called: calledFunctions(body) }),
  },
  {
    // Values that are folded by max or min one by one are folded together, so that NaN is tested for once.
    name: 'foldExtremes',
    when: (_, dialect) => dialect.foldsExtremes,
    run: ({ body }) => ({ body: foldExtremes(body) }),
  },
  {
    // The reciprocal of what a loop divides by is taken once.
    name: 'shareReciprocals',
    when: ({ kernel }, dialect) => dialect.sharesReciprocals && kernel.mode === 'fast',
    run: ({ body }) => ({ body: shareReciprocals(body) }),
  },
  {
    // Halves that are copied into tiles of matrices are not converted.
    name: 'movedHalves',
    when: ({ machine }) => machine.hasSubgroupMatrices,
    run: ({ body }) => ({ body: movedHalves(body) }),
  },
  {
    // Loops over registers are written out where compilers do not unroll them.
    name: 'repeatLoops',
    when: ({ machine }) => machine.unrollsInPlace,
    run: ({ body }) => ({ body: repeatLoops(body) }),
  },
  {
    // Neighbours that a thread writes into tiles of matrices together are in one place of what their index is divided by.
    name: 'alignedQuotients',
    when: ({ machine }) => machine.hasSubgroupMatrices,
    run: ({ body }) => ({ body: alignedQuotients(body) }),
  },
  {
    // Loads of several points go out before code with branches that each of them computes.
    name: 'groupLoads',
    when: (_, dialect) => dialect.inlinesFunctions,
    run: ({ body }) => ({ body: groupLoads(body) }),
  },
]

/** Code as the printers take it. */
export function runPasses(emitted: ThreadCode): ThreadCode {
  const { facts } = dialects[emitted.machine.language]
  let code = emitted
  for (const pass of passes) {
    if (!pass.when(code, facts)) continue
    code = { ...code, ...pass.run(code) }
    if (debug.verify) verifyThreadCode(code)
  }
  return code
}
