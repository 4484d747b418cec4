/**
 * Constants of loops. Some engines write a vector constant anew at every use (V8 since 13: four instructions, half of a polynomial's time), and
 * take what is loaded from memory for a value that stands in a register or beside the stack. So constants go through scratch once, where a function begins.
 */
import type { Expr, Statement, VectorFunction } from '../vector/ir/ir.ts'
import { bodiesOf, expressionsOf, operandsOf } from '../vector/ir/walk.ts'

type Constant = Extract<Expr, { readonly kind: 'const' }>

/** Bytes of a vector. */
export const vectorBytes = 16

/** Constants that a kernel's function keeps, and the bytes behind scratch's beginning where they go through memory. */
export interface KeptConstants {
  readonly constants: ReadonlyMap<string, Constant>
  readonly offset: number
}

/** Constants that a function keeps at most. */
const mostKept = 128

export const constantKey = ({ type, value }: Constant): string => `${type.name} ${String(value)}`

/** Vectors that loops of a function use and that take more than an instruction, by key: zeros and ones in all bits take one. */
export function loopConstants(fn: VectorFunction): ReadonlyMap<string, Constant> {
  const found = new Map<string, Constant>()
  const expression = (e: Expr): void => {
    if (e.kind === 'register') return
    if (e.kind === 'const') {
      const isPlain =
        (e.value === 0 && !Object.is(e.value, -0)) || e.value === 0n || (e.type.element !== 'f32' && e.value === -1)
      if (e.type.bank === 'vector' && !isPlain && found.size < mostKept) found.set(constantKey(e), e)
      return
    }
    if (e.kind === 'let') statements(e.body, true)
    // Most are registers and numbers of addresses.
    for (const x of operandsOf(e))
      if (x.kind !== 'register' && (x.kind !== 'const' || x.type.bank === 'vector')) expression(x)
  }
  const statements = (list: readonly Statement[], isInLoop: boolean): void => {
    for (const s of list) {
      if (s.kind === 'assign') {
        if (isInLoop) expression(s.value)
        continue
      }
      const loops = s.kind === 'for' || s.kind === 'repeat' || s.kind === 'until'
      if (isInLoop || s.kind === 'repeat' || s.kind === 'until') for (const e of expressionsOf(s)) expression(e)
      for (const body of bodiesOf(s)) statements(body, isInLoop || loops)
    }
  }
  statements(fn.body, false)
  return found
}
