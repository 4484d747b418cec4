/**
 * The verifier of open programs: each kernel, closed at extents, over buffers of the sizes that they have there, must be a kernel. What bounds an
 * index is multilinear in the extents, so corners speak for what lies between them; of a product of launch scalars intervals alone say too little.
 */

import { invariant } from '../../diagnostics/errors.ts'
import { closeKernel } from '../../kernel/launch.ts'
import { verifyKernel } from '../../kernel/verify.ts'
import { bytesAt, type Extents, formulaAt, productAt } from '../../runtime/extents.ts'
import { scalarFormulas } from '../../runtime/launchScalars.ts'
import { verifyProduct } from '../../runtime/product.ts'
import type { KernelStep, Program } from '../../runtime/program.ts'
import { innerPrograms } from '../../runtime/region.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'

/** Throws E_KERNEL_INVALID where a kernel of a program is none at some of the given extents. */
export function verifyOpen(whole: Program, samples: readonly Extents[]): void {
  const programs = [whole]
  for (let program = programs.pop(); program !== undefined; program = programs.pop())
    for (const s of program.steps) {
      if (s.kind === 'cond' || s.kind === 'while' || s.kind === 'loop')
        programs.push(...innerPrograms(s).map((x) => x.inner.program))
      for (const at of samples)
        if (s.kind === 'kernel') verifyAt(program, s, at)
        else if (s.kind === 'product') verifyProduct({ ...s, ...productAt(s, at) }, program)
    }
}

function verifyAt(program: Program, step: KernelStep, at: Extents): void {
  const { kernel, buffers } = step
  const formulas = scalarFormulas(program, step)
  const values = new Map([...formulas].map(([by, f]) => [by, formulaAt(f, at)]))
  const closed = closeKernel(kernel, values)
  const params = closed.params.map((p, i) => {
    const buffer = program.buffers[buffers[i] ?? -1]
    invariant(buffer !== undefined, 'a parameter without buffer')
    if (buffer.varying === undefined) return p
    const [, ...apart] = p.shape
    return { ...p, shape: [bytesAt(buffer, at) / dtypeBytes(p.dtype) / sizeOf(apart), ...apart] }
  })
  verifyKernel({ ...closed, params })
}
