/** Lowering of elementwise and reduction bodies: the statements stand as they are, under a grid over the parallel axes. */

import type { Expr } from '../affine/expr.ts'
import * as ix from '../affine/expr.ts'
import { invariant } from '../diagnostics/errors.ts'
import { foldOrScanAxes } from '../kernel/folds.ts'
import type { KernelPart, LetStmt, NumericsMode, Stmt, StoreStmt, ValueId } from '../kernel/ir.ts'
import { elementPoints, parallelGrid, partialsGrid, reductionPoints, straightGrid } from '../plan/axes/blocks.ts'
import { elementwiseRoles, type Roles } from '../plan/axes/roles.ts'
import { cutCombiner } from '../plan/axes/split.ts'
import { mainStage, oneStage } from '../plan/axes/stages.ts'
import type { Body, BodyStore } from '../plan/body/body.ts'
import { partialsOf } from '../plan/memory/partials.ts'
import type { Machine } from '../target/machine.ts'
import { computeDType } from '../types/dtype.ts'
import { lowerChunks } from './chunks.ts'
import { axesUsed, kernelOf, zeroOf } from './kernelOf.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'
import { rowLoop } from './rowLoop.ts'

/** Lowers a body that holds no matrix product. */
export function lowerStraight(name: string, body: Body, roles: Roles, target: Machine, mode: NumericsMode): Launch {
  if (roles.stages.split.size > 0) return lowerSplit(name, body, roles, target, mode)
  if (roles.chunks !== undefined) return lowerChunks(name, body, roles, roles.chunks, target, mode)
  const grid = straightGrid(body, roles, target, mode)
  const main = kernelOf(name, body, grid, body.lets, mode, new Params(), [])
  return { main, finishing: [], partials: [] }
}

/** Lowers the ranges of an elementwise body to the parts of one kernel. */
export function lowerSegments(name: string, segments: readonly Body[], target: Machine, mode: NumericsMode): Launch {
  const params = new Params()
  for (const body of segments)
    for (const [p, t] of body.loads)
      if (!params.list.some((x) => x.name === p) && body.lets.some((l) => l.op.kind === 'load' && l.op.param === p))
        params.add(p, t.shape, t.node.dtype, 'read', { kind: 'node', node: t.node })
  for (const body of segments) for (const s of body.stores) params.stored(s)
  const parts = segments.map((body): KernelPart => {
    const roles = elementwiseRoles(body)
    const stores = body.stores.map(
      (s): Stmt => ({ kind: 'store', param: params.stored(s), index: s.index, mask: [], value: s.value }),
    )
    return {
      axes: body.axes,
      grid: parallelGrid(body, roles, elementPoints(body, roles, target)),
      body: [...body.lets, ...stores],
    }
  })
  return {
    main: { kernel: { name, params: params.list, mode, parts }, bindings: params.bindings },
    finishing: [],
    partials: [],
  }
}

/**
 * Reductions cut into partial results: the main kernel stores them, a finishing stage folds them and computes what follows.
 * Results that need no cut reduction are stored by the main kernel.
 */
