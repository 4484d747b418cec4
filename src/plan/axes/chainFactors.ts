/**
 * Factors of a chain's sums that follow from folds along the shared axes and are one along them, and numbers: they stand behind the sums. Sums of quotients e / S of
 * exponentials become quotients of sums, whose terms stream. Where a condition chooses between such a quotient and zero, the quotient of what is chosen is none of a row of which nothing
 * is: its number may be none (1 / 0 where a row sees nothing), and zero it is still.
 */
import { boundKey } from '../../affine/predicate.ts'
import { Conditions } from '../../kernel/conditions.ts'
import { foldAxes } from '../../kernel/folds.ts'
import type { LetStmt, ValueId } from '../../kernel/ir.ts'
import { unrounded } from '../../kernel/streams.ts'
import { ancestorsOf, liveLets, renameOperands } from '../../kernel/walk.ts'
import { isModerate } from '../../scalar/moderate.ts'
import { scalarInfo } from '../../scalar/ops.ts'
import { isFloat } from '../../types/dtype.ts'
import type { Body } from '../body/body.ts'
import { type Refused, refuse } from '../refusal.ts'

type Lets = ReadonlyMap<ValueId, LetStmt>

/** Of a chain's roles: its tiles, and the axes that its sums run along. */
interface Shared {
  readonly tiles: readonly ValueId[]
  readonly shared: readonly string[]
}

/** The operand of a sum that tiles lead to; `at` names it in the statement. */
export function operandOf(
  { id, op }: LetStmt,
  { tiles }: Shared,
  lets: Lets,
): { readonly id: ValueId; readonly at: 'a' | 'b' } {
  const [a, b] = op.kind === 'dot' ? [op.a, op.b] : [id, id]
  return tiles.some((t) => a === t || dependsOn(a, t, lets)) ? { id: a, at: 'a' } : { id: b, at: 'b' }
}

/** A factor of a sum's terms that is one along the shared axes. */
interface Factor {
  readonly id: ValueId
  readonly divides: boolean
}

/**
 * A condition that chooses terms of a sum, and zero in the place of others: where it chooses none of a row the sum is zero, whatever its factors are. It lacks the shared axes, or
 * holds only where scores are not hidden, so that looking for one that is chosen ends where the loop does.
 */
interface Choice {
  readonly id: ValueId
  readonly truth: boolean
  readonly ofRows: boolean
}

/** An operand without its factors; `undefined`: all of it is factors. */
interface Split {
  readonly rest: ValueId | undefined
  readonly factors: readonly Factor[]
  readonly choices: readonly Choice[]
}

