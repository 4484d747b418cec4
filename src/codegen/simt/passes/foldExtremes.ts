/**
 * Nests of register loops that do nothing but fold by max or min, several values into a place: one fold of them all. Where a language
 * leaves open what they make of NaN and zeros, all are tested once for it.
 */
import { type Ex, type ExtremeFold, int, type S } from '../ir/ir.ts'
import { countOf, mapBodies, substituteVars } from '../ir/walk.ts'

/** Statements with such nests as folds. */
export const foldExtremes = (stmts: readonly S[]): S[] =>
  stmts.flatMap((s): readonly S[] => {
    const folds = s.k === 'for' && s.unroll ? extremesOf(s) : undefined
    return folds ?? [mapBodies(s, foldExtremes)]
  })

/** What a nest of loops folds, by place, if it does nothing else and that several times. */
function extremesOf(s: Extract<S, { k: 'for' }>): ExtremeFold[] | undefined {
  const places = new Map<string, ExtremeFold>()
  const collect = (stmts: readonly S[], at: ReadonlyMap<string, Ex>): boolean =>
    stmts.every((t) => {
      if (t.k === 'for' && t.unroll)
        return Array.from({ length: countOf(t) }, (_, i) => i).every((i) =>
          collect(t.body, new Map([...at, [t.name, int(i)]])),
        )
      const one = foldOf(t, at)
      if (one === undefined) return false
      const key = JSON.stringify([one.to, one.by])
      places.set(key, { ...one, of: [...(places.get(key)?.of ?? []), ...one.of] })
      return true
    })
  if (!collect([s], new Map())) return undefined
  const all = [...places.values()]
  return all.some((e) => e.of.length > 1) ? all : undefined
}

function foldOf(s: S, at: ReadonlyMap<string, Ex>): ExtremeFold | undefined {
  if (s.k !== 'assign' || (s.to.k !== 'var' && s.to.k !== 'elem') || s.value.k !== 'call') return undefined
  const { fn, args } = s.value
  if (fn !== 'f32_max' && fn !== 'f32_min') return undefined
  const [from, to, taken] = [args[0], s.to, args[1]].map((x) => (x === undefined ? x : substituteVars(x, at)))
  if (from === undefined || to === undefined || JSON.stringify(from) !== JSON.stringify(to)) return undefined
  const value = taken?.k === 'select' && taken.b.k === 'lit' ? taken.a : taken
  if (taken === undefined || value?.k !== 'elem' || (to.k === 'elem' && to.array === value.array)) return undefined
  return { k: 'extreme', to, by: fn === 'f32_max' ? 'max' : 'min', of: [{ taken, value }] }
}
