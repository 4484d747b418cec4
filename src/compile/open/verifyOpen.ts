/**
 * The verifier of open programs: each kernel, closed at extents, over buffers of the sizes that they have there, must be a kernel. What bounds an
 * index is multilinear in the extents, so corners speak for what lies between them; of a product of launch scalars intervals alone say too little.
 */

import { invariant } from '../../diagnostics/errors.ts'
import { closeKernel } from '../../kernel/launch.ts'
import { verifyKernel } from '../../kernel/verify.ts'
import { bytesAt, type Extents, formulaAt, productAt } from '../../runtime/extents.ts'
import { verifyProduct } from '../../runtime/product.ts'
import type { KernelStep, Program } from '../../runtime/program.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'

/** Throws E_KERNEL_INVALID where a kernel of a program is none at some of the given extents. */
export function verifyOpen(program: Program, samples: readonly Extents[]): void {
  for (const s of program.steps)
    for (const at of samples)
      if (s.kind === 'kernel') verifyAt(program, s, at)
      else if (s.kind === 'product') verifyProduct({ ...s, ...productAt(s, at) }, program)
}

function verifyAt(program: Program, { kernel, buffers }: KernelStep, at: Extents): void {
  const [whole] = program.open?.numbers ?? []
  const formulas = whole?.dtype === 'i32' ? whole.formulas : []
  const values = new Map(
    (kernel.scalars ?? []).map((s) => {
      const formula = formulas[s.at]
      invariant(formula !== undefined, `${s.by} has no formula`)
      return [s.by, formulaAt(formula, at)] as const
    }),
  )
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
