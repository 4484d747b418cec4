/**
 * The number of a program among those of its part, in a kernel of several parts.
 *
 * NVIDIA's compiler takes a multiple of a block's number to fit 32 bits, signed or unsigned, whatever is added to it: of an address at
 * `(program - first) * k + c`, widened to 64 bits, it makes one at `program * k`, widened, less `first * k - c`. Where `program * k` does
 * not fit, that address is 2^32 elements off. There the number is hidden from it.
 */
import { type Expr, flatten, visitAtoms } from '../../affine/expr.ts'
import { startOf } from '../../kernel/axes.ts'
import { most32, termRange } from '../../kernel/indexType.ts'
import type { KernelParam, KernelPart } from '../../kernel/ir.ts'
import { allStmts, expressionsOf } from '../../kernel/walk.ts'
import { call, type Ex } from './ir/ir.ts'

/** The number itself, which no compiler knows anything of. */
export const hidden = (own: Ex): Ex => call(own.type, `${own.type}_runtime`, own)

/** The index expressions of a part, positions in memory among them. */
function* expressions(part: KernelPart, params: ReadonlyMap<string, KernelParam>): Generator<Expr> {
  const position = (param: string, index: readonly Expr[]): Expr => flatten(index, params.get(param)?.shape ?? [])
  for (const s of allStmts(part.body)) {
    if (s.kind === 'loop') continue
    if (s.kind === 'store') {
      yield position(s.param, s.index)
      for (const b of s.mask) yield b.expr
    } else {
      yield* expressionsOf(s.op)
      if (s.op.kind === 'load') yield position(s.op.param, s.op.index)
    }
  }
}

/** How far an expression goes where the axis goes to `most`. */
function reachOf(e: Expr, axis: string, most: number): number {
  let sum = 0
  for (const t of e.terms) {
    const { atom } = t
    if (atom.kind === 'scaled') {
      sum += Math.abs(t.coef) * atom.most * reachOf(atom.of, axis, most)
      continue
    }
    const isOn = atom.kind === 'axis' && (startOf(atom.name) ?? atom.name) === axis
    const { lo, hi } = termRange(t)
    sum += isOn ? Math.abs(t.coef) * most : Math.max(-lo, hi)
  }
  return sum
}

/**
 * Whether something that a part computes in 32 bits leaves them where its programs, the last of which is the kernel's program
 * `end - 1`, are counted from the kernel's first. The numbers of blocks along several axes are quotients and remainders: those stay.
 */
export function leaves32(part: KernelPart, params: ReadonlyMap<string, KernelParam>, end: number): boolean {
  const open = part.grid.filter((g) => (part.axes.find((a) => a.name === g.axis)?.extent ?? 1) > g.block)
  const [only] = open
  if (only === undefined || open.length > 1) return false
  const most = end * only.block
  if (most > most32) return true
  for (const e of expressions(part, params)) {
    let reach = reachOf(e, only.axis, most)
    visitAtoms(e, (a) => {
      if (a.kind === 'div' || a.kind === 'mod') reach = Math.max(reach, reachOf(a.of, only.axis, most))
    })
    if (reach > most32) return true
  }
  return false
}
