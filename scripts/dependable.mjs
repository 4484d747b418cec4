/**
 * What Sinter promises of its behaviour at limits, measured: prints item, measured value and bound, and exits with 1 if any is over.
 *   node scripts/dependable.mjs [--only WORDS] [--device wasm|cuda|webgpu] [--list]
 * Needs `npm run build`. Every item runs in a process of its own, with the collector exposed. An item that needs a device other than
 * the one named (wasm unless said) is listed as not run.
 */
import { spawn } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'

const folder = new URL('dependable/', import.meta.url)

/**
 * An item: `id`, `what` it measures, its `unit`, its `bound` (the greatest value that is accepted), `measure`, which gives the value, the
 * `device` it needs (wasm unless said) and the most `seconds` it may take (60 unless said). A file of `dependable/` exports `items`.
 */
const modules = readdirSync(folder).filter((name) => name.endsWith('.mjs'))
const itemsOf = async (module) => (await import(new URL(module, folder).href)).items

const options = {
  only: { type: 'string' },
  device: { type: 'string', default: 'wasm' },
  list: { type: 'boolean' },
  run: { type: 'string' },
}
const { values } = parseArgs({ options })

/** Measures one item here and hands the value to the process that asked. */
async function measureHere(path) {
  const [module, id] = path.split('#')
  const item = (await itemsOf(module)).find((x) => x.id === id)
  process.send({ value: await item.measure() }, () => process.exit(0))
}

/** Measures an item in a process of its own: a value, or why there is none. */
const measure = (module, item) =>
  new Promise((done) => {
    const args = ['--expose-gc', fileURLToPath(import.meta.url), '--run', `${module}#${item.id}`]
    const child = spawn(process.execPath, args, { stdio: ['ignore', 'ignore', 'pipe', 'ipc'] })
    let errors = ''
    let value
    child.stderr.on('data', (text) => {
      errors += text
    })
    child.on('message', (message) => {
      value = message.value
    })
    const seconds = item.seconds ?? 60
    const timer = setTimeout(() => child.kill('SIGKILL'), seconds * 1000)
    child.on('close', (code, signal) => {
      clearTimeout(timer)
      if (value !== undefined) done({ value })
      else
        done({
          why: signal === 'SIGKILL' ? `no value after ${seconds} s` : `exit code ${code}: ${errors.trim().slice(-400)}`,
        })
    })
  })

const number = (x) => (Number.isInteger(x) ? String(x) : x.toPrecision(3))

async function main() {
  let over = 0
  let count = 0
  for (const module of modules)
    for (const item of await itemsOf(module)) {
      const words = `${item.id} ${item.what}`
      if (values.only !== undefined && !words.includes(values.only)) continue
      const bound = `${number(item.bound)} ${item.unit}`
      if (values.list) {
        console.log(`${item.id}: ${item.what}; at most ${bound}`)
        continue
      }
      if ((item.device ?? 'wasm') !== values.device) {
        console.log(`not run (needs --device ${item.device ?? 'wasm'})  ${item.id}`)
        continue
      }
      count++
      const { value, why } = await measure(module, item)
      const fine = value !== undefined && value <= item.bound
      if (!fine) over++
      const measured = value === undefined ? why : `${number(value)} ${item.unit}`
      console.log(`${fine ? 'ok  ' : 'OVER'}  ${item.id}: ${item.what}  measured ${measured}, bound ${bound}`)
    }
  if (!values.list) console.log(`${count - over} of ${count} within their bounds`)
  process.exit(over > 0 ? 1 : 0)
}

await (values.run === undefined ? main() : measureHere(values.run))
