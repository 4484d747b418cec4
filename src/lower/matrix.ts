/**
 * Lowering of a body around a matrix product: blocks of rows and columns a program, a loop over blocks of the depth that
 * carries the block of results and the reductions that ride with it, then the epilogue.
 */

import * as ix from '../affine/expr.ts'
import { always, conjoin, type Predicate } from '../affine/predicate.ts'
import { invariant } from '../diagnostics/errors.ts'
import {
  type KernelPart,
  type LetStmt,
  type NumericsMode,
  operandsOf,
  type Stmt,
  type TileOp,
  type ValueId,
} from '../kernel/ir.ts'
import { ancestorsOf, liveLets } from '../kernel/walk.ts'
import type { MatrixRole } from '../plan/axes/fusedReductions.ts'
import { interleaved, outermostFirst } from '../plan/axes/gridAxes.ts'
import { type Blocked, matrixBlocks } from '../plan/axes/matrixBlocks.ts'
import { type PartialResult, partialBytes, partialOfBlocks } from '../plan/axes/partials.ts'
import type { Roles } from '../plan/axes/roles.ts'
import type { Body, BodyStore } from '../plan/body/body.ts'
import { isArgCombiner } from '../scalar/ops.ts'
import type { Machine } from '../target/machine.ts'
import { cutDepth } from './depth.ts'
import { depthLoops, ridingFold } from './depthLoops.ts'
import { factorsOut } from './factors.ts'
import { type BlockedFold, finishingStages } from './finish.ts'
import type { Launch } from './launch.ts'
import { Params } from './params.ts'

type DotOp = Extract<TileOp, { kind: 'dot' }>

/** A body around a matrix product as its main kernel sees it: who is evaluated where, and the blocks a program holds. */
class ProductNest {
  readonly body: Body
  readonly matrix: MatrixRole
  readonly dot: LetStmt & { readonly op: DotOp }
  readonly lets: ReadonlyMap<ValueId, LetStmt>
  readonly extents: ReadonlyMap<string, number>
  /** Blocks of the result: the grid. */
  readonly grid: readonly Blocked[]
  /** Rows and columns, the axis that moves most in memory first. */
  readonly rows: readonly string[]
  readonly columns: readonly string[]
  /** Loops over blocks of the depth: at least one. */
  readonly loops: readonly Blocked[]
  /** What the product's operands are computed from, and what the reductions that ride with it are. */
  readonly operands: ReadonlySet<ValueId>
  readonly ridden: ReadonlySet<ValueId>
  /** What of both varies along the depth. */
  readonly looped: ReadonlySet<ValueId>
  private next: ValueId

  constructor(body: Body, roles: Roles, target: Machine) {
    const { matrix } = roles
    invariant(matrix !== undefined, 'no matrix product')
    const dot = body.lets.find((l) => l.id === matrix.id)
    invariant(dot?.op.kind === 'dot', 'the matrix product is no dot')
    this.body = body
    this.matrix = matrix
    this.dot = { ...dot, op: dot.op }
    this.lets = new Map(body.lets.map((l) => [l.id, l]))
    this.extents = roles.extents
    const { m, n, rows, columns, depth } = matrixBlocks(body, matrix, roles.extents, target)
    this.grid = [...matrix.batch.map((axis) => ({ axis, block: 1 })), ...rows, ...columns]
    this.rows = m
    this.columns = n
    this.loops = depth.filter((d, i) => d.block < this.extent(d.axis) || i === 0)
    this.operands = ancestorsOf(operandsOf(dot.op), this.lets)
    this.ridden = ancestorsOf(
      this.riders.flatMap((l) => operandsOf(l.op)),
      this.lets,
    )
    const alongDepth = new Set<ValueId>()
    for (const l of body.lets)
      if (l.axes.some((a) => matrix.k.includes(a)) || operandsOf(l.op).some((o) => alongDepth.has(o)))
        alongDepth.add(l.id)
    this.looped = new Set([...alongDepth].filter((id) => this.operands.has(id) || this.ridden.has(id)))
    this.next = Math.max(...body.lets.map((l) => l.id)) + 1
  }

  readonly fresh = (): ValueId => this.next++
  readonly extent = (axis: string): number => this.extents.get(axis) ?? 1

  /** Reductions over the depth that ride with the product. */
  get riders(): LetStmt[] {
    return this.body.lets.filter((l) => this.matrix.riding.has(l.id))
  }

  /** Axes of the result. */
  get result(): string[] {
    return [...this.matrix.batch, ...this.rows, ...this.columns]
  }

  /** What lacks axes of the result belongs to the first program along them. */
  once(axes: Iterable<string>): Predicate {
    const named = new Set(axes)
    return this.grid.flatMap(({ axis, block }) =>
      named.has(axis) || block >= this.extent(axis)
        ? []
        : [{ expr: ix.axis(`${axis}.start`, this.extent(axis)), lo: 0, hi: 1 }],
    )
  }
}

