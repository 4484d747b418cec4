/** Special functions that stand in many unrolled places are called, so that compiling stays a matter of a second. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { cudaSimt } from '../../../src/target/simt.ts'
import { at, trace } from '../../compile/support.ts'
import { Emulated, hasCompiler } from './emulator/emulator.ts'

const chain = (steps: number, f: (y: Node) => Node, n = 1 << 24): Graph =>
  trace([{ shape: [n] }], (p) => {
    let y = at(p, 0)
    for (let i = 0; i < steps; i++) y = c.add(f(c.mul(y, 1 + i / 100)), i)
    return y
  })

const kernelsOf = (graph: Graph): Kernel[] =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [s.kernel] : [],
  )
const sourceOf = (k: Kernel): string => emitKernel(k, cudaSimt).source

describe('functions called apart', () => {
  test('sixty sines in sixteen registers; three stand in place', () => {
    for (const k of kernelsOf(chain(60, (y) => c.unary('sin', y)))) {
      expect(sourceOf(k)).toContain('__device__ __noinline__ float f32_sin(float a)')
      expect(sourceOf(k).match(/\bsinf\(/g)).toHaveLength(1)
    }
    for (const k of kernelsOf(chain(3, (y) => c.unary('sin', y)))) {
      expect(sourceOf(k)).not.toContain('__noinline__')
      expect(sourceOf(k)).toContain('sinf(')
    }
  })

  test('what has most code goes first', () => {
    const [k] = kernelsOf(chain(10, (y) => c.exp(c.unary('cos', y))))
    expect(k === undefined ? '' : sourceOf(k)).toContain('float f32_cos(')
    expect(k === undefined ? '' : sourceOf(k)).not.toContain('__noinline__ float f32_exp')
  })

  test.skipIf(!hasCompiler)('compute the same (skipped where g++ is missing)', { timeout: 60_000 }, () => {
    const step = (y: Node): Node => c.add(c.unary('sin', y), c.pow(c.unary('abs', c.unary('cos', y)), 0.7))
    const kernels = kernelsOf(chain(40, step, 5000))
    expect(kernels.some((k) => sourceOf(k).includes('__noinline__'))).toBe(true)
    const emulated = new Emulated(kernels)
    kernels.forEach((kernel, i) => {
      const make = () =>
        Object.fromEntries(
          kernel.params.map((p, n) => [
            p.name,
            Float32Array.from({ length: p.shape.reduce((a, b) => a * b, 1) }, (_, j) => ((j * 37 + n) % 101) / 60),
          ]),
        )
      const [want, got] = [make(), make()]
      interpretKernel(kernel, want, { rounding: 'dtype' })
      emulated.run(i, got)
      for (const p of kernel.params)
        want[p.name]?.forEach((x, j) => {
          expect(Math.abs(x - (got[p.name]?.[j] ?? 0))).toBeLessThan(1e-3 * (1 + Math.abs(x)))
        })
    })
    emulated.dispose()
  })
})
