/** Memory that is resident while programs are made and dropped, and while results are read one by one. */
import * as api from '../../dist/index.js'

const { jit, matmul, memory, random, setDevice, softmax, tensor } = api
const elements = 1 << 20
const rounds = 1500

/** Most bytes that were resident while a loop read each result, in MB. */
async function residentReading(step) {
  const x = random.normal(random.key(0), [elements]).evaluate()
  let most = 0
  for (let i = 0; i < rounds; i++) {
    await step(x, tensor(i)).data()
    most = Math.max(most, process.memoryUsage.rss())
  }
  return most / 1e6
}

/**
 * Most bytes that were resident while a loop read each result without awaiting, in MB, where the device has so much memory for tensors. It may
 * end in the coded error that names the remedy, and nothing else.
 */
async function residentReadingAtOnce(step, limit) {
  setDevice('wasm', { memoryLimit: limit })
  const x = random.normal(random.key(0), [elements]).evaluate()
  let most = 0
  try {
    for (let i = 0; i < rounds; i++) {
      step(x, tensor(i)).dataSync()
      most = Math.max(most, process.memoryUsage.rss())
    }
  } catch (error) {
    if (error.code !== 'E_OUT_OF_MEMORY' || !error.help.includes('await x.data()')) throw error
  }
  // The device is as usable as before once its loop is left.
  await new Promise((done) => setTimeout(done, 20))
  gc()
  await new Promise((done) => setTimeout(done, 20))
  const [last] = await step(x, tensor(2)).data()
  const [first] = await x.data()
  if (!(Math.abs(last - (2 * first + 1)) < 1e-5)) throw new Error(`${last} after the loop, for 2 * ${first} + 1`)
  return most / 1e6
}

/** Programs that live after so many functions were made, called and dropped. */
async function programsAfter(count, side) {
  const x = random.normal(random.key(0), [side, side]).evaluate()
  const one = (i) => {
    const f = jit((a) => softmax(matmul(a, a).add(i)).matmul(a))
    f(x).dispose()
  }
  for (let i = 0; i < count; i++) {
    one(i)
    await new Promise((done) => setImmediate(done))
    if (i % 20 === 19) gc()
  }
  gc()
  await new Promise((done) => setTimeout(done, 20))
  return memory()
}

export const items = [
  {
    id: 'reading-jit',
    what: 'resident while 1,500 results of 4 MB of a jitted function are read',
    unit: 'MB',
    bound: 600,
    measure: () => residentReading(jit((x, k) => x.mul(k).add(1))),
  },
  {
    id: 'reading-lazy',
    what: 'resident while 1,500 results of 4 MB of lazy operations are read',
    unit: 'MB',
    bound: 600,
    measure: () => residentReading((x, k) => x.mul(k).add(1)),
  },
  {
    id: 'reading-jit-at-once',
    what: 'resident while results of 4 MB of a jitted function are read by dataSync(), with 200 MB for tensors, to 1,500 or the coded error',
    unit: 'MB',
    bound: 600,
    measure: () =>
      residentReadingAtOnce(
        jit((x, k) => x.mul(k).add(1)),
        200 << 20,
      ),
  },
  {
    id: 'reading-lazy-at-once',
    what: 'resident while results of 4 MB of lazy operations are read by dataSync(), with 200 MB for tensors, to 1,500 or the coded error',
    unit: 'MB',
    bound: 600,
    measure: () => residentReadingAtOnce((x, k) => x.mul(k).add(1), 200 << 20),
  },
  {
    id: 'dropped-programs',
    what: 'programs left of 200 functions that were dropped',
    unit: 'programs',
    bound: 1,
    measure: async () => (await programsAfter(200, 16)).programs,
  },
  {
    id: 'dropped-memory',
    what: 'memory of the device in use and pooled after 200 functions of 1024 x 1024 were dropped',
    unit: 'MB',
    bound: 160,
    seconds: 240,
    measure: async () => {
      const { used, pooledBytes } = await programsAfter(200, 1024)
      return (used + pooledBytes) / 1e6
    },
  },
]
