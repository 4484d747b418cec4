/** Products of f16 drawn at random, for matrices of subgroups: scheduled and emitted with all checks on, within the shared memory there is. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { traceFunction } from '../../../src/api/tensor/traceFunction.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import { conv, einsum, nn, spec, type Tensor } from '../../../src/index.ts'
import { debug } from '../../../src/schedule/debug.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import { makeRng } from '../../random/rng.ts'

beforeAll(() => {
  debug.verify = true
})
afterAll(() => {
  debug.verify = false
})

interface Drawn {
  readonly shapes: readonly (readonly number[])[]
  readonly f: (...x: Tensor[]) => Tensor
}

const two = (f: (a: Tensor, b: Tensor) => Tensor): Drawn['f'] => f as Drawn['f']

function draw(seed: number): Drawn {
  const rng = makeRng(seed)
  const extent = (): number => rng.pick([3, 5, 8, 13, 31, 32, 33, 64, 77, 100, 129, 200, 256, 333])
  const [m, k, n, batch] = [extent(), extent(), extent(), rng.pick([2, 3])]
  const [heads, width] = [rng.pick([3, 8, 12]), rng.pick([5, 8, 32])]
  const [channels, window] = [rng.pick([3, 24, 40, 64]), rng.pick([1, 3, 5])]
  return rng.pick<Drawn>([
    {
      shapes: [
        [m, k],
        [k, n],
      ],
      f: two((a, b) => nn.silu(a).matmul(b)),
    },
    {
      shapes: [
        [k, m],
        [n, k],
      ],
      f: two((a, b) => nn.gelu(a.transpose().matmul(b.transpose()))),
    },
    {
      shapes: [
        [batch, m, k],
        [batch, k, n],
      ],
      f: two((a, b) => a.matmul(b)),
    },
    {
      shapes: [
        [m, heads, width],
        [heads, width, n],
      ],
      f: two((a, b) => einsum('mhd,hdn->mn', a, b)),
    },
    {
      shapes: [
        [batch, channels, rng.pick([4, 7, 14]), rng.pick([4, 7, 15, 28])],
        [rng.pick([8, 32, 65]), channels, window, window],
      ],
      f: two((x, w) => conv(x, w, { padding: window >> 1, stride: rng.pick([1, 2]) })),
    },
  ])
}

test.each([32768, 49152])('on matrices within %i bytes', (sharedBytes) => {
  const { simt, ...machine } = webgpuTarget({
    laneBits: 5,
    hasHalfConversions: true,
    hasSubgroupMatrices: true,
    sharedBytes,
  })
  const target = { ...machine, simt: { ...simt, leastProduct: 0 } }
  let onMatrices = 0
  for (let seed = 0; seed < 60; seed++) {
    const { shapes, f } = draw(sharedBytes + seed)
    const { graph } = traceFunction(
      f,
      shapes.map((s) => spec(s, 'f16')),
    )
    const kernels = compileGraph(graph, { mode: 'fast', target }).program.steps.flatMap((s) =>
      s.kind === 'kernel' ? [s.kernel] : [],
    )
    for (const kernel of kernels) {
      const { source, sharedBytes: taken } = emitKernel(kernel, target.simt)
      expect(taken, `seed ${seed}`).toBeLessThanOrEqual(sharedBytes)
      if (source.includes('subgroupMatrixMultiplyAccumulate')) onMatrices += 1
    }
  }
  expect(onMatrices).toBeGreaterThan(20)
})
