/**
 * Moments: what a streaming sum of polynomials in x - d carries beside itself (src/kernel/moments.ts), in registers of each thread.
 * Terms are taken against the mean of the x that the thread has met; when that moves the sums move by their Taylor series.
 */
import { keyOf, type Moments, type Polynomial } from '../../kernel/moments.ts'
import type { Accumulator } from './accumulator.ts'
import { mergeEx, scalarEx } from './arith.ts'
import { foldAxes } from './facts.ts'
import { add, type Block, bin, type Ex, lit, mul, neg, select, v } from './ir.ts'
import type { Point } from './point.ts'
import { declare, forRegisters, type Registers, registerAt, registerIndex } from './registers.ts'
import { inside, type Scope } from './scope.ts'

/** A sum with its moments. */
export interface Carried {
  readonly acc: Accumulator
  readonly moments: Moments
  /** The sum of each product, over the axes that the sum keeps. */
  readonly sums: ReadonlyMap<string, Registers>
}

/** How many terms a thread has met along the folded axes, and how many of them its sums stand for. */
export interface Counts {
  readonly met: Ex
  readonly summed: Ex
}

export function openCounts(scope: Scope, { dtype, values: { type } }: Accumulator, out: Block): Counts {
  const count = (wish: string): Ex => {
    const name = scope.unit.name(wish)
    out.push({ k: 'var', name, type, value: lit(type, 0) })
    return v(type, name)
  }
  return { met: count(`met_${dtype}`), summed: count(`summed_${dtype}`) }
}

export function openMoments(scope: Scope, acc: Accumulator, moments: Moments, out: Block): Carried {
  const sums = new Map<string, Registers>()
  for (const { of } of moments.products) {
    const registers: Registers = { ...acc.values, name: scope.unit.name(`moment_${acc.let.id}`) }
    declare(registers, out)
    sums.set(keyOf({ of }), registers)
    forRegisters(scope, acc.kept, out, (lanes, body) => {
      const to = registerAt(registers, registerIndex(scope.layout, acc.kept, lanes))
      body.push({ k: 'assign', to, value: lit(registers.type, 0) })
    })
  }
  return { acc, moments, sums }
}

/** Whether a point lies in the program's range along the axes that a sum folds. */
const isTerm = (p: Point, acc: Accumulator): Ex => inside(p.scope, p.scope.part.spreadOnly(foldAxes(acc.let)), p.lanes)

/** The axes whose points are counted one by one: none where all of a thread's registers hold a term. */
export function countedAxes(scope: Scope, acc: Accumulator): readonly string[] {
  const axes = scope.part.spreadOnly(foldAxes(acc.let))
  return axes.some((a) => scope.needsCheck(a)) ? axes : []
}

/** Counts a point, or all of a chunk. */
export function countTerms(acc: Accumulator, { met }: Counts, p: Point, out: Block): void {
  const { scope } = p
  const counted = countedAxes(scope, acc)
  const all = scope.registers(scope.part.spreadOnly(foldAxes(acc.let)))
  const terms = counted.length === 0 ? lit(met.type, all) : select(isTerm(p, acc), lit(met.type, 1), lit(met.type, 0))
  out.push({ k: 'assign', to: met, value: add(met, terms) })
}

/** Adds a point's products to their sums. */
export function accumulateMoments({ acc, moments, sums }: Carried, p: Point, out: Block): void {
  const term = isTerm(p, acc)
  for (const { of } of moments.products) {
    const registers = sums.get(keyOf({ of }))
    if (registers === undefined) continue
    const value = of.map((id) => p.read(id)).reduce(mul)
    const to = p.registerOf(registers, acc.kept)
    out.push({
      k: 'assign',
      to,
      value: mergeEx('sum', acc.dtype, to, select(term, value, lit(value.type, 0))),
    })
  }
}

/** The mean of what a thread has met. */
export function meanOf(acc: Accumulator, sum: Ex, { met }: Counts): Ex {
  const some = scalarEx('max', acc.dtype, acc.dtype, [met, lit(met.type, 1)], 'fast')
  return scalarEx('div', acc.dtype, acc.dtype, [sum, some], 'fast')
}

/** Moves a sum by `by` to another anchor: with its moments if `whole`, each by those with fewer factors as they were; else for the last time. */
export function moveMoments(p: Point, carried: Carried, summed: Ex, by: Ex, whole: boolean, out: Block): void {
  const { acc, moments, sums } = carried
  const move = (registers: Registers, series: readonly Polynomial[]): void => {
    if (series.length === 0) return
    const to = p.registerOf(registers, acc.kept)
    const coefficients = series.map((of) => inMoments(of, carried, summed, p))
    // c1 by + c2 by^2 + ...: no infinity meets another of the other sign where `by` alone is infinite.
    const far = coefficients.reduceRight((rest, c) => add(c, mul(by, rest)))
    out.push({ k: 'assign', to, value: add(to, mul(by, far)) })
  }
  move(acc.values, moments.series)
  if (!whole) {
    const to = p.registerOf(acc.values, acc.kept)
    const least = lit(to.type, 0)
    if (moments.nonnegative)
      out.push({ k: 'assign', to, value: scalarEx('max', acc.dtype, acc.dtype, [to, least], 'fast') })
    return
  }
  for (const { of, series } of moments.products) {
    const registers = sums.get(keyOf({ of }))
    if (registers !== undefined) move(registers, series)
  }
}

function inMoments(of: Polynomial, { acc, sums }: Carried, summed: Ex, p: Point): Ex {
  const parts = of.map(({ by, of: product }): Ex => {
    const registers = sums.get(keyOf({ of: product }))
    const sum = registers === undefined ? summed : p.registerOf(registers, acc.kept)
    return by === 1 ? sum : by === -1 ? neg(sum) : bin('*', sum, lit(sum.type, by))
  })
  return parts.reduce(add)
}
