/** Whether a kernel may write a result over one of its inputs. */
import type { Kernel, KernelParam } from '../kernel/ir.ts'
import { accessOf, mayOverwrite, type PartAccess } from '../kernel/overwrite.ts'
import { ofUnnamed } from '../kernel/unnamed.ts'

interface Accesses {
  readonly formats: ReadonlyMap<string, KernelParam['format']>
  /** The parts that load, and those that store to, a parameter. */
  readonly loading: ReadonlyMap<string, readonly PartAccess[]>
  readonly storing: ReadonlyMap<string, readonly PartAccess[]>
  /** Numbers of parameters, by name. */
  readonly places: ReadonlyMap<string, number>
}

/** Walks a kernel once: a union has hundreds of results, and as many inputs that each might take over. */
const accessesOf = ofUnnamed((kernel): Accesses => {
  const shapes = new Map(kernel.params.map((p) => [p.name, p.shape]))
  const parts = kernel.parts.map(({ body }) => accessOf(body, (p) => shapes.get(p) ?? []))
  const by = (of: (p: PartAccess) => Iterable<string>): Map<string, PartAccess[]> => {
    const out = new Map<string, PartAccess[]>()
    for (const p of parts)
      for (const name of of(p)) {
        const list = out.get(name)
        if (list === undefined) out.set(name, [p])
        else list.push(p)
      }
    return out
  }
  return {
    formats: new Map(kernel.params.map((p) => [p.name, p.format])),
    loading: by((p) => p.loads.keys()),
    storing: by((p) => p.stores.keys()),
    places: new Map(kernel.params.map((p, i) => [p.name, i])),
  }
})

/** Whether input parameter `read` may share memory with output parameter `write`. */
export function mayShare(kernel: Kernel, read: string, write: string): boolean {
  const { formats, loading, storing } = accessesOf(kernel)
  if (formats.get(read) !== formats.get(write)) return false
  return mayOverwrite(loading.get(read) ?? [], storing.get(write) ?? [], read, write)
}

/** Numbers of the parameters that are loaded in a part that stores to `write`, in order: what it may be placed on, if anything. */
export function loadedBeside(kernel: Kernel, write: string): readonly number[] {
  const { storing, places } = accessesOf(kernel)
  const names = new Set((storing.get(write) ?? []).flatMap((p) => [...p.loads.keys()]))
  return [...names].flatMap((name) => places.get(name) ?? []).sort((a, b) => a - b)
}
