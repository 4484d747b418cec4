/** The random programs: the program of a seed, as text, and as a function. */
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import type { Graph } from '../../src/graph/node.ts'
import * as s from '../../src/index.ts'
import { type DType, isFloat } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { makeRng, type Rng } from '../../test/random/rng.ts'
import { type InputData, inputText, prelude } from './data.ts'
import { hasty } from './hasty.ts'
import { gather, layout, scatter } from './moves.ts'
import { attention, fewRows, product } from './products.ts'
import { elementwise, normalise, reduction, scan } from './rows.ts'
import { window } from './windows.ts'
import { type Var, type Writer, writing } from './writer.ts'

type Recipe = (w: Writer) => Var[]

/** Recipes with their weights. Derivatives are of the others. */
const recipes = {
  elementwise: [14, elementwise],
  reduction: [13, reduction],
  normalisation: [13, normalise],
  scan: [6, scan],
  'few rows': [8, fewRows],
  product: [11, product],
  attention: [5, attention],
  window: [10, window],
  gather: [5, gather],
  scatter: [3, scatter],
  layout: [8, layout],
} as const satisfies Readonly<Record<string, readonly [number, Recipe]>>

const differentiated: readonly (keyof typeof recipes)[] = [
  'elementwise',
  'reduction',
  'normalisation',
  'normalisation',
  'few rows',
  'product',
  'attention',
  'window',
  'window',
  'gather',
  'layout',
  'scan',
]
const derivativeWeight = 14

export type ProgramClass = keyof typeof recipes | 'derivative'
export const programClasses: readonly ProgramClass[] = [
  ...(Object.keys(recipes) as (keyof typeof recipes)[]),
  'derivative',
]

export interface CliffProgram {
  readonly seed: number
  readonly kind: ProgramClass
  readonly inputs: readonly InputData[]
  /** The function's source: parameters by the names of the inputs, the result a list of tensors. */
  readonly source: string
}

export interface ProgramOptions {
  /** Bytes of the largest tensor (64 MB unless given); smaller for tests. */
  readonly mostBytes?: number
  /** Seconds that a simple machine may take operation by operation. */
  readonly mostSeconds?: number
}

const dtypeMixes: readonly (readonly DType[])[] = [
  ['f32'],
  ['f32'],
  ['f32'],
  ['f32'],
  ['bf16'],
  ['f16'],
  ['f32', 'bf16'],
  ['f32', 'f16'],
]

function kindOf(rng: Rng): ProgramClass {
  const weights = [
    ...Object.entries(recipes).map(([k, [weight]]) => [k, weight] as const),
    ['derivative', derivativeWeight] as const,
  ]
  let left = rng.unit() * weights.reduce((sum, [, weight]) => sum + weight, 0)
  for (const [k, weight] of weights) {
    left -= weight
    if (left < 0) return k as ProgramClass
  }
  return 'elementwise'
}

/** Gradients of a weighted sum of a recipe's float results, in its float inputs. */
function derivative(w: Writer): Var[] {
  const [, recipe] = recipes[w.rng.pick(differentiated)]
  const withValue = w.rng.chance(0.4)
  const weighted = w.rng.chance(0.5)
  const { lines, result } = w.inside(() => {
    const y = recipe(w).find((v) => isFloat(v.t.dtype))
    if (y === undefined) return undefined
    // So scaled, gradients of elements and sums of them are within half precision.
    const scale = (1 / Math.sqrt(Math.max(1, sizeOf(y.t.shape)))).toPrecision(3)
    const sum = (text: string): Var => w.emit(`${y.name}.astype('f32').${text}.sum().mul(${scale})`, -1e9, 1e9)
    if (!weighted) return sum('square()')
    // An adjoint that arrives from elsewhere.
    const ct = w.parameter(y.t.shape, 'f32', -0.5, 1)
    return sum(`mul(${ct.name})`)
  })
  const names = w.inputs.map((x) => x.name).join(', ')
  const floats = w.inputs.flatMap((x, i) => (isFloat(x.dtype) ? [i] : []))
  const wanted = (weighted ? floats.slice(0, -1) : floats).slice(0, 4)
  if (result === undefined || wanted.length === 0) {
    w.lines.push(...lines)
    return elementwise(w)
  }
  const f = `(${names}) => {\n    ${lines.join('\n    ')}\n    return ${result.name}\n  }`
  const options = `{ argnums: [${wanted.join(', ')}] }`
  if (!withValue) return w.emitList(`s.grad(${f}, ${options})(${names})`, wanted.length, [-1e9, 1e9])
  const all = `(([value, grads]) => [value, ...grads])(s.valueAndGrad(${f}, ${options})(${names}))`
  return w.emitList(all, wanted.length + 1, [-1e9, 1e9])
}

/** One try at the program of a seed with tensors of so many elements. */
function written(seed: number, most: number): CliffProgram {
  const rng = makeRng(seed)
  const kind = kindOf(rng)
  const floats = rng.pick(dtypeMixes)
  return writing(rng, { most, floats }, (w) => {
    const results = kind === 'derivative' ? derivative(w) : recipes[kind][1](w)
    const isInput = (v: Var): boolean => w.inputs.some((x) => x.name === v.name)
    const made = results.map((v) => (isInput(v) ? w.emit(`${v.name}.add(${v.name})`, 2 * v.lo, 2 * v.hi) : v))
    const list = [...new Set(made.map((v) => v.name))].join(', ')
    const source = `(${w.inputs.map((x) => x.name).join(', ')}) => {\n  ${w.lines.join('\n  ')}\n  return [${list}]\n}`
    return { seed, kind, inputs: w.inputs, source }
  })
}

/** The program of a seed: the largest that keeps to the limits, of those that start with the same draws. */
export function programOf(
  seed: number,
  { mostBytes = 64 << 20, mostSeconds = 0.3 }: ProgramOptions = {},
): CliffProgram {
  for (let most = mostBytes / 4; ; most /= 4) {
    const p = written(seed, Math.max(1, Math.floor(most)))
    const bytes = p.inputs.reduce((n, x) => n + 4 * sizeOf(x.shape), 0)
    if (most <= 64 || (bytes <= 4 * mostBytes && hasty(graphOf(p)) <= mostSeconds)) return p
  }
}

/** A program as a function of tensors. */
export const functionOf = (p: CliffProgram): ((...inputs: s.Tensor[]) => s.Tensor[]) =>
  new Function('s', `return (${p.source})`)(s) as (...inputs: s.Tensor[]) => s.Tensor[]

/** Its graph, as it is traced. */
export const graphOf = (p: CliffProgram): Graph =>
  traceFunction(
    functionOf(p) as (...args: never[]) => unknown,
    p.inputs.map((x) => s.spec(x.shape, x.dtype)),
  ).graph

/** A module that runs the program and prints its report. */
export const textOf = (p: CliffProgram): string => `// seed ${p.seed}: ${p.kind}
import * as s from 'sinter'
${prelude}
${p.inputs.map((x, i) => `const ${x.name} = ${inputText(x, i + 1)}`).join('\n')}
const f = s.jit(${p.source})
for (const y of f(${p.inputs.map((x) => x.name).join(', ')})) console.log(String(y))
console.log(String(f.explain(${p.inputs.map((x) => x.name).join(', ')})))
`
