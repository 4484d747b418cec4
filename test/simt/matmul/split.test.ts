/** Products of f32 as three of tf32 (`tf32x3`): on matrix units, within their bound, and as `ieee` where operands do not split. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import { contractLabelled } from '../../../src/compose/contract.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { cudaTarget, cudaTargetOf } from '../../../src/target/cuda.ts'
import { at, trace } from '../../compile/support.ts'
import { some } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

/** The bound of docs/numerics.md, of the sum of magnitudes. */
const bound = (k: number): number => 2 ** -20 + 8 * 2 ** -24 * Math.log2(k)

interface Shape {
  readonly m: number
  readonly n: number
  readonly k: number
  readonly order?: 'nn' | 'nt' | 'tn'
}

const labels = { nn: ['ab', 'bc'], nt: ['ab', 'cb'], tn: ['ba', 'bc'] } as const

const productOf = ({ m, n, k, order = 'nn' }: Shape, then: (y: Node) => Node = (y) => y): Graph => {
  const [lhs, rhs] = labels[order]
  const extent: Readonly<Record<string, number>> = { a: m, b: k, c: n }
  const shape = (of: string): number[] => [...of].map((l) => extent[l] ?? 1)
  return trace([{ shape: shape(lhs) }, { shape: shape(rhs) }], (p) =>
    then(contractLabelled(at(p, 0), lhs, at(p, 1), rhs, 'ac')),
  )
}

