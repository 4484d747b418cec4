/** Types of tensors some of whose extents vary from call to call: dimensions by name. */

import { UserError } from '../../diagnostics/errors.ts'
import { shown } from '../../diagnostics/shown.ts'
import { checkDType, type DType } from '../../types/dtype.ts'
import { extentsOf, sizeOf } from '../../types/shape.ts'
import { placed } from '../calls/place.ts'

/** An extent that varies from call to call. `dim` makes one. */
export class Dim {
  /** What errors and reports call it; one name is one extent. */
  readonly name: string
  /** The least it is. */
  readonly least: number
  /** The most it is, if that is known. */
  readonly most: number | undefined
  /** Where it is a sum: the dimensions and the number that are added. */
  readonly sum: { readonly of: readonly Dim[]; readonly plus: number } | undefined
  constructor(name: string, least: number, most: number | undefined, sum?: Dim['sum']) {
    const fail = (summary: string): never => {
      throw new UserError('E_ARGUMENT', summary, { help: "write dim('batch', 1, 64): a name, and whole bounds" })
    }
    if (typeof name !== 'string' || name === '') fail(`the name of a dimension is ${shown(name)}`)
    if (!Number.isSafeInteger(least) || least < 0) fail(`the least of the dimension ${name} is ${shown(least)}`)
    if (most !== undefined && !(Number.isSafeInteger(most) && most >= least))
      fail(`the most of the dimension ${name} is ${shown(most)}`)
    this.name = name
    this.least = least
    this.most = most
    this.sum = sum
  }

  /**
   * The sum of this extent and another, or a number: what a mask over past and new tokens is long. No extent of its own: other arguments have its terms.
   * @throws E_ARGUMENT for what is no dimension and no whole number of at least 0
   * @example
   * const [past, fresh] = [dim('past', 0, 64), dim('new', 1, 8)]
   * past.plus(fresh).most // 72
   */
  plus(other: Dim | number): Dim {
    return placed(() => {
      const isDim = (other as unknown) instanceof Dim
      if (!isDim && !(Number.isSafeInteger(other) && Number(other) >= 0))
        throw new UserError('E_ARGUMENT', `${this.name} plus ${shown(other)}`, {
          help: 'add another dimension, or a whole number',
        })
      const parts = [this, other].map((x) =>
        typeof x === 'number'
          ? { of: [], plus: x, name: String(x), least: x, most: x }
          : { ...(x.sum ?? { of: [x], plus: 0 }), name: x.name, least: x.least, most: x.most },
      )
      const total = (of: (p: (typeof parts)[number]) => number): number => parts.reduce((n, p) => n + of(p), 0)
      const isBound = parts.every((p) => p.most !== undefined)
      return new Dim(
        parts.map((p) => p.name).join(' + '),
        total((p) => p.least),
        isBound ? total((p) => p.most ?? 0) : undefined,
        { of: parts.flatMap((p) => p.of), plus: total((p) => p.plus) },
      )
    })
  }
}

/** Shape and dtype of tensors some of whose extents vary. `spec` makes one of a shape with a `Dim` in it. */
export class OpenSpec {
  /** Its extents: numbers, and dimensions that vary. */
  readonly shape: readonly (number | Dim)[]
  /** Its element type. */
  readonly dtype: DType
  constructor(shape: readonly (number | Dim)[], dtype: DType) {
    const numbers = extentsOf(shape.map((d) => (d instanceof Dim ? d.least : d)))
    sizeOf(numbers)
    checkDType(dtype)
    this.shape = [...shape]
    this.dtype = dtype
  }
}

/**
 * An extent that varies from call to call, for `jit`'s option `dynamic`. With a bound, programs are made for it; without one, for ranges that
 * double.
 * @throws E_ARGUMENT for what is no name and for bounds that are not whole, or in the wrong order
 * @example
 * const length = dim('length', 1, 64)
 * const f = jit((x: Tensor) => softmax(x), { dynamic: [spec([length])] })
 * f(ones([2])) // [0.5, 0.5]
 */
export const dim = (name: string, least = 1, most?: number): Dim => placed(() => new Dim(name, least, most))
