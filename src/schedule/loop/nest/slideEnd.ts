/** What follows a sum that slides: computed as each window leaves, so that the sum stands in a register alone. */
import { operandsOf, type ValueId } from '../../../kernel/ir.ts'
import type { DType } from '../../../types/dtype.ts'
import { isFunction } from '../../price.ts'
import type { Slide } from '../ir/schedule.ts'
import { type Nest, operandsOfRoot, type Root, type Step } from '../ir/steps.ts'
import type { Places } from '../tiles/places.ts'

/**
 * The nest of a sum that slides joined with the next step, where that is a nest that reads the sum at its own point alone, nothing later reads the sum,
 * and nothing is stored that windows still to come load. Undefined where it is none.
 */
export function withEnd(
  places: Places,
  slides: ReadonlyMap<ValueId, Slide>,
  step: Step,
  next: Step | undefined,
  later: readonly Step[],
): Nest | undefined {
  if (step.kind !== 'nest' || next?.kind !== 'nest' || next.folded.length > 0) return undefined
  const [root, second] = step.roots
  if (root?.kind !== 'fold' || second !== undefined) return undefined
  const { id, kept } = root.fold
  const slide = slides.get(id)
  if (slide === undefined || later.some((s) => reads(places, s, id))) return undefined
  if (next.space.length !== kept.length || !kept.every((a) => next.space.includes(a))) return undefined
  if (next.roots.some((r) => r.kind === 'fold') || computesFunctions(places, next)) return undefined
  const moving = slide.terms.flatMap((t) => t.factors)
  return storesApart(places, next.roots, moving) ? { ...step, roots: [...step.roots, ...next.roots] } : undefined
}

/**
 * Whether a step computes functions of many instructions: as windows leave one by one, each would wait for itself, where in loops of their own groups
 * of lanes compute them in turn.
 */
function computesFunctions(places: Places, { roots }: Nest): boolean {
  const { prices } = places.facts.machine
  const dtypeOf = (id: ValueId): DType => places.def(id).dtype
  return inlined(places, roots.flatMap(operandsOfRoot)).some((id) => isFunction(places.def(id), dtypeOf, prices))
}

/** Whether nothing is stored where some values are loaded from. */
export function storesApart(places: Places, roots: readonly Root[], values: readonly ValueId[]): boolean {
  const stored = roots.flatMap((r) => (r.kind === 'store' ? [r.stmt.param] : []))
  return inlined(places, values).every((id) => {
    const { op } = places.def(id)
    return op?.kind !== 'load' || stored.every((p) => !places.facts.mayAlias(p, op.param))
  })
}

/** Whether a step needs a value that has no place; a product or a loop may. */
function reads(places: Places, step: Step, id: ValueId): boolean {
  switch (step.kind) {
    case 'nest':
      return inlined(places, step.roots.flatMap(operandsOfRoot)).includes(id)
    case 'scan':
      return inlined(places, operandsOf(step.stmt.op)).includes(id)
    case 'product':
    case 'loop':
      return true
  }
}

/** Values and all that is computed for them. */
export function inlined(places: Places, ids: readonly ValueId[]): ValueId[] {
  const seen = new Set(ids)
  for (const id of seen) {
    const { op } = places.def(id)
    if (op !== undefined && !places.has(id)) for (const o of operandsOf(op)) seen.add(o)
  }
  return [...seen]
}
