/**
 * Places of a loop's early loads: what no iteration changes of where a thread loads, and of whether there is something to load, is found before the loop, so
 * that an iteration adds one number to it. (Windows have bounds on both sides, divided indices have quotients; compilers take them again in each iteration
 * where they stand under conditions.)
 */
import { axesOf, type Expr, strideOf } from '../../../affine/expr.ts'
import { startOf } from '../../../kernel/axes.ts'
import { typeOfExpr } from '../../../kernel/indexType.ts'
import type { LoadPlan } from '../../../schedule/simt/access/loadPlan.ts'
import { flatIndex } from '../../../schedule/simt/part/facts.ts'
import { add, and, type Block, bin, type Ex, int, mul, select, sub } from '../ir/ir.ts'
import { declare, type Lanes, type Registers, registerAt } from '../ir/registers.ts'
import type { Point } from '../nest/point.ts'
import { insideAlong, type Scope } from '../nest/scope.ts'
import { forGroups, groupNumber } from './earlyLoads.ts'
import { positionOf } from './memory.ts'

/** Where a load goes at a point, and whether. */
export interface Site {
  readonly at: Ex
  readonly there: Ex
}

/** The site of a group of a load in an iteration. */
export type SiteOf = (p: Point, lanes: Lanes, there: Ex) => Site

/** The site without anything found before. */
export const plainSite =
  (plan: LoadPlan): SiteOf =>
  (p, _, there) => ({ at: positionOf(p, plan.let.op).at, there })

/** A place that no load has: there is nothing to load in any iteration. */
const nowhere = -(2 ** 31) + 1

/** Finds the places of a load in a scope where the loop over `axis` stands at its first index, `from`. */
export function openPlaces(scope: Scope, plan: LoadPlan, axis: string, from: Ex, out: Block): SiteOf {
  const { unit, layout, part } = scope
  const { op } = plan.let
  const flat = flatIndex(op.index, unit.param(op.param).shape)
  const stride = strideOf(flat, axis)
  const isStart = (e: Expr): boolean => [...axesOf(e)].some((a) => startOf(a) === axis)
  const varying = op.mask.filter((b) => axesOf(b.expr).has(axis))
  if (stride === undefined || typeOfExpr(flat) !== 'i32' || from.type !== 'i32') return plainSite(plan)
  if (isStart(flat) || op.mask.some((b) => isStart(b.expr))) return plainSite(plan)
  const fixed = op.mask.filter((b) => !varying.includes(b))
  const axes = part.axesOf(plan.let.id)
  const places: Registers = { name: unit.name(`${op.param}_place`), type: 'i32', length: plan.groups }
  const placeOf = (lanes: Lanes): Ex => registerAt(places, groupNumber(layout, plan, axes, lanes))
  const isThere = (p: Point, lanes: Lanes): Ex =>
    and(...axes.filter((a) => a !== axis).map((a) => insideAlong(p.scope, a, lanes)), p.predicate(fixed))
  declare(places, out)
  let always = true
  forGroups(scope, plan, out, (p, lanes, _, body) => {
    const there = isThere(p, lanes)
    if (there.k !== 'lit') always = false
    body.push({ k: 'assign', to: placeOf(lanes), value: select(there, positionOf(p, op).at, int(nowhere)) })
  })
  return (p, lanes) => {
    const place = placeOf(lanes)
    const moved = mul(sub(p.scope.range(axis).start, from), int(stride))
    const isSome = always ? undefined : bin('!=', place, int(nowhere))
    const own = axes.includes(axis) ? insideAlong(p.scope, axis, lanes) : undefined
    return { at: add(place, moved), there: and(isSome, own, p.predicate(varying)) }
  }
}
