/**
 * Memory that goes back: resident memory of loops that read each result, and of jitted functions that are made, called and dropped. Each is
 * measured in the item's own process, with the engine collecting when it likes.
 */
import { jit, memory, ones, setDevice, softmax, tensor } from '../../dist/index.js'

const mib = 2 ** 20
const resident = () => process.memoryUsage.rss() / mib

/** The most that was resident while 1,500 results of 4 MB were made and read. */
async function reading(step, read) {
  setDevice('wasm')
  const x = ones([mib]).evaluate()
  let most = 0
  for (let i = 0; i < 1500; i++) {
    await read(step(x, tensor(i)))
    most = Math.max(most, resident())
  }
  return most
}

const scaled = (x, k) => x.mul(k)

/** The most that was resident, 0 where the loop ended with the error that names the remedy. */
async function readingSync(step) {
  setDevice('wasm')
  const x = ones([mib]).evaluate()
  let most = 0
  try {
    for (let i = 0; i < 1500; i++) {
      step(x, tensor(i)).dataSync()
      most = Math.max(most, resident())
    }
  } catch (error) {
    if (error.code !== 'E_OUT_OF_MEMORY' || !/await/.test(error.message)) throw error
    return 0
  }
  return most
}

/**
 * How much more is resident while the later functions of `count` are made, called and dropped than while the first tenth are, in percent of
 * that.
 */
export async function dropping(count, turn) {
  setDevice('wasm')
  const x = ones([1024, 1024]).evaluate()
  const one = (i) => {
    const f = jit((a) => softmax(a.matmul(a).mul(i + 1)).matmul(a))
    f(x).dispose()
  }
  let first = 0
  let later = 0
  for (let i = 0; i < count; i++) {
    one(i)
    await turn()
    if (i < count / 10) first = Math.max(first, resident())
    else later = Math.max(later, resident())
    if (process.env.SOAK_LOG !== undefined && i % 100 === 99)
      console.error(i + 1, Math.round(resident()), JSON.stringify(memory()))
  }
  return (100 * (later - first)) / first
}

const task = () => new Promise((done) => setImmediate(done))

export const items = [
  {
    id: 'lifetime-await-jit',
    what: 'resident memory of a jitted loop that reads 1,500 results of 4 MB with await data()',
    unit: 'MiB',
    bound: 600,
    measure: () => reading(jit(scaled), (y) => y.data()),
    seconds: 120,
  },
  {
    id: 'lifetime-await-lazy',
    what: 'resident memory of a lazy loop that reads 1,500 results of 4 MB with await data()',
    unit: 'MiB',
    bound: 600,
    measure: () => reading(scaled, (y) => y.data()),
    seconds: 120,
  },
  {
    id: 'lifetime-sync-jit',
    what: 'resident memory of a jitted loop that reads 1,500 results of 4 MB with dataSync(), 0 where it ends with the coded error',
    unit: 'MiB',
    bound: 600,
    measure: () => readingSync(jit(scaled)),
    seconds: 120,
  },
  {
    id: 'lifetime-sync-lazy',
    what: 'resident memory of a lazy loop that reads 1,500 results of 4 MB with dataSync(), 0 where it ends with the coded error',
    unit: 'MiB',
    bound: 600,
    measure: () => readingSync(scaled),
    seconds: 120,
  },
  {
    id: 'lifetime-dropped',
    what: 'growth of resident memory over 200 jitted functions dropped (softmax of products, 1024 x 1024)',
    unit: '%',
    bound: 10,
    measure: () => dropping(200, task),
    seconds: 240,
  },
]
