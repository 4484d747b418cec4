/** Products with odd functions in both dialects: where the sign's work is left out, and what comes out. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import { withOrigin } from '../../../src/diagnostics/origin.ts'
import { param, withContext } from '../../../src/graph/build.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import type { Kernel, NumericsMode } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { coarseError } from '../../../src/scalar/bounds.ts'
import { evalScalar } from '../../../src/scalar/eval.ts'
import { bf16ToNumber, f16ToNumber, numberToBf16, numberToF16 } from '../../../src/scalar/half.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'
import { vjpGraph } from '../../../src/transforms/index.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { some } from '../../support/nightly.ts'
import { inBothDialects } from '../dialects/dialects.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

type Half = 'f16' | 'bf16'
type Float = Half | 'f32'

const n = 4099
const special = [
  Number.NaN,
  Number.POSITIVE_INFINITY,
  Number.NEGATIVE_INFINITY,
  0,
  -0,
  1e-40,
  -1e-30,
  1e-6,
  1e5,
  -1e5,
  1e30,
  -1e30,
  3e38,
  -3e38,
]

const toNumber = { f16: f16ToNumber, bf16: bf16ToNumber, f32: (x: number): number => x } as const
const numbersOf = (dtype: Float, of: HostArray | undefined): number[] =>
  [...(of ?? [])].map((b) => toNumber[dtype](Number(b)))

/** Operands around zero, to where erf has reached its limit, and far out. */
function operands(dtype: Float): Float32Array | Uint16Array {
  const x = Float32Array.from({ length: n }, (_, i) =>
    i % 8 === 7 ? (i % 16 === 7 ? 1 : -1) * 2 ** ((i - n / 2) / 20) : (i - n / 2) / 300,
  )
  x.set(special, 4000)
  return dtype === 'f32' ? x : Uint16Array.from(x, dtype === 'f16' ? numberToF16 : numberToBf16)
}

const erf = (x: number): number => Number(evalScalar('erf', 'f64', 'f64', [x]))

interface Product {
  readonly name: string
  /** u and v by x. */
  readonly u: number
  readonly v: number
  /** sign f(u) + constant. */
  readonly sign: 1 | -1
  readonly constant: 1 | -1
  readonly from?: Float
  readonly to?: Half
  readonly divides?: boolean
}

/** v x (sign erf(u x) + constant), as a kernel's text. */
function kernelOf({ u, v, sign, constant, from = 'f32', to = 'bf16', divides = false }: Product): Kernel {
  const sum = sign === -1 ? 'sub %5, %4' : constant === 1 ? 'add %4, %5' : 'sub %4, %5'
  return parseKernel(`kernel product {
  param x: ${from}[${n}] read
  param y: ${to}[${n}] write
  axes i: ${n}
  grid i/512
  %0 ${from}{i} = load x[i]
  %1 f32{i} = cast %0
  %2 f32 = const ${divides ? 1 / u : u}
  %3 f32{i} = ${divides ? 'div' : 'mul'} %1, %2
  %4 f32{i} = erf %3
  %5 f32 = const ${sign === -1 ? constant : 1}
  %6 f32{i} = ${sum}
  %7 f32 = const ${v}
  %8 f32{i} = ${v === 1 ? 'add' : 'mul'} %1, %7
  %9 f32{i} = mul ${v === 1 ? '%1' : '%8'}, %6
  %10 ${to}{i} = cast %9
  store y[i] = %10
}`)
}

const half = { u: Math.fround(Math.SQRT1_2), v: 0.5 }
const products: readonly Product[] = [
  { name: 'GELU', ...half, sign: 1, constant: 1 },
  { name: 'GELU from bf16', ...half, sign: 1, constant: 1, from: 'bf16' },
  { name: 'GELU in f16', ...half, sign: 1, constant: 1, from: 'f16', to: 'f16' },
  { name: 'of the value itself', u: 1, v: 1, sign: 1, constant: 1 },
  { name: 'of a quotient', ...half, sign: 1, constant: 1, divides: true },
  { name: 'less 1', ...half, sign: 1, constant: -1 },
  { name: 'with erfc', ...half, sign: -1, constant: 1 },
  { name: 'with -1 - erf', ...half, sign: -1, constant: -1, to: 'f16' },
  { name: 'with a negative operand', u: -3, v: 0.5, sign: 1, constant: 1 },
  { name: 'with a negative factor', u: 0.25, v: -2, sign: 1, constant: 1 },
  { name: 'with both negative', u: -100, v: -0.125, sign: -1, constant: -1 },
]

