/** Lowering of a union: the parts of every kernel side by side in one, a tensor that several read bound once. */
import type { Kernel, KernelParam, KernelPart, NumericsMode, Stmt } from '../kernel/ir.ts'
import type { PartialResult } from '../plan/axes/partials.ts'
import type { UnionGroup } from '../plan/plan.ts'
import type { Machine } from '../target/machine.ts'
import type { Binding, BoundKernel, Launch } from './launch.ts'
import { lowerGroup } from './lowerGroup.ts'

/** One launch of independent kernels: their main kernels are one, and so are their finishing stages. */
export function lowerUnion(name: string, group: UnionGroup, target: Machine, mode: NumericsMode): Launch {
  const main = new Joined(name, mode)
  const finish = new Joined(`${name}_finish`, mode)
  const partials: PartialResult[] = []
  for (const part of group.parts) {
    const launch = lowerGroup(name, part, target, mode)
    main.add(launch.main, partials.length)
    for (const f of launch.finishing) finish.add(f, partials.length)
    partials.push(...launch.partials)
  }
  return { main: main.bound(), finishing: finish.parts.length > 0 ? [finish.bound()] : [], partials }
}

/** A kernel to which others are added, their parameters renamed. */
class Joined {
  readonly parts: KernelPart[] = []
  private readonly name: string
  private readonly mode: NumericsMode
  private readonly params: KernelParam[] = []
  private readonly bindings: Binding[] = []
  private readonly reads = new Map<object, KernelParam[]>()

  constructor(name: string, mode: NumericsMode) {
    this.name = name
    this.mode = mode
  }

  /** Adds a kernel; its launch's partial results are numbered from `firstPartial` here. */
  add({ kernel, bindings }: BoundKernel, firstPartial: number): void {
    const names = new Map<string, string>()
    kernel.params.forEach((p, i) => {
      const own = bindings[i]
      if (own === undefined) return
      names.set(p.name, this.bind(p, own.kind === 'node' ? own : { ...own, index: firstPartial + own.index }))
    })
    for (const part of kernel.parts)
      this.parts.push({ ...part, body: part.body.map((s) => renamed(s, (p) => names.get(p) ?? p)) })
  }

  /** The name of a parameter for a binding: of one that is there already where two kernels read a tensor alike. */
  private bind(p: KernelParam, binding: Binding): string {
    const shared = binding.kind === 'node' && p.access === 'read' ? binding.node : undefined
    const have = (shared === undefined ? undefined : this.reads.get(shared)) ?? []
    const found = have.find((q) => q.format === p.format && q.shape.join() === p.shape.join())
    if (found !== undefined) return found.name
    const made = { ...p, name: `${p.access === 'read' ? 'x' : 'y'}${this.params.length}` }
    this.params.push(made)
    this.bindings.push(binding)
    if (shared !== undefined) this.reads.set(shared, [...have, made])
    return made.name
  }

  bound(): BoundKernel {
    const kernel: Kernel = { name: this.name, params: this.params, mode: this.mode, parts: this.parts }
    return { kernel, bindings: this.bindings }
  }
}

function renamed(s: Stmt, to: (param: string) => string): Stmt {
  if (s.kind === 'loop') return { ...s, body: s.body.map((t) => renamed(t, to)) }
  if (s.kind === 'store') return { ...s, param: to(s.param) }
  return s.op.kind === 'load' ? { ...s, op: { ...s.op, param: to(s.op.param) } } : s
}
