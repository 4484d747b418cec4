/** The printer of loop schedules: why a kernel runs as it does on one core, a line a step. */
import type { ValueId } from '../../kernel/ir.ts'
import { showExpr, showPredicate } from '../../kernel/print.ts'
import { joinedAxes } from './ir/joined.ts'
import type { Product } from './ir/product.ts'
import type { BlockSchedule, CopySchedule, LevelSchedule, LoopStep, NestSchedule, Run, Slide } from './ir/schedule.ts'
import type { Root } from './ir/steps.ts'
import type { Axes, Tile } from './ir/tile.ts'
import { isNarrow } from './products.ts'
import type { ScheduledPart } from './scheduleKernel.ts'

/** The lines of the schedule of a kernel of that name. */
export function printLoopSchedule(kernel: string, parts: readonly ScheduledPart[]): string[] {
  return parts.flatMap(({ schedule, size }, i) => {
    const { body, axes, scratch, part } = schedule
    const grid = part.grid.map((g) => `${g.axis}/${g.block}`).join(', ')
    const what = `schedule of ${kernel}${parts.length > 1 ? `, part ${i}` : ''}`
    const head = `${what}: ${plural(size, 'program')}${grid === '' ? '' : ` of ${grid}`}, ${scratch} bytes of scratch`
    return [head, ...levelLines(body, axes).map((line) => `  ${line}`)]
  })
}

const plural = (n: number, what: string): string => `${n} ${what}${n === 1 ? '' : 's'}`

const name = (id: ValueId): string => `%${id}`

const tileText = (t: Tile): string => {
  const strides = [...t.strides].map(([a, s]) => `${a}:${s}`).join(' ')
  return `tile ${t.offset}${strides === '' ? '' : ` (${strides})`} ${t.dtype}`
}

function levelLines(level: LevelSchedule, axes: Axes): string[] {
  const early = level.early.length === 0 ? [] : [`early ${level.early.map(name).join(', ')}`]
  return [...early, ...level.steps.flatMap((s) => stepLines(s, axes))]
}

function stepLines(step: LoopStep, axes: Axes): string[] {
  switch (step.kind) {
    case 'nest':
      return nestLines(step, axes)
    case 'copy':
      return [copyLine(step)]
    case 'product':
      return [
        `product ${name(step.product.id)} ${roles(step.product)}: ${step.blocks.join(', ')} rows by ${blockOf(step.product, axes)}, ${operands(step.product)}, ${step.fresh ? 'from zero' : 'adding'} in ${tileText(step.tile)}`,
      ]
    case 'scan': {
      const inside = step.vector === undefined ? '' : `, ${lanes(step.vector, step.copies)}`
      return [`scan ${name(step.stmt.id)}: loops ${list(step.outer)}${inside}, into ${tileText(step.tile)}`]
    }
    case 'loop':
      return loopLines(step)
  }
}

const blockOf = (p: Product, axes: Axes): string =>
  p.short === undefined
    ? isNarrow(p, axes)
      ? 'one vector'
      : 'two vectors'
    : p.short === 'depth'
      ? 'four columns of 16 bits'
      : 'eight columns of pairs of 16 bits'

const list = (axes: readonly string[]): string => (axes.length === 0 ? 'none' : axes.join(', '))

const lanes = (vector: string, copies: number): string => `${4 * copies} lanes along ${vector}`

/** An axis of a nest as it runs: with its extent in a program, its lanes, and where chunks end. */
function axisText(nest: NestSchedule, axes: Axes, axis: string, depth: number): string {
  const { folded, vector, copies, cut, joined } = nest
  const { max } = axes.view(axis)
  const name = joined?.axis === axis ? [...joined.with, axis].join(' ') : axis
  const wide = axis === vector ? ` by ${4 * copies}` : ''
  const chunk = cut?.depth === depth ? ` chunks of ${plural(cut.rounds, 'round')}` : ''
  return `${name}(${folded.includes(axis) ? 'fold ' : ''}${max}${wide}${chunk})`
}

/** Where rounds ask for no bounds. */
function insideText({ inner }: Slide): string {
  if (inner === undefined) return ''
  const where = inner.where.length === 0 ? '' : ` where ${showPredicate(inner.where)}`
  return `, unmasked inside${where}`
}

