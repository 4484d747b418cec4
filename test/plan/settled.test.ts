/** What bodies leave out in `fast`: the rounding of results that are widened again, and products with literals one by one. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { Kernel, LetStmt, NumericsMode } from '../../src/kernel/ir.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { interpretProgram } from '../support/interpretProgram.ts'

function trace(shape: readonly number[], dtype: DType, build: (x: Node) => Node[]): Graph {
  return withContext(() => {
    const x = param(0, shape, dtype)
    return { params: [x], outputs: build(x), effects: [] }
  })
}

function kernelsOf(graph: Graph, mode: NumericsMode = 'fast', target: Machine = wasmTarget): Kernel[] {
  const { program } = compileGraph(graph, { mode, target })
  return program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
}

const letsOf = (kernels: readonly Kernel[]): LetStmt[] =>
  kernels.flatMap((k) => k.parts.flatMap((p) => p.body.flatMap((s) => (s.kind === 'let' ? [s] : []))))

/** Roundings to half precision in the kernels, and multiplications. */
const count = (kernels: readonly Kernel[], op: string, dtype: DType): number =>
  letsOf(kernels).filter((l) => l.op.kind === 'scalar' && l.op.op === op && l.dtype === dtype).length

describe('results of functions that compute in f32', () => {
  const twice = trace([8, 64], 'bf16', (x) => [c.gelu(c.gelu(x))])

  test('round once, at the end', () => {
    expect(count(kernelsOf(twice), 'cast', 'bf16')).toBe(1)
  })

  test('round each in strict mode', () => {
    expect(count(kernelsOf(twice, 'strict'), 'cast', 'bf16')).toBe(2)
  })

  test('round where another kernel or the user reads them', () => {
    const both = trace([8, 64], 'bf16', (x) => {
      const y = c.gelu(x)
      return [y, c.gelu(y)]
    })
    expect(count(kernelsOf(both), 'cast', 'bf16')).toBe(2)
  })

  test('a cast that the user wrote rounds', () => {
    const own = trace([8, 64], 'f32', (x) => [c.exp(c.cast(c.cast(c.exp(x), 'bf16'), 'f32'))])
    expect(count(kernelsOf(own), 'cast', 'bf16')).toBe(1)
  })
})

describe('literals of products', () => {
  const build = (x: Node): Node[] => {
    const y = c.mul(c.mul(x, 0.5), c.exp(x))
    return [c.mul(c.cast(c.settle(y, 'bf16'), 'f32'), 3)]
  }

  test('meet where rounding between them is left out', () => {
    const graph = trace([5, 33], 'f32', build)
    expect(count(kernelsOf(graph), 'mul', 'f32')).toBe(2)
    expect(count(kernelsOf(graph, 'strict'), 'mul', 'f32')).toBe(3)
  })

  test('give the same values', async () => {
    const graph = trace([5, 33], 'f32', build)
    const x = Float32Array.from({ length: 165 }, (_, i) => (i - 80) / 31)
    const want = evaluateGraph(graph, [x]).map(toHostArray)[0]
    const [got] = interpretProgram(compileGraph(graph, { mode: 'fast', target: wasmTarget }).program, [x])
    const isFar = (w: unknown, i: number): boolean =>
      Math.abs(Number(got?.[i]) - Number(w)) > 2 ** -8 * Math.abs(Number(w))
    expect([...(want ?? [])].filter(isFar)).toEqual([])
  })
})

describe('rows that share an operand', () => {
  const blocks = (graph: Graph, target: Machine): number[] =>
    kernelsOf(graph, 'fast', target).flatMap((k) => k.parts.flatMap((p) => p.grid.map((g) => g.block)))
  const biased = withContext((): Graph => {
    const [x, b] = [param(0, [512, 4096], 'f32'), param(1, [4096], 'f32')]
    return { params: [x, b], outputs: [c.tanh(c.add(x, b))], effects: [] }
  })

  test('go together on a GPU', () => {
    expect(blocks(biased, cudaTarget).sort((a, b) => a - b)).toEqual([2, 1024])
    expect(blocks(biased, wasmTarget).sort((a, b) => a - b)).toEqual([4, 4096])
  })

  test('and not where nothing is shared, or rows are short', () => {
    const plain = trace([512, 4096], 'f32', (x) => [c.tanh(x)])
    expect(blocks(plain, cudaTarget)).toEqual([2048])
  })
})
