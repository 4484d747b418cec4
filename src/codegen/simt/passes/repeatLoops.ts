/** Register loops written out, where a language's compilers do not unroll: register arrays then have constant indices. */
import { int, type S } from '../ir/ir.ts'
import { countOf, mapBodies, substituteIn } from '../ir/walk.ts'

/** Statements with the bodies of loops over registers repeated in place, each in a scope of its own where it declares names. */
export const repeatLoops = (stmts: readonly S[]): S[] =>
  stmts.flatMap((s): readonly S[] => {
    if (s.k !== 'for' || !s.unroll) return [mapBodies(s, repeatLoops)]
    return Array.from({ length: countOf(s) }, (_, i) => i).flatMap((i): readonly S[] => {
      const body = s.body.map((t) => substituteIn(t, new Map([[s.name, int(i)]])))
      return declares(body) ? [{ k: 'scope', body: repeatLoops(body) }] : repeatLoops(body)
    })
  })

/** Whether statements declare names in the block they stand in (branches on literals are printed in place). */
const declares = (body: readonly S[]): boolean =>
  body.some((s) => {
    if (s.k === 'if' && s.cond.k === 'lit') return declares(s.cond.value === true ? s.body : s.otherwise)
    if (s.k === 'vector') return s.of.op === 'read' || s.of.op === 'var'
    if (s.k === 'matrix') return s.of.op === 'zeros' || s.of.op === 'load' || s.of.op === 'take'
    return ['let', 'var', 'vload', 'words', 'array', 'uniform'].includes(s.k)
  })
