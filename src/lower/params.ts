/** Kernel parameters of a body: loads, stores and partial results, with names in the order they are bound. */
import type { KernelParam } from '../kernel/ir.ts'
import type { BodyStore } from '../plan/body/body.ts'
import type { DType } from '../types/dtype.ts'
import type { Binding } from './launch.ts'

export class Params {
  readonly list: KernelParam[] = []
  readonly bindings: Binding[] = []
  private results = 0

  add(name: string, shape: readonly number[], dtype: DType, access: KernelParam['access'], binding: Binding): string {
    this.list.push({ name, dtype, shape, access, format: 'plain' })
    this.bindings.push(binding)
    return name
  }

  /** The parameter that a store writes: stores of pieces of one tensor share theirs. */
  stored(s: BodyStore): string {
    const at = this.bindings.findIndex(
      (b, i) => this.list[i]?.access === 'write' && b.kind === 'node' && b.node === s.node,
    )
    const have = this.list[at]
    if (have !== undefined) return have.name
    return this.add(`y${this.results++}`, s.shape, s.node.dtype, 'write', { kind: 'node', node: s.node })
  }
}
