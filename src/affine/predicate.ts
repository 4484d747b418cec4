/** Predicates: conjunctions of bounds on index expressions (padding, concatenation, tails). */
import { Setting } from '../diagnostics/setting.ts'
import { type Atom, type Expr, evaluate, rangeOf, substitute } from './expr.ts'

/** lo <= expr < hi. */
export interface Bound {
  readonly expr: Expr
  readonly lo: number
  readonly hi: number
}

/** What two bounds that say the same have in common. */
export const boundKey = ({ expr, lo, hi }: Bound): string => `${lo} ${expr.key} ${hi}`

/** All bounds hold; the empty predicate is true. */
export type Predicate = readonly Bound[]

export const always: Predicate = []

interface Known {
  readonly key: string
  readonly decision: Decision
}

/** What the ranges alone say of a bound. */
type Decision = 'true' | 'false' | 'unknown'

/** Masks share their bounds: each is looked at once. */
const known = new WeakMap<Bound, Known>()

function knownOf(b: Bound): Known {
  const have = known.get(b)
  if (have !== undefined) return have
  const made = { key: `${b.lo}<=${b.expr.key}<${b.hi}`, decision: decide(b) }
  known.set(b, made)
  return made
}

const keys = new WeakMap<Predicate, string>()

export function predicateKey(p: Predicate): string {
  const have = keys.get(p)
  if (have !== undefined) return have
  const key = p.map((b) => knownOf(b).key).join('&')
  keys.set(p, key)
  return key
}

/** What the ranges alone say of a bound. */
export const decideBound = (b: Bound): Decision => knownOf(b).decision

function decide(b: Bound): Decision {
  const r = rangeOf(b.expr)
  if (r.lo >= b.lo && r.hi < b.hi) return 'true'
  if (r.hi < b.lo || r.lo >= b.hi || b.lo >= b.hi) return 'false'
  return 'unknown'
}

/** Conjunctions that `conjoin` made. */
const sorted = new WeakSet<Predicate>([always])

const keeping = new Setting(false)

/** Makes conjunctions that keep bounds which are known to hold: at other extents that they stand for they may not. */
export function keepingBounds<T>(body: () => T): T {
  return keeping.during(true, body)
}

/** Whether what is known to hold is tested all the same. */
export const keepsBounds = (): boolean => keeping.value

/** Adds bounds, dropping what is known to hold and what stands already; sorted, so equal conjunctions have equal keys. */
export function conjoin(p: Predicate, ...bounds: readonly Bound[]): Predicate {
  const start = sorted.has(p) ? p : always
  const out = [...start]
  for (const b of start === p ? bounds : [...p, ...bounds]) {
    if (!keeping.value && decideBound(b) === 'true') continue
    const { key } = knownOf(b)
    let at = out.length
    for (let there = out[at - 1]; there !== undefined && knownOf(there).key >= key; there = out[at - 1]) at--
    const there = out[at]
    if (there === undefined || knownOf(there).key !== key) out.splice(at, 0, b)
  }
  if (out.length === start.length) return start
  sorted.add(out)
  return out
}

/** No point satisfies it, by ranges alone. */
export const isNever = (p: Predicate): boolean => p.some((b) => decideBound(b) === 'false')

export const substitutePredicate = (p: Predicate, map: (a: Atom) => Expr | undefined): Predicate =>
  mapPredicate(p, (e) => substitute(e, map))

/** The predicate with every expression replaced. */
export const mapPredicate = (p: Predicate, map: (e: Expr) => Expr): Predicate =>
  conjoin(
    always,
    ...p.map((b) => {
      const expr = map(b.expr)
      return expr === b.expr ? b : { ...b, expr }
    }),
  )

export const holds = (p: Predicate, axisAt: (name: string) => number, valueAt: (id: number) => number): boolean =>
  p.every((b) => {
    const v = evaluate(b.expr, axisAt, valueAt)
    return v >= b.lo && v < b.hi
  })
