/** What lowering makes of a planned group: one launch, its kernels and what their parameters are bound to. */
import type { Node } from '../graph/node.ts'
import type { Kernel } from '../kernel/ir.ts'
import type { PartialResult } from '../plan/axes/partials.ts'

/** What stands behind a kernel parameter: a node's buffer, or a partial result of the launch. */
export type Binding =
  | { readonly kind: 'node'; readonly node: Node }
  | { readonly kind: 'partial'; readonly index: number }

export interface BoundKernel {
  readonly kernel: Kernel
  readonly bindings: readonly Binding[]
}

/** One grid launch with its stages. */
export interface Launch {
  readonly main: BoundKernel
  readonly finishing: readonly BoundKernel[]
  readonly partials: readonly PartialResult[]
}
