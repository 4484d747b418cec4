/**
 * Lowering of a body around a matrix product: blocks of rows and columns a program, a loop over blocks of the depth that
 * carries the block of results and the reductions that ride with it, then the epilogue.
 */

import * as ix from '../affine/expr.ts'
import type { Predicate } from '../affine/predicate.ts'
import { invariant } from '../diagnostics/errors.ts'
import {
  type Carry,
  type KernelPart,
  type LetStmt,
  type LoopStmt,
  type NumericsMode,
  operandsOf,
  type Stmt,
  type ValueId,
} from '../kernel/ir.ts'
import { ancestorsOf, liveLets, renameOperands } from '../kernel/walk.ts'
import { type Blocked, matrixBlocks } from '../plan/axes/matrixBlocks.ts'
import type { Roles } from '../plan/axes/roles.ts'
import type { Body } from '../plan/body/body.ts'
import { combinerIdentity, isArgCombiner } from '../scalar/ops.ts'
import type { Machine } from '../target/machine.ts'
import { cutDepth } from './depth.ts'
import { factorsOut } from './factors.ts'
import { type CutFold, finishingStages } from './finish.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'

/** What a loop over the depth carries: its start, one step's new state from the state before, the whole. */
interface Carried {
  readonly init: LetStmt
  readonly step: (before: ValueId) => readonly LetStmt[]
  readonly result: ValueId
}

/** Loops over blocks of the depth (up to `to`) around `inner`, carrying states from the outermost loop's start to its end. */
function depthLoops(
  loops: readonly Blocked[],
  inner: readonly Stmt[],
  carried: readonly Carried[],
  fresh: () => ValueId,
  to?: ValueId,
): Stmt {
  const states = carried.map((c) => {
    const param = fresh()
    const steps = c.step(param)
    const last = steps.at(-1)
    invariant(last !== undefined, 'a carried state without a step')
    return { ...c, steps, param, next: last.id }
  })
  let body: readonly Stmt[] = [...inner, ...states.flatMap((s) => s.steps)]
  let made: LoopStmt | undefined
  let ends = states.map((s) => ({ param: s.param, next: s.next }))
  for (const d of [...loops].reverse()) {
    const outermost = d === loops[0]
    const carries = states.map((s, i): Carry => {
      const { param = s.param, next = s.next } = ends[i] ?? {}
      const { dtype, axes } = s.init
      return { init: outermost ? s.init.id : fresh(), param, next, result: outermost ? s.result : fresh(), dtype, axes }
    })
    const bound = outermost && to !== undefined ? { to } : {}
    made = { kind: 'loop', axis: d.axis, block: d.block, ...bound, carries, body }
    body = [made]
    ends = carries.map((c) => ({ param: c.init, next: c.result }))
  }
  invariant(made !== undefined, 'a matrix product without depth')
  return made
}

