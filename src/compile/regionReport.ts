/** Reports of control flow: the kernels inside, how often they run, and what they amount to in one run. */
import type { KernelReport } from '../report/data.ts'
import type { InnerRole } from '../runtime/program.ts'

/** The reports of a graph inside control flow. */
export interface InnerKernels {
  readonly role: InnerRole
  /** Times it runs in one run of what is around it, where that is known. */
  readonly trips: number | undefined
  readonly kernels: readonly KernelReport[]
}

/**
 * What a run of control flow amounts to by amounts of its graphs: every step where their number is known, one where it is not; of
 * two branches the larger.
 */
export function amountOf(
  inners: readonly { readonly role: InnerRole; readonly trips: number | undefined; readonly amount: number }[],
): number {
  const branch = inners.some((i) => i.role === 'then')
  return inners.reduce((n, i) => (branch ? Math.max(n, i.amount) : n + (i.trips ?? 1) * i.amount), 0)
}

/** The report of control flow from those of the kernels inside. */
export function regionReport(
  kind: string,
  head: Pick<KernelReport, 'name' | 'operations' | 'primitives'>,
  inners: readonly InnerKernels[],
): KernelReport {
  const total = (of: (k: KernelReport) => number): number =>
    amountOf(inners.map((i) => ({ ...i, amount: i.kernels.reduce((n, k) => n + of(k), 0) })))
  const [bytesRead, bytesWritten] = [total((k) => k.bytesRead), total((k) => k.bytesWritten)]
  const [flops, specialFunctions] = [total((k) => k.flops), total((k) => k.specialFunctions)]
  return {
    ...head,
    kind,
    parts: 1,
    bytesRead,
    bytesWritten,
    flops,
    specialFunctions,
    intensity: (flops + specialFunctions) / Math.max(1, bytesRead + bytesWritten),
    get modelledMs() {
      return total((k) => k.modelledMs)
    },
    programs: 1,
    stages: [],
    inner: inners.map(({ role, trips, kernels }) => ({ role, kernels, ...(trips === undefined ? {} : { trips }) })),
  }
}

/** Kernels with those inside control flow in its place, each once. */
export const withInner = (kernels: readonly KernelReport[]): KernelReport[] =>
  kernels.flatMap((k) => (k.inner === undefined ? [k] : withInner(k.inner.flatMap((i) => i.kernels))))
