/** Products in 16 bits that a kernel goes on with: rounded where others read them too, else their sums in f32. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { at, trace } from '../compile/support.ts'

/** Casts of what a product of 16-bit matrices gives to their dtype, in the only kernel of a program. */
function castsOf(build: (product: Node, row: Node) => Node[], mode: 'fast' | 'strict' = 'fast'): string[] {
  const dtype = 'bf16'
  const inputs = [[256, 128], [128, 128], [128]].map((shape) => ({ shape, dtype }) as const)
  const graph = trace(inputs, (p) => build(c.matmul(at(p, 0), at(p, 1)), at(p, 2)))
  const { program } = compileGraph(graph, { mode, target: cudaTarget, verify: true })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  expect(kernels).toHaveLength(1)
  return kernels.flatMap((k) =>
    [...printKernel(k).matchAll(/ bf16\{[^}]*\} = cast %\d+( loose)?/g)].map((m) => m[1] ?? ''),
  )
}

describe('what a product in 16 bits leads to', () => {
  test('follows from its sum in f32', () => {
    expect(castsOf((y, b) => [c.relu(c.add(y, b))])).toEqual([' loose'])
  })

  test('follows from what is stored, where it is stored beside', () => {
    expect(castsOf((y, b) => [y, c.relu(c.add(y, b))])).toEqual([''])
  })

  test('follows from what is rounded, in strict mode', () => {
    expect(castsOf((y, b) => [c.relu(c.add(y, b))], 'strict')).toEqual([''])
  })
})
