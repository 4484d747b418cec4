/** What follows from a kernel whatever its name. */
import type { Kernel } from './ir.ts'

/** Whether two kernels differ in their names at most. Kernels that are lowered once and named anew share what they are made of. */
export const differInName = (a: Omit<Kernel, 'name'>, b: Omit<Kernel, 'name'>): boolean =>
  a.parts === b.parts && a.params === b.params && a.scalars === b.scalars && a.mode === b.mode

/** A function of kernels that does not ask their names, found once for all that differ in them alone. */
export function ofUnnamed<T>(find: (kernel: Kernel) => T): (kernel: Kernel) => T {
  const found = new WeakMap<Kernel['parts'], { readonly kernel: Omit<Kernel, 'name'>; readonly value: T }>()
  return (kernel) => {
    const have = found.get(kernel.parts)
    if (have !== undefined && differInName(have.kernel, kernel)) return have.value
    const value = find(kernel)
    found.set(kernel.parts, { kernel, value })
    return value
  }
}
