/** Programs with open extents on the software WebGPU device: one program gives at each set of extents what the reference gives. */
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { createWebgpuBackend, type WebgpuBackend } from '../../src/backends/webgpu/backend.ts'
import { dim, jit, memory, setDevice, softmax, spec, type Tensor, tensor } from '../../src/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { openCases, others } from '../compile/openCases.ts'
import { numbersAt, type OpenCase, openProgram } from '../compile/openSupport.ts'
import { expectClose, inputsOf, at as of } from '../compile/support.ts'
import { some } from '../support/nightly.ts'
import { openSoftware } from './software.ts'

let missing: string | undefined
let backend: WebgpuBackend
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
  else backend = await createWebgpuBackend()
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))

/** Rows of scores that a block of a product holds up to 128 positions, and not beyond. */
const rows: OpenCase & { readonly name: string } = {
  name: 'softmax of scores whose rows are longer than a block at the greatest extents',
  dimensions: [
    { name: 'batch', least: 2, most: 5 },
    { name: 'length', least: 37, most: 131 },
  ],
  samples: [
    [5, 131],
    [3, 127],
    [2, 37],
    [5, 37],
    [2, 131],
    [3, 83],
  ],
  trace: ([b = 1, n = 1]) =>
    traceFunction(
      (q: Tensor, k: Tensor) => softmax(q.matmul(k.swapaxes(-1, -2)), -1).matmul(k),
      [spec([b, n, 16]), spec([b, n, 16])],
    ).graph,
}

for (const { name, extents, ...made } of [
  ...some(openCases, 5).map((c) => ({ ...c, extents: [of(others, 1), of(others, 2), of(others, 1)] })),
  {
    ...rows,
    extents: [
      [4, 128],
      [3, 64],
      [2, 131],
    ],
  },
])
  test(name, async () => {
    const { program } = openProgram(made, 'fast', backend.machine)
    const executable = backend.prepare(program)
    const before = backend.memory().used
    for (const at of extents) {
      const graph = made.trace(at)
      const inputs = inputsOf(graph)
      const buffers = [...inputs, ...numbersAt(program, at)].map((d) => {
        const b = backend.alloc(d.byteLength)
        backend.write(b, d)
        return b
      })
      const outputs = executable.run(buffers, at)
      const got = await Promise.all(
        outputs.map((b, i) => {
          const node = of(graph.outputs, i)
          return backend.read(b, node.dtype, sizeOf(node.shape))
        }),
      )
      for (const b of [...buffers, ...outputs]) backend.free(b)
      const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
      expectClose(got, want, graph, at.join(' by '))
    }
    expect(backend.memory().used).toBe(before)
    executable.dispose()
  }, 30_000)

test('a jitted function serves a range of lengths by the programs of one template', async () => {
  setDevice(createCompiledDevice('webgpu', backend, backend.machine))
  try {
    const f = jit((x: Tensor, w: Tensor) => softmax(x.matmul(w), 0).mean(), {
      dynamic: [spec([dim('length', 2, 60), 8])],
    })
    const w = tensor(
      Float32Array.from({ length: 24 }, (_, i) => (i % 5) / 5),
      { shape: [8, 3] },
    )
    const made: number[] = []
    for (const n of [7, 33, 60, 7, 2]) {
      const x = tensor(
        Float32Array.from({ length: 8 * n }, (_, i) => (i % 11) / 11),
        { shape: [n, 8] },
      )
      const [got] = await f(x, w).data()
      expect(Number(got)).toBeCloseTo(1 / n, 5)
      made.push(memory().programs)
    }
    expect(made.at(-1), 'all programs are made by the second call').toBe(made[1])
    f.dispose()
  } finally {
    setDevice('wasm')
  }
})
