/** Kernels of one code are emitted once: equal text, and equal answers to what emission asks about memory. */
import { describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { mathImports } from '../../src/codegen/vector/value/lanes.ts'
import { compileModule } from '../../src/codegen/wasm/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { storedFirst as twice } from '../support/storedFirst.ts'

interface Job {
  readonly kernel: Kernel
  readonly mayAlias?: (i: number, j: number) => boolean
}

/** For each job, the number of the first that has the same function. */
function firstsOf(jobs: readonly Job[]): number[] {
  const { bytes, functions } = compileModule(
    jobs.map(({ kernel, mayAlias = () => false }, i) => ({ kernel, name: `k${i}`, mayAlias })),
    { machine: wasmTarget, relaxed: false, memory: { min: 1, max: 16, shared: false } },
  )
  expect(functions).toHaveLength(jobs.length)
  const memory = new WebAssembly.Memory({ initial: 1, maximum: 16 })
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory }, math: mathImports })
  const made = jobs.map((_, i) => exports[`k${i}`])
  return made.map((f) => made.indexOf(f))
}

const shifted = (name: string, by: string): Kernel =>
  parseKernel(`kernel ${name} {\n param x: f32[8] read\n param y: f32[8] write\n axes i: 8\n grid i/8
 %0 f32{i} = load x[i]\n %1 f32 = const ${by}\n %2 f32{i} = mul %0, %1\n store y[i] = %2\n}`)

describe('functions of a module', () => {
  test('kernels that differ in their name alone have one', () => {
    const kernels = [shifted('a', '2'), shifted('b', '3'), shifted('c', '2'), shifted('d', '3')]
    expect(firstsOf(kernels.map((kernel) => ({ kernel })))).toEqual([0, 1, 0, 1])
  })

  test('signs of zero and modes keep kernels apart', () => {
    const [plus, minus] = [shifted('a', '0'), shifted('b', '-0')]
    const strict: Kernel = { ...plus, mode: 'strict' }
    expect(firstsOf([plus, minus, strict].map((kernel) => ({ kernel })))).toEqual([0, 1, 2])
  })

  test('memory that may be shared keeps kernels apart where scheduling asks', () => {
    const apart = { kernel: twice }
    const xInY = { kernel: twice, mayAlias: (i: number, j: number) => i !== j && i + j === 1 }
    expect(firstsOf([apart, xInY, apart, xInY])).toEqual([0, 1, 0, 1])
  })
})

/** `n` layers of a perceptron, each with a weight of its own. */
const layers = (n: number): Graph =>
  withContext(() => {
    const x = param(0, [16, 64], 'f32')
    const weights = Array.from({ length: n }, (_, i) => param(i + 1, [64, 64], 'f32'))
    const y = weights.reduce<Node>((y, w) => c.relu(c.matmul(c.softmax(y), w)), x)
    return { params: [x, ...weights], outputs: [y], effects: [] }
  })

test('layers that are alike share their code, and run', () => {
  const countOf = (n: number): { kernels: number; functions: number } => {
    const { program } = compileGraph(layers(n), { mode: 'fast', target: wasmTarget })
    const jobs = kernelsOf(program).map(({ step }) => ({ kernel: step.kernel }))
    return { kernels: jobs.length, functions: new Set(firstsOf(jobs)).size }
  }
  const [few, many] = [countOf(8), countOf(48)]
  expect(many.kernels).toBeGreaterThanOrEqual(5 * few.kernels)
  expect(many.functions).toBe(few.functions)

  const backend = createWasmBackend({ threads: 1 })
  const executable = backend.prepare(compileGraph(layers(6), { mode: 'fast', target: wasmTarget }).program)
  const upload = (n: number, at: (i: number) => number) => {
    const buffer = backend.alloc(4 * n)
    backend.write(
      buffer,
      Float32Array.from({ length: n }, (_, i) => at(i)),
    )
    return buffer
  }
  // Each weight is the identity times its number: a layer's rows sum to it.
  const weights = Array.from({ length: 6 }, (_, w) => upload(64 * 64, (i) => (i % 65 === 0 ? w + 1 : 0)))
  const [y] = executable.run([upload(16 * 64, () => 1), ...weights])
  if (y === undefined) throw new Error('no result')
  const sums = Array.from(backend.readSync(y, 'f32', 64), Number).reduce((a, b) => a + b, 0)
  expect(sums).toBeCloseTo(6, 4)
  backend.dispose()
})
