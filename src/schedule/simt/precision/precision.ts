/**
 * Precision that the uses of a value ask for. In `fast` mode a function whose result is only added to constants of magnitude at
 * least 1, and of which nothing but half precision leaves the kernel, is asked for absolute accuracy alone: it is computed to
 * `coarseError` of src/scalar/bounds.ts. One whose relative error stays what it is until it is rounded to half precision is
 * computed to `coarseRelativeError` (docs/numerics.md, "Error bounds").
 */
import { type LetStmt, operandsOf, type StoreStmt, type ValueId } from '../../../kernel/ir.ts'
import { isModerate } from '../../../scalar/moderate.ts'
import { combinerOp, isArgCombiner, type ScalarOp, scalarInfo } from '../../../scalar/ops.ts'
import { isFloat } from '../../../types/dtype.ts'
import type { Phase } from '../access/place.ts'
import type { Part } from '../part/part.ts'
import { registerType } from '../storage/registerType.ts'
import { isAlreadyRounded } from './alreadyRounded.ts'
import { isNonnegative } from './ranges.ts'

/** Errors that stay below their bounds. */
type ErrorKind = 'absolute' | 'relative'

/** Coarse forms of functions. `_rest` of an odd function f is 1 - f(|x|): of its sign, nothing is left. */
export type CoarseForm = 'erf' | 'erf_rest' | 'exp' | 'sigmoid' | 'tanh' | 'tanh_near' | 'expm1' | 'log' | 'log1p'

/** The coarse form of a function. */
interface Coarse {
  /** The errors that it keeps below their bounds. */
  readonly keeps: readonly ErrorKind[]
  readonly form: CoarseForm
  readonly rest?: CoarseForm
}

/** Coarse forms, the cheapest first. */
const coarse: Readonly<Partial<Record<ScalarOp, readonly Coarse[]>>> = {
  erf: [{ keeps: ['absolute'], form: 'erf', rest: 'erf_rest' }],
  exp: [{ keeps: ['relative'], form: 'exp' }],
  sigmoid: [{ keeps: ['absolute', 'relative'], form: 'sigmoid' }],
  tanh: [
    { keeps: ['absolute'], form: 'tanh' },
    { keeps: ['absolute', 'relative'], form: 'tanh_near' },
  ],
  expm1: [{ keeps: ['relative'], form: 'expm1' }],
  log: [{ keeps: ['relative'], form: 'log' }],
  log1p: [{ keeps: ['relative'], form: 'log1p' }],
}

/** Continuous operations that errors pass as they are, or grow by a factor that the operands show. */
const isTame = (op: ScalarOp): boolean => {
  const { cost, discontinuous } = scalarInfo(op)
  return discontinuous !== true && cost !== 'special'
}

/** `by` times another value. */
interface Multiple {
  readonly of: ValueId
  readonly by: number
}

/** How the values of a part are used: those that a loop over chunks computes for itself, by what it does alone. */
class Uses {
  private readonly part: Part
  private readonly phase: Phase | undefined
  private readonly users = new Map<ValueId, LetStmt[]>()
  private readonly half = new Map<ValueId, boolean>()
  private readonly relative = new Map<ValueId, boolean>()
  private readonly coarse = new Map<ValueId, boolean>()

  constructor(part: Part, phase: Phase | undefined) {
    this.part = part
    this.phase = phase
    for (const l of part.lets.values())
      for (const id of new Set(operandsOf(l.op))) {
        if (phase?.values.has(id) === true && !phase.values.has(l.id) && !phase.folds.has(l.id)) continue
        const have = this.users.get(id)
        if (have === undefined) this.users.set(id, [l])
        else have.push(l)
      }
  }

  private usersOf(id: ValueId): readonly LetStmt[] {
    return this.users.get(id) ?? []
  }

  /** The stores of a value. */
  private storesOf(id: ValueId): readonly StoreStmt[] {
    const { part, phase } = this
    return part.stores.filter((s) => s.value === id && (phase?.values.has(id) !== true || phase.stores.has(s)))
  }

  /** What alone uses a value, if that is one operation. */
  onlyUser(id: ValueId): LetStmt | undefined {
    const [user, ...more] = this.usersOf(id)
    return more.length > 0 || this.isCarried(id) || this.storesOf(id).length > 0 ? undefined : user
  }

  private isCarried(id: ValueId): boolean {
    return this.part.loops.some((x) => x.carries.some((c) => c.init === id || c.next === id))
  }

