/** Launch plans through the CUDA backend with the interpreter for a device: control flow, host steps, donation, graphs. */
import { describe, expect, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import { condNodes, loopNodes, whileNodes } from '../../src/compose/control.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import * as api from '../../src/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Backend } from '../../src/runtime/backend.ts'
import type { Program } from '../../src/runtime/program.ts'
import { readElement } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, expectClose, type Input, inputsOf, trace } from '../compile/support.ts'
import { nightly } from '../support/nightly.ts'
import { interpretingBackend } from './interpreting.ts'

const { device, backend } = interpretingBackend()

/** Three runs with other inputs each: the first goes kernel by kernel, later ones by graphs. */
function check(graph: Graph, options: Partial<CompileOptions> = {}): Program {
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true, ...options })
  device.learn(program)
  const before = backend.memory().used
  const executable = backend.prepare(program)
  const kept: { readonly got: () => HostArray[]; readonly want: readonly HostArray[] }[] = []
  for (let run = 0; run < 3; run++) {
    const inputs = inputsOf(graph).map((x) => shifted(x, run))
    const buffers = inputs.map((data) => {
      const b = backend.alloc(data.byteLength)
      backend.write(b, data)
      return b
    })
    const outputs = executable.run(buffers)
    buffers.forEach((b, i) => {
      if (program.donated[i] !== true) backend.free(b)
    })
    kept.push({
      want: evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray),
      got: () =>
        outputs.map((b, i) => {
          const node = at(graph.outputs, i)
          const data = backend.readSync(b, node.dtype, sizeOf(node.shape))
          backend.free(b)
          return data
        }),
    })
  }
  // Results of earlier runs are still what they were.
  kept.forEach(({ got, want }, run) => {
    expectClose(got(), want, graph, `run ${run}`)
  })
  executable.dispose()
  expect(backend.memory().used).toBe(before)
  return program
}

/** Other inputs of the same kind: rotated. */
function shifted(x: HostArray, by: number): HostArray {
  const out = x.slice()
  for (let i = 0; i < x.length; i++) out[i] = x[(i + by) % x.length] as never
  return out
}

const row: Input = { shape: [7] }
const matrix: Input = { shape: [5, 7] }
const kinds = (p: Program): string[] => p.steps.map((s) => s.kind)

test('several kernels', () => {
  const program = check(
    trace([{ shape: [33, 65] }, { shape: [65, 9] }], (p) => {
      const y = c.matmul(c.softmax(at(p, 0), -1), at(p, 1))
      return [c.sum(y, [0]), c.tanh(y)]
    }),
    { fuse: false },
  )
  expect(kinds(program).length).toBeGreaterThan(2)
})

test('a union of many small tensors, whose addresses stand in a table', () => {
  const inputs = Array.from({ length: 24 }, (): Input => ({ shape: [301] }))
  const program = check(trace(inputs, (p) => p.slice(0, 12).map((x, i) => c.add(c.mul(x, 0.9), at(p, 12 + i)))))
  expect(kinds(program)).toEqual(['kernel'])
  expect(device.tables()).toBeGreaterThan(0)
})

test('a donated input becomes the output', () => {
  const program = check(
    trace([row, row], (p) => [c.add(at(p, 0), at(p, 1)), at(p, 1)]),
    { donated: [true, false] },
  )
  expect(program.outputs[0]).toBe(program.inputs[0])
})

describe('loops', () => {
  test.each(['f32', 'i8', 'bool', 'f16', 'i64', 'f64'] as const)('of elements that are not aligned: %s', (dtype) => {
    const one: Input = { shape: [3], dtype }
    const body = trace([one, one], (p) => {
      const next = dtype === 'bool' ? c.logicalXor(at(p, 0), at(p, 1)) : c.add(at(p, 0), at(p, 1))
      return [next, next]
    })
    for (const reverse of [false, true])
      check(
        trace([one, { shape: [5, 3], dtype }], (p) => {
          const r = loopNodes(body, { length: 5, reverse }, [], [at(p, 0)], [at(p, 1)])
          return [...r.carries, ...r.sequences]
        }),
      )
  })

  test('whose carries change places', () => {
    const square: Input = { shape: [6, 6] }
    const body = trace([square], (p) => c.mul(c.matmul(at(p, 0), at(p, 0)), 0.1))
    for (const length of [2, 3, 4])
      check(trace([square], (p) => loopNodes(body, { length }, [], [c.exp(at(p, 0))], []).carries))
  })

  test('inside loops, and too long to be written out', () => {
    const inner = trace([row, row], (p) => [c.add(at(p, 0), at(p, 1)), c.mul(at(p, 0), at(p, 1))])
    const outer = trace([row, matrix], (p) => {
      const { carries, sequences } = loopNodes(inner, { length: 5 }, [], [c.neg(at(p, 0))], [at(p, 1)])
      return [c.mul(at(carries, 0), 0.5), at(sequences, 0)]
    })
    check(
      trace([row, { shape: [3, 5, 7] }], (p) => {
        const { carries, sequences } = loopNodes(outer, { length: 3 }, [], [at(p, 0)], [at(p, 1)])
        return [...carries, ...sequences]
      }),
    )
    const wave = trace([row], (p) => c.mul(c.flip(at(p, 0), [0]), 0.999))
    // By day as few as are too many to be written out.
    check(trace([row], (p) => loopNodes(wave, { length: nightly ? 5001 : 4097 }, [], [at(p, 0)], []).carries))
  })
})

