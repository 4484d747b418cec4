/**
 * Quotients of neighbours: where a place is a multiple of eight, and a quotient is by one, so are its next seven in the same eight. What is the same for all of them
 * is written the same, and their remainders lie side by side, so that a compiler finds both once.
 */
import { gcd } from '../../../affine/gcd.ts'
import { add, bin, constantOf, type Ex, lit, type S } from '../ir/ir.ts'
import { mapBodies, mapExpressions, rewriteEx } from '../ir/walk.ts'

/** What an integer is a multiple of, by what its names are; 0 of zero, 1 of what is no integer. */
function multipleOf(e: Ex, names: ReadonlyMap<string, number>): number {
  const c = constantOf(e)
  if (c !== undefined) return Math.abs(c)
  if (e.k === 'var') return names.get(e.name) ?? 1
  if (e.k === 'cast') return multipleOf(e.a, names)
  if (e.k !== 'bin') return 1
  const [a, b] = [multipleOf(e.a, names), multipleOf(e.b, names)]
  if (e.op === '+' || e.op === '-') return gcd(a, b)
  if (e.op === '*') return a * b
  const by = constantOf(e.b)
  return e.op === '<<' && by !== undefined ? a * 2 ** by : 1
}

/** The constant of a sum that goes beyond a multiple of `group`: less than it. */
function beyond(e: Ex, group: number, names: ReadonlyMap<string, number>): number {
  if (e.k === 'cast') return beyond(e.a, group, names)
  if (e.k !== 'bin' || e.op !== '+')
    return multipleOf(e, names) % group === 0 ? 0 : (constantOf(e) ?? Number.NaN) % group
  return beyond(e.a, group, names) + beyond(e.b, group, names)
}

/** A sum without what its constants go beyond multiples of `group`. */
function without(e: Ex, group: number): Ex {
  if (e.k === 'cast') return { ...e, a: without(e.a, group) }
  if (e.k === 'bin' && e.op === '+') return add(without(e.a, group), without(e.b, group))
  const c = constantOf(e)
  return c === undefined ? e : lit(e.type, c - (c % group))
}

/** Neighbours that are taken together: what threads have of a group of 16 bytes. */
const group = 8

/** The quotient or remainder of the multiple in place of that of a neighbour. */
function ofMultiple(e: Ex, names: ReadonlyMap<string, number>): Ex {
  if (e.k !== 'bin') return e
  const by = constantOf(e.b)
  if (by === undefined || by <= 0) return e
  const divisor = e.op === '>>' ? 2 ** by : e.op === '&' ? by + 1 : by
  const isRest = e.op === '%' || (e.op === '&' && Number.isInteger(Math.log2(divisor)))
  if (!isRest && e.op !== '>>' && e.op !== '/') return e
  const c = beyond(e.a, group, names)
  if (divisor % group !== 0 || !(c > 0 && c < group)) return e
  const same = bin(e.op, without(e.a, group), e.b)
  return isRest ? add(same, lit(e.type, c)) : same
}

export function alignedQuotients(stmts: readonly S[], known: ReadonlyMap<string, number> = new Map()): readonly S[] {
  const names = new Map(known)
  return stmts.map((s) => {
    const changed = mapExpressions(s, (e) => rewriteEx(e, (x) => ofMultiple(x, names)))
    if (changed.k === 'let') names.set(changed.name, multipleOf(changed.value, names))
    if (changed.k === 'for') names.set(changed.name, gcd(multipleOf(changed.from, names), changed.step))
    return mapBodies(changed, (b) => alignedQuotients(b, names))
  })
}
