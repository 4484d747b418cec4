/**
 * Places that stay in registers while updates are walked (voted.ts): where a thread has one place of its program's alone, it reads that once, combines into a
 * register in the order of the updates, and writes it when all are taken.
 */

import { flatIndex } from '../../../schedule/simt/part/facts.ts'
import type { SinglePlace } from '../../../schedule/simt/part/filter.ts'
import { and, type Block, cast, type Ex, int, lit, lt, type S, v, when } from '../ir/ir.ts'
import { bodiesOf, mapBodies, substituteIn, substituteVars, visitExpressions, visitStatements } from '../ir/walk.ts'
import { allowed } from '../memory/memory.ts'
import { elementAt } from '../memory/packedElements.ts'
import { Point } from './point.ts'
import { assign } from './queue.ts'
import type { Scope } from './scope.ts'

export interface OwnPlace {
  /** Stores of updates as combinations into the register; undefined where they have another form. */
  readonly take: (stores: Block) => Block | undefined
  /** What is done before all updates are walked, and behind. */
  readonly begin: Block
  readonly end: Block
}

/** The register of a thread's own place; undefined where it has several, or none that code can address. */
export function ownPlace(
  scope: Scope,
  { store, coordinate, place, extent }: SinglePlace,
  along: string,
): OwnPlace | undefined {
  const { unit, part, layout } = scope
  const p = unit.param(store.param)
  const axes = part.storeAxes(store).filter((a) => a !== along)
  const isOne = (a: string): boolean => {
    const l = layout.find(a)
    return l === undefined || l.chunks * l.reps * l.vec === 1
  }
  if (!axes.every(isOne)) return undefined
  const begin: Block = []
  const inner = scope.child({})
  const own = unit.name('own_place')
  begin.push({ k: 'let', name: own, value: cast('i32', new Point(inner, new Map()).expr(place)) })
  inner.held.set(coordinate, { kind: 'scalar', value: v('i32', own) })
  const point = new Point(inner, new Map())
  const index = point.position(flatIndex(store.index, p.shape))
  const old = elementAt(inner, p, index)
  if (old.k !== 'load') return undefined
  const { type } = old
  const isOwn = unit.name('own_there')
  begin.push({
    k: 'let',
    name: isOwn,
    value: and(
      lt(v('i32', own), int(extent)),
      scope.owner(axes),
      allowed(point, { param: store.param, index: store.index, mask: store.mask }, axes),
    ),
  })
  const name = unit.name(`${p.name}_own`)
  const held = v(type, name)
  begin.push({ k: 'var', name, type, value: lit(type, 0) })
  begin.push(...when(v('bool', isOwn), [assign(held, old)]))
  const end = when(v('bool', isOwn), [{ k: 'store', param: p.name, index, value: held }])
  return { begin, end, take: (stores) => intoRegister(stores, p.name, held) }
}

/** Statements with what they read and write of a parameter in a register; undefined where they do so in another form. */
function intoRegister(stmts: readonly S[], param: string, held: Ex): Block | undefined {
  const olds = new Map<string, Ex>()
  const go = (body: readonly S[]): S[] =>
    body.flatMap((s): S[] => {
      if (s.k === 'let' && s.value.k === 'load' && s.value.param === param) {
        olds.set(s.name, held)
        return []
      }
      if (s.k === 'store' && s.param === param) return [assign(held, substituteVars(s.value, olds))]
      return [bodiesOf(s).length > 0 ? mapBodies(s, go) : substituteIn(s, olds)]
    })
  const made = go(stmts)
  return touches(made, param) ? undefined : made
}

/** Whether statements read or write a parameter. */
function touches(stmts: readonly S[], param: string): boolean {
  let found = false
  visitStatements(stmts, (s) => {
    found ||= 'param' in s && s.param === param
  })
  visitExpressions(stmts, (e) => {
    found ||= (e.k === 'load' || e.k === 'word') && e.param === param
  })
  return found
}
