/** What planning gives: the groups of nodes that are kernels, and what was decided about values between them. */
import type { Node } from '../graph/node.ts'
import type { ProductCalls } from '../types/product.ts'
import type { BufferReuse } from './axes/bindings.ts'
import type { Roles } from './axes/roles.ts'
import type { Body } from './body/body.ts'
import type { ScatterBody } from './body/scatterBody.ts'
import type { StoredForms } from './body/stored.ts'
import type { KernelCost } from './cost/cost.ts'
import type { Later } from './later.ts'
import type { RefusalCode } from './refusal.ts'

/** A library call in the place of a kernel. */
export interface LibraryCall extends ProductCalls {
  /** The calls in its place, in order: what one of them adds to is what earlier ones left of the result. */
  readonly parts?: readonly ProductCalls[]
  /** Parameters of the body that the operands are, and what the product is added to. */
  readonly a: string
  readonly b: string
  readonly addend?: string
}

/** How a product might be computed by the target's library. */
export interface LibraryChoice {
  readonly library: string
  /** Modelled seconds of the call, and of a kernel of its own. */
  readonly seconds: number
  readonly kernelSeconds: number
  /** Why the library has no algorithm for it. */
  readonly refused?: string
}

export interface KernelGroup {
  readonly kind: 'kernel'
  readonly members: ReadonlySet<Node>
  readonly outputs: readonly Node[]
  readonly body: Body
  /** The body's ranges, where branches cut it (else the body alone): the parts of the kernel. */
  readonly segments: readonly Body[]
  readonly roles: Roles
  readonly cost: KernelCost
  /** Seconds of the schedules that it would run by, where the machine's have a price: found when first asked for. */
  readonly scheduled?: () => number
  /** What the target's library would do of it, where it is a product alone. */
  readonly choice?: LibraryChoice
  /** The library computes it: `cost` is that of its call. */
  readonly called?: LibraryCall
}

/** A node that is a step of its own. */
export interface BoundaryGroup {
  readonly kind: 'opaque' | 'effect' | 'scatter' | 'region'
  readonly node: Node
  /** A region's results that are used: each has a buffer, which others read like a parameter. */
  readonly results: readonly Node[]
  /** Of a scatter over extents that vary: what it computes at all of them. */
  readonly scattered?: ScatterBody
  /** Of a region: nothing, since the graphs inside are planned for themselves. */
  readonly cost: KernelCost
}

/** Kernels with no path between them, launched as one: a disjoint union of their grids. */
export interface UnionGroup {
  readonly kind: 'union'
  readonly parts: readonly KernelGroup[]
  readonly cost: KernelCost
}

/** What planning makes before independent kernels are joined. */
export type SingleGroup = KernelGroup | BoundaryGroup

export type PlannedGroup = SingleGroup | UnionGroup

/** The nodes a group computes. */
export function membersOf(group: PlannedGroup): Node[] {
  switch (group.kind) {
    case 'kernel':
      return [...group.members]
    case 'union':
      return group.parts.flatMap((g) => [...g.members])
    default:
      return [group.node, ...group.results]
  }
}

/** A merge that was considered and not made. */
export interface RefusedMerge {
  readonly from: Node
  readonly to: Node
  readonly code: RefusalCode
  readonly detail: string
  /** Modelled seconds the merge would have cost (negative: it would have gained, but is not legal). */
  readonly loss: number | undefined
}

/** A value computed again in each of its consumers instead of stored. */
export interface Recomputed {
  readonly node: Node
  readonly consumers: number
  readonly savedBytes: number
}

/** A bool between kernels that stands in memory a byte an element, and why. */
export interface Unpacked {
  readonly node: Node
  readonly code: 'no-whole-bytes' | 'fixed-blocks' | 'programs-too-large' | 'saves-little'
  readonly detail: string
}

/** What planning a graph took: counts that grow as the graph does. */
export interface PlanningWork {
  /** Regions that were asked for. */
  readonly trials: number
  /** Those that were built, as no other had their form. */
  readonly built: number
  /** Statements of what was built. */
  readonly statements: number
  /** Groups that searches for paths between groups went through. */
  readonly visited: number
}

export interface FusionPlan {
  /** In an order that respects data and effects. */
  readonly groups: readonly PlannedGroup[]
  readonly refused: readonly RefusedMerge[]
  /** The same, for who asks later and holds no plan. */
  readonly refusals: Later<readonly RefusedMerge[]>
  readonly recomputed: readonly Recomputed[]
  /** How values between kernels stand in memory; the bools that do not stand one bit an element, and why. */
  readonly stored: StoredForms
  readonly unpacked: readonly Unpacked[]
  /** What is written over what; what loops carry stands besides where their programs allow. */
  readonly reuse: BufferReuse
  readonly work: PlanningWork
}

/** The nodes a group puts into memory: each names a buffer. */
export function storedBy(group: PlannedGroup): readonly Node[] {
  switch (group.kind) {
    case 'kernel':
      return group.outputs
    case 'union':
      return group.parts.flatMap((g) => g.outputs)
    case 'effect':
      return []
    case 'region':
      return group.results
    case 'opaque':
    case 'scatter':
      return [group.node]
  }
}

/** The groups of a plan, unions as their parts. */
export const singleGroups = (plan: FusionPlan): SingleGroup[] =>
  plan.groups.flatMap((g): readonly SingleGroup[] => (g.kind === 'union' ? g.parts : [g]))
