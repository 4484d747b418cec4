/** Lowering of a scatter: programs walk the updates in row-major order and combine them into a copy of the target. */

import type { Expr } from '../affine/expr.ts'
import * as ix from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import type { NodeOf } from '../graph/node.ts'
import type {
  GridAxis,
  KernelAxis,
  KernelPart,
  LetStmt,
  NumericsMode,
  StoreStmt,
  TileOp,
  ValueId,
} from '../kernel/ir.ts'
import { buildBody } from '../plan/body/buildBody.ts'
import type { Machine } from '../target/machine.ts'
import type { DType } from '../types/dtype.ts'
import { holdsInteger, isWide, positionDType } from '../types/dtype.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'
import { sharePlaces } from './sharePlaces.ts'

export function lowerScatter(name: string, node: NodeOf<'scatter'>, target: Machine, mode: NumericsMode): Launch {
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
  const params = new Params()
  for (const [p, t] of body.loads) params.add(p, t.shape, t.node.dtype, 'read', { kind: 'node', node: t.node })
  params.add('y', x.shape, x.dtype, 'update', { kind: 'node', node })
  const { combiner } = node.attrs
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
  const store: StoreStmt = {
    kind: 'store',
    param: 'y',
    index: at,
    mask: [],
    value,
    ...(ok === undefined ? {} : { maskValue: ok }),
    ...(combiner === 'set' ? {} : { combiner }),
  }
  const places = at.flatMap((index, d) => (ix.valuesOf(index).size > 0 ? [{ index, extent: x.shape[d] ?? 1 }] : []))
  const update = ix.flatten(points.index, updates.shape)
  const whole: KernelPart = { axes: body.axes, grid: [], body: [...lets, store] }
  const grid = node.attrs.distinct === true && target.simt !== undefined ? gridOf(body.axes, target) : undefined
  const part =
    grid === undefined
      ? (sharePlaces({ axes: body.axes, lets, store, update, places }, target) ?? whole)
      : { ...whole, grid }
  return {
    main: { kernel: { name, params: params.list, mode, parts: [part] }, bindings: params.bindings },
    finishing: [],
    partials: [],
  }
}

/** Programs that share out the updates themselves, blocks of the last axis: where no two of them meet, any order will do. */
function gridOf(axes: readonly KernelAxis[], { elementBlock }: Machine): GridAxis[] {
  return axes.map((a, i) => ({ axis: a.name, block: i === axes.length - 1 ? Math.min(a.extent, elementBlock) : 1 }))
}
