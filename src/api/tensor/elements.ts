/** What a tensor holds: its elements evaluated, read and shown. */
import { UserError } from '../../diagnostics/errors.ts'
import { decodeHalves } from '../../scalar/arrays.ts'
import { readElement } from '../../scalar/host.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { type DType, isHalf } from '../../types/dtype.ts'
import type { HostArray } from '../../types/host.ts'
import { showShape, sizeOf } from '../../types/shape.ts'
import { located, placed } from '../calls/place.ts'
import { stateOf, storageOf, TensorCore } from './core.ts'
import { formatElements, type NestedList, nestedList } from './print.ts'

/** Half precision as the numbers it stands for; everything else as it is. */
const decoded = (data: HostArray, dtype: DType): HostArray =>
  isHalf(dtype) ? decodeHalves(data as Uint16Array, dtype) : data

/** A tensor without operations: its size and its elements; `Tensor` adds the operations. */
export abstract class TensorElements extends TensorCore {
  /** Number of elements. */
  get size(): number {
    return sizeOf(this.shape)
  }

  /** Number of axes. */
  get rank(): number {
    return this.shape.length
  }

  /** Whether the tensor's memory was given back or donated. */
  get disposed(): boolean {
    return stateOf(this).kind === 'gone'
  }

  /**
   * The elements in row-major order as a typed array of the dtype (f16 and bf16: Float32Array, bool: Uint8Array of 0 and 1).
   * @throws E_DISPOSED for a tensor that is gone, E_NOT_CONCRETE inside jit, E_LEAKED_TRACER for a tensor kept from a finished trace, and what
   * running throws: E_OUT_OF_MEMORY, E_DEVICE
   * @example await tensor([[1, 2], [3, 4]]).data() // [1, 2, 3, 4]
   */
  async data(): Promise<HostArray> {
    const storage = storageOf(this, 'data()')
    try {
      return decoded(await storage.read(), this.dtype)
    } catch (error) {
      throw located(error)
    }
  }

  /**
   * `data()` without waiting.
   * @throws E_DEVICE on WebGPU, which cannot wait; otherwise as `data()`
   * @example tensor([1, 2]).dataSync() // [1, 2]
   */
  dataSync(): HostArray {
    return decoded(storageOf(this, 'dataSync()').readSync(), this.dtype)
  }

  /**
   * The one element: bigint for 64-bit integers, boolean for bool, number otherwise.
   * @throws E_SHAPE unless the size is 1; otherwise as `dataSync()`
   * @example
   * tensor([[7]]).item() // 7
   * tensor(7n).item() // 7n
   */
  item(): Scalar {
    placed(() => {
      if (this.size !== 1)
        throw new UserError('E_SHAPE', `item() of shape ${showShape(this.shape)}`, {
          help: 'index or reduce it to one element first',
        })
    })
    return readElement(storageOf(this, 'item()').readSync(), this.dtype, 0)
  }

  /**
   * The elements as nested lists; a scalar tensor gives the element. Numbers as `item()` gives them.
   * @throws E_DEVICE on WebGPU, which cannot wait; otherwise as `data()`
   * @example tensor([[1, 2], [3, 4]]).tolist() // [[1, 2], [3, 4]]
   */
  tolist(): NestedList {
    return nestedList(storageOf(this, 'tolist()').readSync(), this.dtype, this.shape)
  }

  /**
   * Dtype, shape and elements (long axes cut); a tensor without a value, or on a device that cannot be waited for, says so.
   * @example tensor([1, 2]).toString().split('\n')[0] // 'Tensor(f32[2])'
   */
  override toString(): string {
    const type = `${this.dtype}${showShape(this.shape)}`
    const state = stateOf(this)
    if (state.kind === 'traced') return `Tensor(${type}, inside ${state.trace.purpose.name})`
    if (state.kind === 'gone') return `Tensor(${type}, disposed)`
    const storage = storageOf(this, 'toString()')
    try {
      return `Tensor(${type})\n${formatElements(storage.readSync(), this.dtype, this.shape)}`
    } catch (error) {
      // Printing a tensor must not end a program.
      if (error instanceof UserError && error.code === 'E_DEVICE') return `Tensor(${type}, ${error.summary})`
      throw error
    }
  }

  /**
   * Text for templates and messages. Throws E_ARGUMENT for JavaScript's operators: `x > 0` would be false, `x * 2` NaN and `x + 1` text
   * for every tensor.
   */
  [Symbol.toPrimitive](hint: string): string {
    if (hint === 'string') return this.toString()
    return placed(() => {
      throw new UserError('E_ARGUMENT', `an operator of JavaScript on a tensor ${this.dtype}${showShape(this.shape)}`, {
        help: 'compute with methods (x.add(1), x.greater(0)), or take the number of a scalar with item(); in text write String(x)',
      })
    })
  }

  /** What `console.log` of Node.js prints. */
  [Symbol.for('nodejs.util.inspect.custom')](): string {
    return this.toString()
  }

  /** Evaluates the tensor now and gives it back: the function `evaluate`. */
  evaluate(): this {
    if (stateOf(this).kind !== 'traced') storageOf(this, 'evaluate()')
    return this
  }
}
