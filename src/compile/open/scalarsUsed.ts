/** The launch scalars that a kernel names: as extents of its axes, and in its index maps. */

import { type Expr, visitAtoms } from '../../affine/expr.ts'
import type { Kernel } from '../../kernel/ir.ts'
import { allStmts, expressionsOf } from '../../kernel/walk.ts'

export function scalarsUsed(kernel: Kernel): ReadonlySet<string> {
  const out = new Set<string>()
  const take = (e: Expr): void =>
    visitAtoms(e, (a) => {
      if (a.kind === 'scaled') out.add(a.by)
      else if (a.kind === 'value' && a.open !== undefined) out.add(a.open)
    })
  for (const part of kernel.parts) {
    for (const { open } of part.axes) if (open !== undefined) out.add(open)
    for (const s of allStmts(part.body))
      if (s.kind === 'let') expressionsOf(s.op).forEach(take)
      else if (s.kind === 'store') {
        s.index.forEach(take)
        for (const b of s.mask) take(b.expr)
      }
  }
  return out
}
