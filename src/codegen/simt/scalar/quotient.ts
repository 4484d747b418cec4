/** Quotients of places by powers of two: multiples are divided apart, so that constants stay constants. */
import { bin, constantOf, type Ex, indexConstantOf, int, lit, uint } from '../ir/ir.ts'

/** e / n where every part of e is seen to be a multiple of n. */
function exactQuotient(e: Ex, n: number): Ex | undefined {
  const c = constantOf(e) ?? indexConstantOf(e)
  if (c !== undefined) return c % n === 0 ? lit(e.type, c / n) : undefined
  if (e.k !== 'bin') return undefined
  if (e.op === '*') {
    const by = constantOf(e.b) ?? indexConstantOf(e.b)
    return by !== undefined && by % n === 0 ? bin('*', e.a, lit(e.type, by / n)) : undefined
  }
  if (e.op !== '+') return undefined
  const [a, b] = [exactQuotient(e.a, n), exactQuotient(e.b, n)]
  return a === undefined || b === undefined ? undefined : bin('+', a, b)
}

/** Floor quotient by a power of two; multiples in a sum are divided apart, so that constants stay constants. */
export function quotient(e: Ex, n: number): Ex {
  if (n === 1) return e
  const exact = exactQuotient(e, n)
  if (exact !== undefined) return exact
  if (e.k === 'bin' && e.op === '+') {
    const [a, b] = [exactQuotient(e.a, n), exactQuotient(e.b, n)]
    if (b !== undefined) return bin('+', quotient(e.a, n), b)
    if (a !== undefined) return bin('+', a, quotient(e.b, n))
  }
  return bin('>>', e, uint(Math.log2(n)))
}

/** Floor quotient by any number, of what is not negative. */
export const divided = (e: Ex, n: number): Ex => (Number.isInteger(Math.log2(n)) ? quotient(e, n) : bin('/', e, int(n)))