export function lowerMatrix(name: string, planned: Body, found: Roles, target: Machine, mode: NumericsMode): Launch {
  const { body, roles } = cutDepth(factorsOut(planned, found, mode), found)
  const { matrix } = roles
  invariant(matrix !== undefined, 'no matrix product')
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  const dot = body.lets.find((l) => l.id === matrix.id)
  invariant(dot?.op.kind === 'dot', 'the matrix product is no dot')
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const { m, n, rows, columns, depth } = matrixBlocks(body, matrix, roles.extents, target)
  const blocks = [...matrix.batch.map((axis) => ({ axis, block: 1 })), ...rows, ...columns]

  const riders = body.lets.filter((l) => matrix.riding.has(l.id))
  const operand = ancestorsOf(operandsOf(dot.op), lets)
  const ridden = ancestorsOf(
    riders.flatMap((l) => operandsOf(l.op)),
    lets,
  )
  const inK = new Set<ValueId>()
  for (const l of body.lets)
    if (l.axes.some((a) => matrix.k.includes(a)) || operandsOf(l.op).some((o) => inK.has(o))) inK.add(l.id)
  const looped = new Set(
    body.lets.filter((l) => (operand.has(l.id) || ridden.has(l.id)) && inK.has(l.id)).map((l) => l.id),
  )

  let next = Math.max(...body.lets.map((l) => l.id)) + 1
  const fresh = (): ValueId => next++
  const layout = (own: readonly string[], first: boolean): string[] =>
    first ? [...matrix.batch, ...own, ...matrix.k] : [...matrix.batch, ...matrix.k, ...own]
  const rowsFirst = matrix.swap ? dot.op.b : dot.op.a
  const columnsFirst = matrix.swap ? dot.op.a : dot.op.b
  const has = (id: ValueId, axes: readonly string[]): string[] => {
    const l = lets.get(id)
    return axes.filter((a) => l?.axes.includes(a) === true)
  }
  const stage = (id: ValueId, axes: readonly string[]): LetStmt => ({
    kind: 'let',
    id: fresh(),
    dtype: lets.get(id)?.dtype ?? 'f32',
    axes: has(id, axes),
    op: { kind: 'stage', of: id },
  })
  const a = stage(rowsFirst, layout(m, true))
  const b = stage(columnsFirst, layout(n, false))

  const accAxes = [...matrix.batch, ...m, ...n]
  const product: Carried = {
    init: { kind: 'let', id: fresh(), dtype: dot.dtype, axes: accAxes, op: { kind: 'const', value: 0 } },
    step: (acc) => [
      {
        ...dot,
        id: fresh(),
        axes: accAxes,
        op: { kind: 'dot', a: a.id, b: b.id, axes: dot.op.kind === 'dot' ? dot.op.axes : [], acc },
      },
    ],
    result: dot.id,
  }
  const loops = depth.filter((d, i) => d.block < extent(d.axis) || i === 0)
  const inner = [...body.lets.filter((l) => operand.has(l.id) && looped.has(l.id)), a, b]
  const loop = depthLoops(loops, inner, [product], fresh)
  /** What lacks axes of the result belongs to the first program along them. */
  const once = (axes: Iterable<string>): Predicate => {
    const named = new Set(axes)
    return blocks.flatMap(({ axis, block }) =>
      named.has(axis) || block >= extent(axis) ? [] : [{ expr: ix.axis(`${axis}.start`, extent(axis)), lo: 0, hi: 1 }],
    )
  }
  const whole = loops.map(({ axis }) => ({ axis, block: extent(axis) }))
  const riding = riders.flatMap((l) =>
    ridingFold(
      l,
      body.lets.filter((x) => looped.has(x.id)),
      whole,
      once(l.axes),
      fresh,
    ),
  )

  const params = new Params()
  const { split, late } = roles.stages
  const folds = body.lets.flatMap((l): CutFold[] => (split.has(l.id) ? [cutFold(l, lets, blocks, extent)] : []))
  const own = body.stores.filter((s) => !late.has(s.value))
  const done = new Set([...operand, ...ridden, dot.id, ...matrix.riding])
  const rest = liveLets(
    body.lets.filter((l) => !late.has(l.id) && !done.has(l.id)),
    [...own.map((s) => s.value), ...folds.map((f) => f.arg)],
  )
  const before = body.lets.filter((l) => (operand.has(l.id) || ridden.has(l.id)) && !looped.has(l.id))
  const read = new Set([...operand, ...ridden, ...rest.map((l) => l.id)])
  const loaded = new Set(body.lets.flatMap((l) => (read.has(l.id) && l.op.kind === 'load' ? [l.op.param] : [])))
  for (const [p, t] of body.loads)
    if (loaded.has(p)) params.add(p, t.shape, t.node.dtype, 'read', { kind: 'node', node: t.node })
  const stores = own.map(
    (s): Stmt => ({
      kind: 'store',
      param: params.stored(s),
      index: s.index,
      mask: once(axesOf(s.index)),
      value: s.value,
    }),
  )
  const parts = folds.map((f, i): Stmt[] => {
    const kept = f.axes.map((x) => ix.axis(x, extent(x)))
    const index = [...f.parts.map(({ axis, block }) => ix.div(ix.axis(`${axis}.start`, extent(axis)), block)), ...kept]
    const partial = { ...f.fold, id: fresh() }
    const param = params.add(`p${i}`, f.shape, f.fold.dtype, 'write', { kind: 'partial', index: i })
    const mask = once([...axesOf(index), ...f.parts.map((x) => x.axis)])
    return [partial, { kind: 'store', param, index, mask, value: partial.id }]
  })
  const part: KernelPart = {
    axes: body.axes.filter((x) => accAxes.includes(x.name) || matrix.k.includes(x.name)),
    grid: blocks,
    body: [...before, ...riding, product.init, loop, ...rest, ...parts.flat(), ...stores],
  }
  return {
    main: { kernel: { name, params: params.list, mode, parts: [part] }, bindings: params.bindings },
    finishing: folds.length === 0 ? [] : finishingStages(name, body, folds, roles.stages, target, mode),
    partials: folds.map((f) => ({ shape: f.shape, dtype: f.fold.dtype })),
  }
}