const limits = {
  f16: { greatest: 65520, unit: 2 ** -11, least: 2 ** -24 },
  bf16: { greatest: 3.39e38, unit: 2 ** -8, least: 2 ** -126 },
}

function check(p: Product, x: readonly number[], y: readonly number[], dialect: 'wgsl' | 'cuda'): void {
  const { greatest, unit, least } = limits[p.to ?? 'bf16']
  x.forEach((a, i) => {
    const got = y[i] ?? Number.NaN
    const v = Math.fround(p.v * a)
    const sum = p.sign * erf(p.u * a) + p.constant
    const want = v * sum
    const at = `${p.name} of ${a}`
    if (Number.isNaN(want)) expect(got, at).toBeNaN()
    else if (Math.abs(want) >= greatest)
      expect(got, at).toBe(want > 0 ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY)
    else {
      expect(Math.abs(got - want), at).toBeLessThanOrEqual(
        Math.abs(v) * (coarseError + 2 ** -22) + unit * Math.abs(want) + least,
      )
      // WGSL leaves what becomes of subnormal numbers open, and of a zero's sign with them.
      if (a === 0 && dialect === 'cuda') expect(Object.is(got, want), at).toBe(true)
      if (Math.abs(p.u * a) > 6 && sum === 0) expect(Math.abs(got), at).toBe(0)
    }
  })
}

