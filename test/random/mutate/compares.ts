/**
 * Runs mutants of random programs on WebAssembly and on the reference, one after the other, and says on the standard output what differs: a
 * process of its own, as `compiles.ts`. Arguments: the first mutant, and the one after the last. A line is `N` before mutant N, and `N what
 * is wrong` after one whose results are neither those of the reference (within what rounding and small moves of the inputs do to them) nor an
 * error that has a code or is the text's own. A last line tells of it where few could be compared.
 */
import { writeSync } from 'node:fs'
import { createReferenceDevice } from '../../../src/api/device/reference.ts'
import { createWasmBackend } from '../../../src/backends/wasm/backend.ts'
import { UserError } from '../../../src/diagnostics/errors.ts'
import * as s from '../../../src/index.ts'
import { wasmTarget } from '../../../src/target/wasm.ts'
import { isFloat } from '../../../src/types/dtype.ts'
import { type ApiProgram, apiProgram } from '../api/programs.ts'
import { bounds, checkedDevice, type Held, results, type Way, wrong } from '../api/run.ts'
import { makeRng } from '../rng.ts'
import { mutate } from './mutations.ts'

const [, , from = '0', to = '0'] = process.argv
const say = (line: string): void => {
  writeSync(1, `${line}\n`)
}

const reference = createReferenceDevice()
const backend = createWasmBackend({ threads: 1 })
const compiled = checkedDevice(backend, wasmTarget, true)

/** Functions and methods of tensors that may stand for another. */
const names = Object.getOwnPropertyNames(s.Tensor.prototype).filter(
  (name) => /^[a-z]\w*$/.test(name) && Object.hasOwn(s, name),
)

/** What a mutant may take. */
const mostBytes = 1 << 20

const refused = Symbol('refused')

/** What a program gives, or that it is refused: by an error with a code, or by what its own text throws. */
async function outcome(p: ApiProgram, way: Way): Promise<readonly Held[] | typeof refused | string> {
  try {
    return await results(p, way)
  } catch (error) {
    if (error instanceof UserError) return refused
    const stack = error instanceof Error ? (error.stack ?? '') : ''
    const frame = stack.split('\n').find((line) => /^\s+at /.test(line)) ?? ''
    return /[/\\]src[/\\]/.test(frame) || stack.includes('E_INTERNAL') ? stack.replaceAll('\n', ' | ') : refused
  }
}

/** What is wrong with a mutant; undefined if nothing. `compared` is told of results that were compared. */
async function faultOf(p: ApiProgram, compared: () => void): Promise<string | undefined> {
  const want = await outcome(p, { device: reference, calls: 1 })
  if (typeof want === 'string') return `the reference: ${want}`
  const near: (readonly Held[])[] = []
  if (want !== refused) {
    if (want.reduce((n, h) => n + h.data.byteLength, 0) > mostBytes) return undefined
    for (const way of [{ mode: 'strict' }, { moved: true }] as const) {
      const other = await outcome(p, { device: reference, calls: 1, ...way })
      // What depends on values may be refused for others.
      if (typeof other === 'string' || other === refused) return undefined
      near.push(other)
    }
  }
  for (const mode of ['fast', 'strict'] as const) {
    const got = await outcome(p, { device: compiled, mode, calls: 1 })
    if (typeof got === 'string') return `${mode}: ${got}`
    if (got === refused && want === refused) continue
    if (got === refused) return `${mode}: refused, and the reference runs it`
    // Shapes and dtypes are checked before devices are asked.
    if (want === refused) return `${mode}: it runs, and the reference refuses it`
    // A whole number that a small move changes came of a comparison.
    const differs = want.map((h, i) => near.some((n) => wrong(n.slice(i, i + 1), [h], [0]) !== undefined))
    const within = bounds(p, want, near).map((b, i) =>
      !isFloat(want[i]?.dtype ?? 'f32') && differs[i] === true ? undefined : b,
    )
    const why = wrong(got, want, within)
    if (why !== undefined) return `${mode}: ${why}`
    if (within.some((b) => b !== undefined)) compared()
  }
  return undefined
}

s.onWarning(null)
process.on('unhandledRejection', () => {})
let ran = 0
for (let seed = Number(from); seed < Number(to); seed++) {
  say(String(seed))
  const rng = makeRng(seed)
  const base = apiProgram(rng.int(0, 400), { integers: ['i32', 'i64', 'u8', 'bool'] })
  const text = mutate(base.text, rng, names, true)
  // Loops of other bounds run for as long as they say.
  if (/whileLoop|foriLoop/.test(text)) continue
  const p = { ...base, text, donate: [], noise: [Math.max(0, ...base.noise)], next: new Map<number, number>() }
  const why = await faultOf(p, () => ran++)
  if (why !== undefined) say(`${seed} ${why.slice(0, 700)} :: ${text.replaceAll('\n', ' ').slice(0, 1500)}`)
}
if (ran < (Number(to) - Number(from)) / 8) say(`${to} only ${ran} were compared`)
backend.dispose()
process.exit(0)
