/**
 * The cost model: moving bytes and arithmetic, as far as they overlap, and a launch, from a body's instances. Recomputation needs no case
 * of its own: a value is evaluated once for every point of its axes and of the grid around it.
 */
import type { Node } from '../../graph/node.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { ancestorsOf } from '../../kernel/walk.ts'
import { isScalarOp, scalarInfo } from '../../scalar/ops.ts'
import { loopStatementSeconds } from '../../schedule/loop/price/terms.ts'
import { dtypesIn, type Priced, statementSeconds } from '../../schedule/price.ts'
import { byReciprocal } from '../../schedule/simt/precision/reciprocals.ts'
import { type Machine, movingSeconds, together } from '../../target/machine.ts'
import { priceOf } from '../../target/prices.ts'
import type { DType } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { chainPrograms, chainRepeats } from '../axes/chainRoles.ts'
import { chainFillSeconds } from '../axes/gathered.ts'
import { programsOf } from '../axes/gridAxes.ts'
import { chainRate, type ProductWork, productRate, productWork } from '../axes/productSeconds.ts'
import { elementwiseRoles, type Roles, unitAxis } from '../axes/roles.ts'
import { splitAxes } from '../axes/stages.ts'
import { type Body, pointsOf, storedTensors, tensorBytes } from '../body/body.ts'
import { besideSeconds } from './besideSteps.ts'
import { finishingSeconds } from './finishing.ts'
import { partialSectorBytes } from './partialSectors.ts'
import { type Folding, foldingOf, type Stretch, stretchOf } from './stretch.ts'
import { noSweeps, type Sweeps, sweepsOf } from './sweeps.ts'
import { windowWork } from './windowWork.ts'

export interface KernelCost {
  readonly bytesRead: number
  readonly bytesWritten: number
  /** Multiplications and additions of matrix products and reductions, and simple elementwise operations. */
  readonly flops: number
  readonly special: number
  /** Modelled seconds, launch included. */
  readonly seconds: number
  /** Seconds of arithmetic alone. */
  readonly compute: number
  /** The share of the target that its programs keep busy, where that is less than all. */
  readonly share?: number
}

/** Modelled cost of a body scheduled by its roles; `segments` are its ranges where branches cut it, else the body alone. */
export function costOf(body: Body, segments: readonly Body[], roles: Roles, target: Machine): KernelCost {
  // Ranges run one after the other: each reads for itself.
  const bytesRead = segments.reduce((n, s) => n + bytesReadBy(s), 0)
  const bytesWritten = storedTensors(body).reduce((n, s) => n + tensorBytes(s, sizeOf(s.node.shape)), 0)
  const { matrix, extents, passes = 1 } = roles
  // Where schedules have the last word (`doubts.ts`), they count what passes compute again.
  const sweeps = target.programShare === undefined || passes === 1 ? noSweeps : sweepsOf(body, roles.row)
  const product = matrix === undefined ? undefined : productWork(body, matrix, extents, target)
  const works =
    segments.length === 1
      ? [workOf(body, roles, product, sweeps, target)]
      : segments.map((s) => workOf(s, elementwiseRoles(s), undefined, noSweeps, target))
  const total = (pick: (w: Work) => number): number => works.reduce((n, w) => n + pick(w), 0)
  // Ranges store parts of the same tensors.
  const written = storedTensors(body).reduce((n, s) => n + sizeOf(s.node.shape) * target.prices.write[s.node.dtype], 0)
  const folding = foldingOf(body, roles, target)
  const windows = windowWork(body, roles, folding, sweeps, target)
  const compute = total((w) => w.compute) + written + windows.seconds
  const again =
    (target.rereadShare ?? 1) * ((passes - 1) * bytesRead + windows.bytes) +
    partialSectorBytes(body, roles, folding, target)
  const moving = movingSeconds(bytesRead + bytesWritten + again, target)
  const busy = together(moving, compute, target)
  const stretch = stretchOf(body, roles, folding, target)
  const use = sharesOf(body, roles, product, folding, stretch, target)
  const alone = Math.max(
    together(moving / use.moving, compute / use.computing, target),
    (product === undefined ? 0 : product.steps * product.stepSeconds) +
      stretch.rounds * (target.dotBlock.stepSeconds ?? 0),
    movingSeconds(stretch.bytes, target) / (target.programShare?.moving ?? 1),
  )
  const share = alone > 0 ? busy / alone : 1
  const seconds = alone + finishingSeconds(body, roles, target) + target.launch
  const [flops, special] = [total((w) => w.flops), total((w) => w.special)]
  return { bytesRead, bytesWritten, flops, special, seconds, compute, ...(share < 1 ? { share } : {}) }
}

