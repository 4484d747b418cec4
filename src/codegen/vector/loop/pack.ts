/** Emission of copies of memory into scratch tiles (src/schedule/loop/nest/packing.ts): runs, transpositions, padding. */
import type { Predicate } from '../../../affine/predicate.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import type { CopyPiece, CopySchedule, Run } from '../../../schedule/loop/ir/schedule.ts'
import { isShortForm, isShortTile, shortBytes, shortForms } from '../../../schedule/loop/ir/shortOperands.ts'
import { namedAxes, type Tile } from '../../../schedule/loop/ir/tile.ts'
import { readAs, word } from '../../../schedule/loop/nest/packing.ts'
import { type DType, dtypeBytes } from '../../../types/dtype.ts'
import * as X from '../ir/expr.ts'
import type { LoadForm, Register } from '../ir/ir.ts'
import { addressOf, predicateElement } from '../value/laneIndex.ts'
import { part } from '../value/reg.ts'
import { type Index, scaled } from '../value/scope.ts'
import { emitWidened } from '../value/shorts.ts'
import type { Values } from '../value/values.ts'
import { widened } from '../value/widening.ts'
import { emitCopy, emitFill, emitTranspose } from '../value/words.ts'
import { atStart, axisBounds, countedLoop } from './loops.ts'

export function emitCopyStep(values: Values, p: CopySchedule): void {
  const level = values.scope.depth
  const { pieces } = p.source
  const runs = [...p.along.axes, ...(p.across?.axes ?? [])]
  const outside = p.space
    .filter((a) => !runs.includes(a))
    .sort((a, b) => strideIn(p.root.tile, b) - strideIn(p.root.tile, a))
  loops(values, outside, () => {
    for (const piece of pieces) emitPiece(values, p, piece, runs)
  })
  for (const bound of p.source.mask) emitPadding(values, p, [bound])
  const { id, tile, home } = p.root
  if (home) values.setHome(id, { kind: 'tile', tile, depth: level, round: false })
}

/** The runs of one piece, where it is the one that stands there. */
function emitPiece(
  values: Values,
  p: CopySchedule,
  { param, position, where }: CopyPiece,
  runs: readonly string[],
): void {
  const { f, env, scope, scratch } = values
  const { tile } = p.root
  const from = addressOf(values, values.baseOf(param.name), atStart(values, position, runs), 0)
  const to = addressOf(values, scratch, atStart(values, values.axes.tileIndex(tile), runs), 0, tile.offset)
  const n = runCount(values, p.along)
  const m = p.across === undefined ? 1 : runCount(values, p.across)
  const copied = (): void => {
    const [source, target] = [shifted(values, from), shifted(values, to)]
    if (isShortTile(tile)) emitWidened(f, source, target, n, { form: shortFormOf(param.dtype), apart: p.along.from })
    else if (p.across === undefined) emitCopy(f, source, target, n)
    else {
      const read = readAs(param.dtype, tile) ?? param.dtype
      const elements = dtypeBytes(read) === word ? undefined : widened(f, env, read)
      emitTranspose(f, source, target, n, m, { row: p.along.from, target: p.across.to }, elements)
    }
    f.release(source, target)
  }
  const holds = where === undefined ? undefined : part(predicateElement(values, [where], scope.depth), 0)
  scope.here(() => (holds === undefined ? copied() : f.if(holds, copied)))
}

/** How memory of a dtype that becomes 16 bits is read. */
const shortFormOf = (d: DType): LoadForm => (isShortForm(d) ? shortForms[d] : 'plain')

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
  return scope.once(scope.axisDepth(`${outer}.count`), `run:${outer}:${unit}`, () => scaled(count, unit))
}

/** An address as a register of its own, to be moved. */
function shifted(values: Values, at: { readonly local: Register; readonly offset: number }): Register {
  return values.f.keep(at.offset === 0 ? at.local : X.add(at.local, at.offset))
}

/** Fills what a bound leaves out. */
function emitPadding(values: Values, p: CopySchedule, bound: Predicate): void {
  const { f, scope, scratch, axes } = values
  const named = namedAxes(bound.map((b) => b.expr))
  const inside = p.space.filter((a) => !named.has(a))
  const isShort = isShortTile(p.root.tile)
  const size = isShort ? shortBytes : word
  const bits = wordOf(p.root.tile.dtype, p.source.other)
  const order = (names: readonly string[]): string[] =>
    [...names].sort((a, b) => strideIn(p.root.tile, b) - strideIn(p.root.tile, a))
  // Elements that are nearest in the tile are a fill.
  const last = order(inside).at(-1)
  const apart = last === undefined ? size : strideIn(p.root.tile, last)
  loops(values, order(p.space.filter((a) => named.has(a))), () => {
    const holds = part(predicateElement(values, bound, scope.depth), 0)
    scope.push()
    loops(values, order(inside).slice(0, -1), () => {
      const index = axes.tileIndex(p.root.tile)
      const to = addressOf(
        values,
        scratch,
        last === undefined ? index : atStart(values, index, [last]),
        0,
        p.root.tile.offset,
      )
      const n = last === undefined ? 1 : axisBounds(values, last).count
      scope.here(() => {
        const target = shifted(values, to)
        emitFill(f, target, n, { size, bits, apart })
        f.release(target)
      })
    })
    const { block } = scope.pop()
    scope.here(() => f.if(X.isZero(holds), () => f.splice(block)))
  })
}

/** The 32 bits of a constant of a dtype. */
function wordOf(dtype: Tile['dtype'], value: Scalar): number {
  if (dtype === 'f32') return new Int32Array(Float32Array.of(Number(value)).buffer)[0] ?? 0
  return Number(value) | 0
}
