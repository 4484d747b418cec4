/**
 * Windows that slide: a sum over taps whose operand moves along a kept axis as it does along the taps (x[s j + t], x[j + d t]). What stands at a place of the
 * operand is read once and added to every window that it is in; a window leaves when its last tap is there. The sums under way, as many as windows
 * overlap, stand in registers.
 */
import * as ix from '../../../affine/expr.ts'
import { always, type Bound, conjoin } from '../../../affine/predicate.ts'
import type { KernelPart, LetStmt, Stmt, ValueId } from '../../../kernel/ir.ts'
import { fastChunkOf, strictChunk } from '../../../scalar/summation.ts'
import { loopsApart } from '../ir/joined.ts'
import {
  foldsOf,
  type InnerRounds,
  type LoopSchedule,
  type NestSchedule,
  type Slide,
  type SlideTerm,
} from '../ir/schedule.ts'
import type { Fold } from '../ir/steps.ts'
import type { Axes } from '../ir/tile.ts'
import { type Motion, motionOf } from './motion.ts'
import { Terms } from './terms.ts'
import { isPlainSum } from './writeOut.ts'

/** Most terms of all windows under way, since every one of the first rounds is code, and most windows: each takes a register. */
const [mostTerms, mostUnderWay] = [400, 8]

export interface Slides {
  /** The part with what windows need at places of their own. */
  readonly part: KernelPart
  /** How sums slide, by their value. */
  readonly slides: ReadonlyMap<ValueId, Slide>
}

/** The sums of a schedule whose windows slide; undefined where none does. */
export function slideSums({ part, axes, body }: LoopSchedule, strict: boolean): Slides | undefined {
  if (part.body.some((s) => s.kind === 'loop')) return undefined
  const slides = new Map<ValueId, Slide>()
  const terms = new Terms(part, axes)
  const before = new Map<ValueId, LetStmt[]>()
  for (const s of body.steps) {
    const found = s.kind === 'nest' ? new Sliding(s, terms, axes, strict).slide() : undefined
    if (found === undefined) continue
    slides.set(found.id, found.slide)
    before.set(found.id, terms.take())
  }
  if (slides.size === 0) return undefined
  const walked = new Map<string, number>()
  for (const slide of slides.values()) {
    const { extent } = axes.view(slide.axis)
    walked.set(slide.walked, extent + slide.lag)
    if (slide.inner !== undefined) walked.set(slide.inner.walked, extent - slide.lag)
  }
  return {
    part: {
      ...part,
      axes: [...part.axes, ...[...walked].map(([name, extent]) => ({ name, extent }))],
      body: part.body.flatMap((s): Stmt[] => (s.kind === 'let' ? [...(before.get(s.id) ?? []), s] : [s])),
    },
    slides,
  }
}

/** The loops of a nest whose sum slides: along the innermost of its kept axes, inside the lanes, of which one group stands in registers. */
export const loopsOfSlide = ({
  order,
  lanes,
}: Slide): Omit<NestSchedule, 'kind' | 'roots' | 'folded' | 'results' | 'totals' | 'slide'> => ({
  order,
  vector: lanes,
  copies: 1,
  inTurn: [],
  inMemory: false,
  fetch: [],
  cut: undefined,
})

/** How a nest's sum may slide. */
class Sliding {
  private readonly nest: NestSchedule
  private readonly terms: Terms
  private readonly axes: Axes
  private readonly strict: boolean

  constructor(nest: NestSchedule, terms: Terms, axes: Axes, strict: boolean) {
    this.nest = nest
    this.terms = terms
    this.axes = axes
    this.strict = strict
  }

  /** The one sum of the nest, along the longest axis that it may slide along. */
  slide(): { readonly id: ValueId; readonly slide: Slide } | undefined {
    const { vector, folded, inMemory, roots } = this.nest
    const order = loopsApart(this.nest)
    const [fold, second] = foldsOf(this.nest)
    if (fold === undefined || second !== undefined || roots.length > 1 || fold.acc !== undefined) return undefined
    if (inMemory || vector === undefined || folded.includes(vector)) return undefined
    if (folded.some((a) => !this.terms.isWhole(a)) || !isPlainSum(fold, this.terms, this.strict)) return undefined
    const size = (a: string): number => this.axes.view(a).max
    const kept = order.filter((a) => a !== vector && !folded.includes(a)).sort((a, b) => size(b) - size(a))
    for (const axis of kept)
      for (const taps of folded) {
        // Terms are added in the order of the folded axes where that shows.
        if (this.strict && taps !== fold.axes[0]) continue
        const found = this.alongTaps(fold, axis, taps)
        if (found === undefined) continue
        const outer = order.filter((a) => a !== axis && a !== vector && !folded.includes(a))
        return {
          id: fold.id,
          slide: { ...found, lanes: vector, order: [...outer, vector, axis, ...folded], overlaps: false },
        }
      }
    return undefined
  }

