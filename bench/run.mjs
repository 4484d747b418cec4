/** Interleaved CPU benchmarks of Sinter and its peers. `node run.mjs --help` tells the options; NOTES.md the method. */
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { inputsOf, rows } from './rows.mjs'
import { startChild } from './shared/child.mjs'
import { systems } from './systems/index.mjs'

const help = `node run.mjs [options]
  --rows a,b       rows (default all): ${rows.map((r) => r.name).join(' ')}
  --systems a,b    systems (default all): ${Object.keys(systems).join(' ')}
  --threads 1,2    thread counts (default 1)
  --rounds N       timed rounds (default 15; slow rows stop after 5 rounds and --budget)
  --budget S       seconds of timed runs one candidate may take in a row (default 6)
  --statistic S    what the table shows: median (default), min, or cpu: the median processor time of all threads of a system
                   (on a machine that others use, wall time measures them too)
  --build DIR      Sinter's build (default ../dist); --baseline DIR compares with another one
  --quiet S        wait up to S seconds before each run for other processes to pause (default 1; Linux)
  --json FILE      all measurements
  --no-check       do not compare results`

const { values: options } = parseArgs({
  options: {
    rows: { type: 'string' },
    systems: { type: 'string' },
    threads: { type: 'string', default: '1' },
    rounds: { type: 'string', default: '15' },
    budget: { type: 'string', default: '6' },
    statistic: { type: 'string', default: 'median' },
    quiet: { type: 'string', default: '1' },
    build: { type: 'string' },
    baseline: { type: 'string' },
    json: { type: 'string' },
    'no-check': { type: 'boolean', default: false },
    help: { type: 'boolean', default: false },
  },
})
if (options.help) {
  console.log(help)
  process.exit(0)
}

function chosen(list, known, what) {
  const names = list?.split(',') ?? known
  for (const n of names)
    if (!known.includes(n)) {
      console.error(`unknown ${what} '${n}'; known: ${known.join(' ')}`)
      process.exit(2)
    }
  return names
}
const rowNames = chosen(
  options.rows,
  rows.map((r) => r.name),
  'row',
)
const systemNames = chosen(options.systems, Object.keys(systems), 'system').filter(
  (name) => name !== 'baseline' || options.baseline !== undefined,
)
const statistic = chosen(options.statistic, ['median', 'min', 'cpu'], 'statistic')[0]
const builds = { sinter: options.build, baseline: options.baseline }
const threadCounts = options.threads.split(',').map(Number)
const rounds = Number(options.rounds)
const budget = Number(options.budget) * 1000

const candidates = threadCounts.flatMap((threads) =>
  systemNames
    .filter((name) => threads === 1 || systems[name].threads)
    .map((name) => ({ name, threads, label: systems[name].title + (threads === 1 ? '' : ` ${threads}T`) })),
)

const here = (path) => fileURLToPath(new URL(path, import.meta.url))
const progress = (text) => process.stderr.write(`${text}\n`)
const pause = (ms) => new Promise((done) => setTimeout(done, ms))

/** Busy processor time of the whole machine in ticks of 10 ms; undefined where the system does not tell. */
function busyTicks() {
  try {
    const [user, nice, system, , , irq, softirq, steal] = readFileSync('/proc/stat', 'utf8')
      .split('\n', 1)[0]
      .trim()
      .split(/\s+/)
      .slice(1)
      .map(Number)
    return user + nice + system + irq + softirq + steal
  } catch {
    return undefined
  }
}

/** Waits until the machine was idle for 40 ms, but not longer than asked. Tells whether it was. */
async function quiet() {
  const limit = performance.now() + Number(options.quiet) * 1000
  do {
    const before = busyTicks()
    await pause(40)
    const after = busyTicks()
    if (before === undefined || after === undefined) return true
    if (after - before <= 1) return true
  } while (performance.now() < limit)
  return false
}

/** A candidate in a process of its own. */
const start = (candidate) => ({
  ...candidate,
  ...startChild(here('./child.mjs'), { execArgv: ['--expose-gc'] }),
  times: [],
  cpu: [],
  quiet: 0,
})

