/** Emission of what threads do in order (src/schedule/simt/sequence/sequence.ts): a statement for each thing that is scheduled, nothing decided. */
import { invariant } from '../../../diagnostics/errors.ts'
import { filledTogether, type TilePlan } from '../../../schedule/simt/access/tiles.ts'
import { storeValues } from '../../../schedule/simt/part/facts.ts'
import type {
  BlockWork,
  CloseEntry,
  Entry,
  OrderedWork,
  PointStep,
  Preparation,
  Sequence,
  StageWork,
  VectorProductWork,
  WalkEntry,
} from '../../../schedule/simt/sequence/sequence.ts'
import type { Block, Ex } from '../ir/ir.ts'
import type { Lanes, Registers } from '../ir/registers.ts'
import { fillFragments, openFragments } from '../matmul/fragments.ts'
import { awaitProduct, multiplyTiles } from '../matmul/multiply.ts'
import { multiplyMatrices } from '../matmul/multiplyMatrices.ts'
import { fillVectors, multiplyVectors } from '../matmul/multiplyVectors.ts'
import { readAhead } from '../memory/earlyLoads.ts'
import { storeExchanged } from '../memory/exchanged.ts'
import { loadElement, loadGroups, otherOf, storeGroups, storeMerged, storeOne } from '../memory/memory.ts'
import { readWords } from '../memory/prefetch.ts'
import { fillHalf, fillPoint, openTile } from '../memory/stage.ts'
import { loadStrided, storeInterleaved } from '../memory/strided.ts'
import { loadTurned, storeTurned } from '../memory/turned.ts'
import { accumulate, closeAccumulators, gather, makeAccumulator, openAccumulator } from '../reduce/fold.ts'
import { accumulateMoments, countTerms } from '../reduce/moments.ts'
import { lowerScan } from '../reduce/scan.ts'
import { closeStream, moveAnchor, openStream } from '../reduce/streaming.ts'
import { mergeEx, roundTo } from '../scalar/arith.ts'
import { inForm } from '../scalar/precision.ts'
import { randomGroups } from '../scalar/random.ts'
import { emitLoop } from './loop.ts'
import { emitNest } from './nests.ts'
import { Point } from './point.ts'
import { emitRolled } from './rolled.ts'
import type { Held, Scope } from './scope.ts'
import { openSlices, type SlicedTiles } from './slices.ts'
import { emitWalk } from './walks.ts'

/** Emits a statement list. */
export function emitSequence(scope: Scope, { prepare, entries }: Sequence, out: Block): void {
  for (const p of prepare) open(scope, p)
  for (const e of entries) emitEntry(scope, e, out)
}

function open(scope: Scope, p: Preparation): void {
  switch (p.kind) {
    case 'fold':
      scope.accumulators.set(p.plan.let.id, makeAccumulator(scope, p.plan))
      break
    case 'tile':
      scope.tiles.set(p.tile.let.id, openTile(scope.unit, p.tile))
      break
    case 'position':
      scope.held.set(p.let.id, { kind: 'position', let: p.let })
  }
}

function emitEntry(scope: Scope, e: Entry, out: Block): void {
  switch (e.kind) {
    case 'nest':
      emitNest(scope, e, (step, point, body, to) => emitStep(step, point, body, to), out)
      break
    case 'block':
      emitBlock(scope, e.work, out)
      break
    case 'close':
      close(scope, e, out)
      break
    case 'rolled':
      emitRolled(scope, e, (inner, nest, to) => emitNest(inner, nest, emitStep, to), out)
      break
    case 'walk':
      walk(scope, e, out)
  }
}

function walk(scope: Scope, e: WalkEntry, out: Block): void {
  for (const item of e.items)
    if (item.kind === 'stream') scope.streams.set(item.stream.anchor.id, openStream(scope, item.stream, out))
  emitWalk(scope.child({ phase: e.phase }), e, emitSequence, out)
}

