/** What a launch of a program gives the launch scalars of its kernels. */
import { InternalError } from '../diagnostics/errors.ts'
import type { Formula } from './extents.ts'
import type { KernelStep, Program } from './program.ts'

/** The formulas of a kernel's launch scalars, by name. */
export function scalarFormulas(program: Program, { kernel, buffers }: KernelStep): ReadonlyMap<string, Formula> {
  const { inputs, open } = program
  return new Map(
    (kernel.scalars ?? []).map(({ by, param, at }) => {
      const buffer = buffers[kernel.params.findIndex((p) => p.name === param)]
      const numbers = open?.numbers ?? []
      const handed = numbers[inputs.indexOf(buffer ?? -1) - (open?.first ?? inputs.length - numbers.length)]
      const formula = handed?.dtype === 'i32' ? handed.formulas[at] : undefined
      if (formula === undefined) throw new InternalError(`kernel ${kernel.name}: the program gives ${by} no value`)
      return [by, formula] as const
    }),
  )
}