  /** Whether arithmetic leads from a value to half precision on every way. */
  private endsInHalf(id: ValueId): boolean {
    const known = this.half.get(id)
    if (known !== undefined) return known
    const ends =
      this.isHalf(id) ||
      (this.leavesAsHalf(id) &&
        !this.isCarried(id) &&
        this.usersOf(id).every(
          (l) => l.op.kind === 'scalar' && (l.op.op === 'cast' || isTame(l.op.op)) && this.endsInHalf(l.id),
        ))
    this.half.set(id, ends)
    return ends
  }

  private isHalf(id: ValueId): boolean {
    const dtype = this.part.dtypeOf(id)
    return dtype === 'f16' || dtype === 'bf16'
  }

  /** Whether an f32 value leaves the part as half precision, if it does. */
  private leavesAsHalf(id: ValueId): boolean {
    const { part } = this
    return (
      part.dtypeOf(id) === 'f32' &&
      this.storesOf(id).every((s) => {
        const to = part.params.get(s.param)?.dtype
        return to === 'f16' || to === 'bf16'
      })
    )
  }

  /** Whether a relative error of a value stays one on every way to half precision, through what loops carry too. */
  isRelative(id: ValueId): boolean {
    const known = this.relative.get(id)
    if (known !== undefined) return known
    const reached = new Set<ValueId>([id])
    let stays = true
    for (const x of reached) {
      if (this.isHalf(x)) continue
      const users = this.usersOf(x)
      stays = this.relative.get(x) !== false && this.leavesAsHalf(x) && users.every((l) => this.keepsRelative(l, x))
      if (!stays) break
      for (const l of users) reached.add(l.id)
      for (const next of this.carriedAs(x)) reached.add(next)
    }
    for (const x of stays ? reached : [id]) this.relative.set(x, stays)
    return stays
  }

  /** What a value is called in the next iteration of a loop, and behind it. */
  private carriedAs(id: ValueId): readonly ValueId[] {
    return this.part.loops.flatMap((x) =>
      x.carries.flatMap((c) => (c.init === id || c.next === id ? [c.param, c.result] : [])),
    )
  }

  private keepsRelative({ op }: LetStmt, id: ValueId): boolean {
    // What is added to such a sum errs in proportion to the magnitudes of its terms, as operands that were rounded do.
    if (op.kind === 'dot') return op.acc === id && this.isHalf(op.a) && this.isHalf(op.b)
    if (op.kind === 'reduce')
      return (
        op.combiner === 'max' || op.combiner === 'min' || (op.combiner === 'sum' && isNonnegative(this.part, op.arg))
      )
    if (op.kind !== 'scalar') return false
    if (op.op === combinerOp.sum && op.args.every((a) => isNonnegative(this.part, a))) return true
    // Where the sum is small against the constant, errors are small against the constant.
    if (op.op === 'add' || op.op === 'sub') return op.args.some((a) => this.isChoice(a))
    return op.op === 'cast' || scalarInfo(op.op).proportional === true
  }

  /** Whether the uses of a value take results with these errors. */
  allows(id: ValueId, errors: readonly ErrorKind[]): boolean {
    const relative = errors.includes('relative')
    const absolute = errors.includes('absolute')
    if (this.isHalf(id)) return relative
    if (!this.leavesAsHalf(id) || this.isCarried(id) || (!relative && this.storesOf(id).length > 0)) return false
    return this.usersOf(id).every(
      (l) =>
        (relative && (this.isStreamedTerm(l, id) || this.isAnchoredTerm(l, id))) ||
        (relative && this.keepsRelative(l, id) && this.isRelative(l.id)) ||
        (absolute && this.isSumWithConstant(l, id) && this.endsInHalf(l.id)),
    )
  }

  /**
   * Whether a fold is a streaming sum of exponentials against their greatest: the terms that count are near 1, so that errors
   * which grow with the exponent stay small (docs/numerics.md).
   */
  private isStreamedTerm(l: LetStmt, id: ValueId): boolean {
    return this.phase?.streams.has(l.id) === true && l.op.kind === 'reduce' && l.op.arg === id
  }

  /** The same of a sum that a loop takes block by block: exponentials against the greatest exponent of all blocks so far. */
  private isAnchoredTerm({ op }: LetStmt, id: ValueId): boolean {
    if (op.kind !== 'reduce' || op.combiner !== 'sum' || op.arg !== id) return false
    const term = this.scalarAt(id)
    const exponent = term?.args[scalarInfo(term.op).exponentialIn ?? -1]
    const difference = exponent === undefined ? undefined : this.scalarAt(this.factored(exponent))
    const [x, anchor] = difference?.op === 'sub' ? difference.args : []
    return x !== undefined && anchor !== undefined && this.isGreatest(anchor, x, op.axes)
  }

