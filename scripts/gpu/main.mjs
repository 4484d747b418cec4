/** Checks and measures a GPU; bundled by scripts/gpu-check.mjs, so that it runs where only Node and the native packages are. */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { Session } from '../../src/cli/session.ts'
import { runCase } from '../../src/cli/verify/runCase.ts'
import { findCases } from '../../src/cli/verify.ts'
import { attentionRows, measureAttention } from './attention.mjs'
import { checkDevice } from './correct.mjs'
import { measureDecode } from './decode.mjs'
import { openDevice } from './device.mjs'
import { measureEarlyStart } from './early.mjs'
import { measureFirst, programs } from './first.mjs'
import { formRows, measureForm } from './forms.mjs'
import { ceilings, drawPoints, measurePoint, pointOf, summary, titleOf } from './grid.mjs'
import { measureProblem } from './kernelbench.mjs'
import { checkLarge } from './large.mjs'
import { checkLibrary } from './library.mjs'
import { measureRow, openCopy } from './measure.mjs'
import { checkOpen, measureDecoder, measureEncoder } from './open.mjs'
import { Peer } from './peers.mjs'
import { rows } from './rows.mjs'
import { checkSums } from './sums.mjs'

const { values: options } = parseArgs({
  options: {
    device: { type: 'string', default: 'cuda' },
    index: { type: 'string', default: '0' },
    /** Correctness of kernels (cases), of rows at small sizes, of random programs; products by the library and their
     * rates (library); programs with open extents (open: `rows` names lengths); tensors around 2^31 and 2^32 elements and bytes (large, needs 139 GiB); kernels that start early (early); measurements (bench); attention (attention: `rows` names them whole), in the forms that people write (forms, likewise); seconds until the first call (first, with SINTER_CACHE=off); ONNX cases (verify). */
    parts: { type: 'string', default: 'cases,rows,random,bench,verify' },
    /** Rows by name; all unless given. */
    rows: { type: 'string' },
    /** Of `large`, what a memory checker has time for; of `open`, results alone (without: `seeds` below 0). */
    subset: { type: 'boolean', default: false },
    seeds: { type: 'string', default: '200' },
    /** Folders of ONNX cases. */
    cases: { type: 'string', multiple: true, default: [] },
    /** Folder of KernelBench's problems (`onnx/NAME.onnx`, `manifest.json`), for the part `kernelbench`; `rows` names some, in part. */
    problems: { type: 'string' },
    /** Peers to measure in turn with the library: torch, jax. */
    peers: { type: 'string' },
    /** Most bytes of a problem's inputs. */
    limit: { type: 'string', default: '60e9' },
    /** Points of the grid of products, drawn by `seed`; points that `out` holds are not measured again. */
    points: { type: 'string', default: '300' },
    seed: { type: 'string', default: '1' },
    /** Seconds of measuring a row. */
    seconds: { type: 'string', default: '2' },
    out: { type: 'string' },
  },
})

const earlier =
  options.out !== undefined && existsSync(options.out) ? JSON.parse(readFileSync(options.out, 'utf8')) : {}
const result = { started: new Date().toISOString() }
const save = () => {
  if (options.out !== undefined) writeFileSync(options.out, JSON.stringify(result, undefined, 1))
}

const opened = performance.now()
const open = await openDevice(options.device, Number(options.index))
result.device = {
  name: open.name,
  ...(typeof open.description === 'string' ? { adapter: open.description } : open.description),
}
console.log(
  `${JSON.stringify(result.device)}, opened in ${(performance.now() - opened).toFixed(0)} ms, library: ${open.target.library?.name ?? 'none'}`,
)
const parts = options.parts.split(',')

if (parts.includes('first') && open.name === 'cuda') {
  result.first = programs.map((p) => measureFirst(open, p))
  for (const r of result.first)
    console.log(
      `first call: ${r.seconds.toFixed(2)} s (${Object.entries(r.parts)
        .map(([k, x]) => `${k} ${x.toFixed(2)}`)
        .join(', ')}), ${r.kernels} kernels and ${r.stages} stages: ${r.title}`,
    )
  save()
}

