/**
 * Steps along the lanes in which no bound of an operand asks: padding is met where a row begins and ends, and in the first and last rows. Folds along rows have
 * terms of their own for the steps between, whose operands have these bounds left out; bounds that are the same along the whole row are asked once before it.
 */
import * as ix from '../../../affine/expr.ts'
import { always, type Bound, conjoin, isNever } from '../../../affine/predicate.ts'
import type { KernelPart, LetStmt, Stmt, ValueId } from '../../../kernel/ir.ts'
import { foldsOf, type InnerSteps, type LoopSchedule, type LoopStep, type NestSchedule } from '../ir/schedule.ts'
import type { Fold } from '../ir/steps.ts'
import type { Axes } from '../ir/tile.ts'
import { Terms } from './terms.ts'

/** Most statements of a nest's terms: its code is there three times. */
const mostStatements = 64

/** A part with the operands that inner steps read, and those steps by the first fold of their nest. */
export interface WithInner {
  readonly part: KernelPart
  readonly inner: ReadonlyMap<ValueId, InnerSteps>
}

/** The part with inner steps; undefined where no nest has any. */
export function innerSteps({ part, axes, body }: LoopSchedule): WithInner | undefined {
  if (part.body.some((s) => s.kind === 'loop')) return undefined
  const terms = new Terms(part, axes)
  const inner = new Map<ValueId, InnerSteps>()
  const before = new Map<ValueId, LetStmt[]>()
  const kept = keptBy(body.steps)
  for (const s of body.steps) {
    const found = s.kind === 'nest' ? innerOf(s, terms, axes, kept) : undefined
    const [first] = s.kind === 'nest' ? foldsOf(s) : []
    const made = terms.take()
    if (found === undefined || first === undefined) continue
    inner.set(first.id, found)
    before.set(first.id, made)
  }
  if (inner.size === 0) return undefined
  const stmts = part.body.flatMap((s): Stmt[] => (s.kind === 'let' ? [...(before.get(s.id) ?? []), s] : [s]))
  return { part: { ...part, body: stmts }, inner }
}

/** Values that stand in tiles, which no term computes. */
function keptBy(steps: readonly LoopStep[]): ReadonlySet<ValueId> {
  const roots = steps.flatMap((s) => (s.kind === 'nest' ? s.roots : s.kind === 'copy' ? [s.root] : []))
  return new Set(roots.flatMap((r) => (r.kind === 'keep' ? [r.id] : [])))
}

function innerOf(nest: NestSchedule, terms: Terms, axes: Axes, kept: ReadonlySet<ValueId>): InnerSteps | undefined {
  const { vector, folded, inMemory, roots, cut, order, copies, joined, slide, inTurn } = nest
  const folds = foldsOf(nest)
  if (vector === undefined || order.at(-1) !== vector || !folded.includes(vector) || !terms.isWhole(vector))
    return undefined
  if (inMemory || joined !== undefined || slide !== undefined || inTurn.length > 0) return undefined
  if (roots.length > folds.length || cut?.depth === order.length - 1) return undefined
  const own = new Set<ValueId>()
  if (!folds.every((f) => terms.isInline(f, [vector], own)) || own.size > mostStatements) return undefined
  if ([...own].some((id) => kept.has(id))) return undefined
  const { extent } = axes.view(vector)
  const along = new Inside(vector, extent)
  const place = new Map([[vector, ix.axis(vector, extent)]])
  const here = new Map<ValueId, ValueId>()
  const operands = new Map(folds.map((f: Fold) => [f.id, f.args.map((a) => terms.at(a, place, here, along.assumed))]))
  const wide = 4 * copies
  const [from, to] = [wide * Math.ceil(along.from / wide), wide * Math.floor(along.to / wide)]
  if (along.count === 0 || isNever(along.where) || 2 * (to - from) < extent) return undefined
  return { from, to, where: along.where, operands }
}

/** Collects the bounds that are left out: where along an axis they hold, or what else must. */
class Inside {
  from = 0
  to: number
  where = always
  count = 0
  private readonly axis: string

  constructor(axis: string, extent: number) {
    this.axis = axis
    this.to = extent
  }

  readonly assumed = (b: Bound): boolean => {
    if (ix.valuesOf(b.expr).size > 0) return false
    if (!ix.axesOf(b.expr).has(this.axis)) {
      this.where = conjoin(this.where, b)
      this.count++
      return true
    }
    const stride = ix.strideOf(b.expr, this.axis)
    if (stride === undefined || stride <= 0) return false
    const { lo, hi } = ix.rangeOf(
      ix.substitute(b.expr, (a) => (a.kind === 'axis' && a.name === this.axis ? ix.zero : undefined)),
    )
    this.from = Math.max(this.from, Math.ceil((b.lo - lo) / stride))
    this.to = Math.min(this.to, Math.floor((b.hi - 1 - hi) / stride) + 1)
    this.count++
    return true
  }
}
