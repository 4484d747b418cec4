/**
 * Products with odd functions. In v (f(u) + c), where c is 1 or -1 and u and v are multiples of one value, as in GELU, no sign needs
 * work: with r = 1 - f(|u|), f(u) is sign(u) (1 - r), so the product is |v| (1 - r) + c v, or with signs of u and v that differ
 * |v| (r - 1) + c v. The function's value becomes r, the sum becomes its difference from 1, and the product a multiply-add.
 */
import type { LetStmt, ValueId } from '../../../kernel/ir.ts'
import { type ScalarInfo, scalarInfo } from '../../../scalar/ops.ts'
import type { Part } from '../part/part.ts'
import { type CoarseAt, coarseForm, type Reading, restOf, usesIn } from './precision.ts'
import { isPositiveNormal } from './ranges.ts'
import { type ByReciprocal, byReciprocal } from './reciprocals.ts'

/** How an operation of such a product is computed. */
export type OddForm =
  | CoarseAt
  /** The sum: 1 less than the function's value, or 1 less that. */
  | { readonly kind: 'oddSum'; readonly rest: ValueId; readonly isSame: boolean }
  /** The product: |v| times the negated sum, and v with the constant's sign. */
  | { readonly kind: 'oddProduct'; readonly factor: ValueId; readonly sum: ValueId; readonly isNegative: boolean }

type Form = (at: Reading) => OddForm | undefined

/** An operation of two operands, of which a value is one: the operation, the value's place, and the other operand. */
interface Use {
  readonly info: ScalarInfo
  readonly at: 0 | 1
  readonly other: ValueId
}

function useIn(l: LetStmt | undefined, id: ValueId): Use | undefined {
  if (l?.op.kind !== 'scalar') return undefined
  const info = scalarInfo(l.op.op)
  const [a, b] = l.op.args
  if (info.arity !== 2 || a === undefined || b === undefined) return undefined
  return a === id ? { info, at: 0, other: b } : { info, at: 1, other: a }
}

/** The forms of an odd function's value, of its sum with a constant, and of the product with that. */
function formsOf(part: Part, f: LetStmt): readonly (readonly [ValueId, Form])[] {
  if (f.op.kind !== 'scalar' || scalarInfo(f.op.op).odd !== true) return []
  const rest = restOf(part, f)
  const [u] = f.op.args
  if (rest === undefined || u === undefined) return []
  const uses = usesIn(part)

  const sum = uses.onlyUser(f.id)
  const term = useIn(sum, f.id)
  const signs = term?.info.terms
  if (sum === undefined || term === undefined || signs === undefined) return []
  const c = (uses.constantOf(term.other) ?? 0) * (signs[1 - term.at] ?? 0)
  if (Math.abs(c) !== 1) return []

  const product = uses.onlyUser(sum.id)
  const factor = useIn(product, sum.id)
  if (product === undefined || factor?.info.factors?.every((power) => power === 1) !== true) return []
  const v = factor.other
  // Multiples by literals of moderate magnitude: where v is infinite, f has long reached its limit.
  const [a, b] = [uses.multiple(u), uses.multiple(v)]
  if (a.of !== b.of) return []
  const isSame = (signs[term.at] ?? 0) * a.by * b.by > 0

  // The difference is +0 where u is 0, and the product then has the sign that c v gives it.
  return [
    [f.id, rest],
    [sum.id, () => ({ kind: 'oddSum', rest: f.id, isSame })],
    [product.id, () => ({ kind: 'oddProduct', factor: v, sum: sum.id, isNegative: c < 0 })],
  ]
}

const known = new WeakMap<Part, ReadonlyMap<ValueId, Form>>()

/** The form of an operation at a place, where it is part of such a product. */
function oddForm(at: Reading, l: LetStmt): OddForm | undefined {
  const { part } = at
  const forms = known.get(part) ?? new Map([...part.lets.values()].flatMap((f) => formsOf(part, f)))
  known.set(part, forms)
  return forms.get(l.id)?.(at)
}

/** How an operation is computed where it is not by its plain form. */
export type ValueForm = OddForm | ByReciprocal | { readonly kind: 'normalLog' }

export function valueFormOf(at: Reading, l: LetStmt): ValueForm | undefined {
  if (l.op.kind !== 'scalar') return undefined
  const { op, args, loose } = l.op
  const [x] = args
  if (op === 'cast' && (loose === true || at.part.isRoundedByStores(l.id))) return undefined
  const quotient = at.part.mode === 'fast' ? byReciprocal(l, (id) => at.part.lets.get(id)?.op) : undefined
  const form = oddForm(at, l) ?? coarseForm(at, l) ?? quotient
  if (form !== undefined) return form
  return op === 'log' && x !== undefined && isPositiveNormal(at.part, x) ? { kind: 'normalLog' } : undefined
}
