/** What windows that overlap cost beside what the kernel reads at all and multiplies: bytes that several programs ask for, and finding the places of their elements. */
import { axesOf, type Expr, strideOf } from '../../affine/expr.ts'
import { slideOf } from '../../affine/slide.ts'
import type { GridAxis } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { priceOf } from '../../target/prices.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import type { Roles } from '../axes/roles.ts'
import { slidingGrid } from '../axes/windowBlocks.ts'
import { type Body, pointsOf } from '../body/body.ts'
import type { Folding } from './stretch.ts'
import type { Sweeps } from './sweeps.ts'

export interface WindowWork {
  /** Bytes that programs read again: each the places of its own block once, in whole sectors of memory. */
  readonly bytes: number
  /** Seconds of finding places and testing whether they are inside, all programs at work. */
  readonly seconds: number
}

const none: WindowWork = { bytes: 0, seconds: 0 }

/** The work of a reduction's windows. Nothing where programs are no blocks of threads; the price of products has theirs. */
export function windowWork(
  body: Body,
  roles: Roles,
  folding: Folding | undefined,
  sweeps: Sweeps,
  target: Machine,
): WindowWork {
  const { extents, parallel, reduced, row } = roles
  if (folding === undefined) return none
  const extent = (a: string): number => extents.get(a) ?? 1
  const isWindow = (e: Expr, among: ReadonlySet<string>): boolean =>
    [...axesOf(e)].some(
      (a) => among.has(a) && [...axesOf(e)].some((o) => o !== a && reduced.has(o) && overlap(e, a, o, extent)),
    )
  const held = new Set([...row, ...reduced])
  let [bytes, seconds] = [0, 0]
  let sliding: readonly GridAxis[] | undefined
  for (const l of body.lets) {
    const { op } = l
    const tensor = op.kind === 'load' ? body.loads.get(op.param) : undefined
    if (op.kind !== 'load' || tensor === undefined) continue
    const points = pointsOf(extents, l.axes) * (sweeps.get(l.id) ?? 1)
    const placing = (1 + 2 * op.mask.length) * priceOf('add', 'i32', target.prices)
    const isAmong = op.index.some((e) => isWindow(e, parallel))
    // Along axes that a program goes over itself, and beside folds of rows, threads lie side by side: each reads all of its windows, an element at a time.
    if (op.index.some((e) => isWindow(e, held)) || (isAmong && row.size > 0)) {
      const { gatherSeconds } = target.dotBlock
      seconds += points * (gatherSeconds?.[dtypeBytes(l.dtype) === 2 ? 2 : 4] ?? placing)
      continue
    }
    if (!isAmong) continue
    sliding ??= slidingGrid(body, roles, target) ?? []
    const at = (a: string): number => folding.own.get(a) ?? 1
    const programs = l.axes.reduce((n, a) => n * Math.ceil(extent(a) / at(a)), 1)
    const each = dtypeBytes(l.dtype)
    const last = op.index.length - 1
    const places = op.index.reduce((n, e, d) => {
      const span = Math.min(spanOf(e, at), tensor.shape[d] ?? 1)
      return n * (d === last ? Math.max(span * each, target.memorySector ?? 0) : span)
    }, 1)
    bytes += Math.max(0, programs * places - Math.min(sizeOf(tensor.shape), pointsOf(extents, l.axes)) * each)
    const exprs = [...op.index, ...op.mask.map((b) => b.expr)]
    seconds += points * readShare(exprs, sliding, roles, target) * placing
  }
  return { bytes, seconds }
}

/** Whether an index goes over places several times as it moves along two axes: less along each than the other has in all. */
function overlap(e: Expr, a: string, b: string, extent: (axis: string) => number): boolean {
  const [p, q] = [strideOf(e, a) ?? 1, strideOf(e, b) ?? 1].map(Math.abs)
  return p !== undefined && q !== undefined && p > 0 && q > 0 && p < q * extent(b) && q < p * extent(a)
}

/** The share of points that threads which go along windows read: what windows share once. */
function readShare(
  exprs: readonly Expr[],
  grid: readonly GridAxis[],
  roles: Roles,
  { slidingWindows }: Machine,
): number {
  let least = 1
  for (const { axis, block } of grid)
    for (const over of roles.reduced) {
      const slide = slideOf(exprs, axis, over)
      const length = roles.extents.get(over) ?? 1
      if (slide !== undefined && block <= (slidingWindows?.most ?? 1))
        least = Math.min(least, ((block - 1) * slide.step + length) / (block * length))
    }
  return least
}

/** Places that an index goes over at most, where each axis has so many values. */
const spanOf = ({ terms }: Expr, extent: (axis: string) => number): number =>
  terms.reduce((n, { atom, coef }) => {
    if (atom.kind === 'axis') return n + Math.abs(coef) * (extent(atom.name) - 1)
    if (atom.kind === 'value') return n + Math.abs(coef) * (atom.extent - 1)
    return n + Math.abs(coef) * ([...axesOf(atom.of)].reduce((p, a) => p * extent(a), 1) - 1)
  }, 1)