/** Lowers a body around a matrix product: one launch, whose finishing stages fold what the blocks of its result cut. */
export function lowerMatrix(name: string, planned: Body, found: Roles, target: Machine, mode: NumericsMode): Launch {
  const { body, roles } = cutDepth(factorsOut(planned, found, mode))
  const nest = new ProductNest(body, roles, target)
  const { matrix, dot, operands, ridden, looped } = nest
  const { split, late } = roles.stages
  const product = productLoop(nest)
  const riding = ridingFolds(nest)

  const folds = body.lets.flatMap((l): BlockedFold[] => {
    const planned = split.get(l.id)
    return planned === undefined ? [] : [blockedFold(l, nest, planned)]
  })
  const own = body.stores.filter((s) => !late.has(s.value))
  const done = new Set([...operands, ...ridden, dot.id, ...matrix.riding])
  const epilogue = liveLets(
    body.lets.filter((l) => !late.has(l.id) && !done.has(l.id)),
    [...own.map((s) => s.value), ...folds.map((f) => f.arg)],
  )
  const isBefore = (l: LetStmt): boolean => (operands.has(l.id) || ridden.has(l.id)) && !looped.has(l.id)
  const params = new Params()
  const evaluated = new Set([...operands, ...ridden, ...epilogue.map((l) => l.id)])
  params.loads(
    body,
    body.lets.filter((l) => evaluated.has(l.id)),
  )
  const stores = own.map((s) => storeOnce(nest, params, s))
  const partials = folds.flatMap((f, i) => storePartial(nest, params, f, i))
  const part: KernelPart = {
    axes: body.axes.filter((x) => nest.result.includes(x.name) || matrix.k.includes(x.name)),
    grid: inMemoryOrder(nest),
    body: [...body.lets.filter(isBefore), ...riding, ...product, ...epilogue, ...partials, ...stores],
  }
  return {
    main: { kernel: { name, params: params.list, mode, parts: [part] }, bindings: params.bindings },
    finishing: folds.length === 0 ? [] : finishingStages(name, body, folds, roles.stages, target, mode),
    partials: folds.map(({ shape, dtype }) => ({ shape, dtype })),
  }
}

/**
 * The grid with what lies between one another's results innermost: the phases of a transposed convolution, whose programs then write the
 * same lines of memory at nearly the same time.
 */
function inMemoryOrder({ body, matrix, grid, rows, columns }: ProductNest): readonly Blocked[] {
  const between = interleaved(body, matrix.batch, [...rows, ...columns])
  return [...grid.filter((g) => !between.includes(g.axis)), ...grid.filter((g) => between.includes(g.axis))]
}

/** The block of results: zero, and the loop that adds one step's product after another, whose operands it stages. */
function productLoop(nest: ProductNest): readonly Stmt[] {
  const { body, dot, matrix, lets, operands, looped, fresh } = nest
  const { op } = dot
  const staged = (of: ValueId, layout: readonly string[]): LetStmt => {
    const l = lets.get(of)
    const axes = layout.filter((a) => l?.axes.includes(a) === true)
    return { kind: 'let', id: fresh(), dtype: l?.dtype ?? 'f32', axes, op: { kind: 'stage', of } }
  }
  const rows = staged(matrix.swap ? op.b : op.a, [...matrix.batch, ...nest.rows, ...matrix.k])
  const columns = staged(matrix.swap ? op.a : op.b, [...matrix.batch, ...matrix.k, ...nest.columns])
  const axes = nest.result
  const init: LetStmt = { kind: 'let', id: fresh(), dtype: dot.dtype, axes, op: { kind: 'const', value: 0 } }
  const step = (acc: ValueId): readonly LetStmt[] => [
    { ...dot, id: fresh(), axes, op: { ...op, a: rows.id, b: columns.id, axes: matrix.k, acc } },
  ]
  const inner = [...body.lets.filter((l) => operands.has(l.id) && looped.has(l.id)), rows, columns]
  return [init, depthLoops(nest.loops, inner, [{ init, step, result: dot.id }], fresh)]
}

/** The reductions that ride with the product, each whole in the first program along the axes it lacks. */
function ridingFolds(nest: ProductNest): readonly Stmt[] {
  const looped = nest.body.lets.filter((x) => nest.looped.has(x.id))
  const whole = nest.loops.map(({ axis }) => ({ axis, block: nest.extent(axis) }))
  return nest.riders.flatMap((l) => ridingFold(l, looped, whole, nest.once(l.axes), nest.fresh))
}

/** A store of the main kernel, by the first program along axes that it lacks. */
const storeOnce = (nest: ProductNest, params: Params, s: BodyStore): Stmt => ({
  kind: 'store',
  param: params.stored(s),
  index: s.index,
  mask: conjoin(s.mask ?? always, ...nest.once(axesOf(s.index))),
  value: s.value,
})

/** Partial result `i` of a fold that the blocks cut. */
function storePartial(nest: ProductNest, params: Params, f: BlockedFold, i: number): Stmt[] {
  const { extent, fresh } = nest
  const kept = f.kept.map((x) => ix.axis(x, extent(x)))
  const index = [...f.parts.map(({ axis, block }) => ix.div(ix.axis(`${axis}.start`, extent(axis)), block)), ...kept]
  const partial = { ...f.fold, id: fresh() }
  const param = params.add(`p${i}`, f.shape, f.fold.dtype, 'write', { kind: 'partial', index: i })
  const mask = nest.once([...axesOf(index), ...f.parts.map((x) => x.axis)])
  return [partial, { kind: 'store', param, index, mask, value: partial.id }]
}

const axesOf = (index: readonly ix.Expr[]): string[] => index.flatMap((e) => [...ix.axesOf(e)])

/** A fold of the result, cut where the result's blocks are: as the plan counts its partial results. */
function blockedFold(l: LetStmt, { body, lets, grid, extents }: ProductNest, planned: PartialResult): BlockedFold {
  const { op } = l
  invariant(op.kind === 'reduce' && !isArgCombiner(op.combiner), 'only folds without positions are cut')
  // In the order of what they are finished to, so that the finishing stage reads and writes along one axis.
  const partial = partialOfBlocks({ lets, extents }, l, grid, (axes) => outermostFirst(body, axes))
  invariant(partialBytes(partial) === partialBytes(planned), 'the plan counts other partial results')
  return { ...partial, fold: l, combiner: op.combiner, arg: op.arg }
}
