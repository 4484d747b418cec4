/** Seeded random programs through the public interface, as source text: what a seed's program is, and how it is called. */
import { type DType, isFloat } from '../../../src/types/dtype.ts'
import { makeRng, type Rng } from '../rng.ts'
import { nestedSteps } from './nested.ts'
import { structureSteps } from './structure.ts'
import { valueSteps } from './values.ts'
import { type Input, prelude, Writer } from './writer.ts'

export interface ApiProgram {
  readonly seed: number
  /** Every input; those that are no parameters are closed over. */
  readonly inputs: readonly Input[]
  readonly params: readonly string[]
  /** The function, whose result is a list of tensors. */
  readonly text: string
  /** Positions of parameters that are donated. */
  readonly donate: readonly number[]
  /** For each result the greatest rounding error of one of the values that it is computed from. */
  readonly noise: readonly number[]
  /** Which result a parameter is in the next call. */
  readonly next: ReadonlyMap<number, number>
}

export interface ProgramOptions {
  /** Dtypes of floats; the default has all. */
  readonly floats?: readonly DType[]
  readonly integers?: readonly DType[]
  readonly statements?: number
}

/** Most programs have no half precision, so that most bounds are tight. */
const allFloats: readonly (readonly DType[])[] = [
  ['f32'],
  ['f32', 'f32', 'f64'],
  ['f32', 'f64', 'f16', 'bf16'],
  ['f32', 'f32', 'f16'],
  ['f32', 'f32', 'bf16'],
]
const allIntegers: readonly DType[] = ['bool', 'i32', 'i32', 'i64', 'i8', 'i16', 'u8', 'u16', 'u32', 'u64']

/** Extents of a first input: small ones, and rows of odd lengths. */
function extents(rng: Rng, long: boolean): number[] {
  if (long) return rng.pick([[70_001], [2, 35_003], [70_001]])
  return rng.pick([
    [],
    [1],
    [3],
    [33],
    [300],
    [2, 3],
    [3, 33],
    [1, 300],
    [5, 7],
    [17, 9],
    [2, 3, 5],
    [4, 1, 6],
    [2, 5, 3, 4],
    [0],
    [3, 0],
  ])
}

/** The program of a seed. */
export function apiProgram(seed: number, options: ProgramOptions = {}): ApiProgram {
  const rng = makeRng(seed)
  const { floats = rng.pick(allFloats), integers = allIntegers } = options
  const long = rng.chance(0.02)
  const w = new Writer(rng, { maxElements: long ? 150_000 : 900, floats, integers, special: rng.chance(0.12) })
  w.use([...valueSteps, ...structureSteps, ...nestedSteps])
  for (let i = rng.int(1, 3); i > 0; i--)
    w.input(extents(rng, long && i === 1), rng.pick(rng.chance(0.8) ? floats : integers))
  w.write(w.root, options.statements ?? rng.int(3, long ? 4 : 9))
  return program(w, seed)
}

function program(w: Writer, seed: number): ApiProgram {
  const { rng, root } = w
  const params = w.inputs.filter(() => rng.chance(0.8)).map((i) => i.name)
  const made = root.vars.filter((v) => !w.inputs.some((i) => i.name === v.name))
  const results = [...made.slice(-rng.int(2, 5))]
  if (made.length > 0 && rng.chance(0.3)) results.push(rng.pick(made))
  if (rng.chance(0.15) || results.length === 0) results.push(rng.pick(root.vars))
  const donate = params.flatMap((_, i) => (rng.chance(0.35) ? [i] : []))
  const next = new Map<number, number>()
  params.forEach((name, i) => {
    const like = root.vars.find((v) => v.name === name)
    const from = results.findIndex(
      (r) => r !== like && r.value.dtype === like?.value.dtype && r.value.shape.join() === like.value.shape.join(),
    )
    if (like !== undefined && isFloat(like.value.dtype) && !like.exact && from >= 0 && rng.chance(0.6))
      next.set(i, from)
  })
  const text = w.functionText(root, params.join(', '), `[${results.map((v) => v.name).join(', ')}]`)
  return { seed, inputs: w.inputs, params, text, donate, next, noise: results.map((v) => v.noise) }
}

/** A program as a module that runs it. */
export function moduleText(p: ApiProgram, mode: 'fast' | 'strict', device = 'wasm'): string {
  return `import * as s from './src/index.ts'
${prelude}
s.setDevice('${device}')
${p.inputs.map((i) => `const ${i.name} = ${i.text}`).join('\n')}
const f = ${p.text}
// next call: ${JSON.stringify([...p.next].map(([param, result]) => `${p.params[param]} = result ${result}`))}
const jitted = s.jit(f, { mode: '${mode}', donate: ${JSON.stringify(p.donate)} })
for (const t of jitted(${p.params.join(', ')})) console.log(String(t))`
}
