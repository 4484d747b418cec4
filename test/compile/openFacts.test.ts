/** What is known of an extent that varies beside its bounds: rows of a whole number of groups are addressed by groups. */
import { describe, expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { dim, jit, setDevice, softmax, spec, type Tensor, tensor } from '../../src/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { cudaSimt } from '../../src/target/simt.ts'
import { openProgram } from './openSupport.ts'
import { at } from './support.ts'

const rowsOf = (x: Tensor): Tensor => {
  const [b = 1, ...rest] = x.shape
  return softmax(x.reshape([b, rest.reduce((n, d) => n * d, 1)]).mul(2), -1)
}

/** The kernel over [b, m, group] with b and m open, and its CUDA. */
function compiled(group: number) {
  const shape = ([b = 1, m = 1]: readonly number[]): number[] => (group === 1 ? [b, m] : [b, m, group])
  const { program } = openProgram(
    {
      dimensions: [
        { name: 'b', least: 2, most: 31 },
        { name: 'm', least: 2, most: 37 },
      ],
      samples: [
        [31, 37],
        [2, 2],
        [3, 5],
        [5, 7],
        [7, 11],
      ],
      trace: (extents) => traceFunction(rowsOf, [spec(shape(extents))]).graph,
    },
    'fast',
    cudaTarget,
  )
  const kernels = kernelsOf(program)
  expect(kernels).toHaveLength(1)
  const { kernel } = at(kernels, 0).step
  return { kernel, source: emitKernel(kernel, cudaSimt).source }
}

describe('a length that is a multiple of a number', () => {
  test.each([4, 8])('of %i is known to the kernel, whose accesses are of 16 bytes', (group) => {
    const { kernel, source } = compiled(group)
    expect(kernel.scalars?.map((s) => [s.most, s.multiple])).toContainEqual([37 * group, group])
    const loads = source.match(/= *\*?.*float4.*x0/g) ?? []
    expect(loads.length).toBeGreaterThan(0)
    expect(source).toMatch(/float4/)
  })

  test('of nothing has accesses of an element', () => {
    for (const group of [1, 3]) {
      const { kernel, source } = compiled(group)
      expect(kernel.scalars?.some((s) => s.multiple % 4 === 0)).toBe(false)
      expect(source).not.toMatch(/float4/)
    }
  })

  test('gives the results of static programs', () => {
    setDevice('wasm', { threads: 1 })
    const open = jit(rowsOf, { dynamic: [spec([dim('batch', 1, 6), dim('eights', 1, 9), 8])] })
    for (const [b, m] of [
      [2, 2],
      [3, 2],
      [6, 9],
      [5, 7],
    ] as const) {
      const x = tensor(
        Float32Array.from({ length: b * m * 8 }, (_, i) => Math.sin(i)),
        { shape: [b, m, 8] },
      )
      const want = jit(rowsOf)(x).dataSync()
      const got = open(x).dataSync()
      expect(open.explain(x).closed).toBeUndefined()
      got.forEach((v, i) => {
        expect(v).toBeCloseTo(Number(want[i]), 6)
      })
    }
  })
})
