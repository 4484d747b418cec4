/**
 * Functions made, called and dropped for a long time: softmax of products, 1024 x 1024. Resident memory must not grow: the peak of the last
 * tenth is at most a tenth above that of the second tenth. Exits with 1 if it is more. Needs `npm run build`.
 *   npm run soak [-- --functions 2000] [--side 1024]
 */
import { parseArgs } from 'node:util'
import { jit, matmul, memory, random, softmax } from '../dist/index.js'

const { values } = parseArgs({
  options: { functions: { type: 'string', default: '2000' }, side: { type: 'string', default: '1024' } },
})
const [functions, side] = [Number(values.functions), Number(values.side)]
const x = random.normal(random.key(0), [side, side]).evaluate()

function one(i) {
  const f = jit((a) => softmax(matmul(a, a).add(i)).matmul(a))
  f(x)
}

const tenth = Math.max(1, Math.floor(functions / 10))
const peaks = []
for (let i = 0; i < functions; i++) {
  one(i)
  // The engine frees what it collected between tasks.
  await new Promise((done) => setImmediate(done))
  const t = Math.floor(i / tenth)
  peaks[t] = Math.max(peaks[t] ?? 0, process.memoryUsage.rss())
  if ((i + 1) % tenth === 0) {
    const { programs, arenaBytes, used } = memory()
    const mb = (n) => `${(n / 1e6).toFixed(0)} MB`
    console.log(
      `${i + 1} functions: ${mb(peaks[t])} resident at most; ${programs} programs with ${mb(arenaBytes)}, ${mb(used)} in use`,
    )
  }
}
const [before = 0, after = 0] = [peaks[1] ?? peaks[0], peaks.at(-1)]
const growth = 100 * (after / before - 1)
console.log(
  `resident memory from the second tenth to the last: ${growth >= 0 ? '+' : ''}${growth.toFixed(1)}% (bound +10%)`,
)
process.exit(growth > 10 ? 1 : 0)
