/** Measures WebGPU libraries side by side in Node through Dawn; bundled by ../webgpu.mjs. NOTES.md tells the method. */
import { fork } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { serve } from './child.mjs'
import { drawGrid } from './grid.mjs'
import { rowNamed, rowsAt, sizes } from './rows.mjs'

/** Batches that do not count: they bring the device's clocks up. */
const warmups = 2

const titles = { sinter: 'Sinter', jax: 'jax-js', ort: 'ORT-web', tfjs: 'tfjs' }

const { values: options } = parseArgs({
  options: {
    /** large (a GPU), small, or tiny (a software adapter). */
    size: { type: 'string', default: 'large' },
    rows: { type: 'string' },
    /** Points of the grid of products in place of rows, drawn by `seed`. */
    grid: { type: 'string' },
    seed: { type: 'string', default: '1' },
    systems: { type: 'string' },
    /** Batches of each system in a row. */
    rounds: { type: 'string', default: '9' },
    /** Milliseconds of a batch. */
    batch: { type: 'string', default: '150' },
    /** Seconds after which an answer is given up, and its process ended. */
    limit: { type: 'string', default: '120' },
    json: { type: 'string' },
    /** Inside: the system that this process serves. */
    serve: { type: 'string' },
    help: { type: 'boolean', default: false },
  },
})

function chosen(list, known, what) {
  const names = list?.split(',') ?? known
  const unknown = names.find((n) => !known.includes(n))
  if (unknown === undefined) return names
  console.error(`unknown ${what} '${unknown}'; known: ${known.join(' ')}`)
  process.exit(2)
}

/** A system's process. `ask` resolves with its answer and rejects with what went wrong. */
class System {
  constructor(name) {
    this.name = name
  }

  async start() {
    const child = fork(fileURLToPath(import.meta.url), ['--serve', this.name], {
      stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
    })
    this.child = child
    this.errors = ''
    child.stderr.on('data', (d) => {
      this.errors = (this.errors + d).slice(-1000)
    })
    child.on('message', (m) => this.hear?.(m))
    child.on('exit', (code, signal) => {
      if (this.child === child) this.child = undefined
      this.hear?.({ error: `its process ended (${signal ?? code}) ${this.errors}` })
    })
    return this.ask('open')
  }

  ask(ask, rest = {}) {
    const { child } = this
    if (child === undefined) return Promise.reject(new Error(`its process has ended ${this.errors}`))
    return new Promise((resolve, reject) => {
      const seconds = Number(options.limit)
      const timer = setTimeout(() => {
        child.kill('SIGKILL')
        this.hear?.({ error: `no answer to '${ask}' in ${seconds} s ${this.errors}` })
      }, 1e3 * seconds)
      this.hear = ({ answer, error }) => {
        this.hear = undefined
        clearTimeout(timer)
        if (error === undefined) resolve(answer)
        else reject(new Error(error))
      }
      child.send({ ask, ...rest })
    })
  }

  /** After an error the process is ended: the next row gets a new one. */
  stop() {
    this.child?.kill('SIGKILL')
    this.child = undefined
  }
}

const median = (list) => [...list].sort((a, b) => a - b)[list.length >> 1]

/** One row: every system prepares and checks it, then their batches and the copy's take turns. */
async function measure(row, systems, size) {
  const states = new Map()
  for (const s of systems) {
    try {
      if (s.child === undefined) await s.start()
      const name = s.name === 'copy' ? 'copy' : row.name
      const prepared = await s.ask('prepare', { row: name, size, batchMs: Number(options.batch) })
      states.set(s, { ...prepared, times: [], hosts: [] })
    } catch (e) {
      states.set(s, { failed: e.message.trim() })
      s.stop()
    }
  }
  for (let round = -warmups; round < Number(options.rounds); round++)
    for (const [s, state] of states) {
      if (state.failed !== undefined) continue
      try {
        const { ms, hostMs } = await s.ask('measure', { calls: state.calls })
        if (round < 0) {
          state.calls = Math.max(1, Math.min(20_000, Math.round(Number(options.batch) / ms)))
          continue
        }
        state.times.push(ms)
        state.hosts.push(hostMs)
      } catch (e) {
        state.failed = e.message.trim()
        s.stop()
      }
    }
  const results = {}
  for (const [s, state] of states) {
    const { times = [], hosts, smallError, error, unread, tolerance, firstMs, calls, failed } = state
    results[s.name] =
      failed === undefined
        ? { ms: median(times), best: Math.min(...times), hostMs: median(hosts), times, calls, firstMs }
        : { failed }
    // A NaN has no place in JSON.
    const wrong = [smallError, error].some((x) => x !== undefined && !(x <= tolerance))
    Object.assign(results[s.name], { smallError: String(smallError), error: String(error), unread, tolerance, wrong })
    if (failed !== undefined || s.child === undefined) continue
    try {
      await s.ask('end')
    } catch (e) {
      results[s.name].endFailed = e.message
      s.stop()
    }
  }
  return results
}