/**
 * A fold over the depth before the product's own loop: one pass in the programs where `mask` holds, none in the others. It
 * brings the operand that both read near.
 */
function ridingFold(
  l: LetStmt,
  looped: readonly LetStmt[],
  loops: readonly Blocked[],
  mask: Predicate,
  fresh: () => ValueId,
): Stmt[] {
  const { op } = l
  const [first] = loops
  invariant(op.kind === 'reduce' && !isArgCombiner(op.combiner), 'only folds without positions ride')
  invariant(first !== undefined, 'a matrix product without depth')
  const out: Stmt[] = []
  const emit = (dtype: LetStmt['dtype'], value: LetStmt['op'], axes: readonly string[] = []): ValueId => {
    const id = fresh()
    out.push({ kind: 'let', id, dtype, axes, op: value })
    return id
  }
  let to: ValueId | undefined
  if (mask.length > 0) {
    const here = emit('bool', { kind: 'predicate', predicate: mask })
    const all = emit('i32', { kind: 'const', value: first.block })
    const none = emit('i32', { kind: 'const', value: 0 })
    to = emit('i32', { kind: 'scalar', op: 'select', args: [here, all, none] })
  }
  const names = new Map<ValueId, ValueId>()
  const own = liveLets(looped, [op.arg]).map((x): LetStmt => {
    const id = fresh()
    const copy: LetStmt = { ...x, id, op: renameOperands(x.op, (v) => names.get(v) ?? v) }
    names.set(x.id, id)
    return copy
  })
  const init: LetStmt = {
    kind: 'let',
    id: fresh(),
    dtype: l.dtype,
    axes: l.axes,
    op: { kind: 'const', value: combinerIdentity(op.combiner, l.dtype) },
  }
  const step = (): readonly LetStmt[] => [{ ...l, id: fresh(), op: { ...op, arg: names.get(op.arg) ?? op.arg } }]
  return [...out, init, depthLoops(loops, own, [{ init, step, result: l.id }], fresh, to)]
}

const axesOf = (index: readonly ix.Expr[]): string[] => index.flatMap((e) => [...ix.axesOf(e)])

/** A fold of the result, cut where the result's blocks are. */
function cutFold(
  l: LetStmt,
  lets: ReadonlyMap<ValueId, LetStmt>,
  blocks: readonly Blocked[],
  extent: (a: string) => number,
): CutFold {
  const { op } = l
  invariant(op.kind === 'reduce' && !isArgCombiner(op.combiner), 'only folds without positions are cut')
  const parts = blocks
    .filter((b) => op.axes.includes(b.axis))
    .map((b) => ({ ...b, count: Math.ceil(extent(b.axis) / b.block) }))
  const axes = (lets.get(op.arg)?.axes ?? []).filter((x) => !op.axes.includes(x))
  const shape = [...parts.map((p) => p.count), ...axes.map(extent)]
  return { fold: l, combiner: op.combiner, arg: op.arg, parts, axes, shape }
}
