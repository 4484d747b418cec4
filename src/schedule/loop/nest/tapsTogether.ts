/**
 * Sums for each of a few taps (the gradient in the weights of a window: y[t] = sum of x[j + t] z[j]) in one loop along what they fold. Each tap is a sum of its own
 * then, in a register: an operand that taps share is read once for all of them, and no sum waits for itself alone. What is computed of the sums, and the stores of
 * that, are copied for each tap.
 */
import * as ix from '../../../affine/expr.ts'
import { isNever, substitutePredicate } from '../../../affine/predicate.ts'
import {
  type KernelPart,
  type LetStmt,
  operandsOf,
  type Stmt,
  type StoreStmt,
  type ValueId,
} from '../../../kernel/ir.ts'
import { liveLets, storeOperands } from '../../../kernel/walk.ts'
import { foldsOf, type LoopSchedule, type NestSchedule } from '../ir/schedule.ts'
import type { Fold } from '../ir/steps.ts'
import type { KernelFacts } from '../tiles/places.ts'
import { type Place, Terms } from './terms.ts'
import { isPlainSum } from './writeOut.ts'

/** Most taps in one loop, each of which takes a register; fewest terms of a tap that pay for its end; most statements that copies for taps become. */
const [mostTaps, leastTerms, mostStatements] = [9, 32, 400]

/** Elements that lanes along what is folded may be apart: two vectors hold four of them. */
const mostApart = 3

/** A sum to be made for each tap, and the stores that follow from it. */
interface Taken {
  readonly fold: Fold
  readonly taps: readonly string[]
  readonly stores: readonly StoreStmt[]
}

/** The part with such sums together; undefined where there are none. */
export function tapsTogether({ part, axes, body }: LoopSchedule, facts: KernelFacts): KernelPart | undefined {
  // Strict sums are in no lanes along what they fold.
  if (facts.strict || part.body.some((s) => s.kind === 'loop')) return undefined
  const terms = new Terms(part, axes)
  const found = new Finder(part, terms, facts)
  const taken = body.steps.flatMap((s) => (s.kind === 'nest' ? (found.of(s) ?? []) : []))
  // A store of two of them stays as it is.
  const stores = taken.flatMap((t) => t.stores)
  if (taken.length === 0 || new Set(stores).size < stores.length) return undefined
  return write(part, terms, taken)
}

class Finder {
  private readonly part: KernelPart
  private readonly terms: Terms
  private readonly facts: KernelFacts

  constructor(part: KernelPart, terms: Terms, facts: KernelFacts) {
    this.part = part
    this.terms = terms
    this.facts = facts
  }

  of(nest: NestSchedule): Taken | undefined {
    const [fold, second] = foldsOf(nest)
    if (fold === undefined || second !== undefined || nest.roots.length > 1 || fold.acc !== undefined) return undefined
    if (nest.inMemory || nest.slide !== undefined || !isPlainSum(fold, this.terms, false)) return undefined
    if (this.terms.countOf(fold.axes) < leastTerms) return undefined
    const taps = this.tapsOf(fold)
    if (taps.length === 0) return undefined
    const stores = this.storesOf(fold.id, taps)
    if (stores === undefined) return undefined
    const each = stores.reduce((n, s) => n + this.reached([s.value]).size + 1, this.reached(fold.args).size)
    return each * this.terms.countOf(taps) > mostStatements ? undefined : { fold, taps, stores }
  }

  /** The innermost axes of few indices that one operand moves along, as it does along what lanes may go along, and another lacks. */
  private tapsOf(fold: Fold): string[] {
    const taps: string[] = []
    let count = 1
    for (const a of fold.kept.toReversed()) {
      const n = this.terms.countOf([a])
      if (!this.terms.isWhole(a) || count * n > mostTaps || !this.isTap(fold, a)) break
      taps.unshift(a)
      count *= n
    }
    return taps
  }

  private isTap(fold: Fold, tap: string): boolean {
    const moving = new Set<number>()
    const loads: LetStmt[] = []
    const note = (l: LetStmt, arg: number): boolean => {
      if (l.axes.includes(tap)) moving.add(arg)
      if (l.op.kind === 'load') loads.push(l)
      return true
    }
    if (!this.terms.isInline(fold, [tap, ...fold.axes], new Set(), note)) return false
    return moving.size > 0 && moving.size < fold.args.length && fold.axes.some((a) => this.runsAlong(loads, a))
  }

  /** Whether lanes along an axis are near each other in all loads. */
  private runsAlong(loads: readonly LetStmt[], axis: string): boolean {
    if (this.terms.countOf([axis]) < 8) return false
    return loads.every(({ op }) => {
      const p = op.kind === 'load' ? this.facts.params.get(op.param) : undefined
      if (op.kind !== 'load' || p?.format !== 'plain' || op.maskValue !== undefined || isNever(op.mask)) return false
      const stride = ix.strideOf(ix.flatten(op.index, p.shape), axis)
      return stride !== undefined && Math.abs(stride) <= mostApart
    })
  }

