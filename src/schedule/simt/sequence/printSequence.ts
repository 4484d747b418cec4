/** What threads do, as text: a line for each nest, exchange, loop and stage, what stands inside indented. */

import type { LetStmt, StoreStmt, ValueId } from '../../../kernel/ir.ts'
import { showExpr } from '../../../kernel/print.ts'
import type { Group } from '../access/access.ts'
import type { LoadPlan } from '../access/loadPlan.ts'
import { type TilePlan, tileArray } from '../access/tiles.ts'
import type { ExchangePlan } from '../fold/exchange.ts'
import { combinerOf } from '../fold/folds.ts'
import { againstOf, isMean } from '../fold/onlineSums.ts'
import type { Layout } from '../layout/layout.ts'
import type { Part } from '../part/part.ts'
import type { ValueForm } from '../precision/oddFunctions.ts'
import { tilesOf } from '../prefetch/copiedStages.ts'
import { allLoads } from '../prefetch/prefetch.ts'
import { registerBytes } from '../storage/registerType.ts'
import type { BlockWork, Entry, LoadForm, LoopWork, NestEntry, PointStep, Sequence, WalkEntry } from './sequence.ts'

/** Lines of a list under a layout. */
export function printSequence(part: Part, layout: Layout, { entries }: Sequence): string[] {
  return entries.flatMap((e) => printEntry(part, layout, e))
}

const inside = (lines: readonly string[]): string[] => lines.map((line) => `  ${line}`)
const ids = (values: readonly (LetStmt | { readonly id: ValueId })[]): string =>
  values.map((l) => `%${l.id}`).join(', ')

function printEntry(part: Part, layout: Layout, e: Entry): string[] {
  switch (e.kind) {
    case 'nest':
      return [printNest(e)]
    case 'rolled': {
      const { chunks, reps } = e.layout.axis(e.axis)
      const rounds = reps === 1 ? `${chunks} repeats` : `${chunks} times ${reps} repeats`
      const head = `loop over ${rounds} of ${e.axis}: ${ids(e.kept.map((id) => ({ id })))} in own cells of shared memory`
      return [head, ...inside(e.nests.map(printNest))]
    }
    case 'close':
      return e.later === undefined ? printExchange(e.exchange, e.folds) : [printWait(e.folds, e.later)]
    case 'walk':
      return [printWalk(layout, e), ...inside(printSequence(part, layout, e.body))]
    case 'block':
      return printBlock(part, layout, e.work)
  }
}

/** Names with how often each comes, in order of first use. */
function counted(names: readonly string[]): string {
  const times = new Map<string, number>()
  for (const n of names) times.set(n, (times.get(n) ?? 0) + 1)
  return [...times].map(([n, count]) => (count === 1 ? n : `${count} ${n}`)).join(', ')
}

function printNest({ steps, arrays, seldom, usual, sliding }: NestEntry): string {
  const axes = new Map<string, string[]>()
  for (const l of steps[0]?.loops ?? [])
    axes.set(l.axis, [...(axes.get(l.axis) ?? []), `${l.count} ${l.over === 'rep' ? 'repeats' : 'side by side'}`])
  const where = [...axes].map(([axis, counts]) => `${axis} (${counts.join(' x ')})`).join(', ')
  const held = steps.filter((s) => s.gives !== undefined && arrays.includes(s.gives)).map((s) => s.name)
  const keeps = held.length === 0 ? '' : `; registers keep ${held.join(', ')}`
  const twice = seldom === undefined ? '' : `; again without %${seldom.id} for threads where it never holds`
  const whole =
    usual === undefined
      ? ''
      : `; again without ${[...usual.ids.map((id) => `%${id}`), ...usual.axes.map((a) => `the end of ${a}`)].join(', ')} for blocks where ${[
          ...usual.axes.map((a) => `${a} is whole`),
          ...usual.numbers.map((e) => `${showExpr(e)} >= 0`),
        ].join(' and ')}`
  const slides =
    sliding === undefined
      ? ''
      : `, ${sliding.places.length} places of windows along ${sliding.windows.along}, each read once`
  return `${where === '' ? 'once' : `over ${where}${slides}`}: ${counted(steps.map(printStep))}${keeps}${twice}${whole}`
}

