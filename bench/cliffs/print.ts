/** What a run of cliffs prints: distributions, the worst programs, those that fusion slows down, the model against the clock. */
import type { Failure, Row } from './measure.ts'
import { programClasses, programOf, textOf } from './programs.ts'
import type { Rates } from './rates.ts'
import { quantile, within } from './stats.ts'

/** A program that was slower fused than unfused, measured again. */
export interface Slowed {
  readonly seed: number
  readonly ratio: number
  /** After more rounds: the median ratio, and what the true one is not below. */
  readonly again?: number
  readonly lower?: number
}

export const shareOf = (r: Row): number => r.floor.seconds / r.seconds
const percent = (x: number): string => `${(100 * x).toFixed(x < 0.0995 ? 1 : 0)}%`.padStart(6)
const time = (seconds: number): string =>
  seconds < 1e-3 ? `${(seconds * 1e6).toPrecision(3)} us` : `${(seconds * 1e3).toPrecision(3)} ms`
const giga = (x: number): string => (x / 1e9).toPrecision(3)

export function printRates(r: Rates, line: (text: string) => void): void {
  const threads = r.threads === undefined ? '' : `, ${r.threads} thread${r.threads === 1 ? '' : 's'}`
  line(
    `${r.device}${threads}: call ${time(r.call)}, launch ${time(r.launch)}, fast memory ${(r.fastBytes / 2 ** 20).toFixed(1)} MiB`,
  )
  line(
    `  multiply-adds ${giga(r.flops)} GFLOP/s, products ${giga(r.product)} (16-bit ${giga(r.productHalf)}), divisions ${giga(r.divide)} G/s, special functions ${giga(r.special)} (16-bit ${giga(r.specialHalf)}) G/s`,
  )
  line('  GB/s over working sets: read, one written for two read, copy, write')
  for (const b of r.bandwidth)
    line(
      `  ${`${b.bytes >> 10} KiB`.padStart(11)} ${[b.read, b.mixed, b.copy, b.write].map((x) => giga(x).padStart(7)).join(' ')}`,
    )
}

const points = [0.01, 0.05, 0.25, 0.5, 0.75, 0.95] as const

function distribution(title: string, shares: readonly number[]): string {
  return `  ${title.padEnd(16)} ${String(shares.length).padStart(4)} ${points.map((q) => percent(quantile(shares, q))).join(' ')}`
}

function histogram(shares: readonly number[], line: (text: string) => void): void {
  for (let i = 0; i < 11; i++) {
    const count = shares.filter((s) => (i === 10 ? s >= 1 : s >= i / 10 && s < (i + 1) / 10)).length
    const bar = '#'.repeat(Math.ceil((60 * count) / shares.length))
    line(
      `  ${i === 10 ? '  over 100%' : `${String(10 * i).padStart(3)} to ${String(10 * i + 10).padStart(3)}%`} ${String(count).padStart(4)} ${bar}`,
    )
  }
}

/** Programs whose floor is more than the call. */
const isLarge = (r: Row, rates: Rates): boolean => r.floor.seconds > 2 * rates.call

export function printRow(r: Row, line: (text: string) => void): void {
  const passes = r.floor.passes.map((p) => ` +${p.causes.join('/')} ${time(p.seconds)}`).join('')
  line(
    `seed ${r.seed} ${r.kind}: ${time(r.seconds)}, floor ${time(r.floor.seconds)} (${percent(shareOf(r)).trim()}; bytes ${time(r.floor.bytesSeconds)}, arithmetic ${time(r.floor.arithmeticSeconds)}${passes}), unfused ${time(r.unfusedSeconds)}, ${r.launches} of ${r.unfusedLaunches} kernels, model ${time(r.modelledSeconds)}, compiled in ${time(r.compileSeconds)}: ${r.inputs.join(' ')}`,
  )
}