  /** What a positive number scales. */
  private factored(id: ValueId): ValueId {
    const { of, by } = this.multiple(id)
    return by > 0 ? of : id
  }

  /** Whether a value is the greatest of others along some axes and of those of the blocks before, as far as that is finite. */
  private isGreatest(id: ValueId, of: ValueId, axes: readonly string[]): boolean {
    const { part } = this
    const op = part.lets.get(id)?.op
    if (op?.kind === 'reduce') return op.combiner === 'max' && op.arg === of && axes.every((a) => op.axes.includes(a))
    if (op?.kind !== 'scalar' || (op.op !== 'max' && op.op !== 'min')) return false
    const isBound = (a: ValueId): boolean => Math.abs(this.constantOf(a) ?? 0) >= greatestFinite
    const isSoFar = (a: ValueId): boolean =>
      part.loops.some((l) =>
        l.carries.some((c) => c.param === a && c.next === id && this.constantOf(c.init) === Number.NEGATIVE_INFINITY),
      )
    const values = op.args.filter((a) => !isBound(a))
    const [value, ...others] = values.filter((a) => op.op !== 'max' || !isSoFar(a))
    return value !== undefined && others.length === 0 && this.isGreatest(value, of, axes)
  }

  private scalarAt(id: ValueId): Extract<LetStmt['op'], { readonly kind: 'scalar' }> | undefined {
    const op = this.part.lets.get(id)?.op
    return op?.kind === 'scalar' ? op : undefined
  }

  /** Whether NaN in `root` reaches everything that a function's value goes to on other ways. */
  isCovered(id: ValueId, root: ValueId, seen = new Set<ValueId>()): boolean {
    if (seen.has(id)) return true
    seen.add(id)
    if (this.isCarried(id) || this.storesOf(id).length > 0) return false
    return this.usersOf(id).every((l) => {
      const args = this.passedOn(l)
      // NaN in a term is NaN in its anchor, which rescales the sum.
      return (
        this.isStreamedTerm(l, id) ||
        args.some((a) => this.isFrom(a, root)) ||
        (args.length > 0 && this.isCovered(l.id, root, seen))
      )
    })
  }

  /** Operands whose NaN arithmetic passes on: no function, for its coarse form may count on another one's. */
  private passedOn({ op, dtype }: LetStmt): readonly ValueId[] {
    if (op.kind !== 'scalar' || registerType(dtype) !== 'f32') return []
    const isCleared = op.args.some((a) => this.constantOf(a) === 0)
    return scalarInfo(op.op).passesNaN === true && !isCleared ? op.args : []
  }

  /** The same of a value that stands before this loop over chunks: folds and functions of one operand have passed NaN on too. */
  private passedBefore(l: LetStmt): readonly ValueId[] {
    const { op } = l
    if (op.kind === 'reduce') return isArgCombiner(op.combiner) ? [] : [op.arg]
    if (op.kind === 'scalar' && op.args.length === 1 && scalarInfo(op.op).cost === 'special') return op.args
    return this.passedOn(l)
  }

  /** Whether NaN in `root` has reached a value; `before`: the value as it was before this loop over chunks. */
  private isFrom(id: ValueId, root: ValueId, before = false, seen = new Set<ValueId>()): boolean {
    if (id === root) return true
    const l = seen.has(id) ? undefined : this.part.lets.get(id)
    seen.add(id)
    if (l === undefined) return false
    const { phase } = this
    const stands = before || (phase !== undefined && !phase.values.has(id) && !phase.folds.has(id))
    const from = stands ? this.passedBefore(l) : this.passedOn(l)
    return from.some((a) => this.isFrom(a, root, stands, seen))
  }

  private isSumWithConstant(l: LetStmt, id: ValueId): boolean {
    if (l.op.kind !== 'scalar' || (l.op.op !== 'add' && l.op.op !== 'sub')) return false
    const others = l.op.args.filter((a) => a !== id)
    const [other] = others
    return others.length === 1 && other !== undefined && Math.abs(this.constantOf(other) ?? 0) >= 1
  }

  /** Whether a value is one of two constants, one of them zero. */
  private isChoice(id: ValueId): boolean {
    const op = this.part.lets.get(id)?.op
    if (op?.kind !== 'scalar' || op.op !== 'select') return false
    const [, a, b] = op.args.map((x) => this.constantOf(x))
    return a !== undefined && b !== undefined && (a === 0 || b === 0)
  }