/** The body with factors of a sum's terms that follow from folds along the shared axes and are one along them, and numbers, behind it. */
export function withoutFactors(body: Body, role: Shared, sum: ValueId): Body | Refused {
  const lets: Lets = new Map(body.lets.map((l) => [l.id, l]))
  const dot = lets.get(sum)
  if (dot?.op.kind !== 'dot') return body
  const folds = new Set(
    body.lets.flatMap((l) => (l.id !== sum && foldAxes(l).some((t) => role.shared.includes(t)) ? [l.id] : [])),
  )
  const isLate = (id: ValueId): boolean => folds.has(id) || [...ancestorsOf([id], lets)].some((o) => folds.has(o))
  /** Whether a value is another times a number, which nothing needs to hold. */
  const isScaled = (id: ValueId): boolean => {
    const op = lets.get(unrounded(id, lets))?.op
    if (op?.kind !== 'scalar' || scalarInfo(op.op).factors?.every((p) => p === 1) !== true) return false
    return op.args.some((a) => isNumber(a, lets))
  }
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const made: LetStmt[] = []
  const emit = (l: LetStmt): ValueId => {
    const id = next++
    made.push({ ...l, id })
    return id
  }
  const known = new Map<ValueId, Split>()
  const splitOf = (id: ValueId): Split => {
    const split = known.get(id) ?? findSplit(id)
    known.set(id, split)
    return split
  }
  const conditions = new Conditions(lets)
  const key = ({ id, truth }: { readonly id: ValueId; readonly truth: boolean }): string => `${truth} ${id}`
  /** Whether a condition holds only where scores are not hidden. */
  const isVisible = (id: ValueId, truth: boolean): boolean => {
    const own = new Set(conditions.conjuncts(id, truth).map(key))
    const bounds = new Set(conditions.holding(id, truth).bounds.map(boundKey))
    return body.lets.some(({ op }) => {
      if (op.kind !== 'scalar' || op.op !== 'select') return false
      const [hides, yes, no] = op.args
      const hidden = [yes, no].findIndex((x) => x !== undefined && isHidden(x, lets))
      if (hides === undefined || hidden < 0) return false
      const { bounds: all, isAll } = conditions.holding(hides, hidden === 1)
      const isWithin = isAll && all.every((x) => bounds.has(boundKey(x)))
      return isWithin || conditions.conjuncts(hides, hidden === 1).every((t) => own.has(key(t)))
    })
  }
  /** Factors of what is chosen where a condition does not choose zero. */
  const splitOfChoice = (l: LetStmt, [condition, yes, no]: readonly ValueId[]): Split | undefined => {
    if (condition === undefined || yes === undefined || no === undefined || isLate(condition)) return undefined
    const truth = isZero(no, lets)
    if (!truth && !isZero(yes, lets)) return undefined
    const value = truth ? yes : no
    const { rest, factors, choices } = splitOf(value)
    if (rest === undefined || factors.length === 0) return undefined
    const ofRows = lets.get(condition)?.axes.some((t) => role.shared.includes(t)) === false
    const own: Choice[] = ofRows || isVisible(condition, truth) ? [{ id: condition, truth, ofRows }] : []
    return {
      rest: emit({ ...l, op: renameOperands(l.op, (id) => (id === value ? rest : id)) }),
      factors,
      choices: factors.some((f) => isLate(f.id)) ? [...choices, ...own] : choices,
    }
  }
  const findSplit = (id: ValueId): Split => {
    const l = lets.get(id)
    const whole: Split = { rest: id, factors: [], choices: [] }
    if (l === undefined || !isFloat(l.dtype)) return whole
    const alone: Split = { rest: undefined, factors: [{ id, divides: false }], choices: [] }
    if (isNumber(id, lets)) return alone
    if (!isLate(id) && !isScaled(id)) return whole
    if (!l.axes.some((t) => role.shared.includes(t))) return alone
    if (l.op.kind !== 'scalar') return whole
    const { op, args } = l.op
    const inner = unrounded(id, lets)
    const { factors: powers } = scalarInfo(op)
    if (scalarInfo(op).chooses === true) return splitOfChoice(l, args) ?? whole
    if (inner === id && powers === undefined) return whole
    const parts = inner === id ? args.map(splitOf) : [splitOf(inner)]
    const factors = parts.flatMap((s, i) =>
      s.factors.map((f) => ({ ...f, divides: f.divides !== (powers?.[i] === -1) })),
    )
    const choices = parts.flatMap((s) => s.choices)
    if (factors.length === 0 || parts.some((s, i) => s.rest === undefined && powers?.[i] === undefined)) return whole
    if (inner !== id) {
      const [rest] = parts.flatMap((s) => s.rest ?? [])
      return rest === undefined ? whole : { rest: emit({ ...l, op: { ...l.op, args: [rest] } }), factors, choices }
    }
    const rests = parts.map((s) => s.rest)
    const left = rests.flatMap((r) => r ?? [])
    const [only, more] = left
    if (only === undefined || more !== undefined)
      return {
        rest: emit({ ...l, axes: unionOf(l.axes, left, lets, made), op: { ...l.op, args: left } }),
        factors,
        choices,
      }
    // One of the two is left: a divisor would stand alone.
    return powers?.[rests.indexOf(only)] === 1 ? { rest: only, factors, choices } : whole
  }
  /** Whether a condition chooses any term of a row: a fold beside the sum, which takes nothing where it does not. */
  const anyOf = ({ id, truth }: Choice): ValueId => {
    const axes = lets.get(id)?.axes ?? []
    const kept = axes.filter((t) => !role.shared.includes(t))
    const [one, none] = [1, Number.NEGATIVE_INFINITY].map((value) =>
      emit({ ...dot, axes: [], op: { kind: 'const', value } }),
    )
    if (one === undefined || none === undefined) return id
    const args = truth ? [id, one, none] : [id, none, one]
    const chosen = emit({ ...dot, axes, op: { kind: 'scalar', op: 'select', args } })
    const most = emit({ ...dot, axes: kept, op: { kind: 'reduce', combiner: 'max', arg: chosen, axes: role.shared } })
    return emit({ ...dot, dtype: 'bool', axes: kept, op: { kind: 'scalar', op: 'eq', args: [most, one] } })
  }
  const { id: operand, at } = operandOf(dot, role, lets)
  const { rest, factors, choices } = splitOf(operand)
  if (rest === undefined || factors.length === 0) return body
  const narrow = lets.get(operand)
  if (
    narrow?.dtype === 'f16' &&
    !isBounded(unrounded(rest, new Map([...lets, ...made.map((l) => [l.id, l] as const)])), lets)
  )
    return factors.some((f) => isLate(f.id))
      ? refuse('no-stream', 'without its factor an operand may exceed the range of f16')
      : body
  const product: LetStmt = { ...dot, op: { ...dot.op, [at]: rest } }
  made.push(product)
  let result = product
  for (const f of factors) {
    const of = lets.get(f.id)
    if (of === undefined) continue
    const by =
      of.dtype === dot.dtype
        ? f.id
        : emit({ ...of, dtype: dot.dtype, op: { kind: 'scalar', op: 'cast', args: [f.id] } })
    const id = emit({ ...dot, op: { kind: 'scalar', op: f.divides ? 'div' : 'mul', args: [result.id, by] } })
    result = made.at(-1) ?? result
    if (result.id !== id) return body
  }
  for (const choice of choices) {
    const zero = emit({ ...dot, axes: [], op: { kind: 'const', value: 0 } })
    const { id, truth } = choice.ofRows ? choice : { id: anyOf(choice), truth: true }
    emit({ ...dot, op: { kind: 'scalar', op: 'select', args: truth ? [id, result.id, zero] : [id, zero, result.id] } })
    result = made.at(-1) ?? result
  }
  const renamed = (id: ValueId): ValueId => (id === dot.id ? result.id : id)
  const node = body.origin.get(dot.id)
  const origin = new Map(body.origin)
  if (node !== undefined) for (const l of made) origin.set(l.id, node)
  const all = body.lets.flatMap((l) => (l === dot ? made : [{ ...l, op: renameOperands(l.op, renamed) }]))
  const stores = body.stores.map((s) => ({ ...s, value: renamed(s.value) }))
  const stored = stores.map((s) => s.value)
  return { ...body, lets: liveLets(all, stored), stores, origin }
}

