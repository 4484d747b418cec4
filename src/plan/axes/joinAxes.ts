/**
 * The axes of each role of a matrix product joined into one, whatever index maps say of them: a convolution's batch and positions
 * are the columns of a product, its channels and taps the depth (implicit GEMM, Chetlur et al. 2014, arXiv:1410.0759). Loads and
 * stores find the coordinates as quotients and remainders of the joined axis. Matrix units take whole blocks of one axis a role.
 */
import * as ix from '../../affine/expr.ts'
import { Substitution } from '../../affine/substitution.ts'
import { foldOrScanAxes } from '../../kernel/folds.ts'
import { type LetStmt, type NumericsMode, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf, substituteIn } from '../../kernel/walk.ts'
import { isArgCombiner } from '../../scalar/ops.ts'
import type { Machine } from '../../target/machine.ts'
import { type Body, pointsOf, substituteInStore } from '../body/body.ts'
import { longestAxis } from '../body/collapse.ts'
import { gatherSeconds, scatterSeconds, standsInVectors } from './gathered.ts'
import { bySpacing } from './gridAxes.ts'
import { isForMatrixUnit, matrixRole, storeUnit } from './matrixRole.ts'
import { positionOfLoad, strideAlong } from './positions.ts'
import { inWholeGrains } from './wholeGrains.ts'

/** The body with one axis a role of its matrix product (of two, one for the depth of each), where a matrix unit of the machine takes it; else the body itself. */
export function joinProductAxes(body: Body, target: Machine, mode: NumericsMode): Body {
  if (mode === 'strict' || target.keepsAxes === true) return body
  if (target.dotBlock.grains === undefined) return joinUnitDepth(body, target)
  const dots = body.lets.filter((l) => l.op.kind === 'dot')
  if (dots.length > 1 && target.chains?.grain !== undefined)
    return inWholeGrains(dots.length === 2 ? dots.reduce(joinDepth, body) : body, target)
  const [dot] = dots
  if (dot?.op.kind !== 'dot' || dots.length > 1 || body.axes.some((a) => a.extent === 0)) return body
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  if (!isForMatrixUnit(dot.op, lets)) return body
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const role = matrixRole(dot, lets, extents, storeUnit(body), target)
  if (role === undefined) return joinRow(body, dot)
  const groupsOf = (from: Body, axes: readonly string[]): string[][] =>
    joinable(from, dot.id, axes).filter((group) => pointsOf(extents, group) <= longestAxis(target))
  const among = ancestorsOf(operandsOf(dot.op), lets)
  /** The body of the order of some axes by which least is gathered, and scattered; the first where nothing tells them apart. */
  const joinBest = (from: Body, orders: readonly (readonly string[])[]): Body => {
    let best: { readonly groups: readonly string[][]; readonly seconds: number } | undefined
    for (const order of orders) {
      const groups = groupsOf(from, order)
      if (orders.length === 1) return groups.reduce(join, from)
      // What is gathered and scattered is told by what the product is of, and by stores.
      const product = { ...from, lets: from.lets.filter((l) => l.id === dot.id || among.has(l.id)) }
      const made = groups.reduce(join, product)
      const seconds = gatherSecondsOf(made, target) + scatterSeconds(made, order.at(-1) ?? '', target)
      if (best === undefined || seconds < best.seconds) best = { groups, seconds }
    }
    return best?.groups.reduce(join, from) ?? from
  }
  const sides = [role.m, role.n].reduce((at, axes) => {
    const usual = bySpacing(body, axes).reverse()
    return joinBest(at, axes.length < 2 ? [usual] : ordersOf(body, axes, among, usual))
  }, body)
  return joinBest(sides, role.k.length < 2 ? [role.k] : ordersOf(body, role.k, among))
}

/** Indices of an axis that vectors take. */
const leastVector = 8

/**
 * The body with one axis for the depth of a product that a unit of one dtype takes. Innermost is the axis along which an operand is read in vectors, else the longest: a step
 * has neighbours along it at one index of the others (channels at one tap), so that what lies beyond an edge is told once for all of them. Where they are no whole vectors the axes
 * stay.
 */
function joinUnitDepth(body: Body, { oneDtypeUnit: unit }: Machine): Body {
  const [dot, other] = body.lets.filter((l) => l.op.kind === 'dot')
  if (unit === undefined || other !== undefined || dot?.op.kind !== 'dot' || dot.op.axes.length < 2) return body
  const { op } = dot
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  if ([op.a, op.b].some((id) => lets.get(id)?.dtype !== unit.dtype)) return body
  const axes = body.axes.filter((a) => op.axes.includes(a.name))
  if (axes.some((a) => a.open !== undefined)) return body
  const among = ancestorsOf([op.a, op.b], lets)
  const loads = body.lets.filter((l) => among.has(l.id) && op.axes.every((a) => l.axes.includes(a)))
  const longest = axes.reduce((p, q) => (q.extent > p.extent ? q : p))
  const near = axes.find((a) => a.extent % leastVector === 0 && loads.some((l) => isInVectors(body, l, a.name)))
  const inner = near ?? longest
  if (inner.extent % leastVector !== 0 || (near === undefined && longest.extent < unit.depth)) return body
  const order = [...op.axes.filter((a) => a !== inner.name), inner.name]
  const [group] = joinable(body, dot.id, order)
  return group?.length === order.length ? join(body, group) : body
}

/**
 * A row times a matrix with the axes of its depth joined, where the innermost is too short for vectors: then the row is read in vectors, and what has
 * fewer elements (weights in few bits, scales of groups) stands for several of its neighbours.
 */
