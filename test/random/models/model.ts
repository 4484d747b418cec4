/** What layers of random models are drawn with: extents, inputs by their ranges, and notes of what was drawn. */
import { type Tensor, zeros } from '../../../src/index.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { makeRng, type Rng } from '../rng.ts'

/** What an input holds: numbers in [-most, most], whole ones below `below`, or conditions. */
export interface ModelInput {
  readonly shape: readonly number[]
  readonly dtype: DType
  readonly most: number
  readonly below?: number
  /** Data that a batch of examples has one of each of; parameters are shared by all. */
  readonly data: boolean
}

/** Extents that models have: many are odd, one, or beside a power of two. */
const extents = [1, 2, 3, 4, 5, 7, 8, 9, 13, 16, 17, 24, 31, 32, 33, 40, 48, 63, 64, 65, 70] as const

/**
 * One way through a model. A first one learns what inputs the model has, from tensors that nobody reads; the following ones are
 * handed them.
 */
export class Model {
  readonly rng: Rng
  readonly inputs: ModelInput[] = []
  readonly notes: string[] = []
  readonly dtype: DType
  readonly #given: readonly Tensor[] | undefined

  constructor(seed: number, dtype: DType, given?: readonly Tensor[]) {
    this.rng = makeRng(seed)
    this.dtype = dtype
    this.#given = given
  }

  note(text: string): void {
    this.notes.push(text)
  }

  chance(p: number): boolean {
    return this.rng.chance(p)
  }

  pick<T>(list: readonly T[]): T {
    return this.rng.pick(list)
  }

  /** An extent of at most some. */
  extent(most = 70): number {
    return this.pick(extents.filter((n) => n <= most))
  }

  #input(input: ModelInput): Tensor {
    this.inputs.push(input)
    const given = this.#given?.[this.inputs.length - 1]
    return given ?? zeros(input.shape, input.dtype)
  }

  /** Data of each example. */
  data(shape: readonly number[], most = 1): Tensor {
    return this.#input({ shape, dtype: this.dtype, most, data: true })
  }

  /** Whole numbers below some. */
  indices(shape: readonly number[], below: number): Tensor {
    return this.#input({ shape, dtype: 'i32', most: 0, below, data: true })
  }

  /** Conditions, of which three in ten do not hold. */
  conditions(shape: readonly number[]): Tensor {
    return this.#input({ shape, dtype: 'bool', most: 1, data: true })
  }

  /** A parameter, of the dtype of the model unless given. */
  weight(shape: readonly number[], most: number, dtype: DType = this.dtype): Tensor {
    return this.#input({ shape, dtype, most, data: false })
  }

  /** A matrix [rows, columns] as layers keep it: plain, transposed, or whole numbers with scales. */
  matrix(rows: number, columns: number): Tensor {
    const most = 1.5 / Math.sqrt(rows)
    const how = this.rng.int(0, 11)
    if (how <= 1) return this.weight([columns, rows], most).transpose()
    if (how === 2) {
      this.note('int8 weights')
      const whole = this.weight([rows, columns], 100, 'i8').astype(this.dtype)
      return whole.mul(this.weight(this.pick([[], [columns], [rows, 1]]), most / 100))
    }
    if (how === 3 && this.dtype === 'f32') {
      this.note('bf16 weights')
      return this.weight([rows, columns], most, 'bf16').astype('f32')
    }
    return this.weight([rows, columns], most)
  }
}
