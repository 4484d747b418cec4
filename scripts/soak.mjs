/**
 * Makes, calls and drops 2,000 jitted functions at 1024 x 1024 and exits with 1 if resident memory grew by more than 10% after the first tenth.
 *   node scripts/soak.mjs [COUNT]
 * Needs `npm run build`.
 */
import { dropping } from './dependable/lifetime.mjs'

const count = Number(process.argv[2] ?? 2000)
const most = 10
const task = () => new Promise((done) => setImmediate(done))
const grown = await dropping(count, task)
console.log(`${count} functions dropped: resident memory grew by ${grown.toFixed(1)}%, at most ${most}%`)
process.exit(grown > most ? 1 : 0)