const sideBySide = (group: Group | undefined): string => (group === undefined ? '' : ` (${group.n} at a time)`)
const storedTogether = ({ group, lanes, turned }: Extract<PointStep['work'], { kind: 'store' }>): string =>
  turned !== undefined
    ? ' (8 x 8 at a time, turned)'
    : group === undefined || lanes === 1
      ? sideBySide(group)
      : ` (${group.n * lanes} at a time, put together among ${lanes} lanes)`
const stores = (all: readonly StoreStmt[]): string => [...new Set(all.map((s) => s.param))].join(', ')

function printLoad(param: string, form: LoadForm): string {
  switch (form.kind) {
    case 'element':
      return `load ${param}`
    case 'group':
      return `load ${param}${sideBySide(form.group)}`
    case 'strided':
      return `load ${param} (${form.strided.n} of ${form.strided.n * form.strided.stride} neighbours)`
    case 'turned':
      return `load ${param} (8 x 8 at a time, turned)`
    case 'copied':
      return `take ${param} from the ring`
    case 'words':
      return `take ${param} from registers`
  }
}

/** How a value is computed, where it is not by its plain form. */
function formText(form: ValueForm | undefined): string {
  switch (form?.kind) {
    case undefined:
      return ''
    case 'coarse':
      return ` (coarse${form.guard === 'unguarded' ? ', NaN comes another way' : ''})`
    case 'oddSum':
    case 'oddProduct':
      return ' (without a sign)'
    case 'multiple':
      return ' (by a reciprocal)'
    case 'normalLog':
      return ' (of positive normal numbers)'
  }
}

function printStep({ work }: PointStep): string {
  switch (work.kind) {
    case 'value':
      return `${work.let.op.kind === 'scalar' ? work.let.op.op : work.let.op.kind}${formText(work.form)}`
    case 'load':
      return printLoad(work.let.op.kind === 'load' ? work.let.op.param : '', work.form)
    case 'random':
      return `random bits, ${work.group.n} a call${work.group.exchanged === undefined ? '' : ', calls shared by two threads'}`
    case 'fold':
      return `fold ${combinerOf(work.let)} %${work.let.id}`
    case 'count':
      return 'count'
    case 'moments':
      return `moments of %${work.let.id}`
    case 'store':
      return `${work.merges ? 'merge into' : 'store'} ${work.store.param}${storedTogether(work)}`
    case 'interleave':
      return `store ${stores(work.stores)} (${work.strided.stride} interleaved)`
    case 'fill':
      return `fill the tile of %${work.tile.let.id}`
  }
}

function printExchange({ inBlock, amongBlocks, folds }: ExchangePlan, ended: readonly LetStmt[]): string[] {
  const lanes = folds.filter((f) => f.lanes.length > 0)
  const steps = [
    lanes.length === 0 ? '' : `${ids(lanes.map((f) => f.let))} among lanes`,
    ...inBlock.map((b) => {
      const parts = 2 ** (b.folds[0]?.warps.length ?? 0)
      const rounds = b.rounds === 1 ? '' : ` in ${b.rounds} rounds`
      return `${ids(b.folds.map((f) => f.let))} through shared memory (${parts} parts)${rounds}`
    }),
    amongBlocks.length === 0 ? '' : `${ids(amongBlocks.map((f) => f.let))} among blocks of the cluster`,
  ].filter((s) => s !== '')
  return [
    steps.length === 0
      ? `end ${ids(ended)}: threads hold them whole`
      : `end ${ids(ended)}: exchange ${steps.join(', then ')}`,
  ]
}

const printWait = (ended: readonly LetStmt[], later: number): string =>
  `end ${ids(ended)}: wait${later === 0 ? '' : `, but not for the ${later === 1 ? 'product' : `${later} products`} begun later`}`

const loadsOf = (loads: readonly LoadPlan[]): string => [...new Set(loads.map((l) => l.let.op.param))].join(', ')