function close(scope: Scope, { folds, exchange, streams, later }: CloseEntry, out: Block): void {
  if (later !== undefined) for (const { id } of folds) awaitProduct(scope, id, later, out)
  const accs = folds.map((l) => scope.accumulator(l))
  for (const acc of accs) {
    gather(scope, acc, out)
    const plan = streams.get(acc.let.id)
    if (plan !== undefined) closeStream(scope, scope.openStream(plan), acc, out)
  }
  closeAccumulators(scope, accs, exchange, (lanes) => new Point(scope, lanes), out).forEach((held, i) => {
    const id = folds[i]?.id
    if (id !== undefined) scope.held.set(id, held)
  })
}

function emitBlock(scope: Scope, work: BlockWork, out: Block): void {
  switch (work.kind) {
    case 'open':
      openAccumulator(scope, scope.accumulator(work.let), (lanes: Lanes) => new Point(scope, lanes), out)
      break
    case 'matrixProduct':
      multiplyTiles(scope, scope.accumulator({ id: work.product.dot }), work.product, work.inBackground, out)
      break
    case 'vectorProduct': {
      const matrices = scope.unit.matrices.get(work.product.dot)
      if (matrices !== undefined) multiplyMatrices(scope, work.product, matrices, out)
      else
        multiplyVectors(scope, scope.accumulator({ id: work.product.dot }), work.product, slicedTiles(scope, work), out)
      break
    }
    case 'scan':
      lowerScan(scope, work.let, work.plan, out)
      break
    case 'move':
      moveAnchor(scope, scope.openStream(work.stream), out)
      break
    case 'barrier':
      out.push({ k: 'barrier' })
      break
    case 'halfway':
      out.push(...scope.unit.halfway)
      break
    case 'filled':
      if (work.meets) out.push({ k: 'barrier' })
      scope.held.set(work.let.id, scope.tile(work.let))
      break
    case 'stage':
      scope.held.set(work.let.id, emitStage(scope, work, out))
      break
    case 'ordered':
      emitOrdered(scope, work, out)
      break
    case 'loop':
      emitLoop(scope, work, emitSequence, out)
  }
}

const slicedTiles = (scope: Scope, { product, fills }: VectorProductWork): SlicedTiles | undefined =>
  product.slices === undefined ? undefined : openSlices(scope, product.slices, fills, emitSequence)

/** Fills a tile under a layout of its own: everything pure that it needs is computed there. */
function emitStage(scope: Scope, { let: l, layout, tile, isAhead, body }: StageWork, out: Block): Held {
  invariant(l.op.kind === 'stage', 'not a stage')
  const { part, unit } = scope
  const to = tile.form.kind === 'fragments' ? openFragments(unit, tile, out) : openTile(unit, tile)
  const inner = scope.child({ layout, bases: new Map() })
  for (const x of part.closureOf([l.op.of]).lets) if (part.axesOf(x.id).length > 0) inner.held.delete(x.id)
  if (to.kind === 'shared') inner.tiles.set(l.id, to)
  else inner.held.set(l.id, to)
  out.push({ k: 'comment', text: `stage %${l.id} {${l.axes.join(', ')}}` })
  const whole = inner.openWhole(layout.axes.keys(), out)
  unit.ahead = isAhead ? unit.aheads.get(l.id) : undefined
  emitSequence(whole, body, out)
  unit.ahead = undefined
  if (to.kind === 'fragments') return to
  if (to.swizzle !== undefined) out.push({ k: 'call', fn: 'tile_written', args: [] })
  // The product waits for both of its operands at once.
  if (tile.form.kind !== 'vectors' && tile.form.kind !== 'matrices') out.push({ k: 'barrier' })
  return to
}

function emitOrdered(scope: Scope, { store, layout, body }: OrderedWork, out: Block): void {
  const inner = scope.child({ layout, bases: new Map() })
  for (const l of scope.part.closureOf(storeValues(store)).lets) inner.held.delete(l.id)
  out.push({ k: 'comment', text: `store ${store.param}, in order` })
  emitSequence(inner.openWhole(layout.axes.keys(), out), body, out)
}