/** A program on the emulator, one input after another; every product in it is on the matrix unit. */
async function runAll(graph: Graph, given: readonly (readonly Float32Array[])[]): Promise<Float32Array[]> {
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32x3', verify: true })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  expect(kernels.some((k) => emitKernel(k, cudaTarget.simt).source.includes('split_tf32('))).toBe(true)
  const emulated = new Emulated(kernels)
  const out: Float32Array[] = []
  for (const inputs of given) {
    const [y] = await execute(program, [...inputs], (kernel, buffers) => emulated.run(kernels.indexOf(kernel), buffers))
    if (!(y instanceof Float32Array)) throw new Error('no f32')
    out.push(y)
  }
  emulated.dispose()
  return out
}

async function run(graph: Graph, inputs: readonly Float32Array[]): Promise<Float32Array> {
  const [y] = await runAll(graph, [inputs])
  if (y === undefined) throw new Error('no result')
  return y
}

/** Each result in double precision beside the sum of magnitudes. */
function exact(
  { m, n, k, order = 'nn' }: Shape,
  a: Float32Array,
  b: Float32Array,
): { sum: Float64Array; of: Float64Array } {
  const sum = new Float64Array(m * n)
  const of = new Float64Array(m * n)
  for (let i = 0; i < m; i++)
    for (let j = 0; j < n; j++)
      for (let l = 0; l < k; l++) {
        const x = (order === 'tn' ? a[l * m + i] : a[i * k + l]) ?? 0
        const y = (order === 'nt' ? b[j * k + l] : b[l * n + j]) ?? 0
        sum[i * n + j] = (sum[i * n + j] ?? 0) + x * y
        of[i * n + j] = (of[i * n + j] ?? 0) + Math.abs(x * y)
      }
  return { sum, of }
}

let state = 1
const uniform = (): number => {
  state = (Math.imul(state, 1664525) + 1013904223) >>> 0
  return state / 2 ** 32
}
const fill = (n: number, f: () => number): Float32Array => Float32Array.from({ length: n }, f)
const signed = (): number => 2 * uniform() - 1
/** Forty powers of two apart. */
const wide = (): number => signed() * 2 ** Math.floor(40 * uniform() - 20)
/** Operands whose lower terms are the greatest, and of one sign: what is cut adds up. */
const worst = (): number => 1 + 2 ** -11 - 2 ** -23 * Math.floor(8 * uniform())

const sums: readonly (Shape & { readonly draw: () => number; readonly title: string })[] = [
  { title: 'odd extents', m: 70, n: 66, k: 45, draw: signed },
  { title: 'odd extents, transposed weights', m: 33, n: 130, k: 77, order: 'nt', draw: signed },
  { title: 'odd extents, transposed rows', m: 65, n: 50, k: 91, order: 'tn', draw: signed },
  { title: 'whole blocks', m: 128, n: 128, k: 96, draw: wide },
  { title: 'whole blocks, transposed weights', m: 128, n: 64, k: 128, order: 'nt', draw: wide },
  { title: 'whole blocks, transposed rows', m: 64, n: 128, k: 64, order: 'tn', draw: worst },
  { title: 'a long sum of what is cut most', m: 16, n: 64, k: 16384, draw: worst },
  { title: 'a long sum of one sign', m: 16, n: 64, k: 65536, draw: uniform },
]

test.skipIf(!hasCompiler()).each(some(sums, 3))(
  'within the bound: $title',
  { timeout: 120_000 },
  async ({ draw, title: _, ...shape }) => {
    const { m, n, k } = shape
    const [a, b] = [fill(m * k, draw), fill(k * n, draw)]
    const y = await run(productOf(shape), [a, b])
    const { sum, of } = exact(shape, a, b)
    const worstOf = Math.max(...y.map((v, i) => Math.abs(v - (sum[i] ?? 0)) / (of[i] ?? 1)))
    expect(worstOf).toBeLessThan(bound(k))
  },
)

test.skipIf(!hasCompiler())('operands that are computed, and an epilogue', { timeout: 120_000 }, async () => {
  const shape = { m: 70, n: 90, k: 61 }
  const [a, b] = [fill(shape.m * shape.k, signed), fill(shape.k * shape.n, signed)]
  const graph = trace([{ shape: [shape.m, shape.k] }, { shape: [shape.k, shape.n] }], (p) =>
    c.neg(contractLabelled(c.exp(at(p, 0)), 'ab', c.neg(at(p, 1)), 'bc', 'ac')),
  )
  const y = await run(graph, [a, b])
  const { sum, of } = exact(shape, a.map(Math.exp), b)
  for (const [i, v] of y.entries()) expect(Math.abs(v - (sum[i] ?? 0))).toBeLessThan(bound(shape.k) * (of[i] ?? 0))
})

const greatest = 3.4028234663852886e38

/** What a sum in f32 gives: no number, an infinity, or the sum within the bound (and 2^-149 a term). */
function expectAsIeee(y: Float32Array, shape: Shape, a: Float32Array, b: Float32Array): void {
  const { sum, of } = exact(shape, a, b)
  for (const [i, got] of y.entries()) {
    const [want, magnitudes] = [sum[i] ?? 0, of[i] ?? 0]
    if (Number.isNaN(want)) expect(got).toBeNaN()
    else if (Math.abs(want) === Number.POSITIVE_INFINITY) expect(got).toBe(want)
    // Others may pass beyond the range on the way, in f32 too.
    else if (magnitudes <= greatest)
      expect(Math.abs(got - want)).toBeLessThanOrEqual(bound(shape.k) * magnitudes + shape.k * 2 ** -149)
  }
}

const odd = [
  { title: 'infinities', values: [Number.POSITIVE_INFINITY, Number.NEGATIVE_INFINITY] },
  { title: 'no numbers', values: [Number.NaN] },
  { title: 'the greatest numbers', values: [greatest, -greatest, 2 ** 127, 2 ** 115] },
  { title: 'subnormal and tiny numbers', values: [2 ** -149, -3e-39, 1.1e-38, 2 ** -101 + 2 ** -124, -(2 ** -110)] },
  { title: 'zeros', values: [0, -0] },
]
test.skipIf(!hasCompiler()).each(some(odd, 2))('as in f32: $title', { timeout: 120_000 }, async ({ values }) => {
  const shape = { m: 32, n: 64, k: 70 }
  const given = [1, 2 ** 100].map((scale) => {
    const [a, b] = [fill(shape.m * shape.k, signed), fill(shape.k * shape.n, () => scale * signed())]
    values.forEach((v, i) => {
      a[i * (shape.k + 1)] = v
      a[20 * shape.k + 7 * i] = v
      if (scale === 1) b[i * (shape.n + 3)] = v
    })
    return [a, b] as const
  })
  const results = await runAll(productOf(shape), given)
  given.forEach(([a, b], i) => {
    expectAsIeee(results[i] ?? new Float32Array(), shape, a, b)
  })
})

const hopper = cudaTargetOf({ capability: 90, multiprocessors: 132, sharedBytes: 232448, hasLibrary: false })
// Operands that are computed stay in the product.
const { fillSeconds: _, ...dotBlock } = hopper.dotBlock
const filling = { ...hopper, dotBlock }

test.each([
  { title: 'more programs than multiprocessors', m: 200, n: 1000, slots: 2 },
  { title: 'a program a multiprocessor', m: 1024, n: 77, slots: 3 },
])('rows that are computed leave room for a second block: $title', ({ m, n, slots }) => {
  const k = 4096
  const graph = trace([{ shape: [m, k] }, { shape: [m, k] }, { shape: [n, k] }], (p) =>
    contractLabelled(c.mul(at(p, 0), c.exp(at(p, 1))), 'ab', at(p, 2), 'cb', 'ac'),
  )
  const { program } = compileGraph(graph, { mode: 'fast', target: filling, precision: 'tf32x3', verify: true })
  const sources = program.steps.flatMap((s) => (s.kind === 'kernel' ? [emitKernel(s.kernel, hopper.simt)] : []))
  const product = sources.find((s) => s.source.includes('multiply_'))
  expect(product?.source).toContain(`copy_wait_${slots - 2}()`)
  expect(2 * ((product?.sharedBytes ?? 0) + 1024) <= 228 * 1024).toBe(slots === 2)
})
