/** Lowering of elementwise and reduction bodies: the statements stand as they are, under a grid over the parallel axes. */
import { invariant } from '../diagnostics/errors.ts'
import type { Expr } from '../index/expr.ts'
import * as ix from '../index/expr.ts'
import {
  type GridAxis,
  type KernelPart,
  type LetStmt,
  type NumericsMode,
  operandsOf,
  type Stmt,
  type StoreStmt,
  type ValueId,
} from '../kernel/ir.ts'
import { ancestorsOf, liveLets } from '../kernel/walk.ts'
import type { Body } from '../plan/body.ts'
import { elementwiseRoles, type Roles } from '../plan/roles.ts'
import { dependsOn } from '../plan/split.ts'
import type { TargetInfo } from '../plan/target.ts'
import { parallelGrid, reductionPoints } from './blocks.ts'
import type { BoundKernel, Launch, PartialBuffer } from './launch.ts'
import { Params } from './params.ts'

/** Lowers a body that holds no matrix product. */
export function lowerStraight(name: string, body: Body, roles: Roles, target: TargetInfo, mode: NumericsMode): Launch {
  if (roles.split.size > 0) return lowerSplit(name, body, roles, target, mode)
  const points = roles.kind === 'elementwise' ? target.elementBlock : reductionPoints(body, roles, target)
  const main = kernelOf(name, body, parallelGrid(body, roles, points), body.lets, mode, new Params(), [])
  return { main, finishing: [], partials: [] }
}

/** Lowers the ranges of an elementwise body to the parts of one kernel. */
export function lowerSegments(name: string, segments: readonly Body[], target: TargetInfo, mode: NumericsMode): Launch {
  const params = new Params()
  for (const body of segments)
    for (const [p, t] of body.loads)
      if (!params.list.some((x) => x.name === p) && body.lets.some((l) => l.op.kind === 'load' && l.op.param === p))
        params.add(p, t.shape, t.node.dtype, 'read', { kind: 'node', node: t.node })
  segments[0]?.stores.forEach((s, i) => {
    params.add(`y${i}`, s.shape, s.node.dtype, 'write', { kind: 'node', node: s.node })
  })
  const parts = segments.map((body): KernelPart => {
    const stores = body.stores.map(
      (s, i): Stmt => ({ kind: 'store', param: `y${i}`, index: s.index, mask: [], value: s.value }),
    )
    return {
      axes: body.axes,
      grid: parallelGrid(body, elementwiseRoles(body), target.elementBlock),
      body: [...body.lets, ...stores],
    }
  })
  return {
    main: { kernel: { name, params: params.list, mode, parts }, bindings: params.bindings },
    finishing: [],
    partials: [],
  }
}

/** A kernel of statements, the body's stores among `storesOf` (all, unless told) and further stores. */
function kernelOf(
  name: string,
  body: Body,
  grid: readonly GridAxis[],
  lets: readonly LetStmt[],
  mode: NumericsMode,
  params: Params,
  extra: readonly Stmt[],
  stores: Body['stores'] = body.stores,
): BoundKernel {
  const used = new Set(lets.flatMap((l) => (l.op.kind === 'load' ? [l.op.param] : [])))
  for (const [p, t] of body.loads)
    if (used.has(p) && !params.list.some((x) => x.name === p))
      params.add(p, t.shape, t.node.dtype, 'read', { kind: 'node', node: t.node })
  const tail: Stmt[] = stores.map((s, i) => ({
    kind: 'store',
    param: params.add(`y${i}`, s.shape, s.node.dtype, 'write', { kind: 'node', node: s.node }),
    index: s.index,
    mask: [],
    value: s.value,
  }))
  const named = axesUsed(lets, [...extra, ...tail])
  const part: KernelPart = {
    axes: body.axes.filter((a) => named.has(a.name)),
    grid: grid.filter((g) => named.has(g.axis)),
    body: [...lets, ...extra, ...tail],
  }
  return { kernel: { name, params: params.list, mode, parts: [part] }, bindings: params.bindings }
}

function axesUsed(lets: readonly LetStmt[], stores: readonly Stmt[]): Set<string> {
  const out = new Set<string>()
  const take = (e: Expr): void => {
    for (const a of ix.axesOf(e)) out.add(a.replace(/\.start$/, ''))
  }
  for (const l of lets) {
    for (const a of l.axes) out.add(a)
    if (l.op.kind === 'reduce' || l.op.kind === 'dot') for (const a of l.op.axes) out.add(a)
  }
  for (const s of stores) if (s.kind === 'store') s.index.forEach(take)
  return out
}

/**
 * Reductions cut into partial results: the main kernel stores them, a finishing stage folds them and computes what follows.
 * Results that need no cut reduction are stored by the main kernel.
 */
