/** The buffers of a kernel on the host: elements by coordinates, in every storage format. */
import { UserError } from '../diagnostics/errors.ts'
import { readElement, writeElement } from '../scalar/host.ts'
import type { Scalar } from '../scalar/ops.ts'
import type { HostArray } from '../types/host.ts'
import { rowMajorStrides, showShape, sizeOf } from '../types/shape.ts'
import type { KernelParam } from './ir.ts'

/** Elements of the host array that holds a parameter: a bit or half a byte an element in the packed formats. */
export function hostLength(param: KernelParam): number {
  const n = sizeOf(param.shape)
  return param.format === 'bits' ? Math.ceil(n / 8) : param.format === 'int4' ? Math.ceil(n / 2) : n
}

/** A parameter bound to host memory. */
export class HostBuffer {
  private readonly param: KernelParam
  private readonly data: HostArray
  private readonly strides: readonly number[]

  /** Throws E_ARGUMENT where the buffer is missing or too small. */
  constructor(param: KernelParam, data: HostArray | undefined) {
    if (data === undefined) throw new UserError('E_ARGUMENT', `no buffer is given for the parameter ${param.name}`)
    const n = hostLength(param)
    if (data.length < n)
      throw new UserError(
        'E_ARGUMENT',
        `the buffer of ${param.name} has ${data.length} elements; ${param.dtype}${showShape(param.shape)} in the format ${param.format} needs ${n}`,
      )
    this.param = param
    this.data = data
    this.strides = rowMajorStrides(param.shape)
  }

  /** Row-major position. Throws E_INDEX outside the shape. */
  private position(index: readonly number[]): number {
    let at = 0
    for (let i = 0; i < index.length; i++) {
      const x = index[i] ?? 0
      if (x < 0 || x >= (this.param.shape[i] ?? 0))
        throw new UserError(
          'E_INDEX',
          `index ${showShape(index)} is outside ${this.param.name} of shape ${showShape(this.param.shape)}`,
        )
      at += x * (this.strides[i] ?? 0)
    }
    return at
  }

  read(index: readonly number[]): Scalar {
    const i = this.position(index)
    switch (this.param.format) {
      case 'plain':
        return readElement(this.data, this.param.dtype, i)
      case 'bits':
        return ((this.byte(Math.floor(i / 8)) >> (i % 8)) & 1) === 1
      case 'int4': {
        const nibble = (this.byte(Math.floor(i / 2)) >> (4 * (i % 2))) & 15
        return nibble < 8 ? nibble : nibble - 16
      }
    }
  }

  write(index: readonly number[], value: Scalar): void {
    const i = this.position(index)
    switch (this.param.format) {
      case 'plain':
        writeElement(this.data, this.param.dtype, i, value)
        break
      case 'bits':
        this.replace(Math.floor(i / 8), i % 8, 1, Number(value))
        break
      case 'int4':
        this.replace(Math.floor(i / 2), 4 * (i % 2), 15, Number(value))
        break
    }
  }

  private byte(at: number): number {
    return Number(this.data[at]) & 255
  }

  private replace(at: number, shift: number, ones: number, value: number): void {
    this.data[at] = (this.byte(at) & ~(ones << shift)) | ((value & ones) << shift)
  }
}