describe('conditions and while', () => {
  test('either branch', () => {
    const then = trace([row, row], (p) => [c.add(at(p, 0), at(p, 1)), at(p, 0)])
    const otherwise = trace([row, row], (p) => [c.tanh(c.mul(at(p, 0), at(p, 1))), c.exp(at(p, 1))])
    for (const invert of [false, true]) {
      const program = check(
        trace([{ shape: [], dtype: 'bool' }, row, row], (p) =>
          condNodes(invert ? c.logicalNot(at(p, 0)) : at(p, 0), [at(p, 1), at(p, 2)], then, otherwise),
        ),
      )
      expect(kinds(program)).toContain('cond')
    }
  })

  test.each([0, 1, 2, 7])('%i steps', (limit) => {
    const scalar: Input = { shape: [], dtype: 'i32' }
    const below = trace([scalar, row, row], (p) => c.compare('lt', at(p, 0), c.full([], limit, 'i32')))
    const body = trace([scalar, row, row], (p) => [
      c.add(at(p, 0), c.full([], 1, 'i32')),
      c.flip(at(p, 1), [0]),
      c.mul(at(p, 2), 1.25),
    ])
    const program = check(
      trace([row, row], (p) => whileNodes(below, body, [], [c.full([], 0, 'i32'), c.exp(at(p, 0)), at(p, 1)])),
    )
    expect(kinds(program)).toContain('while')
  })
})

/** Runs with this device as the library's. */
function onDevice(body: () => void): void {
  const learning: Backend = Object.assign(Object.create(backend) as Backend, {
    prepare: (program: Program) => {
      device.learn(program)
      return backend.prepare(program)
    },
  })
  api.setDevice(createCompiledDevice('cuda', learning, cudaTarget))
  try {
    body()
  } finally {
    api.setDevice('wasm')
  }
}

test('jitted functions inside one another, with derivatives, effects and donation, give what WebAssembly gives', () => {
  const results = (): { readonly values: number[]; readonly effects: number } => {
    let effects = 0
    const inner = api.jit((x: api.Tensor, w: api.Tensor) => api.nn.softmax(x.matmul(w), -1))
    const middle = api.jit((x: api.Tensor, w: api.Tensor) => {
      const y = api.inspect(inner(x, w), () => {
        effects++
      })
      return { y, z: inner(y.mul(2), w).sum(-1) }
    })
    const outer = api.jit((x: api.Tensor, w: api.Tensor) => {
      const { y, z } = middle(x, w)
      const slope = api.grad((v: api.Tensor) => inner(v, w).mul(y).sum())(x)
      return [y.add(z.reshape([-1, 1])), slope]
    })
    const donating = api.jit((state: api.Tensor, x: api.Tensor) => state.mul(0.9).add(inner(x, state).mul(0.1)), {
      donate: [0],
    })
    const square = (k: number): api.Tensor =>
      api.tensor(
        Float32Array.from({ length: 25 }, (_, i) => Math.sin(0.37 * i + k)),
        { shape: [5, 5] },
      )
    const values: number[] = []
    for (let i = 0; i < 3; i++)
      for (const y of outer(square(i), square(1))) values.push(...(y.tolist() as number[][]).flat())
    let state = square(2)
    for (let i = 0; i < 4; i++) state = donating(state, square(0))
    values.push(...(state.tolist() as number[][]).flat())
    return { values, effects }
  }
  const want = results()
  expect(want.effects).toBe(3)
  onDevice(() => {
    const got = results()
    expect(got.effects).toBe(3)
    expect(got.values.length).toBe(want.values.length)
    got.values.forEach((v, i) => {
      expect(v).toBeCloseTo(want.values[i] ?? Number.NaN, 5)
    })
  })
})

test("a user's kernel and a callback run on the host", () => {
  onDevice(() => {
    const seen: number[][] = []
    const f = api.jit((x: api.Tensor) => {
      const y = api.inspect(x.mul(2), (data, _shape, dtype) => {
        seen.push(Array.from({ length: data.length }, (_, i) => Number(readElement(data, dtype, i))))
      })
      const z = api.opaque(
        {
          name: 'reversed',
          shapeRule: () => ({ shape: [3], dtype: 'f32' }),
          run: ([a], out) => {
            for (let i = 0; i < 3; i++) out[i] = a?.[2 - i] as never
          },
        },
        y,
      )
      return z.add(1)
    })
    for (let i = 0; i < 3; i++) expect(f(api.tensor([i, 1, 2])).tolist()).toEqual([5, 3, 2 * i + 1])
    expect(seen).toEqual([0, 1, 2].map((i) => [2 * i, 2, 4]))
  })
})
