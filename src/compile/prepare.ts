/** Compiling for a backend: products that its library turns out to have no algorithm for become kernels. */

import { compiling } from '../host/engine.ts'
import { type Backend, type Executable, ProductRefused } from '../runtime/backend.ts'
import type { Program } from '../runtime/program.ts'
import { kernelsOf } from '../runtime/region.ts'
import type { LibraryInfo, Machine } from '../target/machine.ts'

export interface CompiledFor<C> {
  readonly compiled: C
  readonly executable: Executable
  /** The target with what the library refused: later compilations need not ask again. */
  readonly target: Machine
}

/** Compiles by `compile` and prepares; what the library refuses is told to the planner, whose report says so. */
export function compileFor<C extends { readonly program: Program }>(
  backend: Backend,
  target: Machine,
  compile: (target: Machine) => C,
): CompiledFor<C> {
  let current = target
  for (;;) {
    const compiled = compile(current)
    const { program } = compiled
    try {
      const executable = compiling(statementsOf(program), () => backend.prepare(program))
      return { compiled, executable, target: current }
    } catch (e) {
      const { library } = current
      if (!(e instanceof ProductRefused) || library === undefined || library.refused?.has(e.key) === true) throw e
      current = { ...current, library: refusing(library, e) }
    }
  }
}

const statementsOf = (program: Program): number =>
  kernelsOf(program).reduce((n, { step }) => step.kernel.parts.reduce((m, p) => m + p.body.length, n), 0)

const refusing = (library: LibraryInfo, e: ProductRefused): LibraryInfo => ({
  ...library,
  refused: new Map([...(library.refused ?? []), [e.key, e.message]]),
})
