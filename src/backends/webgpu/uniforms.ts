/**
 * Single values, and launch scalars, bound as uniform buffers, of which a kernel may have more than its storage buffers: what all tensors of an
 * optimiser step read (its number, a rate) takes no place of theirs.
 */
import { scalarParams } from '../../codegen/simt/kernel.ts'
import type { KernelParam } from '../../kernel/ir.ts'
import type { Base, Place } from '../../runtime/commands.ts'
import { isSingleWord } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import type { SharedParams } from './aliases.ts'

/** Uniform buffers that every WebGPU device binds a stage. */
export const uniformBuffers = 12

/** Whether a base is the buffer of one input, result or constant. */
const isOwn = (base: Base | undefined): boolean =>
  base?.kind === 'input' || base?.kind === 'output' || base?.kind === 'constant'

/**
 * Parameters that are one value, or launch scalars, read alone, in memory of their own: with the memory of a program's intermediates a kernel may do
 * something else at the same time.
 */
export function uniformParams(
  { kernel, places, writable, copied }: SharedParams,
  bases: readonly Base[],
): ReadonlySet<string> {
  const launched = scalarParams(kernel)
  const mayBe = (p: KernelParam, at: Place | undefined): boolean =>
    p.access === 'read' &&
    p.format === 'plain' &&
    (launched.has(p.name) || isSingleWord(p.dtype, sizeOf(p.shape))) &&
    !writable.has(p.name) &&
    !copied.has(p.name) &&
    at?.offset === 0 &&
    isOwn(bases[at.base])
  const names = kernel.params.flatMap((p, i) => (mayBe(p, places[i]) ? [p.name] : []))
  const first = names.filter((n) => launched.has(n))
  return new Set([...first, ...names].slice(0, uniformBuffers))
}