const wanted = options.rows?.split(',')
if (['cases', 'rows', 'random'].some((p) => parts.includes(p))) {
  const start = performance.now()
  result.correct = await checkDevice(open, {
    parts,
    wanted,
    seeds: Number(options.seeds),
    report: (name, why) => {
      if (why !== undefined) console.log(`WRONG ${name}: ${why.split('\n').slice(0, 12).join('\n      ')}`)
    },
  })
  const wrong = result.correct.filter((r) => r.why !== undefined).length
  console.log(
    `correctness: ${result.correct.length - wrong} right, ${wrong} wrong, ${((performance.now() - start) / 1e3).toFixed(1)} s`,
  )
  save()
}

if (parts.includes('open')) {
  const start = performance.now()
  const seeds = Number(options.seeds)
  const report = (name, why) => {
    if (why !== undefined) console.log(`WRONG ${name}: ${why}`)
  }
  const checks = seeds < 0 ? [] : await checkOpen(open, { seeds, report })
  const count = (holds) => checks.filter(holds).length
  console.log(
    `open: ${count((r) => r.why === undefined && !r.refused)} right, ${count((r) => r.refused)} refused by name, ${count((r) => r.why !== undefined)} wrong, ${((performance.now() - start) / 1e3).toFixed(1)} s`,
  )
  result.open = { checks, encoders: [], decoders: [] }
  save()
  const [batches, lengths] = [[1, 8], wanted === undefined ? [8, 16, 32, 64, 128, 256, 384, 511] : wanted.map(Number)]
  const shapes = [...lengths].reverse().flatMap((n) => batches.map((b) => [b, n]))
  for (const dtype of options.subset ? [] : open.name === 'cuda' ? ['f32', 'bf16'] : ['f32']) {
    const e = await measureEncoder(open, dtype, shapes)
    result.open.encoders.push(e)
    console.log(`encoder, ${dtype}: ${e.programs} programs, ${e.own} of them of one shape`)
    for (const r of e.shapes)
      console.log(
        `  ${String(r.b).padStart(2)} by ${String(r.n).padStart(3)}: ${r.openMs.toFixed(4)} ms, static ${r.fixedMs.toFixed(4)}, ${r.ratio.toFixed(2)}; unlike by ${r.worst.toExponential(1)}; first ${(r.first / 1e3).toFixed(1)} s`,
      )
    save()
    for (const { n, steps } of e.slow)
      console.log(`  8 by ${n}: ${steps.map((s) => `${s.name} ${s.ms.toFixed(4)}`).join(', ')}`)
    const d = await measureDecoder(open, dtype)
    result.open.decoders.push(d)
    console.log(
      `decoder, ${dtype}: programs ${d.programs.join(', ')}; ${d.grown} bytes more of which caches are ${d.ofCaches}; unlike by ${Math.max(...d.checked).toExponential(1)}; 200 tokens in ${d.seconds.toFixed(1)} s, the slowest ${d.slowest.toFixed(0)} ms`,
    )
    for (const r of d.times)
      console.log(`  past ${r.n}: ${r.openMs.toFixed(4)} ms, static ${r.fixedMs.toFixed(4)}, ${r.ratio.toFixed(2)}`)
    save()
  }
}

if (parts.includes('sums')) {
  result.sums = await checkSums(open, {
    report: (title, error, why) => {
      if (why !== undefined) console.log(`WRONG ${title}: ${why}`)
      else console.log(`  ${error === undefined ? 'right       ' : `${error.toFixed(3)} bounds`}  ${title}`)
    },
  })
  console.log(`sums: ${result.sums.filter((r) => r.why === undefined).length} of ${result.sums.length}`)
  save()
}

if (parts.includes('library')) {
  result.library = await checkLibrary(open, {
    seconds: Number(options.seconds) / 4,
    report: (name, why) => {
      if (why !== undefined) console.log(`WRONG ${name}: ${why}`)
    },
  })
  console.log(`library: ${result.library.filter((r) => r.why === undefined).length} of ${result.library.length}`)
  save()
}

