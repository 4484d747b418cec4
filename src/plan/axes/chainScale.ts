/**
 * Anchors of a chain without their scale. The greatest of c x is c times the greatest of x for c > 0, and exp(c x - c m) is exp(c (x - m)): so scores that a number
 * scales are folded and compared as they come out of the product, and the number is a factor of the exponent alone, where it joins those of the function.
 */
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import { isModerate } from '../../scalar/moderate.ts'
import type { Body } from '../body/body.ts'

type Lets = ReadonlyMap<ValueId, LetStmt>

/** A value as a positive number times another; `path`: the casts and choices that lead from the product with that number to it, outermost first. */
interface Scaled {
  readonly by: number
  readonly of: ValueId
  readonly path: readonly LetStmt[]
}

const numberAt = (id: ValueId | undefined, lets: Lets): number | undefined => {
  const op = id === undefined ? undefined : lets.get(id)?.op
  return op?.kind === 'const' ? Number(op.value) : undefined
}

function scaledOf(id: ValueId, lets: Lets): Scaled | undefined {
  const l = lets.get(id)
  if (l?.op.kind !== 'scalar') return undefined
  const { op, args } = l.op
  const through = (inner: ValueId | undefined): Scaled | undefined => {
    const found = inner === undefined ? undefined : scaledOf(inner, lets)
    return found === undefined ? undefined : { ...found, path: [l, ...found.path] }
  }
  // Casts that users ask for round where they stand.
  if (op === 'cast') return l.op.loose === true || l.dtype === 'f32' ? through(args[0]) : undefined
  if (op === 'select') {
    // What is hidden is hidden at any scale.
    const [, a, b] = args
    if (numberAt(b, lets) === Number.NEGATIVE_INFINITY) return through(a)
    return numberAt(a, lets) === Number.NEGATIVE_INFINITY ? through(b) : undefined
  }
  if (op !== 'mul') return undefined
  for (const [of, other] of [args, [...args].reverse()]) {
    const by = numberAt(other, lets)
    if (of !== undefined && by !== undefined && by > 0 && isModerate(by)) return { by, of, path: [] }
  }
  return undefined
}

/** The body with the greatest values along `shared` axes, and differences from them, taken before a positive number scales both. */
export function withoutScale(body: Body, shared: readonly string[]): Body {
  const lets: Lets = new Map(body.lets.map((l) => [l.id, l]))
  const anchor = body.lets.find(
    ({ op, dtype }) =>
      op.kind === 'reduce' && op.combiner === 'max' && dtype === 'f32' && op.axes.every((t) => shared.includes(t)),
  )
  if (anchor?.op.kind !== 'reduce') return body
  const { arg } = anchor.op
  const scaled = scaledOf(arg, lets)
  const isDifference = ({ op, dtype }: LetStmt): boolean =>
    op.kind === 'scalar' && op.op === 'sub' && dtype === 'f32' && op.args[0] === arg && op.args[1] === anchor.id
  const after = body.lets.filter((l) => operandsOf(l.op).includes(anchor.id) && l.axes.some((t) => shared.includes(t)))
  if (scaled === undefined || after.length === 0 || !after.every(isDifference)) return body

  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const origin = new Map(body.origin)
  const made: LetStmt[] = []
  const add = (l: Omit<LetStmt, 'id'>, like: ValueId): ValueId => {
    const id = next++
    const node = body.origin.get(like)
    if (node !== undefined) origin.set(id, node)
    made.push({ ...l, id })
    return id
  }
  const out: LetStmt[] = []
  const flush = (): void => {
    out.push(...made.splice(0))
  }
  const from = scaled.path.at(-1)
  const product = from === undefined ? arg : operandsOf(from.op).find((o) => scaledOf(o, lets)?.path.length === 0)
  const by = add({ kind: 'let', dtype: 'f32', axes: [], op: { kind: 'const', value: scaled.by } }, anchor.id)
  let raw = scaled.of
  let old = product
  for (const step of scaled.path.toReversed()) {
    if (step.op.kind !== 'scalar') continue
    const args = step.op.args.map((a) => (a === old ? raw : a))
    raw = add({ ...step, op: { ...step.op, args } }, step.id)
    old = step.id
  }
  const rawAnchor = add({ ...anchor, op: { ...anchor.op, arg: raw } }, anchor.id)
  for (const l of body.lets) {
    if (l.id === anchor.id) {
      flush()
      out.push({ ...anchor, op: { kind: 'scalar', op: 'mul', args: [rawAnchor, by] } })
    } else if (isDifference(l)) {
      const apart = add({ ...l, op: { kind: 'scalar', op: 'sub', args: [raw, rawAnchor] } }, l.id)
      flush()
      out.push({ ...l, op: { kind: 'scalar', op: 'mul', args: [apart, by] } })
    } else out.push(l)
  }
  const live = ancestorsOf(
    body.stores.map((s) => s.value),
    new Map(out.map((l) => [l.id, l])),
  )
  return { ...body, origin, lets: out.filter((l) => live.has(l.id)) }
}
