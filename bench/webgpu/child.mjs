/** One system in a process of its own: prepares a row, checks its results, and times batches of calls when asked. */
import { count } from '../shared/oracle.mjs'
import { provideWebgpu, queueDone } from './host.mjs'
import { errorOf, inputsOf, rowNamed, rowsAt } from './rows.mjs'

const openers = {
  copy: () => import('./copy.mjs'),
  sinter: () => import('./sinter.mjs'),
  jax: () => import('./jax.mjs'),
  ort: () => import('./ort.mjs'),
  tfjs: () => import('./tfjs.mjs'),
}

/** Most bytes of inputs or results, whichever are more, of calls on their way to the device, in four parts. */
const aheadBytes = 2 ** 33
const mostCalls = 20_000
const bytesOf = (shapes) => shapes.reduce((n, shape) => n + 4 * count(shape), 0)

/**
 * Milliseconds a call takes in a batch, from a device at rest to a device at rest. The host stays at most four parts of the work
 * ahead of the device, so that results of calls that did not run yet do not fill its memory.
 */
async function timed(prepared, calls, part) {
  await prepared.flush()
  await queueDone()
  const parts = []
  const start = performance.now()
  for (let done = 0; done < calls; ) {
    const until = Math.min(calls, done + part)
    for (; done < until; done++) {
      const call = prepared.call()
      if (call !== undefined) await call
    }
    await prepared.flush()
    parts.push(queueDone())
    if (parts.length >= 4) await parts.shift()
  }
  const host = performance.now() - start
  await Promise.all(parts)
  return { ms: (performance.now() - start) / calls, hostMs: host / calls }
}

/** What the copy does at a size, as a row. */
const copyRow = (size) => ({ ...rowsAt(size)[0], name: 'copy', tolerance: 0, expected: ([x], _, i) => x[i] })
const rowOf = (name, size) => (name === 'copy' ? copyRow(size) : rowNamed(name, size))

/** The beginning of an error's trace. */
const short = (e) =>
  String(e?.stack ?? e)
    .split('\n')
    .slice(0, 4)
    .join('\n')

/** The largest error of a row at the smallest size. */
async function smallErrorOf(system, name) {
  const small = rowOf(name, 'tiny')
  const data = inputsOf(small)
  const prepared = await system.prepare(small, data)
  const error = errorOf(small, data, await prepared.read(), 1000)
  await prepared.end()
  return error
}

/** Answers the messages of `main.mjs`: open, prepare, measure, end. */
export async function serve(name) {
  provideWebgpu()
  const { open } = await openers[name]()
  let system
  let prepared
  let part
  const answers = {
    open: async () => {
      system = await open()
      return { adapter: system.adapter }
    },
    prepare: async ({ row: rowName, size, batchMs }) => {
      const row = rowOf(rowName, size)
      const smallError = await smallErrorOf(system, rowName)
      const data = inputsOf(row)
      prepared = await system.prepare(row, data)
      const firstStart = performance.now()
      let error
      let unread
      try {
        const results = await prepared.read()
        error = errorOf(row, data, results, 50)
      } catch (e) {
        unread = short(e)
      }
      const firstMs = performance.now() - firstStart
      const bytes = Math.max(bytesOf(row.inputs.map((p) => p.shape)), bytesOf(row.outputs))
      part = Math.max(1, Math.min(256, Math.floor(aheadBytes / 4 / bytes)))
      let calls = 1
      for (;;) {
        const { ms } = await timed(prepared, calls, part)
        if (calls >= mostCalls || calls * ms >= batchMs / 2) {
          calls = Math.max(1, Math.min(mostCalls, Math.round(batchMs / ms)))
          break
        }
        calls = Math.min(mostCalls, 2 * calls)
      }
      return { smallError, error, unread, tolerance: row.tolerance, firstMs, calls }
    },
    measure: ({ calls }) => timed(prepared, calls, part),
    end: async () => {
      await prepared?.end()
      prepared = undefined
      return {}
    },
  }
  process.on('unhandledRejection', (e) => process.send({ error: short(e) }))
  process.on('message', async ({ ask, ...rest }) => {
    try {
      process.send({ answer: await answers[ask](rest) })
    } catch (e) {
      process.send({ error: short(e) })
    }
  })
  process.on('disconnect', () => process.exit(0))
}
