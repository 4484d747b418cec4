/** Steps with programs inside: what they hold, where their carries go, and the kernels within. */
import type { CarryPlace, InnerProgram, InnerRole, KernelStep, Program, RegionStep } from './program.ts'

/** The programs inside a step, named as reports name them. */
export function innerPrograms(s: RegionStep): readonly { readonly role: InnerRole; readonly inner: InnerProgram }[] {
  switch (s.kind) {
    case 'cond':
      return [
        { role: 'then', inner: s.whenTrue },
        { role: 'otherwise', inner: s.whenFalse },
      ]
    case 'while':
      return [
        { role: 'test', inner: s.test },
        { role: 'body', inner: s.body },
      ]
    case 'loop':
      return [{ role: 'body', inner: s.body }]
  }
}

/**
 * Where step number `step` of a loop of `length` writes a carry: the last one writes the result. It reads what the one before
 * wrote, and the first one `init`.
 */
export const writtenPlace = (c: CarryPlace, step: number, length: number): number =>
  c.spare === undefined || (length - 1 - step) % 2 === 0 ? c.result : c.spare

/** Whether an inner program may place an output on an input's memory (both by number). */
export function writesOver(program: Program, output: number, input: number): boolean {
  const source = program.buffers[program.outputs[output] ?? -1]?.source
  return source?.kind === 'output' && source.over !== undefined && source.over === program.inputs[input]
}

/** Whether code of the user runs inside a program: kernels of theirs, and callbacks that see values. */
export function callsHost({ steps }: Program): boolean {
  return steps.some((s) => {
    if (s.kind === 'opaque' || s.kind === 'inspect') return true
    return (
      (s.kind === 'cond' || s.kind === 'while' || s.kind === 'loop') &&
      innerPrograms(s).some((x) => callsHost(x.inner.program))
    )
  })
}

/** The kernels of a program and of the programs inside it, each once. */
export function kernelsOf(program: Program): { readonly step: KernelStep; readonly program: Program }[] {
  return program.steps.flatMap((step) => {
    if (step.kind === 'kernel') return [{ step, program }]
    if (step.kind === 'cond' || step.kind === 'while' || step.kind === 'loop')
      return innerPrograms(step).flatMap((x) => kernelsOf(x.inner.program))
    return []
  })
}