function joinRow(body: Body, dot: LetStmt): Body {
  if (dot.op.kind !== 'dot' || dot.op.axes.length < 2) return body
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const among = ancestorsOf(operandsOf(dot.op), lets)
  for (const order of ordersOf(body, dot.op.axes, among)) {
    const [group, other] = joinable(body, dot.id, order)
    const innermost = extents.get(order.at(-1) ?? '') ?? 1
    if (innermost >= leastVector || other !== undefined || group?.length !== order.length) continue
    const made = join(body, order)
    const axis = order.at(-1) ?? ''
    const loads = made.lets.filter((l) => among.has(l.id) && l.op.kind === 'load' && l.axes.includes(axis))
    if (loads.length > 0 && loads.every((l) => isInVectors(made, l, axis))) return made
  }
  return body
}

/** Whether neighbours along an axis are neighbours in memory, or the same elements. */
function isInVectors(body: Body, { op }: LetStmt, axis: string): boolean {
  if (op.kind !== 'load' || operandsOf(op).length > 0) return false
  return standsInVectors(positionOfLoad(body, op), op.mask, axis, leastVector)
}

/**
 * The body with one axis for the depth of one of two products: heads whose halves a rotation tells apart are one row to a matrix unit. Not where a
 * loop over the other's columns can end by the index of one of the axes.
 */
function joinDepth(body: Body, { id, op }: LetStmt): Body {
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  if (op.kind !== 'dot' || op.axes.length < 2 || body.axes.some((a) => a.extent === 0)) return body
  const isColumns = body.lets.some(
    (l) => l.id !== id && l.op.kind === 'dot' && op.axes.every((a) => l.axes.includes(a)),
  )
  const isCounted = body.lets.some((l) => l.op.kind === 'index' && l.axes.some((a) => op.axes.includes(a)))
  if (isColumns && isCounted) return body
  if (!isForMatrixUnit(op, lets)) return body
  const [order = op.axes] = ordersOf(body, op.axes, ancestorsOf(operandsOf(op), lets))
  const [group, other] = joinable(body, id, order)
  return group === undefined || other !== undefined || group.length < order.length ? body : join(body, group)
}

/** Seconds of gathering for the product of a body. */
function gatherSecondsOf(body: Body, target: Machine): number {
  const dot = body.lets.find((l) => l.op.kind === 'dot')
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const role = dot === undefined ? undefined : matrixRole(dot, lets, extents, storeUnit(body), target)
  return role === undefined ? 0 : gatherSeconds(body, role, extents, target)
}

/** Axes that every other fold runs over together, or not at all, in their order; only of two and more. */
function joinable(body: Body, dot: ValueId, axes: readonly string[]): string[][] {
  const groups = new Map<string, string[]>()
  for (const axis of axes) {
    const folds = body.lets.filter((l) => l.id !== dot && foldOrScanAxes(l).includes(axis))
    // Positions of arg-folds and the order of scans are those of their axes.
    if (folds.some((l) => l.op.kind === 'scan' || (l.op.kind === 'reduce' && isArgCombiner(l.op.combiner)))) continue
    const key = folds.map((l) => l.id).join()
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [axis])
    else group.push(axis)
  }
  return [...groups.values()].filter((g) => g.length > 1)
}

/**
 * Orders of some axes, each once: a given one first, and by their strides in each load, the longest first; where some have none (windows over what is
 * repeated), with the axis innermost along which neighbours stand side by side. Without any they are as they are.
 */
function ordersOf(
  body: Body,
  axes: readonly string[],
  among: ReadonlySet<ValueId>,
  first?: readonly string[],
): (readonly string[])[] {
  const orders = new Map<string, readonly string[]>(first === undefined ? [] : [[first.join(), first]])
  for (const l of body.lets) {
    if (l.op.kind !== 'load' || !among.has(l.id)) continue
    const position = positionOfLoad(body, l.op)
    const stride = (a: string): number => strideAlong(position, a)
    const unit = axes.find((a) => stride(a) === 1)
    const order = axes.every((a) => stride(a) !== 0)
      ? [...axes].sort((p, q) => stride(q) - stride(p))
      : unit !== undefined && [...(first ?? axes).filter((a) => a !== unit), unit]
    if (order) orders.set(order.join(), order)
  }
  return orders.size === 0 ? [axes] : [...orders.values()]
}

/** The body with some axes as the digits of one, outermost first. */
function join(body: Body, group: readonly string[]): Body {
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const shape = group.map((a) => extents.get(a) ?? 1)
  const total = pointsOf(extents, group)
  const name = group.at(-1) ?? ''
  const digits = new Map(ix.unflatten(ix.axis(name, total), shape).map((e, i) => [group[i] ?? '', e]))
  const by = new Substitution((a) => (a.kind === 'axis' ? digits.get(a.name) : undefined))
  // Statements go on sharing their lists of axes.
  const known = new Map<readonly string[], readonly string[]>()
  const renamed = (axes: readonly string[]): readonly string[] => {
    const have = known.get(axes)
    if (have !== undefined) return have
    const made = axes.some((a) => digits.has(a)) ? [...new Set(axes.map((a) => (digits.has(a) ? name : a)))] : axes
    known.set(axes, made)
    return made
  }
  const lets = body.lets.map((l): LetStmt => {
    const op = substituteIn(l.op, by)
    const axes = renamed(l.axes)
    if (op.kind === 'reduce' || op.kind === 'dot') return { ...l, axes, op: { ...op, axes: renamed(op.axes) } }
    return op === l.op && axes === l.axes ? l : { ...l, axes, op }
  })
  const stores = body.stores.map((s) => ({
    ...substituteInStore(s, by),
    ...(s.pieces === undefined ? {} : { pieces: renamed(s.pieces) }),
  }))
  const axes = body.axes.flatMap((a) => (a.name === name ? [{ name, extent: total }] : digits.has(a.name) ? [] : [a]))
  return { ...body, axes, lets, stores }
}