if (parts.includes('large')) {
  const start = performance.now()
  result.large = await checkLarge(open, {
    subset: options.subset,
    wanted,
    report: (name, why, seconds = 0) =>
      console.log(
        `${why === undefined ? 'ok   ' : 'WRONG'} ${seconds.toFixed(2)} s  ${name}${why === undefined ? '' : `: ${why}`}`,
      ),
  })
  const right = result.large.filter((r) => r.why === undefined).length
  console.log(`large: ${right} of ${result.large.length} right, ${((performance.now() - start) / 1e3).toFixed(1)} s`)
  if (right < result.large.length) process.exitCode = 1
  save()
}

if (parts.includes('early') && open.name === 'cuda') {
  result.early = await measureEarlyStart(open, {
    wanted,
    index: Number(options.index),
    seconds: Number(options.seconds),
    report: (name, why) => {
      if (why !== undefined) console.log(`WRONG ${name}: ${why}`)
    },
  })
  save()
}

if (parts.includes('bench')) {
  const script = join(dirname(fileURLToPath(import.meta.url)), 'peers.py')
  const peers = (options.peers?.split(',') ?? []).map((name) => new Peer(name, script))
  if (peers.length > 0) result.ceilings = Object.assign({}, ...(await Promise.all(peers.map((p) => p.ask({})))))
  const copy = await openCopy(open)
  result.copy = copy.rates
  console.log(
    `copy GB/s: ${Object.entries(result.copy)
      .map(([k, v]) => `${k} ${v.toFixed(0)}`)
      .join(', ')}${result.ceilings === undefined ? '' : `; peers: ${JSON.stringify(result.ceilings)}`}`,
  )
  console.log('  ms       floor    share   copy GB/s  host ms  kernels  planned GB  floor GB  first ms  row')
  result.rows = []
  for (const row of rows) {
    if (wanted !== undefined && !wanted.includes(row.name)) continue
    try {
      const r = await measureRow(open, row, copy, Number(options.seconds), peers)
      result.rows.push(r)
      const tflops = r.tflops === undefined ? '' : `  ${r.tflops.toFixed(0)} Tflop/s`
      console.log(
        `  ${r.ms.toFixed(4)}  ${r.floorMs.toFixed(4)}  ${(100 * r.share).toFixed(1).padStart(5)}%  ${r.copyRate.toFixed(0).padStart(9)}  ${r.hostMs.toFixed(4)}  ${String(r.kernels).padStart(7)}  ${r.plannedGB.toFixed(3).padStart(10)}  ${r.floorGB.toFixed(3).padStart(8)}  ${r.firstMs.toFixed(0).padStart(8)}  ${row.title}${tflops}`,
      )
      for (const [system, { ms, first }] of Object.entries(r.peers))
        console.log(
          typeof first === 'string'
            ? `      ${system}: ${first}`
            : `      ${system}: ${ms.toFixed(4)} ms, ${((100 * r.floorMs) / ms).toFixed(1)}%, ${(ms / r.ms).toFixed(2)} x; first call ${first.toFixed(2)} s`,
        )
      for (const s of r.steps)
        if (r.steps.length > 1) console.log(`      ${s.ms.toFixed(4)} ms  ${s.stage ?? s.kind} ${s.kernel ?? ''}`)
      for (const k of r.resources)
        console.log(
          `      ${k.name}: ${k.blocks} x ${k.threads}, ${k.registers} registers, ${k.localBytes} B local, ${k.blockSharedBytes} B shared, ${k.residentThreads} threads resident`,
        )
    } catch (e) {
      result.rows.push({ name: row.name, error: String(e) })
      console.log(`  FAILED ${row.title}: ${String(e).split('\n').slice(0, 12).join('\n      ')}`)
    }
    save()
  }
  copy.end()
  for (const p of peers) p.close()
}

