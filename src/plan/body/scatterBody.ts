/**
 * What a scatter computes, as a body: the value of each update, its place, and whether that is inside. The first store is the combination
 * into the target; those behind it store nothing: they say where an update stands, and the coordinates that come from data.
 */

import type { Expr } from '../../affine/expr.ts'
import * as ix from '../../affine/expr.ts'
import { invariant } from '../../diagnostics/errors.ts'
import type { NodeOf } from '../../graph/node.ts'
import type { LetStmt, TileOp, ValueId } from '../../kernel/ir.ts'
import type { DType } from '../../types/dtype.ts'
import { holdsInteger, isWide, positionDType } from '../../types/dtype.ts'
import type { Body, BodyStore } from './body.ts'
import { buildBody } from './buildBody.ts'

export interface ScatterBody {
  /** Its stores: the target, the updates, and each dimension whose coordinates come from data. */
  readonly body: Body
  /** Whether an update is inside the target; absent: all are. */
  readonly inside: ValueId | undefined
  /** Axes that lead to columns of a place, whatever the data. */
  readonly columns: ReadonlySet<string>
}

export function scatterBody(node: NodeOf<'scatter'>): ScatterBody {
  const [x, updates, ...indices] = node.inputs
  invariant(x !== undefined && updates !== undefined, 'scatter without inputs')
  const built = buildBody({ members: new Set(), outputs: [updates, ...indices] })
  invariant(built.ok, 'the updates of a scatter do not line up')
  const { body } = built
  const inputOf = (n: typeof updates): { value: ValueId; index: readonly Expr[] } => {
    const s = body.stores.find((t) => t.node === n)
    invariant(s !== undefined, 'an input of a scatter is not evaluated')
    return s
  }
  const lets: LetStmt[] = [...body.lets]
  const axesOf = new Map(lets.map((l) => [l.id, l.axes]))
  let next = Math.max(-1, ...lets.map((l) => l.id)) + 1
  const emit = (op: TileOp, dtype: DType, axes: readonly string[]): ValueId => {
    const id = next++
    lets.push({ kind: 'let', id, dtype, axes, op })
    axesOf.set(id, axes)
    return id
  }
  const points = inputOf(updates)
  let ok: ValueId | undefined
  const at = node.attrs.sources.map((s, d): Expr => {
    if ('axis' in s) return points.index[s.axis] ?? ix.zero
    const source = indices[s.input]
    invariant(source !== undefined, 'a scatter without index')
    const raw = inputOf(source).value
    const axes = axesOf.get(raw) ?? []
    const n = x.shape[d] ?? 1
    const literal = (v: number): ValueId =>
      emit({ kind: 'const', value: isWide(source.dtype) ? BigInt(v) : v }, source.dtype, [])
    const low = emit({ kind: 'scalar', op: 'ge', args: [raw, literal(0)] }, 'bool', axes)
    // Every number of a narrow dtype may be below an extent.
    const inside = holdsInteger(source.dtype, n)
      ? emit(
          {
            kind: 'scalar',
            op: 'and',
            args: [low, emit({ kind: 'scalar', op: 'lt', args: [raw, literal(n)] }, 'bool', axes)],
          },
          'bool',
          axes,
        )
      : low
    const before = ok
    ok =
      before === undefined
        ? inside
        : emit(
            { kind: 'scalar', op: 'and', args: [before, inside] },
            'bool',
            body.axes.map((a) => a.name).filter((a) => axes.includes(a) || axesOf.get(before)?.includes(a)),
          )
    const most = holdsInteger(source.dtype, n - 1)
      ? emit({ kind: 'scalar', op: 'min', args: [raw, literal(Math.max(0, n - 1))] }, source.dtype, axes)
      : raw
    const clamped = emit({ kind: 'scalar', op: 'max', args: [most, literal(0)] }, source.dtype, axes)
    const dtype = source.dtype === 'i32' ? 'i32' : positionDType({ lo: 0, hi: n - 1 })
    return ix.value(
      source.dtype === dtype ? clamped : emit({ kind: 'scalar', op: 'cast', args: [clamped] }, dtype, axes),
      n,
    )
  })
  // Every point is combined, along axes too that its place does not depend on, and in order: a store visits the axes of its value first.
  const all = body.axes.map((a) => a.name)
  const spread = (value: ValueId, dtype: DType): ValueId => {
    const missing = all.filter((a) => axesOf.get(value)?.includes(a) !== true)
    if (missing.length === 0) return value
    const everywhere = emit({ kind: 'const', value: true }, 'bool', missing)
    return emit({ kind: 'scalar', op: 'select', args: [everywhere, value, value] }, dtype, all)
  }
  const named = new Set<string>(at.flatMap((e) => [...ix.axesOf(e)]))
  for (const id of [...(ok === undefined ? [] : [ok]), ...at.flatMap((e) => [...ix.valuesOf(e)])])
    for (const a of axesOf.get(id) ?? []) named.add(a)
  if (ok !== undefined && all.some((a) => !named.has(a))) ok = spread(ok, 'bool')
  const inOrder = (axesOf.get(points.value) ?? []).every((a, i) => a === all[i])
  const value = inOrder ? points.value : spread(points.value, updates.dtype)
  const target: BodyStore = { node, shape: x.shape, index: at, value, isScattered: true }
  const stands: BodyStore = { node: updates, shape: updates.shape, index: points.index, value }
  const places = at.flatMap((index, d): BodyStore[] =>
    ix.valuesOf(index).size > 0 ? [{ node: x, shape: [x.shape[d] ?? 1], index: [index], value }] : [],
  )
  return {
    body: { ...body, lets, stores: [target, stands, ...places] },
    inside: ok,
    columns: new Set(at.flatMap((e) => (ix.valuesOf(e).size > 0 ? [] : [...ix.axesOf(e)]))),
  }
}