function printWalk(layout: Layout, w: WalkEntry): string {
  const chunks = w.over.map((a) => `${layout.axis(a).chunks} chunks of ${a}`).join(' x ')
  const streams = w.items.flatMap((item) => (item.kind === 'stream' ? item.stream : []))
  return [
    `walk over ${chunks}${w.isBackward ? ', the last first' : ''}`,
    w.filter === undefined ? '' : "those of the program's own places, found by all threads",
    w.wholeUntil === undefined ? '' : 'the last one apart, so that the others need no test for the end',
    w.prefetch === undefined ? '' : `loads ${loadsOf(w.prefetch)} a chunk early into registers`,
    ...streams.map(
      (s) =>
        `${ids(s.followers.map((f) => f.let))} stream against the ${isMean(s) ? 'mean' : 'extreme'} %${s.anchor.id} as it is found`,
    ),
  ]
    .filter((x) => x !== '')
    .join('; ')
}

const tileBytes = (tile: TilePlan, copies = 1): number => {
  const { type, length, half } = tileArray(tile, copies)
  return length * (half === true ? 2 : registerBytes(type))
}

function printLoop(part: Part, { loop, isSingle, operands, prefetch, totals }: LoopWork): string {
  const { extent } = part.axis(loop.axis)
  const blocks = Math.ceil(extent / loop.block)
  return [
    isSingle ? `the one block of ${loop.axis}` : `loop over ${blocks} blocks of ${loop.block} of ${loop.axis}`,
    operands === undefined || operands.copied.length === 0
      ? ''
      : `copies ${operands.copied
          .map((c) =>
            tilesOf(c)
              .map((t) => `%${t.let.id}`)
              .join(' as '),
          )
          .join(
            ', ',
          )} ahead into ${operands.slots} tiles each (${operands.copied.reduce((n, c) => n + tileBytes(c.tile, operands.slots), 0)} B)`,
    operands === undefined || operands.ahead.length === 0
      ? ''
      : `copies what ${ids(operands.ahead.map((c) => c.let))} are computed from ahead into ${operands.slots} slots`,
    prefetch === undefined
      ? ''
      : `loads ${loadsOf(allLoads(prefetch))} ${prefetch.slots - 1} ahead into ${prefetch.into === 'ring' ? 'a ring of shared memory' : 'registers'}`,
    totals.length === 0
      ? ''
      : `totals of ${totals.map((t) => `%${t.carry.param}`).join(', ')} stand apart in ${[...new Set(totals.flatMap((t) => t.cells))].join(' and ')}`,
  ]
    .filter((x) => x !== '')
    .join('; ')
}

function printBlock(part: Part, layout: Layout, work: BlockWork): string[] {
  switch (work.kind) {
    case 'open':
    case 'barrier':
    case 'filled':
      return []
    case 'halfway':
      return ['halfway: done with the block before, and copied of the next what was to be']
    case 'matrixProduct':
      return [`multiply %${work.product.dot} on matrix units${work.inBackground ? ' in the background' : ''}`]
    case 'vectorProduct':
      if (work.product.onMatrices) return [`multiply %${work.product.dot} by subgroups`]
      return [
        `multiply %${work.product.dot} in vectors${work.product.slices === undefined ? '' : `, in ${work.product.slices.count} slices of ${work.product.slices.size} of ${work.product.slices.axis}`}`,
        ...inside(work.fills.flatMap((f) => printBlock(part, layout, f))),
      ]
    case 'scan':
      return [
        `scan %${work.let.id} ${{ single: 'of single indices', blocks: 'as a tree of blocks', inOrder: 'in order', byThreads: 'by all threads', byWarps: 'by the lanes of warps' }[work.plan.kind]}`,
      ]
    case 'move':
      return [`move sums to the anchor so far (${ids(againstOf(work.stream).map((id) => ({ id })))})`]
    case 'stage':
      return [
        `stage %${work.let.id} ${work.tile.form.kind === 'fragments' ? `as fragments of ${work.tile.length} words` : `in ${tileBytes(work.tile)} B of shared memory`} over ${[...work.layout.axes.values()].map((a) => `${a.name} (${[a.chunks > 1 ? `${a.chunks} chunks` : '', `${a.reps} repeats`, `${2 ** a.bits.length} threads`, `${a.vec} side by side`].filter((x) => x !== '').join(' x ')})`).join(', ')}`,
        ...inside(printSequence(part, work.layout, work.body)),
      ]
    case 'ordered':
      return [
        `store ${work.store.param} in order, one thread a place`,
        ...inside(printSequence(part, work.layout, work.body)),
      ]
    case 'loop':
      return [printLoop(part, work), ...inside(printSequence(part, layout, work.body))]
  }
}