if (parts.includes('decode')) {
  const copy = await openCopy(open)
  result.decode = await measureDecode(open, copy)
  const { ms, floor, kernels, stages, first, modelled, profiled, steps } = result.decode
  console.log(
    `decoding step: ${ms.toFixed(3)} ms, floor ${floor.toFixed(3)} (${((100 * floor) / ms).toFixed(0)}%), ${kernels} kernels and ${stages} stages, modelled ${modelled.toFixed(3)}, one by one ${profiled.toFixed(3)}, first call ${(first / 1e3).toFixed(1)} s`,
  )
  for (const s of steps.slice(0, 24)) console.log(`      ${s.ms.toFixed(4)} ms  ${s.name}`)
  copy.end()
  save()
}

for (const [part, all, measure] of [
  ['attention', attentionRows, measureAttention],
  ['forms', formRows, measureForm],
]) {
  if (!parts.includes(part)) continue
  result[part] = []
  for (const name of wanted ?? all) {
    const r = await measure(open, name)
    result[part].push(r)
    console.log(
      `${name.padEnd(44)} ${r.ms.toFixed(4)} ms, least ${r.least.toFixed(4)}, modelled ${r.modelled.toFixed(3)}, ${r.kernels} kernels`,
    )
    save()
  }
}

if (parts.includes('grid')) {
  const copy = await openCopy(open)
  const rates = await ceilings(open, copy)
  console.log(
    `grid: copy ${(rates.copy / 1e9).toFixed(0)} GB/s, bf16 ${(rates.bf16 / 1e12).toFixed(0)} and f32 by three of tf32 ${(rates.f32 / 1e12).toFixed(0)} TFLOP/s`,
  )
  const known = new Map((earlier.grid?.points ?? []).map((p) => [titleOf(p), p]))
  result.grid = { rates, points: [] }
  const named = (wanted ?? []).flatMap((w) => pointOf(w) ?? [])
  const drawn = drawPoints(Number(options.seed), Number(options.points)).filter(
    (p) => wanted === undefined || wanted.some((w) => pointOf(w) === undefined && titleOf(p).includes(w)),
  )
  for (const point of [...named, ...drawn]) {
    const have = known.get(titleOf(point))
    try {
      result.grid.points.push(have === undefined ? await measurePoint(open, point, rates) : { ...have, ...point })
    } catch (e) {
      result.grid.points.push({ ...point, error: String(e).slice(0, 300) })
    }
    save()
  }
  console.log(summary(result.grid.points))
  copy.end()
}

if (parts.includes('kernelbench') && options.problems !== undefined) {
  const manifest = JSON.parse(readFileSync(join(options.problems, 'manifest.json'), 'utf8'))
  result.kernelbench = {}
  for (const name of Object.keys(manifest).sort()) {
    if (manifest[name].error !== undefined || wanted?.every((w) => !name.includes(w)) === true) continue
    let r
    try {
      r = await measureProblem(open, options.problems, name, manifest[name], Number(options.limit))
    } catch (e) {
      r = { error: String(e).slice(0, 300) }
    }
    result.kernelbench[name] = r
    const spent = Object.entries(r.firstParts ?? {}).map(([part, s]) => `${part} ${s.toFixed(2)}`)
    const made =
      r.error ?? `${r.ms.toFixed(4)} ms, ${r.kernels} kernels, first call ${r.first.toFixed(2)} s (${spent.join(', ')})`
    console.log(`${name}: ${made}`)
    if (r.steps?.length > 1)
      for (const t of r.steps) console.log(`      ${t.ms.toFixed(4)} ms  ${t.stage ?? ''} ${t.name}`)
    save()
  }
}

if (parts.includes('verify') && options.cases.length > 0) {
  const session = await Session.open(options.device)
  const tolerance = { rtol: 1e-3, atol: 1e-4 }
  result.verify = []
  for (const dir of findCases(options.cases)) {
    const r = await runCase(dir, session, { mode: 'fast', tolerance, skipUnsupported: true })
    result.verify.push(r)
    if (r.status === 'failed') console.log(`FAIL ${r.name}: [${r.code}] ${(r.message ?? '').slice(0, 300)}`)
  }
  const count = (status) => result.verify.filter((r) => r.status === status).length
  console.log(`ONNX: ${count('passed')} passed, ${count('failed')} failed, ${count('skipped')} skipped`)
}
save()
process.exit()
