/** A training run on the command line: flags, a progress line, and the loss curve at the end. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { dirname, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { inspect } from 'node:util'
import { Command, InvalidArgumentError } from 'commander'
import { setDevice } from 'sinter'
import { drawCurve } from './curve.mjs'

/** Styled text where the terminal has colours. */
function style(name) {
  const [open, close] = inspect.colors[name]
  return (text) => (process.stdout.hasColors?.() ? `\u001b[${open}m${text}\u001b[${close}m` : text)
}
const [bold, cyan, dim] = ['bold', 'cyan', 'dim'].map(style)

function whole(least) {
  return (text) => {
    const n = Number(text)
    if (!Number.isInteger(n) || n < least) throw new InvalidArgumentError(`give a whole number of at least ${least}`)
    return n
  }
}

/** Writes progress: one line that is rewritten on a terminal, a line every tenth of the way elsewhere. */
function makeProgress(steps, out = process.stdout) {
  const began = performance.now()
  const seconds = () => ((performance.now() - began) / 1000).toFixed(1)
  const every = Math.max(1, Math.floor(steps / 10))
  let shown = 0
  return (step, note) => {
    const last = step === steps
    const text = `step ${step}/${steps}  ${note}  ${dim(`${seconds()} s`)}`
    if (!out.isTTY) {
      if (last || step === 1 || step % every === 0) out.write(`${text}\n`)
      return
    }
    const now = performance.now()
    if (!last && now - shown < 80) return
    shown = now
    const done = Math.round((24 * step) / steps)
    const bar = cyan('█'.repeat(done)) + dim('░'.repeat(24 - done))
    out.write(`\r\x1b[2K${bar} ${text}${last ? '\n' : ''}`)
  }
}

/**
 * Runs a training if its file is the one node was started with. `train({ steps, seed })` yields { loss, note } for each step
 * and returns the lines that sum it up.
 */
export async function main(url, { title, steps, seed = 1, label, train }) {
  if (process.argv[1] === undefined || resolve(process.argv[1]) !== fileURLToPath(url)) return
  const name = fileURLToPath(url).replace(/^.*[\\/]|\.mjs$/g, '')
  const options = new Command(`node examples/training/${name}.mjs`)
    .description(title)
    .option('--steps <n>', 'number of updates', whole(1), steps)
    .option('--threads <n>', 'threads of the WebAssembly device', whole(1), 1)
    .option('--seed <n>', 'decides the start, the data and their order', whole(0), seed)
    .option('--out <file>', 'where the loss curve goes', `${name}-loss.svg`)
    .parse()
    .opts()
  setDevice('wasm', { threads: options.threads })
  console.log(bold(title))
  const began = performance.now()
  const progress = makeProgress(options.steps)
  const losses = []
  const run = train(options)
  let next = run.next()
  for (; !next.done; next = run.next()) {
    losses.push(next.value.loss)
    progress(losses.length, next.value.note ?? `loss ${next.value.loss.toFixed(4)}`)
  }
  for (const line of next.value) console.log(line)
  const path = resolve(options.out)
  mkdirSync(dirname(path), { recursive: true })
  writeFileSync(path, drawCurve(losses, { title, label }))
  console.log(`${((performance.now() - began) / 1000).toFixed(1)} s in all; the loss curve is ${options.out}`)
}
