/**
 * Anchors of a chain without their scale. The greatest of c x is c times the greatest of x for c > 0, and exp(c x - c m) is exp(c (x - m)): so scores that a number
 * scales are folded and compared as they come out of the product, and the number is a factor of the exponent alone, where it joins those of the function.
 */
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { liveLets, renameOperands } from '../../kernel/walk.ts'
import { isModerate } from '../../scalar/moderate.ts'
import type { Body } from '../body/body.ts'

type Lets = ReadonlyMap<ValueId, LetStmt>

/** A value as a positive number times another, a product behind which stand casts and choices (`path`, in order). */
interface Scaled {
  readonly by: number
  readonly of: ValueId
  readonly product: ValueId
  readonly path: readonly LetStmt[]
}

const numberAt = (id: ValueId | undefined, lets: Lets): number | undefined => {
  const op = id === undefined ? undefined : lets.get(id)?.op
  return op?.kind === 'const' ? Number(op.value) : undefined
}

/** What a value that casts and masks lead to is, as such a product; undefined where it is none. */
function scaledOf(root: ValueId, lets: Lets): Scaled | undefined {
  const path: LetStmt[] = []
  for (let l = lets.get(root); l?.op.kind === 'scalar'; ) {
    const { op, args, loose } = l.op
    const [x, a, b] = args
    if (op === 'mul') {
      for (const [of, other] of [args, [...args].reverse()]) {
        const by = numberAt(other, lets)
        if (of !== undefined && by !== undefined && by > 0 && isModerate(by)) return { by, of, product: l.id, path }
      }
      return undefined
    }
    let inner: ValueId | undefined
    // Casts that users ask for round where they stand.
    if (op === 'cast' && (loose === true || l.dtype === 'f32')) inner = x
    // What is hidden is hidden at any scale.
    else if (op === 'select' && numberAt(b, lets) === Number.NEGATIVE_INFINITY) inner = a
    else if (op === 'select' && numberAt(a, lets) === Number.NEGATIVE_INFINITY) inner = b
    if (inner === undefined) return undefined
    path.unshift(l)
    l = lets.get(inner)
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
  const fold = anchor.op
  const { arg } = fold
  const scaled = scaledOf(arg, lets)
  const isDifference = ({ op, dtype }: LetStmt): boolean =>
    op.kind === 'scalar' && op.op === 'sub' && dtype === 'f32' && op.args[0] === arg && op.args[1] === anchor.id
  const after = body.lets.filter((l) => operandsOf(l.op).includes(anchor.id) && l.axes.some((t) => shared.includes(t)))
  if (scaled === undefined || after.length === 0 || !after.every(isDifference)) return body

  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const origin = new Map(body.origin)
  /** A statement like another, under a number of its own. */
  const made = (like: LetStmt, op: LetStmt['op']): LetStmt => {
    const id = next++
    const node = body.origin.get(like.id)
    if (node !== undefined) origin.set(id, node)
    return { ...like, id, op }
  }
  const by = { ...made(anchor, { kind: 'const', value: scaled.by }), axes: [] }
  const renamed = new Map([[scaled.product, scaled.of]])
  const path = scaled.path.map((l) => {
    const raw = made(
      l,
      renameOperands(l.op, (id) => renamed.get(id) ?? id),
    )
    renamed.set(l.id, raw.id)
    return raw
  })
  const raw = renamed.get(arg) ?? arg
  // The fold keeps its number, by which what parts of it leave is known.
  const whole = made(anchor, { kind: 'scalar', op: 'mul', args: [anchor.id, by.id] })
  const late = (id: ValueId): ValueId => (id === anchor.id ? whole.id : id)
  const all = body.lets.flatMap((l): LetStmt[] => {
    if (l.id === anchor.id) return [by, ...path, { ...anchor, op: { ...fold, arg: raw } }, whole]
    if (!isDifference(l)) return [{ ...l, op: renameOperands(l.op, late) }]
    const apart = made(l, { kind: 'scalar', op: 'sub', args: [raw, anchor.id] })
    return [apart, { ...l, op: { kind: 'scalar', op: 'mul', args: [apart.id, by.id] } }]
  })
  const stores = body.stores.map((s) => ({ ...s, value: late(s.value) }))
  const stored = stores.map((s) => s.value)
  return { ...body, origin, stores, lets: liveLets(all, stored) }
}