/** The shares of bandwidth and arithmetic that the programs of a kernel can use, all of them together. */
function sharesOf(
  body: Body,
  roles: Roles,
  product: ProductWork | undefined,
  folding: Folding | undefined,
  { blocks: blocksEach }: Stretch,
  target: Machine,
): { readonly moving: number; readonly computing: number } {
  const { programShare, vectorChains } = target
  if (programShare === undefined) return { moving: 1, computing: 1 }
  const blocks = programsOfKernel(body, roles, product, folding, target) * blocksEach
  const share = (one: number): number => Math.min(1, one * Math.max(1, blocks))
  const { columns } = programShare
  const moving = columns !== undefined && passesColumns(body, roles) ? columns : programShare.moving
  const computing = (roles.chain?.vectors === undefined ? undefined : vectorChains?.share) ?? programShare.computing
  return { moving: share(moving), computing: share(computing) }
}

/** Whether programs of reductions go down columns that they do not hold. */
function passesColumns(body: Body, { kind, row, parallel, passes = 1 }: Roles): boolean {
  if (kind !== 'reduction' || (row.size > 0 && passes === 1)) return false
  const unit = unitAxis(body)
  return unit !== undefined && parallel.has(unit)
}

/** Programs of the kernel that a body is, or of its main stage. */
function programsOfKernel(
  body: Body,
  roles: Roles,
  product: ProductWork | undefined,
  folding: Folding | undefined,
  target: Machine,
): number {
  const { extents, parallel, chain, chunks } = roles
  if (product !== undefined) return product.programs
  const points = pointsOf(extents, parallel)
  if (chain !== undefined) return chainPrograms(body, chain, extents, target)
  if (chunks !== undefined) return points / [...chunks.values()].reduce((n, c) => n * c, 1)
  return folding === undefined ? points / target.elementBlock : programsOf(folding.grid, extents)
}

/** Loads at the same places share what they read; loads at others read more, up to the whole tensor. */
function bytesReadBy(body: Body): number {
  const extents = new Map(body.axes.map((a) => [a.name, a.extent]))
  const reads = new Map<string, Map<string, number>>()
  for (const l of body.lets) {
    if (l.op.kind !== 'load') continue
    const places = reads.get(l.op.param) ?? new Map<string, number>()
    reads.set(l.op.param, places)
    const place = l.op.index.map((e) => e.key).join()
    places.set(place, Math.max(places.get(place) ?? 0, pointsOf(extents, l.axes)))
  }
  let bytes = 0
  for (const [name, places] of reads) {
    const t = body.loads.get(name)
    if (t === undefined) continue
    const points = [...places.values()].reduce((n, p) => n + p, 0)
    bytes += tensorBytes(t, Math.min(sizeOf(t.shape), points))
  }
  return bytes
}

/** Seconds of one evaluation of an elementwise node; nothing of another. */
export const elementwiseSeconds = (node: Node, { prices }: Machine): number =>
  isScalarOp(node.op) ? priceOf(node.op, (node.inputs.at(-1) ?? node).dtype, prices) : 0

interface Work {
  readonly flops: number
  readonly special: number
  readonly compute: number
}

