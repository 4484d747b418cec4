/**
 * Seconds of arithmetic that a schedule takes, by the machine's prices: what every thread computes, computing again what others have
 * included. Matrix products are not in it, nor is moving data.
 */
import type { LetStmt } from '../../kernel/ir.ts'
import type { Prices } from '../../target/prices.ts'
import { statementSeconds } from '../price.ts'
import { type Layout, registersOf } from './layout/layout.ts'
import type { Part } from './part/part.ts'
import type { BlockWork, Entry, NestEntry, PointStep, Sequence } from './sequence/sequence.ts'

/** Seconds of arithmetic of one thread, times the threads that the prices take to be at work at once. */
export function threadSeconds(part: Part, layout: Layout, { entries }: Sequence, prices: Prices): number {
  return entries.reduce((sum, e) => sum + entrySeconds(part, layout, e, prices), 0)
}

function entrySeconds(part: Part, layout: Layout, e: Entry, prices: Prices): number {
  switch (e.kind) {
    case 'nest':
      return e.steps.reduce((sum, s) => sum + shareOfPoints(e, s) * stepSeconds(part, layout, s, prices), 0)
    case 'rolled':
      return layout.axis(e.axis).reps * e.nests.reduce((sum, n) => sum + entrySeconds(part, e.layout, n, prices), 0)
    case 'walk': {
      const chunks = e.over.reduce((n, a) => n * layout.axis(a).chunks, 1)
      const body = threadSeconds(part, layout, e.body, prices)
      return e.tail === undefined ? chunks * body : (chunks - 1) * body + threadSeconds(part, layout, e.tail, prices)
    }
    case 'block':
      return blockSeconds(part, layout, e.work, prices)
    case 'close':
      return 0
  }
}

/** The points at which a step runs among those of its nest: windows that overlap compute what they share once for each place. */
function shareOfPoints({ sliding }: NestEntry, { gives }: PointStep): number {
  if (sliding === undefined || gives === undefined || !sliding.windows.shared.has(gives)) return 1
  return sliding.places.length / sliding.places.reduce((n, place) => n + place.length, 0)
}

/** Registers of a tile over axes. */
const registers = (layout: Layout, axes: readonly string[]): number =>
  layout.spread(axes).reduce((n, a) => n * registersOf(a), 1)

function stepSeconds(part: Part, layout: Layout, { work, loops, wide }: PointStep, prices: Prices): number {
  const one = (l: LetStmt): number => statementSeconds(l, (id) => part.dtypeOf(id), prices)
  const points = loops.reduce((n, l) => n * l.count, 1)
  switch (work.kind) {
    case 'value':
    case 'fold':
    case 'random':
    case 'load':
    case 'moments':
      return (wide === true ? registers(layout, part.axesOf(work.let.id)) : points) * one(work.let)
    case 'count':
    case 'fill':
    case 'interleave':
    case 'store':
      return 0
  }
}

function blockSeconds(part: Part, layout: Layout, work: BlockWork, prices: Prices): number {
  switch (work.kind) {
    case 'scan':
      return registers(layout, part.axesOf(work.let.id)) * statementSeconds(work.let, (id) => part.dtypeOf(id), prices)
    case 'stage':
    case 'ordered':
      return threadSeconds(part, work.layout, work.body, prices)
    case 'loop': {
      const blocks = work.isSingle ? 1 : Math.ceil(part.axis(work.loop.axis).extent / work.loop.block)
      return blocks * threadSeconds(part, layout, work.body, prices)
    }
    case 'barrier':
    case 'halfway':
    case 'filled':
    case 'matrixProduct':
    case 'move':
    case 'open':
      return 0
    case 'vectorProduct':
      return (
        (work.product.slices?.count ?? 1) *
        work.fills.reduce((sum, f) => sum + blockSeconds(part, layout, f, prices), 0)
      )
  }
}
