/** Lowering of a body around a matrix product: blocks of rows and columns a program, a loop over blocks of the depth. */
import { invariant } from '../diagnostics/errors.ts'
import {
  type GridAxis,
  type KernelPart,
  type LetStmt,
  type LoopStmt,
  type NumericsMode,
  operandsOf,
  type Stmt,
  type ValueId,
} from '../kernel/ir.ts'
import { ancestorsOf } from '../kernel/walk.ts'
import type { Body } from '../plan/body.ts'
import type { Roles } from '../plan/roles.ts'
import type { TargetInfo } from '../plan/target.ts'
import { byStoreStride } from './blocks.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'

interface Blocked {
  readonly axis: string
  readonly block: number
}

/** Blocks of a role's axes, innermost filled first: whole axes inside, one blocked, single indices outside. */
function blockRole(axes: readonly string[], extent: (a: string) => number, target: number, quantum: number): Blocked[] {
  const out: Blocked[] = []
  let inner = 1
  let full = true
  for (const axis of [...axes].reverse()) {
    const e = extent(axis)
    if (full && inner * e <= target) {
      out.unshift({ axis, block: e })
      inner *= e
      continue
    }
    if (full) {
      const most = Math.max(1, Math.floor(target / inner))
      const even = Math.ceil(e / Math.ceil(e / most))
      const block = inner === 1 && even < e ? Math.min(e, Math.ceil(even / quantum) * quantum) : even
      out.unshift({ axis, block })
      full = false
    } else out.unshift({ axis, block: 1 })
  }
  return out
}

/** Rows of a block: fewer than the target's where the grid would otherwise have too few programs to share out evenly. */
function rowTarget(
  m: readonly string[],
  batch: readonly string[],
  columns: readonly Blocked[],
  extent: (a: string) => number,
  target: TargetInfo,
): number {
  const size = (axes: readonly string[]): number => axes.reduce((n, a) => n * extent(a), 1)
  const others = size(batch) * columns.reduce((n, c) => n * Math.ceil(extent(c.axis) / c.block), 1)
  const blocks = Math.ceil(target.minPrograms / 2 / others)
  return Math.max(Math.min(target.dotBlock.m, 64), Math.min(target.dotBlock.m, Math.ceil(size(m) / blocks)))
}

export function lowerMatrix(name: string, body: Body, roles: Roles, target: TargetInfo, mode: NumericsMode): Launch {
  const { matrix } = roles
  invariant(matrix !== undefined, 'no matrix product')
  const extent = (a: string): number => roles.extents.get(a) ?? 1
  const dot = body.lets.find((l) => l.id === matrix.id)
  invariant(dot?.op.kind === 'dot', 'the matrix product is no dot')
  const m = byStoreStride(body, matrix.m).reverse()
  const n = byStoreStride(body, matrix.n).reverse()
  const columns = blockRole(n, extent, target.dotBlock.n, 16)
  const rows = blockRole(m, extent, rowTarget(m, matrix.batch, columns, extent, target), 8)
  const depth = blockRole(matrix.k, extent, target.dotBlock.k, 8)

  const params = new Params()
  for (const [p, t] of body.loads) params.add(p, t.shape, t.node.dtype, 'read', { kind: 'node', node: t.node })
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const operand = ancestorsOf([dot.op.a, dot.op.b], lets)
  const inK = (l: LetStmt): boolean =>
    l.axes.some((a) => matrix.k.includes(a)) ||
    operandsOf(l.op).some((o) => {
      const d = lets.get(o)
      return d !== undefined && operand.has(o) && inK(d)
    })
  const looped = new Set(body.lets.filter((l) => operand.has(l.id) && inK(l)).map((l) => l.id))

  let next = Math.max(...body.lets.map((l) => l.id)) + 1
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
    id: next++,
    dtype: lets.get(id)?.dtype ?? 'f32',
    axes: has(id, axes),
    op: { kind: 'stage', of: id },
  })
  const a = stage(rowsFirst, layout(m, true))
  const b = stage(columnsFirst, layout(n, false))

  const accAxes = [...matrix.batch, ...m, ...n]
  const zero: LetStmt = { kind: 'let', id: next++, dtype: dot.dtype, axes: accAxes, op: { kind: 'const', value: 0 } }
  const operands: Stmt[] = [...body.lets.filter((l) => looped.has(l.id)), a, b]
  // Loops from the innermost out; each carries the block of results.
  let init = next++
  const product: LetStmt = {
    ...dot,
    id: next++,
    axes: accAxes,
    op: { kind: 'dot', a: a.id, b: b.id, axes: dot.op.axes, acc: init },
  }
  let inner: readonly Stmt[] = [...operands, product]
  let result = product.id
  const loops = depth.filter((d, i) => d.block < extent(d.axis) || i === 0)
  for (const d of [...loops].reverse()) {
    const outermost = d === loops[0]
    const outerInit = outermost ? zero.id : next++
    const carried = {
      init: outerInit,
      param: init,
      next: result,
      result: outermost ? dot.id : next++,
      dtype: dot.dtype,
      axes: accAxes,
    }
    const loop: LoopStmt = { kind: 'loop', axis: d.axis, block: d.block, carries: [carried], body: inner }
    inner = [loop]
    result = carried.result
    init = outerInit
  }

  const before = body.lets.filter((l) => operand.has(l.id) && !looped.has(l.id))
  const rest = body.lets.filter((l) => !operand.has(l.id) && l.id !== dot.id)
  const stores: Stmt[] = body.stores.map((s, i) => ({
    kind: 'store',
    param: params.add(`y${i}`, s.shape, s.node.dtype, 'write', { kind: 'node', node: s.node }),
    index: s.index,
    mask: [],
    value: s.value,
  }))
  const inLoop = new Set(matrix.k)
  const grid: GridAxis[] = [...matrix.batch.map((axis) => ({ axis, block: 1 })), ...rows, ...columns].filter(
    (g) => !inLoop.has(g.axis),
  )
  const part: KernelPart = { axes: body.axes, grid, body: [...before, zero, ...inner, ...rest, ...stores] }
  return {
    main: { kernel: { name, params: params.list, mode, parts: [part] }, bindings: params.bindings },
    finishing: [],
    partials: [],
  }
}
