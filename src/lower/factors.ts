/**
 * Factors of a matrix product's operand that do not vary along its depth, moved behind the sum: weights of few bits enter the product
 * as the integers they are, and the scale of their rows or columns meets the result once. Only factors of such integers are moved, whose
 * sums stay within the range of f32 where the scaled ones do.
 */
import { invariant } from '../diagnostics/errors.ts'
import type { LetStmt, NumericsMode, ValueId } from '../kernel/ir.ts'
import { renameOperands } from '../kernel/walk.ts'
import type { Roles } from '../plan/axes/roles.ts'
import { stagesOf } from '../plan/axes/stages.ts'
import type { Body } from '../plan/body/body.ts'
import { dtypeBits, isFloat } from '../types/dtype.ts'

interface Factored {
  /** The operand without its factors. */
  readonly rest: ValueId
  readonly factors: readonly ValueId[]
  /** Statements made anew. */
  readonly made: readonly LetStmt[]
}

/** The body with such factors behind its matrix product, which stays the value it was, and its stages. */
export function factorsOut(
  body: Body,
  roles: Roles,
  mode: NumericsMode,
): { readonly body: Body; readonly roles: Roles } {
  const { matrix, stages } = roles

  const dot = body.lets.find((l) => l.id === matrix?.id)
  if (mode === 'strict' || matrix === undefined || dot?.op.kind !== 'dot') return { body, roles }
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const fresh = (): ValueId => next++
  const factored = (id: ValueId): Factored => factor(id, lets, new Set(matrix.k), fresh)
  const [a, b] = [factored(dot.op.a), factored(dot.op.b)]
  const factors = [...a.factors, ...b.factors]
  if (factors.length === 0) return { body, roles }
  const product: LetStmt = { ...dot, op: { ...dot.op, a: a.rest, b: b.rest } }
  const made: LetStmt[] = [...a.made, ...b.made, product]
  let result = product
  for (const f of factors) {
    const of = lets.get(f)
    invariant(of !== undefined, `the factor %${f} is not defined`)
    const wide: LetStmt = { ...of, id: fresh(), dtype: dot.dtype, op: { kind: 'scalar', op: 'cast', args: [f] } }
    const factor = of.dtype === dot.dtype ? of : wide
    result = { ...dot, id: fresh(), op: { kind: 'scalar', op: 'mul', args: [result.id, factor.id] } }
    made.push(...(factor === wide ? [wide] : []), result)
  }
  const renamed = (id: ValueId): ValueId => (id === dot.id ? result.id : id)
  const node = body.origin.get(dot.id)
  const origin = new Map(body.origin)
  if (node !== undefined) for (const l of made) origin.set(l.id, node)
  const scaled: Body = {
    ...body,
    lets: body.lets.flatMap((l) => (l === dot ? made : [{ ...l, op: renameOperands(l.op, renamed) }])),
    stores: body.stores.map((s) => ({ ...s, value: renamed(s.value) })),
    origin,
  }
  return { body: scaled, roles: { ...roles, stages: stagesOf(scaled, stages.split) } }
}

/** A value as a cast integer of few bits times factors without axes of the depth. */
function factor(
  id: ValueId,
  lets: ReadonlyMap<ValueId, LetStmt>,
  depth: ReadonlySet<string>,
  fresh: () => ValueId,
): Factored {
  const none: Factored = { rest: id, factors: [], made: [] }
  const l = lets.get(id)
  if (l?.op.kind !== 'scalar') return none
  const { op, args } = l.op
  const [x, y] = args
  if (op === 'cast' && x !== undefined) {
    const inner = factor(x, lets, depth, fresh)
    const rest = lets.get(inner.rest)
    // A narrowing conversion is the user's rounding of the scaled value.
    const widens = rest !== undefined && dtypeBits(l.dtype) > dtypeBits(rest.dtype) && isFloat(l.dtype)
    if (!widens || inner.factors.length === 0 || rest.op.kind !== 'scalar') return none
    // The integer is exact in both dtypes.
    const made: LetStmt = { ...rest, id: fresh(), dtype: l.dtype }
    return { rest: made.id, factors: inner.factors, made: [...inner.made, made] }
  }
  if (op !== 'mul' || x === undefined || y === undefined) return none
  const isFixed = (v: ValueId): boolean => lets.get(v)?.axes.some((a) => depth.has(a)) === false
  for (const [value, by] of [
    [x, y],
    [y, x],
  ] as const) {
    if (!isFixed(by)) continue
    if (isFewBits(value, lets)) return { rest: value, factors: [by], made: [] }
    const inner = factor(value, lets, depth, fresh)
    if (inner.factors.length > 0) return { ...inner, factors: [...inner.factors, by] }
  }
  return none
}

/** A cast of an integer of at most eight bits: exact in every float. */
function isFewBits(id: ValueId, lets: ReadonlyMap<ValueId, LetStmt>): boolean {
  const l = lets.get(id)
  if (l?.op.kind !== 'scalar' || l.op.op !== 'cast' || !isFloat(l.dtype)) return false
  const from = lets.get(l.op.args[0] ?? -1)
  return from !== undefined && !isFloat(from.dtype) && dtypeBits(from.dtype) <= 8
}
