/**
 * The stages of a body: one kernel, or where reductions are cut a main kernel that leaves partial results and a finishing stage that folds
 * them. Made once, where the roles of its axes are analysed; what counts buffers, reuse and the lowering follow it.
 */
import { axesOf } from '../../affine/expr.ts'
import { foldAxes } from '../../kernel/folds.ts'
import { operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import type { Body, BodyStore } from '../body/body.ts'
import type { PartialResult } from './partials.ts'
import { follows } from './split.ts'

export interface Stages {
  /** Reductions that become partial results in the main kernel and whole in the finishing stage, and what they are in between. */
  readonly split: ReadonlyMap<ValueId, PartialResult>
  /** They and all that depends on them. */
  readonly late: ReadonlySet<ValueId>
  /** What the main kernel evaluates, but for `split`; undefined: everything. */
  readonly main: ReadonlySet<ValueId> | undefined
  /** What the finishing stage evaluates beside `late`: the main kernel may have done so too. */
  readonly again: ReadonlySet<ValueId>
}

/** Those of a body that is one kernel. */
export const oneStage: Stages = { split: new Map(), late: new Set(), main: undefined, again: new Set() }

/** The stages of a body whose reductions in `split` are cut. */
export function stagesOf(body: Body, split: ReadonlyMap<ValueId, PartialResult>): Stages {
  if (split.size === 0) return oneStage
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const cut = new Set(split.keys())
  const late = new Set(body.lets.flatMap((l) => (cut.has(l.id) || follows(l, cut, lets) ? [l.id] : [])))
  const early = new Map(lets)
  for (const id of late) early.delete(id)
  const among = (values: Iterable<ValueId>): ReadonlySet<ValueId> => {
    const out = new Set<ValueId>()
    for (const id of ancestorsOf(values, early)) if (early.has(id)) out.add(id)
    return out
  }
  const operands = (of: Iterable<ValueId>): ValueId[] =>
    [...of].flatMap((id) => {
      const l = lets.get(id)
      return l === undefined ? [] : operandsOf(l.op)
    })
  const own = body.stores.flatMap((s) => (late.has(s.value) ? [] : [s.value]))
  const after = [...late].filter((id) => !split.has(id))
  return { split, late, main: among([...own, ...operands(cut)]), again: among(operands(after)) }
}

/** The axes of the reductions that are cut. */
export const splitAxes = (body: Body, { split }: Stages): ReadonlySet<string> =>
  new Set(body.lets.flatMap((l) => (split.has(l.id) ? foldAxes(l) : [])))

/** One kernel of a body. */
export interface Stage {
  /** What it evaluates, in dependence order. */
  readonly lets: Body['lets']
  readonly stores: readonly BodyStore[]
  /** Partial results: of these reductions, stored by the main kernel and loaded by the finishing stage. */
  readonly partials: readonly ValueId[]
  /** What the main kernel's partial results are computed from. */
  readonly folded: readonly ValueId[]
}

/** The main kernel of a body. */
export function mainStage(body: Body, { split, late, main }: Stages): Stage {
  if (main === undefined) return { lets: body.lets, stores: body.stores, partials: [], folded: [] }
  return {
    lets: body.lets.filter((l) => main.has(l.id)),
    stores: body.stores.filter((s) => !late.has(s.value)),
    partials: [...split.keys()],
    folded: body.lets.flatMap((l) => (split.has(l.id) ? operandsOf(l.op) : [])),
  }
}

/** Its finishing stage, if it has one. */
export function finishingStage(body: Body, { split, late, main, again }: Stages): Stage | undefined {
  if (main === undefined) return undefined
  return {
    lets: body.lets.filter((l) => again.has(l.id) || (late.has(l.id) && !split.has(l.id))),
    stores: body.stores.filter((s) => late.has(s.value)),
    partials: [...split.keys()],
    folded: [],
  }
}

/** The kernels of a finishing stage that is taken apart: one for the results that run over the same axes. */
export function storesByAxes(stores: readonly BodyStore[]): BodyStore[][] {
  const alike = new Map<string, BodyStore[]>()
  for (const s of stores) {
    const key = [...new Set(s.index.flatMap((e) => [...axesOf(e)]))].sort().join()
    alike.set(key, [...(alike.get(key) ?? []), s])
  }
  return [...alike.values()]
}