const median = (xs) => quantile(xs, 0.5)
function quantile(xs, q) {
  const s = [...xs].sort((a, b) => a - b)
  const at = (s.length - 1) * q
  const low = Math.floor(at)
  return s[low] + (s[Math.min(low + 1, s.length - 1)] - s[low]) * (at - low)
}

const floatsOf = (path) => {
  const b = readFileSync(path)
  return new Float32Array(b.buffer, b.byteOffset, b.byteLength >> 2)
}

/** Largest error against the float64 oracle, on sampled elements, relative where values exceed 1. */
function oracleError(row, inputs, outputs) {
  let worst = 0
  outputs.forEach((got, output) => {
    const samples = Math.min(200, got.length)
    for (let s = 0; s < samples; s++) {
      const i = Math.floor((s * got.length) / samples)
      const want = row.expected(inputs, output, i)
      const error = Math.abs(got[i] - want) / Math.max(1, Math.abs(want))
      worst = Number.isFinite(error) ? Math.max(worst, error) : Number.POSITIVE_INFINITY
    }
  })
  return worst
}

/** Largest absolute difference of two results. */
function difference(a, b) {
  let worst = 0
  a.forEach((x, o) => {
    const y = b[o]
    if (y === undefined || y.length !== x.length) worst = Number.POSITIVE_INFINITY
    else for (let i = 0; i < x.length; i++) worst = Math.max(worst, Math.abs(x[i] - y[i]))
  })
  return worst
}

/** Peak rates from floor.mjs, as { copy, flops } by thread count. */
function measureFloor() {
  const measured = JSON.parse(execFileSync(process.execPath, [here('./floor.mjs')], { encoding: 'utf8' }))
  const peaks = {}
  for (const [threads, m] of Object.entries(measured))
    peaks[threads] = { ...m, bandwidth: Math.max(m.copy, m.memoryCopy), peak: Math.max(m.mulAdd, m.fma ?? 0) }
  return peaks
}

function floorOf(row, peaks) {
  if (row.bytes === 0) return undefined
  const seconds = Math.max(row.bytes / peaks.bandwidth, row.flops / peaks.peak)
  return seconds * (row.unit === 'us' ? 1e6 : 1e3)
}

async function check(row, children, inputs, dir) {
  let first
  for (const c of children) {
    const outputs = c.files.map(floatsOf)
    c.error64 = oracleError(row, inputs, outputs)
    c.difference = first === undefined ? 0 : difference(first, outputs)
    first ??= outputs
    if (!(c.error64 <= row.tolerance)) c.wrong = true
  }
  rmSync(dir, { recursive: true, force: true })
}

async function measure(row) {
  const dir = mkdtempSync(join(tmpdir(), 'sinter-bench-'))
  const children = []
  const failures = []
  try {
    for (const candidate of candidates) {
      const c = start(candidate)
      c.files = row.outputs.map((_, i) => join(dir, `${candidates.indexOf(candidate)}-${i}`))
      const { error, skipped } = await c.ask({
        op: 'prepare',
        name: c.name,
        threads: c.threads,
        build: builds[c.name],
        rowName: row.name,
        outputs: c.files,
      })
      if (error === undefined && !skipped) children.push(c)
      else {
        c.stop()
        if (error !== undefined) {
          failures.push({ label: c.label, error })
          progress(`  ${c.label}: ${error.split('\n').slice(0, 3).join(' | ')}`)
        }
      }
    }
    if (!options['no-check']) await check(row, children, inputsOf(row), dir)
    for (const c of [...children]) {
      const { error, info } = await c.ask({ op: 'warmUp' })
      c.info = info ?? undefined
      if (error === undefined) continue
      progress(`  ${c.label}: ${error.split('\n')[0]}`)
      failures.push({ label: c.label, error })
      children.splice(children.indexOf(c), 1)
      c.stop()
    }
    for (let round = 0; round < rounds; round++) {
      const order = children
        .filter(
          (c) => round < 5 || c.times.reduce((a, b) => a + b, 0) * (row.unit === 'us' ? row.calls / 1000 : 1) < budget,
        )
        .map((c) => [Math.random(), c])
        .sort((a, b) => a[0] - b[0])
      for (const [, c] of order) {
        if (await quiet()) c.quiet++
        const { time, cpu, error } = await c.ask({ op: 'run', seed: round + 1 })
        if (time === undefined) throw new Error(`${c.label}: ${error}`)
        c.times.push(time)
        c.cpu.push(cpu)
      }
    }
  } finally {
    for (const c of children) c.stop()
    rmSync(dir, { recursive: true, force: true })
  }
  return {
    row: row.name,
    title: row.title,
    unit: row.unit,
    failures,
    results: children.map((c) => ({
      system: c.name,
      threads: c.threads,
      label: c.label,
      median: median(c.times),
      quartiles: [quantile(c.times, 0.25), quantile(c.times, 0.75)],
      min: Math.min(...c.times),
      cpu: median(c.cpu),
      runs: c.times.length,
      quiet: c.quiet,
      error64: c.error64,
      difference: c.difference,
      wrong: c.wrong ?? false,
      info: c.info,
      times: c.times,
    })),
  }
}

