/**
 * Copies of memory into scratch tiles (operands of matrix products): runs that are contiguous on both sides move in whole
 * vectors, others are transposed in blocks of four by four. Padding is filled in afterwards, so the copy itself has no
 * masks: it may read a little beyond the parameter, where other memory stands.
 */
import { type Expr, rangeOf, strideOf, valuesOf } from '../../index/expr.ts'
import { always, conjoin, type Predicate } from '../../index/predicate.ts'
import type { KernelParam, ValueId } from '../../kernel/ir.ts'
import type { Scalar } from '../../scalar/ops.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { sizeOf } from '../../types/shape.ts'
import { bytePosition } from './access.ts'
import type { Local } from './builder.ts'
import { addressOf, predicateElement } from './laneIndex.ts'
import { atStart, axisBounds, countedLoop } from './loops.ts'
import type { Nest } from './nests.ts'
import { part } from './reg.ts'
import type { Index } from './scope.ts'
import { namedAxes, type Tile } from './tile.ts'
import type { Values } from './values.ts'
import { emitCopy, emitFill, emitTranspose, word } from './words.ts'

/** Bytes in front of and behind every parameter that lie in memory: copies may read them. */
export const readMargin = 16384

/** A load with its padding. */
interface Source {
  readonly param: KernelParam
  readonly position: Expr
  readonly mask: Predicate
  readonly other: Scalar
}

/** Axes that make one run, innermost first: the strides of the run on both sides, the axes' own sizes. */
interface Run {
  readonly axes: readonly string[]
  readonly from: number
  readonly to: number
}

export interface Packing {
  readonly source: Source
  readonly tile: Tile
  readonly space: readonly string[]
  /** Contiguous in the tile. */
  readonly along: Run
  /** Contiguous in memory, where that is another run. */
  readonly across: Run | undefined
}

/** How the nest is a copy of memory into a tile, if it is one. */
export function packingOf(values: Values, nest: Nest): Packing | undefined {
  const [root, second] = nest.roots
  if (root?.kind !== 'keep' || second !== undefined || nest.folded.length > 0 || values.vector !== undefined) return
  const source = sourceOf(values, root.id)
  if (source === undefined) return
  const { tile } = root
  const { position, param } = source
  if (param.format !== 'plain' || dtypeBytes(param.dtype) !== word || param.dtype === 'bool') return
  if (tile.dtype !== param.dtype || valuesOf(position).size > 0) return
  const inMemory = rangeOf(position)
  if (inMemory.lo < -readMargin || inMemory.hi + word > sizeOf(param.shape) * word + readMargin) return
  if (source.mask.some((b) => valuesOf(b.expr).size > 0)) return
  const strides = new Map<string, { from: number; to: number }>()
  for (const a of nest.space) {
    const [from, to] = [strideOf(position, a), tile.strides.get(a)]
    if (from === undefined || to === undefined) return
    strides.set(a, { from, to })
  }
  const unit = (side: 'from' | 'to'): string | undefined =>
    [...nest.space].sort((a, b) => size(b) - size(a)).find((a) => strides.get(a)?.[side] === word)
  const size = (a: string): number => values.axes.view(a).max
  const first = unit('to')
  if (first === undefined || size(first) < 2) return
  const runFrom = (start: string, taken: readonly string[]): Run => {
    const { from, to } = strides.get(start) ?? { from: 0, to: 0 }
    const axes = [start]
    for (let n = size(start); ; ) {
      const inner = axes.at(-1) ?? start
      if (values.axes.view(inner).counts?.length !== 1) break
      const next = nest.space.find((a) => {
        const s = strides.get(a)
        return !axes.includes(a) && !taken.includes(a) && s?.from === n * from && s.to === n * to
      })
      if (next === undefined) break
      axes.push(next)
      n *= size(next)
    }
    return { axes, from, to }
  }
  const along = runFrom(first, [])
  if (along.from === word) return { source, tile, space: nest.space, along, across: undefined }
  const contiguous = unit('from')
  if (contiguous === undefined || along.axes.includes(contiguous) || size(contiguous) < 4) return
  return { source, tile, space: nest.space, along, across: runFrom(contiguous, along.axes) }
}