function print(row, results, copyRate) {
  const floor = row.bytes === undefined || copyRate === undefined ? undefined : row.bytes / copyRate / 1e6
  console.log(`${row.title}`)
  for (const [name, r] of Object.entries(results)) {
    if (name === 'copy') continue
    const title = `  ${titles[name].padEnd(8)}`
    if (r.failed !== undefined) {
      console.log(`${title} FAILED: ${r.failed.split('\n').slice(0, 3).join(' | ').slice(0, 400)}`)
      continue
    }
    const rate = row.flops === undefined ? '' : `${(row.flops / r.ms / 1e9).toFixed(2)} Tflop/s`
    const share = floor === undefined ? rate.padStart(15) : `${((100 * floor) / r.ms).toFixed(1)}% of copy`.padStart(15)
    const ratio = results.sinter?.ms === undefined ? '' : `${(r.ms / results.sinter.ms).toFixed(2)} x`
    const wrong = r.wrong ? `  WRONG: error ${r.smallError} small, ${r.error} here, over ${r.tolerance}` : ''
    const unread = r.unread === undefined ? '' : `  NOT CHECKED at this size: ${r.unread.split('\n')[0]}`
    const times = `${r.ms.toFixed(4).padStart(10)} ms${share}${ratio.padStart(11)}`
    console.log(
      `${title}${times}  best ${r.best.toFixed(4)}, host ${r.hostMs.toFixed(4)}, first ${r.firstMs.toFixed(0)} ms${wrong}${unread}`,
    )
  }
}

async function main() {
  const size = chosen(options.size, Object.keys(sizes), 'size')[0]
  const known = rowsAt(size).map((r) => r.name)
  const wanted =
    options.grid === undefined
      ? chosen(options.rows, known, 'row')
      : drawGrid(Number(options.seed), Number(options.grid))
  // The grid's points are not written for tfjs.
  const usual = options.grid === undefined ? undefined : 'sinter,jax,ort'
  const names = chosen(options.systems ?? usual, Object.keys(titles), 'system')
  const systems = ['copy', ...names].map((n) => new System(n))
  const report = { started: new Date().toISOString(), size, node: process.version, rows: [] }
  report.adapter = (await systems[0].start()).adapter
  console.log(`${report.adapter}, size ${size}, ${options.rounds} batches of ${options.batch} ms`)
  for (const row of wanted.map((name) => rowNamed(name, size))) {
    const results = await measure(row, systems, size)
    const copyBytes = 2 * 4 * sizes[size].n
    const copyRate = results.copy.ms === undefined ? undefined : copyBytes / results.copy.ms / 1e6
    if (results.copy.failed !== undefined) console.log(`copy FAILED: ${results.copy.failed}`)
    print(row, results, copyRate)
    if (copyRate !== undefined) console.log(`  copy     ${copyRate.toFixed(1)} GB/s`)
    const { name, title, bytes, flops } = row
    report.rows.push({ name, title, bytes, flops, copyRate, systems: results })
    if (options.json !== undefined) writeFileSync(options.json, JSON.stringify(report, undefined, 1))
  }
  for (const s of systems) s.stop()
}

if (options.serve !== undefined) await serve(options.serve)
else if (options.help)
  console.log(
    `--size ${Object.keys(sizes).join('|')}, --rows a,b (${rowsAt('tiny')
      .map((r) => r.name)
      .join(
        ' ',
      )}), --grid POINTS --seed N (products, drawn), --systems ${Object.keys(titles).join(',')}, --rounds N, --batch MS, --limit SECONDS, --json FILE`,
  )
else await main()
