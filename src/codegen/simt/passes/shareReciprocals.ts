/**
 * Repeated division by what a register loop does not change is multiplication by its reciprocal, taken once, with one step of
 * correction (`f32_div_by`).
 */
import { bin, call, type Ex, lit, type S, v } from '../ir/ir.ts'
import { mapBodies, mapExpressions, rewriteEx, visitExpressions, visitStatements } from '../ir/walk.ts'

/** A divisor scaled to where its reciprocal is normal, by what, and the reciprocal. */
interface Reciprocal {
  readonly scale: Ex
  readonly divisor: Ex
  readonly reciprocal: Ex
}

/** Statements that take reciprocals before the outermost loops that divide by them. */
export function shareReciprocals(stmts: readonly S[]): S[] {
  let count = 0
  const take = (divisor: Ex, out: S[]): Reciprocal => {
    const n = count++
    const name = (wish: string, value: Ex): Ex => {
      out.push({ k: 'let', name: `${wish}_${n}`, value })
      return v('f32', `${wish}_${n}`)
    }
    const scale = name('reciprocal_scale', call('f32', 'divisor_scale', divisor))
    const scaled = name('reciprocal_divisor', bin('*', divisor, scale))
    return { scale, divisor: scaled, reciprocal: name('reciprocal', bin('/', lit('f32', 1), scaled)) }
  }
  const within = (body: readonly S[], taken: ReadonlyMap<string, Reciprocal>): S[] =>
    body.flatMap((s) => {
      const out: S[] = []
      let known = taken
      if (s.k === 'for' && s.unroll) {
        const found = invariantDivisors(s).filter((d) => !taken.has(d))
        if (found.length > 0)
          known = new Map([...taken, ...found.map((d): [string, Reciprocal] => [d, take(v('f32', d), out)])])
      }
      out.push(
        mapBodies(
          mapExpressions(s, (e) => (known.size === 0 ? e : rewriteEx(e, (x) => divided(x, known)))),
          (b) => within(b, known),
        ),
      )
      return out
    })
  return within(stmts, new Map())
}

/** A division by what a reciprocal is of; other expressions as they are. */
function divided(e: Ex, taken: ReadonlyMap<string, Reciprocal>): Ex {
  if (e.k !== 'call' || e.fn !== 'f32_div') return e
  const [a, b] = e.args
  const r = b?.k === 'var' ? taken.get(b.name) : undefined
  if (a === undefined || b === undefined || r === undefined) return e
  return call('f32', 'f32_div_by', a, b, r.scale, r.divisor, r.reciprocal)
}

/** Variables from outside a loop that it divides floats by. */
function invariantDivisors(s: Extract<S, { k: 'for' }>): string[] {
  const out = new Set<string>()
  visitExpressions([s], (e) => {
    const by = e.k === 'call' && e.fn === 'f32_div' ? e.args[1] : undefined
    if (by?.k === 'var') out.add(by.name)
  })
  if (out.size === 0) return []
  visitStatements([s], (t) => {
    if (t.k === 'assign' && t.to.k === 'var') out.delete(t.to.name)
    if ('name' in t) out.delete(t.name)
  })
  return [...out]
}