export function printSummary(
  rows: readonly Row[],
  failures: readonly Failure[],
  slowed: readonly Slowed[],
  rates: Rates,
  line: (text: string) => void,
): void {
  const large = rows.filter((r) => isLarge(r, rates))
  line(`\nfloor over time${' '.repeat(8)}n ${points.map((q) => `${100 * q}%`.padStart(6)).join(' ')}`)
  line(distribution('all', rows.map(shareOf)))
  line(distribution('floor > 2 calls', large.map(shareOf)))
  for (const kind of programClasses) {
    const own = large.filter((r) => r.kind === kind)
    if (own.length > 0) line(distribution(kind, own.map(shareOf)))
  }
  line('\nhistogram of floor over time, floor > 2 calls')
  histogram(large.map(shareOf), line)
  const ratios = rows.map((r) => r.seconds / r.unfusedSeconds)
  line(
    `\nfused over unfused: median ${quantile(ratios, 0.5).toFixed(3)}, 5% ${quantile(ratios, 0.05).toFixed(3)}, 95% ${quantile(ratios, 0.95).toFixed(3)}`,
  )
  line(
    `slower fused than unfused: ${slowed.length} programs, ${slowed.filter((s) => s.ratio > 1.05).length} of them by more than 5%`,
  )
  for (const s of slowed)
    line(
      `  seed ${s.seed}: ${s.ratio.toFixed(3)}${s.again === undefined ? '' : `; again ${s.again.toFixed(3)}, not below ${s.lower?.toFixed(3)} (95%)`}`,
    )
  const model = (title: string, list: readonly number[]): void =>
    line(
      `  ${title.padEnd(16)} ${String(list.length).padStart(4)}: 5% ${quantile(list, 0.05).toFixed(2)}, median ${quantile(list, 0.5).toFixed(2)}, 95% ${quantile(list, 0.95).toFixed(2)}; within [0.8, 1.25] ${percent(within(list, 0.8, 1.25)).trim()}, within [0.5, 2] ${percent(within(list, 0.5, 2)).trim()}`,
    )
  line('\nmodelled over measured')
  const kernels = rows.flatMap((r) => r.kernels)
  if (kernels.length > 0)
    model(
      'kernels',
      kernels.map((k) => k.modelledSeconds / k.seconds),
    )
  for (const kind of new Set(kernels.map((k) => k.kind)))
    model(
      kind,
      kernels.filter((k) => k.kind === kind).map((k) => k.modelledSeconds / k.seconds),
    )
  const scheduled = kernels.flatMap(({ kind, seconds, scheduledSeconds }) =>
    scheduledSeconds === undefined ? [] : [{ kind, ratio: scheduledSeconds / seconds }],
  )
  const byClass = new Map<string, number[]>()
  for (const r of rows)
    for (const k of r.kernels)
      if (k.scheduledSeconds !== undefined)
        byClass.set(r.kind, [...(byClass.get(r.kind) ?? []), k.scheduledSeconds / k.seconds])
  if (scheduled.length > 0) {
    line('\npredicted by loop schedules over measured: all kernels, by their kind, by the class of their program')
    model(
      'kernels',
      scheduled.map((k) => k.ratio),
    )
    for (const kind of new Set(scheduled.map((k) => k.kind)))
      model(
        kind,
        scheduled.filter((k) => k.kind === kind).map((k) => k.ratio),
      )
    for (const [kind, ratios] of byClass) model(`in ${kind}`, ratios)
  }
  if (large.length > 0)
    model(
      'programs',
      large.map((r) => r.modelledSeconds / r.seconds),
    )
  line(
    `\ncompile: median ${time(
      quantile(
        rows.map((r) => r.compileSeconds),
        0.5,
      ),
    )}, 95% ${time(
      quantile(
        rows.map((r) => r.compileSeconds),
        0.95,
      ),
    )}`,
  )
  const refused = failures.filter((f) => f.refused)
  if (refused.length > 0) line(`refused by the device: ${refused.map((f) => f.seed).join(', ')}`)
  for (const f of failures) if (!f.refused) line(`FAILED seed ${f.seed} (${f.kind}): ${f.message}`)
  for (const r of rows) if (r.wrong !== undefined) line(`WRONG seed ${r.seed} (${r.kind}): ${r.wrong}`)
}

/** The worst programs by floor over time, with their text and reports. */
export function printWorst(
  rows: readonly Row[],
  rates: Rates,
  count: number,
  options: { mostBytes: number },
  line: (text: string) => void,
): void {
  const worst = rows
    .filter((r) => isLarge(r, rates))
    .sort((a, b) => shareOf(a) - shareOf(b))
    .slice(0, count)
  line(`\nthe worst ${worst.length}`)
  for (const r of worst) {
    line('')
    printRow(r, line)
    line(textOf(programOf(r.seed, options)))
    line(r.report)
  }
}