/** The load a value is, a selection by a predicate of a load's own padding taken with it. */
function sourceOf(values: Values, id: ValueId): Source | undefined {
  if (values.homes.has(id)) return undefined
  const { op } = values.def(id)
  if (op?.kind === 'stage') return sourceOf(values, op.of)
  if (op?.kind === 'load') {
    if (op.maskValue !== undefined) return undefined
    const param = values.paramOf(op.param)
    return { param, position: bytePosition(param, op.index), mask: op.mask, other: op.other }
  }
  if (op?.kind !== 'scalar' || op.op !== 'select') return undefined
  const [condition, chosen, other] = op.args.map((a) => values.def(a).op)
  if (condition?.kind !== 'predicate' || chosen?.kind !== 'load' || other?.kind !== 'const') return undefined
  const source = sourceOf(values, op.args[1] ?? id)
  const sameOther = source !== undefined && (source.mask.length === 0 || Object.is(source.other, other.value))
  if (!sameOther) return undefined
  return { ...source, mask: conjoin(always, ...source.mask, ...condition.predicate), other: other.value }
}

export function emitPacking(values: Values, p: Packing): void {
  const { f, scope, scratch } = values
  const { position, param } = p.source
  const runs = [...p.along.axes, ...(p.across?.axes ?? [])]
  const outside = p.space.filter((a) => !runs.includes(a)).sort((a, b) => strideIn(p.tile, b) - strideIn(p.tile, a))
  loops(values, outside, () => {
    const from = addressOf(values, values.baseOf(param.name), atStart(values, position, runs), 0)
    const to = addressOf(values, scratch, atStart(values, values.axes.tileIndex(p.tile), runs), 0, p.tile.offset)
    const n = runCount(values, p.along)
    const m = p.across === undefined ? 1 : runCount(values, p.across)
    scope.here(() => {
      const [source, target] = [shifted(values, from), shifted(values, to)]
      if (p.across === undefined) emitCopy(f, source, target, n)
      else emitTranspose(f, source, target, n, m, p.along.from, p.across.to)
      f.release(source, target)
    })
  })
  for (const bound of p.source.mask) emitPadding(values, p, [bound])
}

const strideIn = (t: Tile, a: string): number => t.strides.get(a) ?? 0

function loops(values: Values, axes: readonly string[], body: () => void): void {
  const [first, ...rest] = axes
  if (first === undefined) body()
  else countedLoop(values, first, () => loops(values, rest, body))
}

/** Elements of a run: its outermost axis may have any number of indices. */
function runCount(values: Values, run: Run): Index {
  const { scope, axes } = values
  const outer = run.axes.at(-1) ?? ''
  const unit = run.axes.slice(0, -1).reduce((n, a) => n * axes.view(a).max, 1)
  const { count } = axisBounds(values, outer)
  if (typeof count === 'number') return count * unit
  if (unit === 1) return count
  return scope.once(scope.axisDepth(`${outer}.count`), `run:${outer}:${unit}`, 'i32', () =>
    scope.pushScaled(count, unit),
  )
}

/** An address as a local of its own, to be moved. */
function shifted(values: Values, at: { readonly local: Local; readonly offset: number }): Local {
  const { f } = values
  f.get(at.local)
  if (at.offset !== 0) {
    f.i32Const(at.offset)
    f.op('i32.add')
  }
  return f.toLocal('i32')
}

/** Fills what a bound leaves out. */
function emitPadding(values: Values, p: Packing, bound: Predicate): void {
  const { f, scope, scratch, axes } = values
  const named = namedAxes(bound.map((b) => b.expr))
  const inside = p.space.filter((a) => !named.has(a))
  const unit = inside.find((a) => strideIn(p.tile, a) === word)
  const bits = wordOf(p.tile.dtype, p.source.other)
  const order = (names: readonly string[]): string[] =>
    [...names].sort((a, b) => strideIn(p.tile, b) - strideIn(p.tile, a))
  loops(values, order(p.space.filter((a) => named.has(a))), () => {
    const holds = part(predicateElement(values, bound, scope.depth), 0)
    scope.push()
    loops(
      values,
      order(inside).filter((a) => a !== unit),
      () => {
        const index = axes.tileIndex(p.tile)
        const to = addressOf(
          values,
          scratch,
          unit === undefined ? index : atStart(values, index, [unit]),
          0,
          p.tile.offset,
        )
        const n = unit === undefined ? 1 : axisBounds(values, unit).count
        scope.here(() => {
          const target = shifted(values, to)
          emitFill(f, target, n, bits)
          f.release(target)
        })
      },
    )
    const { fragment } = scope.pop()
    scope.here(() => {
      f.get(holds)
      f.op('i32.eqz')
      f.if(() => f.splice(fragment))
    })
  })
}

/** The 32 bits of a constant of a dtype. */
function wordOf(dtype: Tile['dtype'], value: Scalar): number {
  if (dtype === 'f32') return new Int32Array(Float32Array.of(Number(value)).buffer)[0] ?? 0
  return Number(value) | 0
}
