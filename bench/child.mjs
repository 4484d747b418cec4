/**
 * One system in a process of its own, driven by messages: prepare a row, warm up, run once (timed here), stop. Between
 * messages it sleeps, so that it takes nothing from whoever is timed then.
 */
import { writeFileSync } from 'node:fs'
import { inputsOf, rows } from './rows.mjs'
import { openSystem } from './systems/index.mjs'

let system
let prepared
let row

/** Wall time and processor time (all threads of this process) of one run, in the row's unit. */
async function timed(seed) {
  const scale = (row.unit === 'us' ? 1000 : 1) / row.calls
  const before = process.cpuUsage()
  const start = performance.now()
  await prepared.run(seed)
  const ms = performance.now() - start
  const { user, system: kernel } = process.cpuUsage(before)
  return { time: ms * scale, cpu: ((user + kernel) / 1000) * scale }
}

async function settle() {
  await prepared.finish()
  globalThis.gc?.()
}

/** Runs until the code is warm: half a second and three runs, but no more than one of a slow row. */
async function warmUp() {
  const start = performance.now()
  for (let n = 1; n <= 30; n++) {
    await timed(-n)
    await settle()
    const elapsed = performance.now() - start
    if (elapsed > 1500 || (n >= 3 && elapsed > 500)) return
  }
}

const handlers = {
  async prepare({ name, threads, build, rowName, outputs }) {
    row = rows.find((r) => r.name === rowName)
    system = await openSystem(name, threads, build)
    if (!system.has(row)) return { skipped: true }
    prepared = await system.prepare(row, inputsOf(row))
    await prepared.run(0)
    const values = await prepared.read()
    values.forEach((v, i) => {
      writeFileSync(outputs[i], Buffer.from(v.buffer, v.byteOffset, v.byteLength))
    })
    await settle()
    return {}
  },
  async warmUp() {
    await warmUp()
    return { info: (await prepared.info?.()) ?? null }
  },
  async run({ seed }) {
    const times = await timed(seed)
    await settle()
    return times
  },
}

process.on('message', async (message) => {
  try {
    process.send(await handlers[message.op](message))
  } catch (e) {
    process.send({ error: String(e?.stack ?? e).slice(0, 2000) })
  }
})
process.on('disconnect', () => process.exit(0))