function lowerSplit(name: string, body: Body, roles: Roles, target: TargetInfo, mode: NumericsMode): Launch {
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const after = new Set<ValueId>()
  for (const l of body.lets) if ([...roles.split].some((s) => l.id === s || dependsOn(l, s, lets))) after.add(l.id)
  const partials: PartialBuffer[] = []
  const extra: StoreStmt[] = []
  const params = new Params()
  const finishParams = new Params()
  const finishLets: LetStmt[] = []
  const finishAxes = new Map(body.axes.map((a) => [a.name, a.extent]))
  const { splitBy } = roles
  invariant(splitBy !== undefined, 'a split without a way')
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const mainLets = body.lets.filter((l) => !after.has(l.id))
  const replaced = new Map<ValueId, LetStmt[]>()

  for (const id of roles.split) {
    const l = lets.get(id)
    invariant(l?.op.kind === 'reduce', 'only reductions are split')
    const { op } = l
    const index = partials.length
    const param = `p${index}`
    const binding = { kind: 'partial', index } as const
    const keep = (axes: readonly string[]): Expr[] => axes.map((a) => ix.axis(a, extent(a)))
    if (splitBy === 'every-index') {
      const whole = [...op.axes, ...l.axes]
      const shape = whole.map(extent)
      const arg = lets.get(op.arg)
      invariant(arg !== undefined, 'a reduction without operand')
      partials.push({ shape, dtype: arg.dtype })
      params.add(param, shape, arg.dtype, 'write', binding)
      extra.push({ kind: 'store', param, index: keep(whole), mask: [], value: op.arg })
      finishParams.add(param, shape, arg.dtype, 'read', binding)
      const load: LetStmt = {
        kind: 'let',
        id: next++,
        dtype: arg.dtype,
        axes: whole,
        op: { kind: 'load', param, index: keep(whole), mask: [], other: zeroOf(arg) },
      }
      replaced.set(id, [load, { ...l, op: { ...op, arg: load.id } }])
    } else {
      const { axis, block } = splitBy
      const count = Math.ceil(extent(axis) / block)
      const shape = [count, ...l.axes.map(extent)]
      partials.push({ shape, dtype: l.dtype })
      params.add(param, shape, l.dtype, 'write', binding)
      mainLets.push(l)
      extra.push({
        kind: 'store',
        param,
        index: [ix.div(ix.axis(`${axis}.start`, extent(axis)), block), ...keep(l.axes)],
        mask: [],
        value: id,
      })
      finishParams.add(param, shape, l.dtype, 'read', binding)
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
        { ...l, op: { kind: 'reduce', combiner: op.combiner, arg: load.id, axes: count === 1 ? [] : [part] } },
      ])
    }
  }
  for (const l of body.lets) {
    const parts = replaced.get(l.id)
    if (parts !== undefined) finishLets.push(...parts)
    else if (after.has(l.id)) finishLets.push(l)
  }
  const again = recompute(body, finishLets)
  const loads = new Map(body.loads)
  for (const [i, id] of [...roles.split].entries()) {
    const node = body.origin.get(id)
    if (node !== undefined) loads.set(`p${i}`, { node, shape: partials[i]?.shape ?? [] })
  }
  const finishBody: Body = {
    ...body,
    loads,
    axes: [...finishAxes].map(([n, e]) => ({ name: n, extent: e })),
    lets: [...again, ...finishLets],
    stores: body.stores.filter((s) => after.has(s.value)),
  }
  const folded = new Set(finishLets.flatMap((l) => (l.op.kind === 'reduce' ? l.op.axes : [])))
  const finishNames = axesUsed(finishBody.lets, [])
  const finishRoles: Roles = {
    kind: 'reduction',
    extents: new Map(finishAxes),
    row: new Set(),
    reduced: folded,
    parallel: new Set([...finishNames].filter((a) => !folded.has(a))),
    split: new Set(),
    splitBy: undefined,
  }
  const cut: GridAxis[] =
    splitBy === 'every-index'
      ? [
          ...new Set(
            [...roles.split].flatMap((id) => {
              const l = lets.get(id)
              return l?.op.kind === 'reduce' ? l.op.axes : []
            }),
          ),
        ].map((axis) => ({ axis, block: 1 }))
      : [splitBy]
  const mainRoles: Roles =
    splitBy === 'every-index'
      ? roles
      : { ...roles, reduced: new Set([...roles.reduced].filter((a) => a !== splitBy.axis)) }
  const grid = [
    ...cut,
    ...parallelGrid(body, mainRoles, splitBy === 'every-index' ? 1 : Math.max(1, target.elementBlock / splitBy.block)),
  ]
  const own = body.stores.filter((s) => !after.has(s.value))
  const live = liveLets(mainLets, [...extra.map((s) => s.value), ...own.map((s) => s.value)])
  const main = kernelOf(name, body, grid, live, mode, params, extra, own)
  const finishing = kernelOf(
    `${name}_finish`,
    finishBody,
    parallelGrid(finishBody, finishRoles, reductionPoints(finishBody, finishRoles, target)),
    finishBody.lets,
    mode,
    finishParams,
    [],
  )
  return { main, finishing: [finishing], partials }
}

const zeroOf = (l: LetStmt): boolean | number | bigint =>
  l.dtype === 'bool' ? false : l.dtype === 'i64' || l.dtype === 'u64' ? 0n : 0

/** Statements of the body that the finishing statements use and that are computed there again. */
function recompute(body: Body, finish: readonly LetStmt[]): LetStmt[] {
  const have = new Set(finish.map((l) => l.id))
  const others = new Map(body.lets.filter((l) => !have.has(l.id)).map((l) => [l.id, l]))
  const need = ancestorsOf(
    finish.flatMap((l) => operandsOf(l.op)),
    others,
  )
  return body.lets.filter((l) => others.has(l.id) && need.has(l.id))
}