  /** Whether the coarse form of a function leads to a value wherever it has more digits than bf16. */
  isCoarse(id: ValueId): boolean {
    const answer = this.coarse.get(id)
    if (answer !== undefined) return answer
    const l = this.part.lets.get(id)
    if (l?.op.kind !== 'scalar' || !isFloat(l.dtype)) return false
    const { op, args } = l.op
    const data = op === 'select' ? args.slice(1) : args
    const is =
      coarseOf(l, this) !== undefined ||
      ((op === 'cast' || isTame(op)) &&
        data.some((a) => this.isCoarse(a)) &&
        (scalarInfo(op).chooses !== true ||
          data.every((a) => this.isCoarse(a) || isAlreadyRounded(this.part, a, 'bf16'))))
    this.coarse.set(id, is)
    return is
  }

  constantOf(id: ValueId): number | undefined {
    const op = this.part.lets.get(id)?.op
    return op?.kind === 'const' ? Number(op.value) : undefined
  }

  /** A value as a constant of moderate magnitude times another. */
  multiple(id: ValueId): Multiple {
    const op = this.part.lets.get(id)?.op
    const factors = op?.kind === 'scalar' ? scalarInfo(op.op).factors : undefined
    if (op?.kind === 'scalar' && factors !== undefined)
      for (const i of [0, 1]) {
        const [of, other] = [op.args[i], op.args[1 - i]]
        const c = factors[i] === 1 && other !== undefined ? this.constantOf(other) : undefined
        if (of !== undefined && c !== undefined && isModerate(c)) return { of, by: c ** (factors[1 - i] ?? 1) }
      }
    return { of: id, by: 1 }
  }

  /** A value as a positive constant near 1 times another. */
  scaled(id: ValueId): Multiple {
    const m = this.multiple(id)
    return m.by >= 2 ** -6 && m.by <= 2 ** 6 ? m : { of: id, by: 1 }
  }
}

/** What an f32 value is kept within where it is to be finite. */
const greatestFinite = 3.4028234663852886e38

const known = new WeakMap<Part | Phase, Uses>()

export const usesIn = (part: Part, phase?: Phase): Uses => {
  const uses = known.get(phase ?? part) ?? new Uses(part, phase)
  known.set(phase ?? part, uses)
  return uses
}

/** A coarse form at a place: of `by` times another value. */
export interface CoarseAt {
  readonly kind: 'coarse'
  readonly form: CoarseForm
  readonly of: ValueId
  readonly by: number
  /** NaN passes: `coarse` forms see to it, `unguarded` ones need not, where a NaN operand reaches all results on other ways. */
  readonly guard: 'coarse' | 'unguarded'
}

/** Where values are read. */
export interface Reading {
  readonly part: Part
  readonly phase: Phase | undefined
  holds(id: ValueId): boolean
}

/** The coarse form of a function that uses allow. */
function coarseOf({ op, id }: LetStmt, uses: Uses): Coarse | undefined {
  return op.kind === 'scalar' ? coarse[op.op]?.find((f) => uses.allows(id, f.keeps)) : undefined
}

function formAt(at: Reading, l: LetStmt, form: CoarseForm | undefined): CoarseAt | undefined {
  const [x] = l.op.kind === 'scalar' ? l.op.args : []
  if (form === undefined || x === undefined) return undefined
  const uses = usesIn(at.part, at.phase)
  const { of, by } = uses.scaled(x)
  const guard = uses.isCovered(l.id, uses.multiple(x).of) ? 'unguarded' : 'coarse'
  return at.holds(of) ? { kind: 'coarse', form, of, by, guard } : { kind: 'coarse', form, of: x, by: 1, guard }
}

/** The coarse form of a function at a place, where its uses ask for no more. */
export function coarseForm(at: Reading, l: LetStmt): CoarseAt | undefined {
  return at.part.mode === 'fast' ? formAt(at, l, coarseOf(l, usesIn(at.part, at.phase))?.form) : undefined
}

/** 1 - f(|x|) of an odd function f of x, at any place: if its uses in the whole part allow a coarse form that has this one beside it. */
export function restOf(part: Part, l: LetStmt): ((at: Reading) => CoarseAt | undefined) | undefined {
  const rest = part.mode === 'fast' ? coarseOf(l, usesIn(part))?.rest : undefined
  return rest === undefined ? undefined : (at) => formAt(at, l, rest)
}

/** Whether the coarse form of a function leads to a stored value wherever that has more digits than bf16. */
export const isCoarseStore = (part: Part, phase: Phase | undefined, s: StoreStmt): boolean =>
  part.mode === 'fast' && s.combiner === undefined && usesIn(part, phase).isCoarse(s.value)