const sources = (k: Kernel): string[] => [emitKernel(k, cudaSimt).source, emitKernel(k, webgpuSimt).source]
const signWork = /copysign|0x80000000/
const withoutSigns = (k: Kernel): boolean[] =>
  sources(k).map((s) => /= f32_erf_rest_unguarded\(f?abs/.test(s) && /= fmaf?\(-/.test(s) && !signWork.test(s))
const withSigns = (k: Kernel): boolean[] =>
  sources(k).map((s) => /= f32_erf_(unguarded|coarse)\(/.test(s) && signWork.test(s))

// What they compute by day of every third.
describe.each(products)('$name', (p) => {
  const kernel = kernelOf(p)
  test('has no sign work but in strict mode', () => {
    expect(withoutSigns(kernel)).toEqual([true, true])
    for (const s of sources({ ...kernel, mode: 'strict' })) expect(s).not.toMatch(/erf_rest|= fmaf?\(-/)
  })

  if (some(products, 3).includes(p))
    inBothDialects(
      '',
      kernel,
      () => ({ x: operands(p.from ?? 'f32'), y: new Uint16Array(n) }),
      (b, dialect) => check(p, numbersOf(p.from ?? 'f32', b.x), numbersOf(p.to ?? 'bf16', b.y), dialect),
    )
})

/** 2^16 (x (erf(x) + 1) - want) in half precision. */
const difference = parseKernel(`kernel difference {
  param x: f32[${n}] read
  param want: f32[${n}] read
  param y: bf16[${n}] write
  axes i: ${n}
  grid i/512
  %0 f32{i} = load x[i]
  %1 f32{i} = erf %0
  %2 f32 = const 1
  %3 f32{i} = add %1, %2
  %4 f32{i} = mul %0, %3
  %5 f32{i} = load want[i]
  %6 f32{i} = sub %4, %5
  %7 f32 = const 65536
  %8 f32{i} = mul %6, %7
  %9 bf16{i} = cast %8
  store y[i] = %9
}`)

describe('the error before rounding', () => {
  test('is that of the form without signs', () => expect(withoutSigns(difference)).toEqual([true, true]))
  inBothDialects(
    '',
    difference,
    () => {
      const x = Float32Array.from({ length: n }, (_, i) => (i - n / 2) / 300)
      return { x, want: x.map((v) => v * (erf(v) + 1)), y: new Uint16Array(n) }
    },
    ({ x, y }) => {
      numbersOf('bf16', y).forEach((error, i) => {
        const v = Math.abs(x[i] ?? 0)
        expect(Math.abs(error) / 65536, `at ${x[i]}`).toBeLessThanOrEqual(v * (coarseError + 2 ** -22))
      })
    },
  )
})

const usesOf = (body: string, mode: NumericsMode = 'fast'): Kernel => ({
  ...parseKernel(`kernel uses {
  param x: f32[${n}] read
  param w: f32[${n}] read
  param y: bf16[${n}] write
  param z: bf16[${n}] write
  param exact: f32[${n}] write
  axes i: ${n}
  grid i/512
  %0 f32{i} = load x[i]
  %1 f32{i} = load w[i]
  %2 f32 = const 0.5
  %3 f32 = const 1
  %4 f32{i} = mul %0, %2
  %5 f32{i} = erf %4
${body}
}`),
  mode,
})
const stored = (id: number): string => `%20 bf16{i} = cast %${id}\nstore y[i] = %20`

/** Uses of f = erf(x / 2), with what they make of an operand and of f. */
const others: Readonly<Record<string, { body: string; of: (x: number, f: number, w: number) => number }>> = {
  'a second sum': {
    body: `%6 f32{i} = add %5, %3\n%7 f32{i} = sub %5, %3\n%8 f32{i} = mul %0, %6\n%9 f32{i} = mul %8, %7\n${stored(9)}`,
    of: (x, f) => x * (f + 1) * (f - 1),
  },
  'a second product': {
    body: `%6 f32{i} = add %5, %3\n%7 f32{i} = mul %0, %6\n%8 f32{i} = mul %7, %6\n${stored(8)}`,
    of: (x, f) => x * (f + 1) * (f + 1),
  },
  'a sum that is stored too': {
    body: `%6 f32{i} = add %5, %3\n%7 bf16{i} = cast %6\nstore z[i] = %7\n%8 f32{i} = mul %0, %6\n${stored(8)}`,
    of: (x, f) => x * (f + 1),
  },
  'another factor': {
    body: `%6 f32{i} = add %5, %3\n%7 f32{i} = mul %1, %6\n${stored(7)}`,
    of: (_, f, w) => w * (f + 1),
  },
  'a square': {
    body: `%6 f32{i} = add %5, %3\n%7 f32{i} = mul %0, %0\n%8 f32{i} = mul %7, %6\n${stored(8)}`,
    of: (x, f) => Math.fround(x * x) * (f + 1),
  },
  'a quotient': {
    body: `%6 f32{i} = sub %5, %3\n%7 f32{i} = div %6, %0\n${stored(7)}`,
    of: (x, f) => (f - 1) / x,
  },
  'a factor that overflows soon': {
    body: `%6 f32{i} = add %5, %3\n%7 f32 = const 1e20\n%8 f32{i} = mul %0, %7\n%9 f32{i} = mul %8, %6\n${stored(9)}`,
    of: (x, f) => Math.fround(x * 1e20) * (f + 1),
  },
  'another constant': {
    body: `%6 f32 = const 2\n%7 f32{i} = add %5, %6\n%8 f32{i} = mul %0, %7\n${stored(8)}`,
    of: (x, f) => x * (f + 2),
  },
}

describe.each(Object.entries(others))('%s', (name, { body, of }) => {
  const kernel = usesOf(body)
  test('keeps the sign', () => expect(withSigns(kernel)).toEqual([true, true]))

  if (!some(Object.keys(others), 3).includes(name)) return
  inBothDialects(
    '',
    kernel,
    () => {
      const x = Float32Array.from(operands('f32'), (v) => (Math.abs(v) > 1e5 || Math.abs(v) < 1e-5 ? 3 : v))
      return {
        x,
        w: x.map((v) => v - 1),
        y: new Uint16Array(n),
        z: new Uint16Array(n),
        exact: new Float32Array(n),
      }
    },
    ({ x, w, y }) => {
      numbersOf('bf16', y).forEach((got, i) => {
        const [a, b] = [x[i] ?? 0, w[i] ?? 0]
        const f = erf(a / 2)
        const want = of(a, f, b)
        // The slope in f.
        const slope = Math.abs(of(a, f + 1e-3, b) - want) / 1e-3 + 1e-3 * Math.abs(of(a, 0.5, b))
        if (Number.isNaN(want)) expect(got, `${name} of ${a}`).toBeNaN()
        else
          expect(Math.abs(got - want), `${name} of ${a}`).toBeLessThanOrEqual(
            slope * 1.01 * (coarseError + 2 ** -22) + 2 ** -8 * Math.abs(want) + 2 ** -126,
          )
      })
    },
  )
})

test('where the function is not coarse, signs are its own', () => {
  const product = '%6 f32{i} = add %5, %3\n%7 f32{i} = mul %0, %6\n'
  expect(withoutSigns(usesOf(`${product}${stored(7)}`))).toEqual([true, true])
  for (const k of [usesOf(`${product}store exact[i] = %7`), usesOf(`${product}${stored(7)}`, 'strict')])
    for (const s of sources(k)) expect(s).toMatch(/= (f32_erf|erff)\(/)
})

test('a product in a loop over what stands before it', () => {
  const kernel = parseKernel(`kernel inside {
  param x: f32[64] read
  param w: f32[8] read
  param y: f16[64, 8] write
  axes i: 64, c: 8
  grid i/64
  %0 f32 = const 0.5
  %1 f32 = const 1
  %2 f32{i} = load x[i]
  %3 f32{i} = mul %2, %0
  %4 f32{i} = erf %3
  %5 f32{i} = add %4, %1
  loop c/4 {
    %6 f32{i} = mul %3, %5
    %7 f32{c} = load w[c]
    %8 f32{i, c} = mul %6, %7
    %9 f16{i, c} = cast %8
    store y[i, c] = %9
  }
}`)
  expect(withoutSigns(kernel)).toEqual([true, true])
})

const trace = (from: Float, build: (x: Node) => Node): Graph =>
  withOrigin('product', undefined, () =>
    withContext(() => {
      const x = param(0, [7, 133], from)
      return { params: [x], outputs: [build(x)], effects: [] }
    }),
  )
const inOrder = (x: Node): Node => c.mul(c.mul(x, c.add(c.unary('erf', c.div(x, Math.SQRT2)), 1)), 0.5)
const kernelsOf = (graph: Graph, mode: NumericsMode = 'fast') => {
  const { program } = compileGraph(graph, { mode, target: cudaTarget })
  return { program, kernels: program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : [])) }
}

describe('GELU of graphs', () => {
  const gelu = trace('bf16', (x) => c.gelu(x))
  test('in half precision has no sign work; in f32, and by tanh, all as before', () => {
    const has = (g: Graph): boolean[] => kernelsOf(g).kernels.flatMap(withoutSigns)
    expect(has(gelu)).toEqual([true, true])
    expect(has(trace('f16', (x) => c.gelu(x)))).toEqual([true, true])
    expect(has(trace('f32', (x) => c.cast(inOrder(x), 'bf16')))).toEqual([true, true])
    expect(has(trace('f32', (x) => c.gelu(x)))).toEqual([false, false])
    expect(has(trace('bf16', (x) => c.gelu(x, 'tanh')))).toEqual([false, false])
  })

  test('a gradient keeps the sign, which its sum needs', () => {
    const { kernels } = kernelsOf(vjpGraph(gelu, [0]))
    expect(kernels.flatMap(withSigns)).toEqual([true, true])
    expect(kernels.flatMap(withoutSigns)).toEqual([false, false])
  })

  test.skipIf(!hasCompiler())('in CUDA on the host (skipped where g++ is missing)', async () => {
    for (const from of ['bf16', 'f16'] as const) {
      const { program, kernels } = kernelsOf(trace(from, (x) => c.gelu(x)))
      const emulated = new Emulated(kernels)
      const bits = operands(from).slice(3500, 3500 + 7 * 133)
      const [got] = await execute(program, [bits], (k, b) => emulated.run(kernels.indexOf(k), b))
      emulated.dispose()
      const product: Product = { name: 'GELU', ...half, sign: 1, constant: 1, to: from }
      check(product, numbersOf(from, bits), numbersOf(from, got), 'cuda')
    }
  })
})