/** Axes of a value that keeps some of its operands, in its own order. */
function unionOf(axes: readonly string[], args: readonly ValueId[], lets: Lets, made: readonly LetStmt[]): string[] {
  const of = new Set(args.flatMap((id) => (lets.get(id) ?? made.find((l) => l.id === id))?.axes ?? []))
  return axes.filter((t) => of.has(t))
}

/** Whether a value is an exponential, which an anchor keeps at one at most, or zero where a condition hides that. */
function isBounded(id: ValueId, lets: Lets): boolean {
  const op = lets.get(id)?.op
  if (op?.kind !== 'scalar') return false
  const { exponentialIn, chooses, factors } = scalarInfo(op.op)
  if (exponentialIn !== undefined) return true
  if (chooses !== true && factors?.every((p) => p === 1) !== true) return false
  const isMask = (a: ValueId): boolean => {
    const cast = lets.get(unrounded(a, lets))?.op
    const from = cast?.kind === 'scalar' && cast.op === 'cast' ? lets.get(cast.args[0] ?? a) : undefined
    return from?.dtype === 'bool'
  }
  const rest = op.args.filter((a, i) => (chooses === true ? i > 0 && !isZero(a, lets) : !isMask(a)))
  const [only, ...others] = rest
  return only !== undefined && others.length === 0 && isBounded(only, lets)
}

const isConstant = (id: ValueId, value: number, lets: Lets): boolean => {
  const op = lets.get(id)?.op
  return op?.kind === 'const' && op.value === value
}

const isZero = (id: ValueId, lets: Lets): boolean => isConstant(id, 0, lets)
const isHidden = (id: ValueId, lets: Lets): boolean => isConstant(id, Number.NEGATIVE_INFINITY, lets)

/** Whether a value is a number that may meet a sum instead of its terms (docs/numerics.md). */
function isNumber(id: ValueId, lets: Lets): boolean {
  const op = lets.get(id)?.op
  return op?.kind === 'const' && typeof op.value === 'number' && isModerate(op.value)
}

const dependsOn = (id: ValueId, on: ValueId, lets: Lets): boolean => id !== on && ancestorsOf([id], lets).has(on)
