/**
 * Replay: whether two versions of the compiler plan and emit the same.
 *   npm run replay -- --record FILE [--root DIR] [--few]     records plans and code of this checkout (or of DIR)
 *   npm run replay -- --compare A B [--renames FILE]         what differs, plans before code; exits with 1 if anything does
 *   npm run replay -- --digest [--write] [--docs]            a few programs against test/replay/digest.json; generated docs besides
 * A recording is gzipped JSON, a line for each program and target (test/replay/record.ts). FILE of renames is a JSON object: what names of
 * A are called in B. The sources are compiled for this without checks, so no build is needed.
 */
import { createReadStream, createWriteStream, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { createInterface } from 'node:readline'
import { finished } from 'node:stream/promises'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { parseArgs } from 'node:util'
import { createGunzip, createGzip } from 'node:zlib'
import { emitted } from './emitted.mjs'
import { generatedDocs } from './generated-docs.mjs'

const here = resolve(fileURLToPath(import.meta.url), '../..')
const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    record: { type: 'string' },
    root: { type: 'string', default: here },
    few: { type: 'boolean', default: false },
    compare: { type: 'boolean', default: false },
    renames: { type: 'string' },
    digest: { type: 'boolean', default: false },
    write: { type: 'boolean', default: false },
    docs: { type: 'boolean', default: false },
  },
})

const part = (out, path) => import(pathToFileURL(join(out, path)).href)
const nodeCases = (folder) =>
  readdirSync(folder)
    .filter((name) => name.startsWith('test_'))
    .sort()

async function programsOf(root, few) {
  const out = emitted(root)
  const { allPrograms, digestPrograms } = await part(out, 'test/replay/programs.js')
  const { digestOf, record } = await part(out, 'test/replay/record.js')
  const done = () => rmSync(out, { recursive: true, force: true })
  return { out, programs: few ? digestPrograms(root) : allPrograms(root, nodeCases), record, digestOf, done }
}

async function recordTo(file, root, few) {
  const { programs, record, done } = await programsOf(root, few)
  const zip = createGzip()
  const written = zip.pipe(createWriteStream(file))
  let count = 0
  for await (const program of programs) {
    for (const entry of record(program)) zip.write(`${JSON.stringify(entry)}\n`)
    if (++count % 100 === 0) console.error(`${count} programs`)
  }
  zip.end()
  await finished(written)
  done()
  console.log(`${count} programs recorded in ${file}`)
}

async function* entriesOf(file) {
  const lines = createInterface({ input: createReadStream(file).pipe(createGunzip()) })
  for await (const line of lines) yield JSON.parse(line)
}

const keyOf = ({ program, code, mode }) => `${program} (${code}, ${mode})`

/** The first line in which two texts differ. */
function firstDifference(a, b) {
  const [p, q] = [a.split('\n'), b.split('\n')]
  const at = p.findIndex((line, i) => line !== q[i])
  const i = at < 0 ? p.length : at
  const cut = (s) => (s ?? '(nothing)').trim().slice(0, 160)
  return `line ${i + 1}\n      - ${cut(p[i])}\n      + ${cut(q[i])}`
}

async function compare(a, b, renames) {
  const words = Object.entries(renames)
  const renamed = (text) => words.reduce((t, [from, to]) => t.replaceAll(new RegExp(`\\b${from}\\b`, 'g'), to), text)
  const before = new Map()
  for await (const entry of entriesOf(a)) before.set(keyOf(entry), entry)
  let same = 0
  const [plans, codes, reasons, added] = [[], [], [], []]
  for await (const entry of entriesOf(b)) {
    const key = keyOf(entry)
    const old = before.get(key)
    before.delete(key)
    if (old === undefined) added.push(key)
    else if (renamed(old.plan) !== entry.plan) plans.push(`${key}: ${firstDifference(renamed(old.plan), entry.plan)}`)
    else {
      const kernel = entry.kernels.findIndex((text, i) => renamed(old.kernels[i] ?? '') !== text)
      const [was, is] = [renamed(old.refused.join('\n')), entry.refused.join('\n')]
      if (kernel < 0 && was === is) same++
      else if (kernel < 0) reasons.push(`${key}: ${firstDifference(was, is)}`)
      else
        codes.push(
          `${key}: kernel ${kernel}, ${firstDifference(renamed(old.kernels[kernel] ?? ''), entry.kernels[kernel] ?? '')}`,
        )
    }
  }
  const list = (title, items) => {
    if (items.length === 0) return
    console.log(`${title}: ${items.length}`)
    for (const item of items.slice(0, 20)) console.log(`    ${item}`)
    if (items.length > 20) console.log(`    and ${items.length - 20} more`)
  }
  list('plans differ', plans)
  list('plans are the same, code differs', codes)
  list('plans and code are the same, refusals differ', reasons)
  list('only in the first', [...before.keys()])
  list('only in the second', added)
  console.log(`the same: ${same}`)
  return plans.length + codes.length + reasons.length + before.size + added.length
}

async function digest(write, docs) {
  const { out, programs, record, digestOf, done } = await programsOf(here, true)
  const found = {}
  for await (const program of programs) for (const entry of record(program)) found[keyOf(entry)] = digestOf(entry)
  const stale = docs ? await generatedDocs(out, false) : 0
  done()
  const file = join(here, 'test', 'replay', 'digest.json')
  if (write) {
    writeFileSync(file, `${JSON.stringify(found, undefined, 2)}\n`)
    return stale
  }
  const kept = JSON.parse(readFileSync(file, 'utf8'))
  const names = [...new Set([...Object.keys(kept), ...Object.keys(found)])]
  const differ = names.filter((name) => kept[name] !== found[name])
  for (const name of differ) {
    const [plan] = kept[name]?.split(' ') ?? []
    console.log(`${name}: ${plan === found[name]?.split(' ')[0] ? 'code' : 'plan'} differs`)
  }
  console.log(`replay: ${names.length - differ.length} of ${names.length} plans and codes are as recorded`)
  if (differ.length > 0) console.log('if that is meant: npm run replay -- --digest --write, and say why in the commit')
  return differ.length + stale
}

const started = process.cpuUsage()
let differences = 0
if (values.record !== undefined) await recordTo(values.record, resolve(values.root), values.few)
else if (values.compare) {
  const [a, b] = positionals
  if (a === undefined || b === undefined) throw new Error('--compare takes two recordings')
  const renames = values.renames === undefined ? {} : JSON.parse(readFileSync(values.renames, 'utf8'))
  differences = await compare(a, b, renames)
} else if (values.digest) differences = await digest(values.write, values.docs)
else throw new Error('one of --record FILE, --compare A B, --digest')
console.error(`${(process.cpuUsage(started).user / 1e6).toFixed(0)} s of processor time`)
process.exit(differences > 0 ? 1 : 0)