function emitStep({ work }: PointStep, p: Point, out: Block, to: Registers | undefined): Ex | undefined {
  const { scope } = p
  const { part } = scope
  switch (work.kind) {
    case 'value':
      return work.form === undefined ? p.pointwise(work.let) : inForm(p, work.let, work.form)
    case 'load':
      return emitLoad(work, p, out, to)
    case 'random':
      randomGroups(p, work.let, work.group, written(to), out)
      return undefined
    case 'fold':
      accumulate(scope.accumulator(work.let), p, out)
      return undefined
    case 'count': {
      const { mean, anchor } = scope.openStream(work.stream)
      if (mean !== undefined) countTerms(anchor, mean.counts, p, out)
      return undefined
    }
    case 'moments': {
      const carried = scope.openStream(work.stream).mean?.carried.find((c) => c.acc.let.id === work.let.id)
      invariant(carried !== undefined, `the moments of %${work.let.id} are not open`)
      accumulateMoments(carried, p, out)
      return undefined
    }
    case 'store': {
      const { store: s, group, lanes, turned, merges, isCoarse } = work
      const axes = part.storeAxes(s)
      const { combiner } = s
      const { dtype } = scope.unit.param(s.param)
      if (turned !== undefined) storeTurned(p, s, axes, turned, isCoarse, out)
      else if (group !== undefined && lanes > 1) storeExchanged(p, s, axes, group, lanes, isCoarse, out)
      else if (group !== undefined) storeGroups(p, s, axes, group, isCoarse, out)
      else if (!merges || combiner === undefined) storeOne(p, s, axes, true, out)
      else storeMerged(p, s, axes, (old, x) => roundTo(dtype, mergeEx(combiner, dtype, old, x)), out)
      return undefined
    }
    case 'interleave': {
      const [first] = work.stores
      if (first !== undefined) storeInterleaved(p, work.stores, part.storeAxes(first), work.strided, work.coarse, out)
      return undefined
    }
    case 'fill':
      fill(work.tile, work.of, p, out)
      return undefined
  }
}

function written(to: Registers | undefined): Registers {
  invariant(to !== undefined, 'lanes without registers')
  return to
}

function emitLoad(
  { let: l, form }: Extract<PointStep['work'], { kind: 'load' }>,
  p: Point,
  out: Block,
  to: Registers | undefined,
): Ex | undefined {
  const { scope } = p
  invariant(l.op.kind === 'load', 'not a load')
  const axes = scope.part.axesOf(l.id)
  switch (form.kind) {
    case 'element':
      return loadElement(p, l, l.op, axes, otherOf(l), out)
    case 'group':
      loadGroups(p, l, l.op, axes, form.group, written(to), otherOf(l), out)
      return undefined
    case 'strided':
      loadStrided(p, l, l.op, axes, form.strided, written(to), otherOf(l), out)
      return undefined
    case 'turned':
      loadTurned(p, l, l.op, axes, form.turned, written(to), out)
      return undefined
    case 'copied':
      readAhead(scope, l.id).emit(p, written(to), out)
      return undefined
    case 'words':
      readWords(scope, l.id).emit(p, written(to), out)
      return undefined
  }
}

function fill(tile: TilePlan, of: number, p: Point, out: Block): void {
  const { scope } = p
  const together = filledTogether(tile, scope.layout)
  if (tile.form.kind === 'fragments') {
    fillFragments(p, of, tile, out)
    return
  }
  const to = scope.tile(tile.let)
  switch (tile.form.kind) {
    case 'plain':
      fillPoint(p, scope.part.axesOf(tile.let.id), of, to, out)
      break
    case 'halves':
      fillHalf(p, of, to, together, tile.form.product, tile.form.packed, out)
      break
    case 'vectors':
    case 'matrices':
      fillVectors(p, tile.form.product, of, tile.let.id, to, together, out)
  }
}
