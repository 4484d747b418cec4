/** What a device can do, and whether it can run a kernel: asked before planning as well as before emission. */

import { UserError } from '../../diagnostics/errors.ts'
import { beyond32 } from '../../kernel/beyond32.ts'
import type { Kernel } from '../../kernel/ir.ts'
import { allStmts } from '../../kernel/walk.ts'
import type { DType } from '../../types/dtype.ts'
import type { Dialect } from './unit.ts'

/** Why a dialect cannot hold values of a dtype, or undefined. */
export function unsupportedDType(dialect: Pick<Dialect, 'f64'>, dtype: DType): string | undefined {
  if (!dialect.f64 && dtype === 'f64') return 'WebGPU has no 64-bit floats'
  return undefined
}

/** Throws E_UNSUPPORTED naming the operation that a dialect lacks. */
export function checkKernel(kernel: Kernel, dialect: Dialect): void {
  const fail = (what: string, why: string, remedy: string): never => {
    throw new UserError('E_UNSUPPORTED', `${what} of the kernel ${kernel.name}: ${why}`, {
      help: `${remedy}, or run this program on another device`,
    })
  }
  const check = (dtype: DType, what: string): void => {
    const why = unsupportedDType(dialect, dtype)
    if (why !== undefined) fail(what, why, 'use another dtype')
  }
  for (const p of kernel.params) check(p.dtype, `the parameter ${p.name}`)
  if (!dialect.wideIndex) {
    const wide = beyond32(kernel)
    if (wide !== undefined)
      fail(
        wide.what,
        `${wide.why} does not fit 32 bits, which is all WebGPU has`,
        'work on smaller pieces of the tensor',
      )
  }
  for (const part of kernel.parts)
    for (const s of allStmts(part.body))
      if (s.kind === 'let') check(s.dtype, `the operation ${s.op.kind === 'scalar' ? s.op.op : s.op.kind}`)
}
