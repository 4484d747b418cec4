/**
 * The roles of a body's axes, and with them what kind of kernel it can be (analyse.ts finds them). Row axes are reduced and then needed again,
 * so a program must hold them whole; reduced axes end in a reduction; the rest are parallel. Below planner and lowering alike.
 */
import * as ix from '../../affine/expr.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { ChainRole } from './chain.ts'
import type { MatrixRole } from './fusedReductions.ts'
import { repeatsAlong } from './positions.ts'
import type { SplitBy } from './split.ts'
import { oneStage, type Stages } from './stages.ts'

export interface Roles {
  readonly kind: 'elementwise' | 'reduction' | 'matrix' | 'chain'
  readonly extents: ReadonlyMap<string, number>
  readonly row: ReadonlySet<string>
  readonly reduced: ReadonlySet<string>
  readonly parallel: ReadonlySet<string>
  readonly matrix?: MatrixRole
  /** Two products in one loop. */
  readonly chain?: ChainRole
  /** Its kernels: one, or where reductions are cut two. */
  readonly stages: Stages
  /** How the reductions that the stages split are cut: blocks of an axis, or every index of the reduced axes (`rows` below them). */
  readonly splitBy: SplitBy | undefined
  /** Axes of scans that begin anew at every chunk, by what a chunk holds: a program holds one. */
  readonly chunks?: ReadonlyMap<string, number>
  /** Times a program goes through rows that do not stay resident. */
  readonly passes?: number
}

/** Whether a kernel is made around products. */
export const holdsProducts = ({ kind }: Roles): boolean => kind === 'matrix' || kind === 'chain'

/** Roles of a body whose axes are all parallel. */
export const elementwiseRoles = (body: Body): Roles => ({
  kind: 'elementwise',
  extents: new Map(body.axes.map((a) => [a.name, a.extent])),
  row: new Set(),
  reduced: new Set(),
  parallel: new Set(body.axes.map((a) => a.name)),
  stages: oneStage,
  splitBy: undefined,
})

/** The axis along which most bytes are contiguous. */
export function unitAxis(body: Body, among?: (axis: string) => boolean): string | undefined {
  const votes = new Map<string, number>()
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const vote = (index: readonly ix.Expr[], shape: readonly number[], weight: number): void => {
    const flat = ix.flatten(index, shape)
    for (const a of ix.axesOf(flat)) {
      // Neighbours that are read backwards are neighbours.
      const repeats = ix.strideOf(flat, a) === -1 ? 1 : repeatsAlong(flat, a)
      if (repeats !== undefined && (among === undefined || among(a)))
        votes.set(a, (votes.get(a) ?? 0) + weight / repeats)
    }
  }
  const points = (axes: Iterable<string>): number => pointsOf(extents, axes)
  for (const l of body.lets)
    if (l.op.kind === 'load')
      vote(l.op.index, body.loads.get(l.op.param)?.shape ?? [], dtypeBytes(l.dtype) * points(l.axes))
  for (const s of body.stores)
    vote(s.index, s.shape, 1.5 * dtypeBytes(s.node.dtype) * points(s.index.flatMap((e) => [...ix.axesOf(e)])))
  let best: string | undefined
  for (const [a, v] of votes) if (best === undefined || v > (votes.get(best) ?? 0)) best = a
  return best
}