function lowerSplit(name: string, body: Body, roles: Roles, target: Machine, mode: NumericsMode): Launch {
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const { stages } = roles
  const { split, late, again } = stages
  const { lets: early, stores: own } = mainStage(body, stages)
  const partials = partialsOf(body, roles)
  const extra: StoreStmt[] = []
  const params = new Params()
  const finishParams = new Params()
  const finishLets: LetStmt[] = []
  const finishAxes = new Map(body.axes.map((a) => [a.name, a.extent]))
  const { splitBy } = roles
  invariant(splitBy !== undefined && splitBy !== 'result-blocks', 'a split without a way')
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const live = [...early]
  const replaced = new Map<ValueId, LetStmt[]>()

  for (const [index, id] of [...split].entries()) {
    const l = lets.get(id)
    const made = partials[index]
    const combiner = l === undefined ? undefined : cutCombiner(l)
    invariant(l !== undefined && combiner !== undefined && made !== undefined, 'only folds are split')
    const { op } = l
    const { shape, dtype } = made
    const param = `p${index}`
    const binding = { kind: 'partial', index } as const
    const keep = (axes: readonly string[]): Expr[] => axes.map((a) => ix.axis(a, extent(a)))
    if (splitBy === 'every-index') {
      invariant(op.kind === 'reduce', 'products are cut along an axis')
      const whole = [...op.axes, ...l.axes]
      const arg = lets.get(op.arg)
      invariant(arg !== undefined, 'a reduction without operand')
      params.add(param, shape, dtype, 'write', binding)
      extra.push({ kind: 'store', param, index: keep(whole), mask: [], value: op.arg })
      finishParams.add(param, shape, dtype, 'read', binding)
      const load: LetStmt = {
        kind: 'let',
        id: next++,
        dtype,
        axes: whole,
        op: { kind: 'load', param, index: keep(whole), mask: [], other: zeroOf(arg) },
      }
      replaced.set(id, [load, { ...l, op: { ...op, arg: load.id } }])
    } else {
      const { axis, block } = splitBy
      const [count = 1] = shape
      params.add(param, shape, dtype, 'write', binding)
      live.push(l)
      extra.push({
        kind: 'store',
        param,
        index: [ix.div(ix.axis(`${axis}.start`, extent(axis)), block), ...keep(l.axes)],
        mask: [],
        value: id,
      })
      finishParams.add(param, shape, dtype, 'read', binding)
      const part = `${axis}_part`
      finishAxes.set(part, count)
      const axes = [part, ...l.axes]
      const load: LetStmt = {
        kind: 'let',
        id: next++,
        dtype: l.dtype,
        axes,
        op: { kind: 'load', param, index: [ix.axis(part, count), ...keep(l.axes)], mask: [], other: zeroOf(l) },
      }
      replaced.set(id, [
        load,
        { ...l, op: { kind: 'reduce', combiner, arg: load.id, axes: count === 1 ? [] : [part] } },
      ])
    }
  }
  for (const l of body.lets) {
    const parts = replaced.get(l.id)
    if (parts !== undefined) finishLets.push(...parts)
    else if (late.has(l.id)) finishLets.push(l)
  }
  const loads = new Map(body.loads)
  for (const [i, id] of [...split].entries()) {
    const node = body.origin.get(id)
    if (node !== undefined) loads.set(`p${i}`, { node, shape: partials[i]?.shape ?? [] })
  }
  const finishBody: Body = {
    ...body,
    loads,
    axes: [...finishAxes].map(([n, e]) => ({ name: n, extent: e })),
    lets: [...body.lets.filter((l) => again.has(l.id)), ...finishLets],
    stores: body.stores.filter((s) => late.has(s.value)),
  }
  const folded = new Set(finishLets.flatMap(foldOrScanAxes))
  const finishNames = axesUsed(finishBody.lets, [])
  const names = ({ index }: Pick<BodyStore, 'index'>, a: string): boolean => index.some((e) => ix.axesOf(e).has(a))
  const finishRoles: Roles = {
    kind: 'reduction',
    extents: new Map(finishAxes),
    row: new Set(),
    reduced: folded,
    // A program holds whole what some results lack: else several programs would store those.
    parallel: new Set([...finishNames].filter((a) => !folded.has(a) && finishBody.stores.every((s) => names(s, a)))),
    stages: oneStage,
    splitBy: undefined,
  }
  // Partial results lack the axes that only what follows them has.
  const parallel = new Set([...roles.parallel].filter((a) => extra.every((s) => names(s, a))))
  const reduced = new Set([...roles.reduced].filter((a) => splitBy === 'every-index' || a !== splitBy.axis))
  const mainRoles: Roles = { ...roles, parallel, reduced }
  const grid = partialsGrid(body, mainRoles, splitBy, target)
  const main =
    splitBy !== 'every-index' && roles.row.size > 0 && partials.every((p) => computeDType(p.dtype) === p.dtype)
      ? rowLoop(name, { ...body, stores: own }, { ...roles, parallel }, splitBy, live, extra, mode, target, params)
      : kernelOf(name, body, grid, live, mode, params, extra, own)
  const finishing = kernelOf(
    `${name}_finish`,
    finishBody,
    parallelGrid(finishBody, finishRoles, reductionPoints(finishBody, finishRoles, target, true)),
    finishBody.lets,
    mode,
    finishParams,
    [],
  )
  return { main, finishing: [finishing], partials }
}