  private alongTaps(fold: Fold, axis: string, taps: string): Omit<Slide, 'lanes' | 'order' | 'overlaps'> | undefined {
    const { counts, extent, open } = this.axes.view(axis)
    const motion = open === undefined && counts !== undefined ? motionOf(this.terms, fold, axis, taps) : undefined
    if (motion === undefined || counts === undefined) return undefined
    const { stride, apart } = motion
    const length = this.axes.view(taps).extent
    const rounds = Math.ceil(length / stride)
    const lag = apart * (rounds - 1)
    const points = this.terms.pointsOf(fold.axes.filter((a) => a !== taps))
    const count = length * points.length
    const along = [axis, ...fold.axes]
    if (lag < 1 || lag > mostUnderWay || counts.some((n) => n < lag) || count * rounds > mostTerms) return undefined
    if (this.strict && count > strictChunk) return undefined
    const at = (place: ix.Expr, assumed?: (b: Bound) => boolean): SlideTerm[] => {
      const places = new Places(this.terms, fold, motion, axis, taps, place, assumed)
      const terms: SlideTerm[] = []
      for (let round = rounds - 1; round >= 0; round--)
        for (let q = 0; q < stride && q + stride * round < length; q++)
          for (const point of points)
            terms.push({ behind: apart * round, factors: places.factors(q, stride * round, point) })
      return terms
    }
    const walked = this.nameOf(`${axis}_${taps}_${lag}`)
    const terms = at(ix.axis(walked, extent + lag))
    const inner = this.isMasked(fold, along) ? this.inner(`${walked}_inner`, extent, lag, at) : undefined
    return { axis, taps, walked, lag, terms, inner, apart: !this.strict && count > fastChunkOf(count) }
  }

  /** Whether an operand has bounds that its places may leave. */
  private isMasked(fold: Fold, along: readonly string[]): boolean {
    const asks = ({ op }: LetStmt): boolean =>
      (op.kind === 'load' && op.mask.length > 0) || (op.kind === 'predicate' && op.predicate.length > 0)
    return !this.terms.isInline(fold, along, new Set(), (l) => !asks(l))
  }

  /** The rounds in which every window is there. */
  private inner(
    wanted: string,
    extent: number,
    lag: number,
    at: (place: ix.Expr, assumed: (b: Bound) => boolean) => SlideTerm[],
  ): InnerRounds | undefined {
    if (extent <= lag) return undefined
    const walked = this.nameOf(wanted)
    const within: Bound[] = []
    const lanes = this.nest.vector
    const assumed = (b: Bound): boolean => {
      const axes = ix.axesOf(b.expr)
      if (axes.has(walked) || (lanes !== undefined && axes.has(lanes)) || ix.valuesOf(b.expr).size > 0) return false
      within.push(b)
      return true
    }
    const terms = at(ix.addConst(ix.axis(walked, extent - lag), lag), assumed)
    return { walked, terms, where: conjoin(always, ...within) }
  }

  /** A name that no axis has. */
  private nameOf(wanted: string): string {
    let name = wanted
    while (this.axes.views.has(name)) name += '_'
    return name
  }
}

/** Operands of a fold at places of what moves, and at taps of what does not. */
class Places {
  private readonly terms: Terms
  private readonly fold: Fold
  private readonly motion: Motion
  private readonly axis: string
  private readonly taps: string
  private readonly at: ix.Expr
  private readonly assumed: ((b: Bound) => boolean) | undefined
  private readonly known = new Map<string, Map<ValueId, ValueId>>()

  constructor(
    terms: Terms,
    fold: Fold,
    motion: Motion,
    axis: string,
    taps: string,
    at: ix.Expr,
    assumed: ((b: Bound) => boolean) | undefined,
  ) {
    this.terms = terms
    this.fold = fold
    this.motion = motion
    this.axis = axis
    this.taps = taps
    this.at = at
    this.assumed = assumed
  }

  /** The factors of a term: what moves at tap `q` of its place, the others at tap `q + further`. */
  factors(q: number, further: number, point: ReadonlyMap<string, number>): ValueId[] {
    return this.fold.args.map((id, arg) => {
      const moves = this.motion.moving.has(arg)
      const tap = moves ? q : q + further
      const key = `${moves} ${tap} ${[...point.values()].join()}`
      const here = this.known.get(key) ?? new Map<ValueId, ValueId>()
      this.known.set(key, here)
      const place = new Map([...point].map(([a, i]) => [a, ix.constant(i)]))
      place.set(this.taps, ix.constant(tap))
      if (moves) place.set(this.axis, this.at)
      return this.terms.at(id, place, here, this.assumed)
    })
  }
}