const short = (x) => (x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2))

/** A markdown table: floor, then the statistic of each candidate (a median with half its interquartile range). */
function table(measured, peaks) {
  const lines = [
    `| row | floor 1T | ${candidates.map((c) => c.label).join(' | ')} |`,
    `|---|---|${candidates.map(() => '---').join('|')}|`,
  ]
  for (const m of measured) {
    const cells = candidates.map(({ label }) => {
      const r = m.results.find((x) => x.label === label)
      if (r === undefined) return m.failures.some((f) => f.label === label) ? 'fails' : ''
      const spread = (100 * (r.quartiles[1] - r.quartiles[0])) / 2 / r.median
      const shown = statistic === 'median' ? `${short(r.median)} ±${spread.toFixed(0)}%` : short(r[statistic])
      return `${shown}${r.wrong ? ` (error ${r.error64.toExponential(0)})` : ''}`
    })
    const floor = floorOf(
      rows.find((r) => r.name === m.row),
      peaks[1],
    )
    lines.push(`| ${m.title} (${m.unit}) | ${floor === undefined ? '' : short(floor)} | ${cells.join(' | ')} |`)
  }
  return lines.join('\n')
}

/** Time of each peer over Sinter's at the same thread count: above 1, Sinter is faster. */
function ratios(measured) {
  const lines = []
  for (const m of measured) {
    const cells = m.results
      .filter((r) => r.system !== 'sinter')
      .flatMap((r) => {
        const ours = m.results.find((x) => x.system === 'sinter' && x.threads === r.threads)
        return ours === undefined ? [] : [`${r.label} ${(r[statistic] / ours[statistic]).toFixed(2)}`]
      })
    if (cells.length > 0) lines.push(`${m.row}: ${cells.join(', ')}`)
  }
  return lines.join('\n')
}

const peaks = measureFloor()
for (const [threads, p] of Object.entries(peaks))
  console.log(
    `${threads} thread(s): copy ${(p.bandwidth / 1e9).toFixed(1)} GB/s (v128 loop ${(p.copy / 1e9).toFixed(1)}, memory.copy ${(p.memoryCopy / 1e9).toFixed(1)}), ` +
      `multiply and add ${(p.mulAdd / 1e9).toFixed(1)} GFLOP/s, fused ${p.fma === undefined ? 'none' : (p.fma / 1e9).toFixed(1)}`,
  )
const measured = []
for (const name of rowNames) {
  const row = rows.find((r) => r.name === name)
  progress(`[${measured.length + 1}/${rowNames.length}] ${row.title}`)
  const m = await measure(row)
  measured.push(m)
  progress(
    `  ${m.results.map((r) => `${r.label} ${short(r.median)} (cpu ${short(r.cpu)})${r.wrong ? ` (error ${r.error64.toExponential(0)})` : ''}`).join(', ')} ${row.unit}`,
  )
  if (options.json) writeFileSync(options.json, `${JSON.stringify({ peaks, rows: measured }, null, 1)}\n`)
}
console.log(`\n${table(measured, peaks)}\n`)
console.log(ratios(measured))