/** Arithmetic of a body: each statement once for every point of its axes and of the grid around it; `product` is that of its matrix product. */
function workOf(body: Body, roles: Roles, product: ProductWork | undefined, sweeps: Sweeps, target: Machine): Work {
  const { extents, matrix, chain } = roles
  const size = (axes: Iterable<string>): number => pointsOf(extents, axes)
  const grid = matrix === undefined && chain === undefined ? [...roles.parallel] : []
  const prologue =
    matrix !== undefined
      ? prologueRepeats(matrix, new Map(body.lets.map((l) => [l.id, l])), target, size)
      : chain !== undefined
        ? chainRepeats(body, chain, extents, target)
        : new Map<ValueId, number>()
  // A value without axes is evaluated once a program, outside its loops.
  const once = roles.kind === 'elementwise' ? Math.ceil(size(grid) / target.elementBlock) : size(grid)
  // Statements share their lists of axes.
  const known = new Map<readonly string[], number>()
  const around = (axes: readonly string[]): number => {
    const have = known.get(axes)
    if (have !== undefined) return have
    const n = size(new Set([...axes, ...grid]))
    known.set(axes, n)
    return n
  }
  const sides = sidesOf(body, roles, target)
  /** Programs along sides of the grid that a statement has no axis of: each of them evaluates it. */
  const inEach = ({ id, op, axes }: LetStmt): number => {
    if (roles.stages.main?.has(id) === false) return 1
    const own = op.kind === 'reduce' || op.kind === 'dot' ? [...axes, ...op.axes] : axes
    return sides.reduce((n, side) => (side.axes.some((a) => own.includes(a)) ? n : n * side.programs), 1)
  }
  const dtypes = dtypesIn(body.lets)
  const dtypeOf = (id: ValueId): DType => dtypes.get(id) ?? 'f32'
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const nothing: Priced = { dtype: 'f32' }
  const opOf = (id: ValueId): LetStmt['op'] | undefined => lets.get(id)?.op
  const secondsOf = (l: LetStmt): number =>
    target.loops === undefined
      ? byReciprocal(l, opOf) === undefined
        ? statementSeconds(l, dtypeOf, target.prices)
        : priceOf('mul', l.dtype, target.prices)
      : loopStatementSeconds(l, (id) => lets.get(id) ?? nothing, target.prices)
  let flops = 0
  let special = 0
  let compute = 0
  let products = 0
  for (const l of body.lets) {
    const op = l.op
    const each = secondsOf(l) * (sweeps.get(l.id) ?? 1)
    const repeats = prologue.get(l.id)
    const parts = sides.length === 0 ? 1 : inEach(l)
    const points =
      repeats !== undefined ? size(l.axes) * repeats : parts * (l.axes.length === 0 ? once : around(l.axes))
    if (op.kind === 'scalar') {
      const { cost } = scalarInfo(op.op)
      if (cost === 'special') special += points
      else if (cost !== 'free') flops += points
      compute += points * each
    } else if (op.kind === 'random') {
      special += points
      compute += points * each
    } else if (op.kind === 'reduce' || op.kind === 'scan') {
      const n = size(new Set([...l.axes, ...grid, ...(op.kind === 'reduce' ? op.axes : [])])) * (repeats ?? parts)
      flops += n
      compute += n * each
    } else if (op.kind === 'dot') {
      const n = 2 * size(new Set([...l.axes, ...grid, ...op.axes])) * (repeats ?? parts)
      flops += n
      if (chain !== undefined) products += n / chainRate(body, l.id, chain, extents, target)
      else if (matrix?.id === l.id)
        compute += Math.max(n / productRate(body, l.id, target), product?.filling ?? 0) + (product?.gathering ?? 0)
      else compute += (n / 2) * each
    } else compute += points * each
  }
  // Between the products of a chain the unit has other blocks to multiply.
  const hidden = chain?.vectors === undefined ? Math.min(products, compute * (target.chains?.hidden ?? 0)) : 0
  const filling = chain === undefined ? 0 : chainFillSeconds(body, chain, prologue, extents, target)
  const beside = chain === undefined ? 0 : besideSeconds(body, chain, prologue, extents, target)
  return { flops, special, compute: products + compute - hidden + filling + beside }
}

/** Axes of a main kernel's grid beside the parallel ones, and the programs along them: of folds that the stages split, of a product's blocks. */
function sidesOf(
  body: Body,
  { matrix, splitBy, stages, extents }: Roles,
  { dotBlock }: Machine,
): { readonly axes: readonly string[]; readonly programs: number }[] {
  const extent = (a: string): number => extents.get(a) ?? 1
  if (matrix !== undefined)
    return [
      ...matrix.batch.map((a) => ({ axes: [a], programs: extent(a) })),
      { axes: matrix.m, programs: Math.ceil(pointsOf(extents, matrix.m) / dotBlock.m) },
      { axes: matrix.n, programs: Math.ceil(pointsOf(extents, matrix.n) / dotBlock.n) },
    ]
  if (splitBy === undefined || splitBy === 'result-blocks') return []
  if (splitBy !== 'every-index')
    return [{ axes: [splitBy.axis], programs: Math.ceil(extent(splitBy.axis) / splitBy.block) }]
  return [...splitAxes(body, stages)].map((a) => ({ axes: [a], programs: extent(a) }))
}

/**
 * How often each operand statement of a matrix product is evaluated: once for every block of the other side, and once more
 * for a reduction that rides with the product.
 */
function prologueRepeats(
  matrix: NonNullable<Roles['matrix']>,
  lets: ReadonlyMap<ValueId, LetStmt>,
  target: Machine,
  size: (axes: Iterable<string>) => number,
): Map<ValueId, number> {
  const out = new Map<ValueId, number>()
  const dot = lets.get(matrix.id)
  if (dot?.op.kind !== 'dot') return out
  const { m, n } = target.dotBlock
  const mark = (root: ValueId, repeats: number): void => {
    const stack = [root]
    for (let id = stack.pop(); id !== undefined; id = stack.pop()) {
      const l = lets.get(id)
      if (l === undefined || (out.get(id) ?? 0) >= repeats) continue
      out.set(id, repeats)
      stack.push(...operandsOf(l.op))
    }
  }
  const [rowBlocks, columnBlocks] = [Math.ceil(size(matrix.m) / m), Math.ceil(size(matrix.n) / n)]
  mark(matrix.swap ? dot.op.b : dot.op.a, columnBlocks)
  mark(matrix.swap ? dot.op.a : dot.op.b, rowBlocks)
  for (const id of matrix.riding) for (const dep of ancestorsOf([id], lets)) out.set(dep, (out.get(dep) ?? 0) + 1)
  return out
}