  /** The stores that follow from a sum, where nothing else does and all between is computed at its points. */
  private storesOf(id: ValueId, taps: readonly string[]): StoreStmt[] | undefined {
    const above = new Set([id])
    const stores: StoreStmt[] = []
    for (const s of this.part.body) {
      if (s.kind === 'loop') return undefined
      const reads = s.kind === 'let' ? operandsOf(s.op) : storeOperands(s)
      if (!reads.some((o) => above.has(o))) continue
      if (s.kind === 'let') {
        if (s.op.kind !== 'scalar') return undefined
        above.add(s.id)
        continue
      }
      const isPlain = s.combiner === undefined && s.maskValue === undefined && !isNever(s.mask)
      const places = s.index.every((e) => ix.valuesOf(e).size === 0)
      if (!isPlain || !places || this.facts.params.get(s.param)?.format !== 'plain') return undefined
      if (!taps.every((a) => s.index.some((e) => ix.axesOf(e).has(a)))) return undefined
      stores.push(s)
    }
    // What the stores take beside the sum is computed once more at each place.
    const isFolded = [...above].some((a) => a !== id && this.terms.isFolded(a))
    const beside = [...this.reached(stores.map((s) => s.value))].filter((v) => !above.has(v))
    const varies = (l: LetStmt | undefined): boolean => l?.axes.some((a) => taps.includes(a)) === true
    if (isFolded || beside.some((v) => varies(this.terms.lets.get(v)) && !this.isInline(v))) return undefined
    return stores.length === 0 ? undefined : stores
  }

  private isInline(id: ValueId): boolean {
    const kind = this.terms.lets.get(id)?.op.kind
    return kind === 'load' || kind === 'scalar' || kind === 'index' || kind === 'predicate' || kind === 'const'
  }

  /** What values are computed of, up to what is folded. */
  private reached(from: readonly ValueId[]): Set<ValueId> {
    const found = new Set(from)
    for (const id of found) {
      const l = this.terms.lets.get(id)
      if (l === undefined || this.terms.isFolded(id)) continue
      for (const o of operandsOf(l.op)) found.add(o)
    }
    return found
  }
}

/** The part with a sum for each tap, and its stores. */
function write(part: KernelPart, terms: Terms, taken: readonly Taken[]): KernelPart {
  const sums = new Map(taken.map((t) => [t.fold.id, t]))
  const ofStore = new Map(taken.flatMap((t) => t.stores.map((s) => [s, t] as const)))
  const copies = new Map<ValueId, readonly (readonly [Place, Map<ValueId, ValueId>])[]>()
  const body: Stmt[] = []
  for (const s of part.body) {
    const sum = s.kind === 'let' ? sums.get(s.id) : undefined
    const stored = s.kind === 'store' ? ofStore.get(s) : undefined
    if (s.kind === 'let' && sum !== undefined) {
      copies.set(s.id, sumsOf(terms, s, sum))
      body.push(...terms.take())
    } else if (s.kind === 'store' && stored !== undefined) {
      for (const [place, here] of copies.get(stored.fold.id) ?? []) {
        const value = terms.at(s.value, place, here)
        body.push(...terms.take(), storeAt(s, place, value))
      }
    } else body.push(s)
  }
  const lets = body.filter((s) => s.kind === 'let')
  const live = new Set<Stmt>(
    liveLets(
      lets,
      body.flatMap((s) => (s.kind === 'store' ? storeOperands(s) : [])),
    ),
  )
  return { ...part, body: body.filter((s) => s.kind !== 'let' || live.has(s)) }
}

/** A sum for each tap, by its place. */
function sumsOf(terms: Terms, l: LetStmt, { fold, taps }: Taken): [Place, Map<ValueId, ValueId>][] {
  return terms.pointsOf(taps).map((point) => {
    const place = new Map([...point].map(([a, i]) => [a, ix.constant(i)]))
    const args = fold.args.map((a) => terms.at(a, place, new Map()))
    const [a = 0, b = 0] = args
    const axes = l.axes.filter((x) => !taps.includes(x))
    const op = l.op.kind === 'dot' ? { ...l.op, a, b } : l.op.kind === 'reduce' ? { ...l.op, arg: a } : l.op
    return [place, new Map([[fold.id, terms.emit({ ...l, axes }, op)]])]
  })
}

/** A store at a place. */
function storeAt(s: StoreStmt, place: Place, value: ValueId): StoreStmt {
  const at = (a: ix.Atom): ix.Expr | undefined => (a.kind === 'axis' ? place.get(a.name) : undefined)
  return { ...s, value, index: s.index.map((e) => ix.substitute(e, at)), mask: substitutePredicate(s.mask, at) }
}
