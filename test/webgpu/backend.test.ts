/** The WebGPU backend itself: a lost device, what a device refuses, buffers, loops of odd elements, profiles. */
import { beforeAll, beforeEach, expect, test } from 'vitest'
import { createWebgpuBackend, type WebgpuBackend } from '../../src/backends/webgpu/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { loopNodes } from '../../src/compose/control.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Program } from '../../src/runtime/program.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, expectClose, type Input, inputsOf, trace } from '../compile/support.ts'
import { openSoftware } from './software.ts'

let missing: string | undefined
let backend: WebgpuBackend
beforeAll(async () => {
  const device = await openSoftware()
  if (typeof device === 'string') missing = device
  else backend = await createWebgpuBackend()
})
beforeEach(({ skip }) => skip(missing !== undefined, missing))

const values = async (b: ReturnType<WebgpuBackend['alloc']>, n: number): Promise<number[]> =>
  Array.from(await backend.read(b, 'f32', n), Number)

/** Twice, with other buffers. */
async function check(graph: Graph, fuse = true): Promise<Program> {
  const target = backend.machine
  const { program } = compileGraph(graph, { mode: 'fast', target, verify: true, fuse })
  const executable = backend.prepare(program)
  const inputs = inputsOf(graph)
  const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
  for (let run = 0; run < 2; run++) {
    const buffers = inputs.map((data) => {
      const b = backend.alloc(data.byteLength)
      backend.write(b, data)
      return b
    })
    const outputs = executable.run(buffers)
    const got = await Promise.all(
      outputs.map((b, i) => {
        const node = at(graph.outputs, i)
        return backend.read(b, node.dtype, sizeOf(node.shape))
      }),
    )
    expectClose(got, want, graph, `run ${run}`)
  }
  executable.dispose()
  return program
}

test('a lost device is named, and another can be opened', async () => {
  const other = await createWebgpuBackend()
  const b = other.alloc(64)
  other.dispose()
  await other.settled().catch(() => {})
  expect(() => other.alloc(64)).toThrow(/E_DEVICE.*the WebGPU device is lost \(destroyed/s)
  await expect(other.read(b, 'f32', 16)).rejects.toThrow(/setDevice\(await webgpu\(\)\)/)
  const again = await createWebgpuBackend()
  const x = again.alloc(8)
  again.write(x, new Float32Array([3, 4]))
  expect(Array.from(await again.read(x, 'f32', 2), Number)).toEqual([3, 4])
  again.dispose()
})

test('a kernel the device refuses is named', async () => {
  const other = await createWebgpuBackend()
  const names = Array.from({ length: other.machine.maxBuffers + 1 }, (_, i) => `y${i}`)
  const kernel = parseKernel(`kernel fills {
${names.map((y) => `  param ${y}: f32[4] write`).join('\n')}
  axes i: 4
  grid i
  %0 f32{i} = const 1
${names.map((y) => `  store ${y}[i] = %0`).join('\n')}
}`)
  other.prepare(programOf(kernel))
  await expect(other.settled()).rejects.toThrow(`[E_INTERNAL] WebGPU refuses the kernel ${kernel.name}`)
  // The device goes on.
  await expect(other.settled()).resolves.toBeUndefined()
  other.dispose()
})

const programOf = (kernel: Kernel): Program => ({
  name: 'case',
  buffers: kernel.params.map((p, index) => ({
    dtype: p.dtype,
    shape: p.shape,
    format: p.format,
    bytes: 4 * sizeOf(p.shape),
    source: { kind: 'input', index },
  })),
  steps: [{ kind: 'kernel', stage: 'main', launch: 0, kernel, buffers: kernel.params.map((_, i) => i) }],
  inputs: kernel.params.map((_, i) => i),
  donated: kernel.params.map(() => true),
  outputs: kernel.params.map((_, i) => i),
  arenaBytes: 0,
})

test('bytes that are no whole words', async () => {
  const b = backend.alloc(7)
  backend.write(b, new Uint8Array([1, 2, 3, 4, 5, 6, 7]))
  const copy = backend.copy(b)
  backend.free(b)
  expect(Array.from(await backend.read(copy, 'u8', 7), Number)).toEqual([1, 2, 3, 4, 5, 6, 7])
  backend.free(copy)
})

test('memory goes back', async () => {
  const before = backend.memory().used
  const buffers = Array.from({ length: 20 }, (_, i) => backend.alloc(1000 * i))
  expect(backend.memory().used).toBeGreaterThan(before)
  for (const b of buffers) backend.free(b)
  expect(backend.memory().used).toBe(before)
  await expect(values(at(buffers, 3), 1)).rejects.toThrow('E_DISPOSED')
})

test.each(['f32', 'i8', 'bool', 'f16'] as const)('a loop over elements of three %s', async (dtype) => {
  const one: Input = { shape: [3], dtype }
  const body = trace([one, one], (p) => {
    const next = dtype === 'bool' ? c.logicalXor(at(p, 0), at(p, 1)) : c.add(at(p, 0), at(p, 1))
    return [next, next]
  })
  const program = await check(
    trace([one, { shape: [5, 3], dtype }], (p) => {
      const r = loopNodes(body, { length: 5 }, [], [at(p, 0)], [at(p, 1)])
      return [...r.carries, ...r.sequences]
    }),
  )
  expect(program.steps.map((s) => s.kind)).toContain('loop')
})

test('intermediates of one arena, written and read side by side', async () => {
  const wide: Input = { shape: [9, 33] }
  const program = await check(
    trace([wide, wide], (p) => {
      const x = c.exp(at(p, 0))
      const y = c.tanh(c.add(x, at(p, 1)))
      return [c.sum(c.mul(y, x), [0]), c.max(y, x)]
    }),
    false,
  )
  expect(program.arenaBytes).toBeGreaterThan(0)
})

test('a profile has a time for every step', async () => {
  const graph = trace([{ shape: [64, 64] }], (p) => c.sum(c.exp(at(p, 0)), [0]))
  const { program } = compileGraph(graph, {
    mode: 'fast',
    target: backend.machine,
    fuse: false,
  })
  const executable = backend.prepare(program)
  const { times, outputs } = await backend.profile(executable, [backend.alloc(64 * 64 * 4)])
  expect(times.map((t) => t.step)).toEqual(program.steps.map((_, i) => i))
  for (const t of times) expect(t.ms).toBeGreaterThanOrEqual(0)
  expect(outputs.length).toBe(1)
})

test('a profile of more steps than one set of queries has', { timeout: 60_000 }, async () => {
  const graph = trace([{ shape: [4] }], (p) => {
    let x = at(p, 0)
    for (let i = 0; i < 2100; i++) x = c.add(c.mul(x, 0.5), 1)
    return x
  })
  const { program } = compileGraph(graph, { mode: 'fast', target: backend.machine, fuse: false })
  expect(program.steps.length).toBeGreaterThan(2048)
  const executable = backend.prepare(program)
  const { times } = await backend.profile(executable, [backend.alloc(16)])
  expect(times.map((t) => t.step)).toEqual(program.steps.map((_, i) => i))
  executable.dispose()
})
