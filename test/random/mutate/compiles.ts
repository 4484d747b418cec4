/**
 * Compiles and runs mutants of random programs, one after the other, and says on the standard output what happened: a process of its
 * own, so that one that does not come back can be ended. Arguments: the first mutant, and the one after the last. A line is `N` before
 * mutant N, and `N CODE message` after a fault: an internal error, or an error that Sinter's own files throw without a code. What
 * the text itself throws is the user's own.
 */
import { writeSync } from 'node:fs'
import { UserError } from '../../../src/diagnostics/errors.ts'
import * as s from '../../../src/index.ts'
import { apiProgram } from '../api/programs.ts'
import { evaluate } from '../api/writer.ts'
import { makeRng } from '../rng.ts'
import { mutate } from './mutations.ts'

const [, , from = '0', to = '0'] = process.argv
const say = (line: string): void => {
  writeSync(1, `${line}\n`)
}

/** Programs that are mutated. */
s.setDevice('reference')
const bases = Array.from({ length: 32 }, (_, seed) => apiProgram(seed))

/** The functions and methods that a mutant may call instead of another. */
const names = [
  ...Object.entries(s).flatMap(([name, value]) => (typeof value === 'function' ? [name] : [])),
  ...Object.getOwnPropertyNames(s.Tensor.prototype).filter((name) => /^[a-z]\w*$/.test(name)),
].filter((name) => !['setDevice', 'onWarning', 'constructor'].includes(name))

/** What may run: less than it takes to notice. */
const mostBytes = 1 << 24

const isOurs = (error: Error): boolean => {
  const frame = (error.stack ?? '').split('\n').find((line) => /^\s+at /.test(line)) ?? ''
  return /[/\\]src[/\\]/.test(frame)
}

function faultOf(error: unknown): string | undefined {
  if (error instanceof UserError) return undefined
  if (!(error instanceof Error)) return undefined
  const code = 'code' in error ? String(error.code) : error.name
  if (code !== 'E_INTERNAL' && !isOurs(error)) return undefined
  return `${code} ${(error.stack ?? '').replaceAll('\n', ' | ').slice(0, 700)}`
}

async function run(seed: number): Promise<void> {
  const rng = makeRng(seed)
  const p = rng.pick(bases)
  const text = mutate(p.text, rng, names)
  const mode = rng.pick(['fast', 'strict'] as const)
  s.setDevice(rng.chance(0.8) ? 'wasm' : 'reference', {})
  try {
    const values = new Map(p.inputs.map((input) => [input.name, evaluate(input.text, []) as s.Tensor]))
    const f = evaluate(
      text,
      [...values].filter(([name]) => !p.params.includes(name)),
    ) as (...args: s.Tensor[]) => unknown
    const args = p.params.map((name) => values.get(name) ?? s.zeros([]))
    const jitted = s.jit(f as (...args: s.Tensor[]) => s.Tensor[], { mode, donate: p.donate })
    const { memory } = jitted.explain(...args)
    // Loops of other bounds run for as long as they say.
    if (memory.peakBytes > mostBytes || /whileLoop|foriLoop/.test(text)) return
    const leaves = s.tree.leaves(jitted(...args))
    for (const leaf of leaves) if (leaf instanceof s.Tensor) await leaf.data()
  } catch (error) {
    const fault = faultOf(error)
    if (fault !== undefined) say(`${seed} ${fault}`)
  }
}

s.onWarning(null)
process.on('unhandledRejection', () => {})
for (let seed = Number(from); seed < Number(to); seed++) {
  say(String(seed))
  await run(seed)
}
process.exit(0)
