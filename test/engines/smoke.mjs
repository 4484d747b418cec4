/**
 * The built library on the engine that runs this file: compiled programs on one thread and on two, gradients, a model, strict bits,
 * memory, an error with its place, and the command line. Prints what it found as one line of JSON; a claim that fails throws.
 */
import assert from 'node:assert/strict'
import { execFile } from 'node:child_process'
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import * as s from '../../dist/index.js'
import { importOnnx } from '../../dist/onnx.js'
import { digests, expected } from '../dependable/digests.mjs'

const here = fileURLToPath(new URL('.', import.meta.url))
const root = fileURLToPath(new URL('../..', import.meta.url))
const bun = process.versions.bun !== undefined
const digits = join(root, 'examples/digits/digits.onnx')
const images = join(root, 'examples/digits/images.npy')

async function digest(x) {
  const data = await x.data()
  const bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
  return createHash('sha256').update(bytes).digest('hex').slice(0, 16)
}

/** Values of 0..n-1 that f32 holds exactly. */
const ramp = (shape, scale) =>
  s
    .arange(shape.reduce((a, b) => a * b, 1))
    .reshape(shape)
    .mod(17)
    .sub(8)
    .mul(scale)

const layer = (x, w, b) => s.gelu(s.matmul(x, w).add(b))
const loss = (w, x) => s.tanh(s.matmul(x, w)).square().sum()

/** Fast and strict results on a device of so many threads. */
async function compiled(threads) {
  s.setDevice('wasm', { threads })
  const [x, w, b] = [ramp([256, 96], 0.125), ramp([96, 128], 0.0625), ramp([128], 0.5)]
  const fast = await s.jit(layer)(x, w, b).data()
  const strict = await s.jit(layer, { mode: 'strict' })(x, w, b)
  const values = await strict.data()
  const worst = values.reduce((most, v, i) => Math.max(most, Math.abs(v - fast[i])), 0)
  assert.ok(worst < 1e-4, `fast is off strict by ${worst}`)

  const gradient = s.jit(s.grad(loss), { mode: 'strict' })(w, x)
  const step = 2 ** -6
  const moved = (by) => s.tensor(Array.from(w.dataSync(), (v, i) => v + (i === 5 ? by : 0))).reshape(w.shape)
  const slope = (loss(moved(step), x).item() - loss(moved(-step), x).item()) / (2 * step)
  const [found, scale] = [gradient.dataSync()[5], Math.max(...gradient.dataSync().map(Math.abs))]
  assert.ok(Math.abs(found - slope) < 0.02 * scale, `slope ${slope}, gradient ${found}, of at most ${scale}`)
  const sums = s.jit((a) => ({ total: a.sum(), running: a.cumsum(0) }), { mode: 'strict' })(ramp([30_011], 0.1))
  return {
    layer: await digest(strict),
    gradient: await digest(gradient),
    total: await digest(sums.total),
    running: await digest(sums.running),
  }
}

/** What the digit reader says in strict, and how many digits it gets right. */
async function model() {
  const npy = readFileSync(images)
  const body = npy.subarray(10 + npy.readUInt16LE(8))
  const image = s.tensor(new Float32Array(Uint8Array.from(body).buffer), { shape: [256, 1, 16, 16] })
  const network = importOnnx(readFileSync(digits), { inputShapes: { image: [256, 1, 16, 16] } })
  const read = s.jit((x) => network.apply(network.parameters, { image: x }), { mode: 'strict' })
  const { probabilities, digit } = read(image)
  const labels = readFileSync(join(root, 'examples/digits/labels.npy'))
  const wanted = labels.subarray(10 + labels.readUInt16LE(8))
  const width = wanted.length / 256
  const right = Array.from(await digit.data()).filter((d, i) => Number(d) === wanted[i * width]).length
  assert.ok(right >= 250, `${right} of 256 digits`)
  return { probabilities: await digest(probabilities), right }
}

