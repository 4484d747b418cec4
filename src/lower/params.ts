/** Kernel parameters of a body: loads, stores and partial results, with names in the order they are bound. */
import type { KernelParam } from '../kernel/ir.ts'
import type { DType } from '../types/dtype.ts'
import type { Binding } from './launch.ts'

export class Params {
  readonly list: KernelParam[] = []
  readonly bindings: Binding[] = []

  add(name: string, shape: readonly number[], dtype: DType, access: KernelParam['access'], binding: Binding): string {
    this.list.push({ name, dtype, shape, access, format: 'plain' })
    this.bindings.push(binding)
    return name
  }
}
