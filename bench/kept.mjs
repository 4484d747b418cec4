/**
 * From a model's path to its first result, with a kept compilation and without: `node kept.mjs [--models mobilenet,resnet,bert] [--runs 5]
 * [--threads 1]`. Milliseconds of the clock and of processors, the least of several fresh processes, the two in turns; a session of `sinter/ort`, on the build in dist.
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { networks } from './shared/networks.mjs'
import { buildAt } from './systems/sinter.mjs'

const { values: options } = parseArgs({
  options: {
    models: { type: 'string', default: Object.keys(networks).join() },
    runs: { type: 'string', default: '5' },
    threads: { type: 'string', default: '1' },
    child: { type: 'string' },
    compiled: { type: 'string' },
  },
})

/** One session in this process: made, and run once. */
async function sessionHere(path, compiled) {
  const { InferenceSession, Tensor } = await import(new URL('ort.js', buildAt(undefined)).href)
  const [from, cpu] = [performance.now(), process.cpuUsage()]
  const session = await InferenceSession.create(path, {
    intraOpNumThreads: Number(options.threads),
    ...(compiled === undefined ? {} : { extra: { sinter: { compiled } } }),
  })
  const feeds = Object.fromEntries(
    session.inputMetadata.map(({ name, type, shape }) => {
      const n = shape.reduce((a, b) => a * b, 1)
      const data =
        type === 'int64'
          ? BigInt64Array.from({ length: n }, (_, i) => BigInt(i % 2))
          : Float32Array.from({ length: n }, (_, i) => ((i * 37) % 101) / 50 - 1)
      return [name, new Tensor(type, data, shape)]
    }),
  )
  const made = performance.now() - from
  const results = await session.run(feeds)
  const ms = performance.now() - from
  const { user, system } = process.cpuUsage(cpu)
  const sum = Object.values(results).reduce((s, t) => s + Number(t.data[0]), 0)
  process.stdout.write(JSON.stringify({ create: made, first: ms, processor: (user + system) / 1e3, sum }))
  process.exit(0)
}

function run(args) {
  const child = spawnSync(process.execPath, args, { encoding: 'utf8', maxBuffer: 1 << 26 })
  if (child.status !== 0) throw new Error(child.stderr)
  return child.stdout
}

function main() {
  const folder = mkdtempSync(join(tmpdir(), 'kept-'))
  const cli = fileURLToPath(new URL('cli/main.js', buildAt(undefined)))
  const self = fileURLToPath(import.meta.url)
  try {
    for (const name of options.models.split(',')) {
      const path = join(folder, `${name}.onnx`)
      const file = `${path}.sinter`
      writeFileSync(path, networks[name]())
      run([cli, 'compile', path, '-o', file, '--threads', options.threads])
      const ways = [[], ['--compiled', file]]
      const seen = ways.map(() => [])
      for (let i = 0; i < Number(options.runs); i++)
        for (const [j, more] of ways.entries())
          seen[j].push(JSON.parse(run([self, '--child', path, '--threads', options.threads, ...more])))
      const sums = new Set(seen.flat().map((r) => r.sum))
      console.log(
        `${name}: the file takes ${(statSync(file).size / 1e6).toFixed(1)} MB; results are ${sums.size === 1 ? 'the same' : 'not the same'}`,
      )
      for (const [j, way] of ['without', 'with'].entries()) {
        const least = (key) => Math.min(...seen[j].map((r) => r[key])).toFixed(0)
        console.log(
          `  ${way.padEnd(8)} session ${least('create')} ms, first result ${least('first')} ms (${least('processor')} ms of processors)`,
        )
      }
      rmSync(path)
      rmSync(file)
    }
  } finally {
    rmSync(folder, { recursive: true })
  }
}

if (options.child === undefined) main()
else await sessionHere(options.child, options.compiled)