/** Memory and programs go back when they are disposed of. Gives the bytes in use, which hold what kernels share as scratch. */
async function memory() {
  const before = s.memory()
  const f = s.jit((x) => s.softmax(s.matmul(x, x)))
  const x = s.tensor(new Float32Array(512 * 512).fill(0.01), { shape: [512, 512] })
  const y = f(x)
  await y.data()
  const during = s.memory()
  assert.equal(during.programs, before.programs + 1)
  assert.ok(during.used >= before.used + 2 * 512 * 512 * 4, `${during.used} bytes after ${before.used}`)
  for (const held of [x, y, f]) held.dispose()
  const after = s.memory()
  assert.equal(after.programs, before.programs)
  assert.throws(() => f(y), { code: 'E_DISPOSED' })
  return after.used
}

/** The line below the one that says so. */
const lineAfter = (path, mark) =>
  readFileSync(path, 'utf8')
    .split('\n')
    .findIndex((line) => line.includes(mark)) + 2

/** An error says its code and the line of the call, here and in TypeScript where the engine runs that. */
async function places() {
  const thrown = (call) => {
    try {
      call()
    } catch (error) {
      return error
    }
    assert.fail('nothing was thrown')
  }
  const [a, b] = [s.ones([2, 3]), s.ones([4, 5])]
  const error = thrown(() =>
    // the call at fault
    s.matmul(a, b),
  )
  assert.equal(error.code, 'E_SHAPE')
  const self = join(here, 'smoke.mjs')
  // Bun says lines of what it has rewritten: there the file alone is certain.
  const place = bun ? `${self}:` : `${self}:${lineAfter(self, '// the call at fault')}:`
  assert.ok(error.where?.startsWith(place), `${error.where} for ${place}`)
  if (process.features.typescript === undefined || process.features.typescript === false) return 'none'
  const typed = join(here, 'typed.ts')
  const { atFault } = await import('./typed.ts')
  const inTypes = thrown(() => atFault(s.matmul, a, b))
  assert.ok(inTypes.where?.startsWith(`${typed}:${lineAfter(typed, '// the call at fault')}:`), inTypes.where)
  return 'stripped'
}

const sinter = (...args) =>
  new Promise((done) => {
    const env = { ...process.env, NO_COLOR: '1' }
    execFile(
      process.execPath,
      [...process.execArgv, join(root, 'dist/cli/main.js'), ...args],
      { cwd: root, env },
      (error, out, err) => done({ code: error === null ? 0 : error.code, out, err }),
    )
  })

async function commandLine() {
  const typed = join(here, 'program.ts')
  const modules = [typed, join(here, 'program.mjs')]
  const [run, explain, ...bad] = await Promise.all([
    sinter('run', digits, '--input', `image=${images}`, '--threads', '2', '--json'),
    sinter('explain', join(root, 'examples/layer.ts')),
    ...modules.map((path) => sinter('explain', path)),
  ])
  assert.equal(run.code, 0, run.err)
  assert.equal(JSON.parse(run.out).operations, 51)
  assert.equal(explain.code, 0, explain.err)
  assert.match(explain.out, /layer: 3 operations in 1 kernel/)
  for (const [i, path] of modules.entries()) {
    assert.equal(bad[i].code, 1, bad[i].err)
    assert.match(bad[i].err, /^error \[E_SHAPE\] matmul of shapes \[2, 3\] and \[2, 3\]/)
    const place = bun ? `${path}:` : `${path}:${lineAfter(path, '// the call at fault')}:`
    assert.ok(bad[i].err.includes(`at ${place}`), `${bad[i].err} for ${place}`)
  }
}

const [one, two] = [await compiled(1), await compiled(2)]
assert.deepEqual(two, one, 'strict bits depend on threads')
const draws = await digests(s)
assert.deepEqual(draws, expected)
const strict = { ...one, ...(await model()) }
assert.equal(await memory(), await memory(), 'bytes left behind')
const types = await places()
await commandLine()
const engine = bun ? `bun ${process.versions.bun}` : `node ${process.versions.node}`
console.log(JSON.stringify({ engine, types, strict }))
process.exit(0)
