/** Asking for the rows of programs to come (src/schedule/simt/layout/nextProgram.ts says which). */
import { type Expr, strideOf, valuesOf } from '../../../affine/expr.ts'
import type { KernelParam } from '../../../kernel/ir.ts'
import { add, type Block, type Ex, int, lt } from '../ir/ir.ts'
import type { Unit } from '../unit.ts'

/** Asks for what a load at a position reads in the program to come. */
export function prefetchNext({ next, program }: Unit, p: KernelParam, flat: Expr, at: Ex, out: Block): void {
  if (next === undefined) return
  const stride = strideOf(flat, next.axis)
  if (stride === undefined || stride === 0 || valuesOf(flat).size > 0 || p.format !== 'plain') return
  const index = add(at, int(stride * next.distance))
  const address: Ex = { k: 'address', type: 'u64', of: p.name, index }
  const exists = lt(program, int(next.below))
  out.push({ k: 'if', cond: exists, body: [{ k: 'call', fn: 'prefetch', args: [address] }], otherwise: [] })
}