/** Steps along the lanes that ask for no bounds. */
function innerText({ inner, vector }: NestSchedule): string[] {
  if (inner === undefined) return []
  const where = inner.where.length === 0 ? '' : ` where ${showPredicate(inner.where)}`
  return [`unmasked along ${vector} from ${inner.from} to ${inner.to}${where}`]
}

function nestLines(nest: NestSchedule, axes: Axes): string[] {
  const { order, vector, inMemory, inTurn, fetch, slide } = nest
  const inside = joinedAxes(axes, nest.joined)
  const loops = order.map((a, i) => axisText(nest, inside, a, i)).join(' ')
  const notes = [
    ...(vector === undefined && order.length > 0 ? ['point by point'] : []),
    ...(inMemory ? ['folding in memory'] : []),
    ...(slide === undefined
      ? []
      : [`windows sliding along ${slide.axis}, ${plural(slide.lag + 1, 'window')} under way${insideText(slide)}`]),
    ...innerText(nest),
    ...(inTurn.length === 0 ? [] : [`${inTurn.map(name).join(', ')} in turn`]),
    ...fetch.map(
      (f) => `fetching ${f.param}[${showExpr(f.position)}]${f.rows === undefined ? '' : ` row by row of ${f.rows}`}`,
    ),
  ]
  const head = `nest ${order.length === 0 ? 'of one point' : loops}${notes.length === 0 ? '' : `: ${notes.join(', ')}`}`
  return [head, ...nest.roots.map((r) => `  ${rootText(r, nest)}`)]
}

function rootText(r: Root, nest: NestSchedule): string {
  switch (r.kind) {
    case 'store':
      return `store ${r.stmt.param} = ${name(r.stmt.value)}`
    case 'keep':
      return `keep ${name(r.id)} in ${tileText(r.tile)}`
    case 'fold': {
      const tile = nest.results.get(r.fold.id)
      const where = tile === undefined ? 'a register' : tileText(tile)
      const totals = nest.totals.get(r.fold.id)
      const more = totals === undefined ? '' : `, ${plural(totals.length, 'tile')} of totals`
      return `fold ${name(r.fold.id)} = ${r.fold.combiner} ${r.fold.args.map(name).join(' * ')} into ${where}${more}`
    }
  }
}

const runText = (r: Run): string => `${r.axes.join(' ')} (${r.from} to ${r.to} bytes)`

function copyLine({ root, source, along, across }: CopySchedule): string {
  const how =
    across === undefined ? `runs of ${runText(along)}` : `transposing ${runText(across)} and ${runText(along)}`
  const padding = source.mask.length === 0 ? '' : ', padding filled in'
  const from = source.pieces.map(({ param, where }) =>
    where === undefined ? param.name : `${param.name} where ${where.lo} <= ${where.expr.key} < ${where.hi}`,
  )
  return `copy ${name(root.id)} = ${from.join(', ')} into ${tileText(root.tile)}: ${how}${padding}`
}

const roles = ({ m, n, k }: Product): string => `rows ${list(m)}; columns ${list(n)}; depth ${list(k)}`

function operands({ a, b, directA, directB }: Product): string {
  const one = (id: ValueId, direct: Product['directA']): string =>
    direct === undefined ? `${name(id)} from its tile` : `${name(id)} from ${direct.param} in place`
  return `${one(a, directA)}, ${one(b, directB)}`
}

function loopLines(step: BlockSchedule): string[] {
  const { stmt, registers, tiles, fills, closes, carried, body, axes } = step
  const state = [
    ...registers.map((c) => `${name(c.param)} in a register`),
    ...tiles.map((c) => {
      const next = c.product !== undefined ? ', its product adding in place' : c.write === c.tile ? ' in place' : ''
      return `${name(c.carry.param)} in ${tileText(c.tile)}${next}`
    }),
  ]
  const totals = carried.length === 0 ? '' : `, totals after ${closes.map((c) => 2 ** c).join(', ')} blocks`
  return [
    `loop ${stmt.axis} in blocks of ${stmt.block}${state.length === 0 ? '' : `: carrying ${state.join(', ')}`}${totals}`,
    ...fills.flatMap((f) => stepLines(f, axes)).map((line) => `  first ${line}`),
    ...levelLines(body, axes).map((line) => `  ${line}`),
  ]
}
