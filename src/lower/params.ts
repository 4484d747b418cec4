/** Kernel parameters of a body: loads, stores and partial results, with names in the order they are bound. */
import type { KernelParam, Stmt } from '../kernel/ir.ts'
import { allStmts } from '../kernel/walk.ts'
import type { Body, BodyStore } from '../plan/body/body.ts'
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

  /** Binds the tensors of a body that statements load, in loops too, but for those that are bound. */
  loads(body: Body, statements: readonly Stmt[]): void {
    const loaded = new Set<string>()
    for (const s of allStmts(statements)) if (s.kind === 'let' && s.op.kind === 'load') loaded.add(s.op.param)
    for (const [p, t] of body.loads)
      if (loaded.has(p) && !this.list.some((x) => x.name === p))
        this.add(p, t.shape, t.node.dtype, 'read', { kind: 'node', node: t.node })
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
