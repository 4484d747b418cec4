/** A library's product whose extents vary: the calls that it is at each sample as one, of formulas. */

import type { LibraryCall } from '../../plan/plan.ts'
import { type Extents, type Formula, productAt, type VaryingProduct } from '../../runtime/extents.ts'
import { type StridedMatrix, standsOnAddend } from '../../types/product.ts'
import type { Fitter } from './fit.ts'

/** A call at the greatest extents, and what of it varies. */
export interface OpenCall {
  readonly call: LibraryCall
  /** Absent where nothing varies. */
  readonly varying: VaryingProduct | undefined
}

const matrixForm = ({ dtype, order }: StridedMatrix): string => `${dtype} ${order}`

/** What of a call is the same at all extents. */
const formOf = (call: LibraryCall): string => {
  const { product, calls, a, b, addend } = call
  return [
    a,
    b,
    addend,
    calls.length,
    product.alpha,
    product.addend?.beta,
    standsOnAddend(call),
    product.precision,
    ...[product.a, product.b, product.out].map((x) => matrixForm(x)),
  ].join()
}

/** The call that those at each sample of a fitter are, if they are one. */
export function openCall(
  calls: readonly (LibraryCall | undefined)[],
  fitter: Fitter,
  greatest: Extents,
): OpenCall | undefined {
  const [first] = calls
  if (first === undefined) return undefined
  const form = formOf(first)
  const all = calls.flatMap((c) => (c !== undefined && formOf(c) === form ? [c] : []))
  if (all.length < calls.length) return undefined
  const numbers = (c: LibraryCall): string => JSON.stringify([c.product, c.calls])
  if (all.every((c) => numbers(c) === numbers(first))) return { call: first, varying: undefined }
  let isWhole = true
  const formula = (of: (c: LibraryCall) => number): Formula => {
    const found = fitter.whole(all.map(of))
    isWhole &&= found !== undefined
    return found ?? { of: [], by: 1, rounds: 'down' }
  }
  const matrix = (of: (c: LibraryCall) => StridedMatrix): VaryingProduct['a'] => ({
    leading: formula((c) => of(c).leading),
    batch: formula((c) => of(c).batch),
  })
  const isAdded = first.product.addend !== undefined
  const varying: VaryingProduct = {
    batches: formula((c) => c.product.batches),
    m: formula((c) => c.product.m),
    n: formula((c) => c.product.n),
    k: formula((c) => c.product.k),
    a: matrix((c) => c.product.a),
    b: matrix((c) => c.product.b),
    out: matrix((c) => c.product.out),
    ...(isAdded ? { addend: matrix((c) => c.product.addend ?? c.product.out) } : {}),
    calls: first.calls.map((_, i) => ({
      a: formula((c) => c.calls[i]?.a ?? 0),
      b: formula((c) => c.calls[i]?.b ?? 0),
      out: formula((c) => c.calls[i]?.out ?? 0),
      ...(isAdded ? { addend: formula((c) => c.calls[i]?.addend ?? 0) } : {}),
    })),
  }
  return isWhole ? { call: { ...first, ...productAt({ ...first, varying }, greatest) }, varying } : undefined
}
