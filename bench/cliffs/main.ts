/** Performance fuzzing: random programs, timed fused and unfused and held against a floor. README.md says how to read it. */
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { type MachineName, openMachine } from './machine.ts'
import { type Failure, interleaved, measureProgram, type Row, withBound } from './measure.ts'
import { printRates, printRow, printSummary, printWorst, type Slowed } from './print.ts'
import { programOf, textOf } from './programs.ts'
import { lowerBound, median } from './stats.ts'

const { values } = parseArgs({
  options: {
    device: { type: 'string', default: 'wasm' },
    /** Which of several GPUs (CUDA). */
    index: { type: 'string', default: '0' },
    seeds: { type: 'string', default: '200' },
    /** The first seed, or several apart by commas. */
    seed: { type: 'string', default: '1' },
    threads: { type: 'string', default: '1' },
    /** Prints every program: text, report, row. */
    rows: { type: 'boolean', default: false },
    json: { type: 'string' },
    /** Worst programs to print. */
    worst: { type: 'string', default: '20' },
    /** Seconds of timed rounds a program. */
    seconds: { type: 'string', default: '0.8' },
    /** Bytes of the largest tensor. */
    bytes: { type: 'string', default: String(64 << 20) },
    /** `cpu`: processor time of the process instead of the wall's, for one thread on a machine that others use. */
    clock: { type: 'string', default: 'wall' },
    /** Prints the programs alone. */
    text: { type: 'boolean', default: false },
  },
})

const names: readonly MachineName[] = ['wasm', 'cuda', 'webgpu']
const device = names.find((n) => n === values.device)
if (device === undefined) {
  console.error(`--device ${values.device}: one of ${names.join(', ')}`)
  process.exit(2)
}
const line = (text: string): void => console.log(text)
const listed = values.seed.split(',').map(Number)
const options = { mostBytes: Number(values.bytes) }
const seeds = listed.length > 1 ? listed : Array.from({ length: Number(values.seeds) }, (_, i) => (listed[0] ?? 1) + i)
if (values.text) {
  for (const seed of seeds) line(textOf(programOf(seed, options)))
  process.exit(0)
}

const threads = Number(values.threads)
const clock = values.clock === 'cpu' ? 'cpu' : 'wall'
if (clock === 'cpu' && (device !== 'wasm' || threads > 1)) {
  console.error('--clock cpu: for wasm on one thread')
  process.exit(2)
}
const machine = await openMachine(device, { threads, index: Number(values.index), clock })
const rates = await machine.rates()
printRates(rates, line)
const rows: Row[] = []
const failures: Failure[] = []
const slowed: Slowed[] = []
const save = (): void => {
  if (values.json !== undefined)
    writeFileSync(values.json, JSON.stringify({ started, clock, rates, rows, failures, slowed }, undefined, 1))
}
const started = new Date().toISOString()
const limits = { least: 3, most: 15, seconds: Number(values.seconds) }
let saved = performance.now()
for (const seed of seeds) {
  const p = programOf(seed, options)
  // Before it runs, so that one that does not come back is known.
  if (values.rows) line(`\n${textOf(p)}`)
  const r = await measureProgram(machine, rates, p, limits)
  if ('message' in r) {
    failures.push(r)
    if (values.rows || !r.refused) line(`${r.refused ? 'refused' : 'FAILED'} seed ${seed} (${r.kind}): ${r.message}`)
  } else {
    rows.push(r)
    if (values.rows) {
      line(r.report)
      printRow(r, line)
    }
    if (r.wrong !== undefined) line(`WRONG seed ${seed} (${r.kind}): ${r.wrong}`)
  }
  if (performance.now() - saved > 20_000) {
    saved = performance.now()
    process.stderr.write(`seed ${seed}\n`)
    save()
  }
}

// Programs that fusion made slower are measured once more, with as many rounds each.
for (const r of rows) {
  const ratio = r.seconds / r.unfusedSeconds
  if (ratio <= 1) continue
  if (ratio <= 1.05) {
    slowed.push({ seed: r.seed, ratio })
    continue
  }
  const ratios = await withBound(machine, programOf(r.seed, options), async (fused, unfused) => {
    const [a = [], b = []] = await interleaved(machine, [fused, unfused], { least: 15, most: 15, seconds: 60 })
    return a.map((x, i) => x / (b[i] ?? x))
  })
  slowed.push({ seed: r.seed, ratio, again: median(ratios), lower: lowerBound(ratios) })
}
save()
if (rows.length > 1) {
  printSummary(rows, failures, slowed, rates, line)
  printWorst(rows, rates, Number(values.worst), options, line)
}
const isWrong = rows.some((r) => r.wrong !== undefined) || failures.some((f) => !f.refused)
machine.backend.dispose()
process.exit(isWrong ? 1 : 0)
