/** Products of dequantised weights: the scale leaves the sum where the weights are integers of few bits, and only there. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import type { Stmt } from '../../src/kernel/ir.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, check, type Input, trace } from '../compile/support.ts'

const all = (body: readonly Stmt[]): Stmt[] => body.flatMap((s) => (s.kind === 'loop' ? [s, ...all(s.body)] : [s]))

type Build = (p: readonly Node[]) => Node | Node[]

/** Multiplications inside the loop over the depth and outside of it, after the results are seen to be right. */
function multiplications(inputs: readonly Input[], build: Build, mode: 'fast' | 'strict', target: Machine) {
  const graph = trace(inputs, build)
  check(graph, { mode, target })
  const { program } = compileGraph(graph, { mode, target })
  const bodies = program.steps.flatMap((s) => (s.kind === 'kernel' ? s.kernel.parts.map((p) => p.body) : []))
  const isProduct = (s: Stmt): boolean => s.kind === 'let' && s.op.kind === 'scalar' && s.op.op === 'mul'
  const within = bodies.flatMap((b) => b.flatMap((s) => (s.kind === 'loop' ? all(s.body) : []))).filter(isProduct)
  return [within.length, bodies.flat().filter(isProduct).length]
}

const few: Machine = { ...wasmTarget, matrixRate: 1e8 }
const int8: Input[] = [{ shape: [6, 90] }, { shape: [90, 14], dtype: 'i8' }, { shape: [14] }, { shape: [6, 1] }]

describe.each([
  ['wasm', wasmTarget],
  ['cuda', cudaTarget],
  ['depth in parts', { ...few, dotBlock: { m: 4, n: 8, k: 6 } }],
] as const)('%s', (_, target) => {
  test('a scale of every column', () => {
    const build: Build = (p) => c.matmul(at(p, 0), c.mul(c.cast(at(p, 1), 'f32'), at(p, 2)))
    expect(multiplications(int8, build, 'fast', target)).toEqual([0, 1])
  })

  test('scales of rows and columns, and what follows', () => {
    const build: Build = (p) => {
      const w = c.mul(at(p, 2), c.cast(at(p, 1), 'f32'))
      const y = c.matmul(at(p, 0), c.mul(w, 0.25))
      return [c.exp(c.mul(y, 0.001)), c.add(y, at(p, 3))]
    }
    const [within] = multiplications(int8, build, 'fast', target)
    expect(within).toBe(0)
  })

  test('a scaled weight that the user rounds is rounded', () => {
    const build: Build = (p) => {
      const w = c.mul(c.cast(at(p, 1), 'f32'), at(p, 2))
      return c.matmul(at(p, 0), c.cast(w, 'bf16'))
    }
    const [x, ...others] = int8
    check(trace([{ shape: x?.shape ?? [], dtype: 'bf16' }, ...others], build), { mode: 'fast', target })
  })

  test('scales along the depth stay', () => {
    const inputs: Input[] = [{ shape: [6, 90] }, { shape: [90, 14], dtype: 'i8' }, { shape: [90, 1] }]
    const build: Build = (p) => c.matmul(at(p, 0), c.mul(c.cast(at(p, 1), 'f32'), at(p, 2)))
    expect(multiplications(inputs, build, 'fast', target)[0]).toBe(1)
  })

  test('floats stay: their unscaled sums may leave the range', () => {
    const inputs: Input[] = [{ shape: [6, 90] }, { shape: [90, 14] }, { shape: [14] }]
    const build: Build = (p) => c.matmul(at(p, 0), c.mul(at(p, 1), at(p, 2)))
    expect(multiplications(inputs, build, 'fast', target)[0]).toBe(1)
  })

  test('strict mode multiplies where it is written', () => {
    const build: Build = (p) => c.matmul(at(p, 0), c.mul(c.cast(at(p, 1), 'f32'), at(p, 2)))
    expect(multiplications(int8, build, 'strict', target)[0]).toBe(1)
  })
})
