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
  constructor(name: string, least: number, most: number | undefined) {
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
