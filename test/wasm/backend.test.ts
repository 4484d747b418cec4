/** The WebAssembly backend: memory, donation, threads, lost workers, callbacks, small and large programs. */
import { afterAll, describe, expect, test, vi } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { Device } from '../../src/backends/wasm/device.ts'
import { WasmExecutable } from '../../src/backends/wasm/executable.ts'
import { Heap } from '../../src/backends/wasm/heap.ts'
import { parseKernels } from '../../src/kernel/parse.ts'
import type { Backend, DeviceBuffer } from '../../src/runtime/backend.ts'
import type { Program } from '../../src/runtime/program.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { nightly } from '../support/nightly.ts'
import { programOf } from './program.ts'

const backends: Backend[] = []
const make = (...args: Parameters<typeof createWasmBackend>): Backend => {
  const b = createWasmBackend(...args)
  backends.push(b)
  return b
}
afterAll(() => {
  for (const b of backends) b.dispose()
})

const code = (run: () => unknown): string => {
  try {
    run()
  } catch (e) {
    return e instanceof Error && 'code' in e ? String(e.code) : String(e)
  }
  return 'nothing thrown'
}

const upload = (b: Backend, data: Float32Array): DeviceBuffer => {
  const d = b.alloc(data.byteLength)
  b.write(d, data)
  return d
}
const floats = (b: Backend, d: DeviceBuffer, n: number): number[] => Array.from(b.readSync(d, 'f32', n), Number)
const ramp = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => (i % 251) - 100)

const double = (n: number, block = n): string =>
  `kernel double {\n param x: f32[${n}] read\n param y: f32[${n}] write\n axes i: ${n}\n grid i/${block}
 %0 f32{i} = load x[i]\n %1 f32{i} = add %0, %0\n store y[i] = %1\n}`

const program = (text: string, extra: { donated?: string[] } = {}): Program =>
  programOf({ kernels: parseKernels(text), inputs: ['x'], outputs: ['y'], ...extra })

describe('heap', () => {
  test('thousands of blocks of random sizes come and go, and all memory comes back', () => {
    const heap = new Heap(new WebAssembly.Memory({ initial: 1, maximum: 4096 }), 1024, 4096 * 65536)
    const live: { address: number; bytes: number }[] = []
    let s = 7
    const random = (n: number): number => {
      s = (Math.imul(s, 1664525) + 1013904223) >>> 0
      return (s >>> 8) % n
    }
    for (let i = 0; i < 20_000; i++) {
      if (live.length > 0 && random(100) < 48) {
        const [b] = live.splice(random(live.length), 1)
        if (b !== undefined) heap.free(b.address)
      } else {
        const bytes = random(4) === 0 ? random(200_000) : random(2000)
        const address = heap.alloc(bytes)
        expect(address % 64).toBe(0)
        live.push({ address, bytes })
      }
      if (i % 1000 === 0) {
        heap.verify()
        const sorted = [...live].sort((a, b) => a.address - b.address)
        sorted.forEach((b, j) => {
          const next = sorted[j + 1]
          if (next !== undefined) expect(b.address + b.bytes + 64).toBeLessThanOrEqual(next.address)
        })
      }
    }
    for (const b of live) heap.free(b.address)
    expect(heap.used).toBe(0)
    expect(heap.verify().blocks).toBe(1)
  })

  test('a block whose pages are present took them from the operating system, and nothing else changed', () => {
    const heap = new Heap(new WebAssembly.Memory({ initial: 1, maximum: 65536 }), 1024, 65535 * 65536)
    const bytes = 96 * 2 ** 20
    /** How much more of the process stands in memory when a body has run. */
    const grown = (body: () => void): number => {
      const from = process.memoryUsage.rss()
      body()
      return process.memoryUsage.rss() - from
    }
    let [absent, present] = [0, 0]
    expect(grown(() => (absent = heap.alloc(bytes)))).toBeLessThan(bytes / 2)
    expect(grown(() => (present = heap.allocPresent(bytes)))).toBeGreaterThan(bytes / 2)
    const words = (at: number): Uint32Array => new Uint32Array(heap.memory.buffer, at, bytes / 4)
    words(present).fill(7)
    heap.free(present)
    expect(heap.allocPresent(bytes)).toBe(present)
    expect(words(present).every((w) => w === 7)).toBe(true)
    expect(words(absent).every((w) => w === 0)).toBe(true)
  })

  test('a step that frees what it took does not grow memory', () => {
    const memory = new WebAssembly.Memory({ initial: 1, maximum: 65536 })
    const heap = new Heap(memory, 1024, 65535 * 65536)
    let x = heap.alloc(64 * 2 ** 20)
    for (let i = 0; i < 1000; i++) {
      const y = heap.alloc(64 * 2 ** 20)
      heap.free(x)
      x = y
    }
    expect(memory.buffer.byteLength).toBeLessThan(200 * 2 ** 20)
  })
})

describe.each([1, 2])('%i threads', (threads) => {
  const backend = make({ threads })

  test('runs a program, also one whose grid is shared', async () => {
    for (const [n, block] of [
      [5, 5],
      [64, 16],
      [nightly ? 3_000_001 : 600_001, 4096],
    ] as const) {
      const exe = backend.prepare(program(double(n, block)))
      const x = ramp(n)
      const input = upload(backend, x)
      for (let round = 0; round < 3; round++) {
        const [y] = exe.run([input])
        if (y === undefined) throw new Error('no output')
        const got = backend.readSync(y, 'f32', n)
        for (let i = 0; i < n; i++) if (got[i] !== 2 * (x[i] ?? 0)) expect.fail(`y[${i}] is ${got[i]}`)
        backend.free(y)
        await new Promise((done) => setTimeout(done, 30))
      }
      backend.free(input)
      exe.dispose()
    }
  })

  test('strict sums do not depend on the number of threads', () => {
    const n = 300_000
    const text = `kernel s {\n param x: f32[8, ${n}] read\n param y: f32[8] write\n axes r: 8, c: ${n}\n grid r\n %0 f32{r, c} = load x[r, c]
 %1 f32{r, c} = exp %0\n %2 f32{r} = reduce sum %1 over c\n store y[r] = %2\n}`
    const kernels = parseKernels(text).map((k) => ({ ...k, mode: 'strict' as const }))
    const exe = backend.prepare(programOf({ kernels, inputs: ['x'], outputs: ['y'] }))
    const x = Float32Array.from({ length: 8 * n }, (_, i) => ((i * 7919) % 1000) / 500 - 1)
    const input = upload(backend, x)
    const [y] = exe.run([input])
    if (y === undefined) throw new Error('no output')
    const want = Array.from({ length: 8 }, (_, r) => {
      let total = 0
      for (let c = 0; c < n; c += 1024) {
        let sum = 0
        for (let i = c; i < Math.min(c + 1024, n); i++)
          sum = Math.fround(sum + Math.fround(Math.exp(x[r * n + i] ?? 0)))
        total = Math.fround(total + sum)
      }
      return total
    })
    for (const [r, g] of floats(backend, y, 8).entries())
      expect(Math.abs(g - (want[r] ?? 0)) / (want[r] ?? 1)).toBeLessThan(1e-6)
    for (const b of [y, input]) backend.free(b)
    exe.dispose()
  })

  test('an in-place update of a donated input', () => {
    const n = 1000
    const [kernel] = parseKernels(double(n, 128).replace('param y: f32[1000] write', 'param y: f32[1000] write'))
    if (kernel === undefined) throw new Error('no kernel')
    const shape = [n]
    const inPlace: Program = {
      name: 'in place',
      buffers: [{ dtype: 'f32', shape, format: 'plain', bytes: 4 * n, source: { kind: 'input', index: 0 } }],
      steps: [{ kind: 'kernel', stage: 'main', launch: 0, kernel, buffers: [0, 0] }],
      inputs: [0],
      donated: [true],
      outputs: [0],
      arenaBytes: 0,
    }
    const exe = backend.prepare(inPlace)
    const used = backend.memory().used
    const x = upload(backend, ramp(n))
    for (let i = 0; i < 3; i++) {
      const [y] = exe.run([x])
      expect(y).toBe(x)
    }
    expect(floats(backend, x, n)).toEqual(Array.from(ramp(n), (v) => 8 * v))
    backend.free(x)
    expect(backend.memory().used).toBe(used)
    exe.dispose()
  })

  test('passed through inputs and repeated outputs are copies', () => {
    const base = program(double(4))
    const exe = backend.prepare({ ...base, outputs: [...base.outputs, ...base.outputs, ...base.inputs] })
    const x = upload(backend, Float32Array.of(1, 2, 3, 4))
    const outs = exe.run([x])
    expect(outs.map((o) => floats(backend, o, 4))).toEqual([
      [2, 4, 6, 8],
      [2, 4, 6, 8],
      [1, 2, 3, 4],
    ])
    const [first] = outs
    if (first !== undefined) backend.write(first, Float32Array.of(0, 0, 0, 0))
    expect(outs.slice(1).map((o) => floats(backend, o, 4)[0])).toEqual([2, 1])
    for (const b of [x, ...outs]) backend.free(b)
  })

  test('callbacks see values; one that throws leaves the device usable', () => {
    const base = program(double(4))
    const seen: number[][] = []
    let fail = false
    const exe = backend.prepare({
      ...base,
      steps: [
        ...base.steps,
        {
          kind: 'inspect',
          label: 'watch',
          buffer: base.outputs[0] ?? 0,
          call: (data) => {
            if (fail) throw new Error('no')
            seen.push(Array.from(data, Number))
          },
        },
      ],
    })
    const x = upload(backend, Float32Array.of(1, 2, 3, 4))
    const used = backend.memory().used
    fail = true
    expect(code(() => exe.run([x]))).toBe('E_CALLBACK')
    expect(backend.memory().used).toBe(used)
    fail = false
    for (const o of exe.run([x])) backend.free(o)
    expect(seen).toEqual([[2, 4, 6, 8]])
    backend.free(x)
  })
})

test('memory beyond the limit is an error that names the remedies; the backend goes on', () => {
  const backend = make({ threads: 1, memoryLimit: 64 * 2 ** 20 })
  let message = ''
  const held: DeviceBuffer[] = []
  try {
    for (;;) held.push(backend.alloc(10 * 2 ** 20))
  } catch (e) {
    message = String(e)
  }
  expect(message).toMatch(/E_OUT_OF_MEMORY.*\n.*donate.*tidy.*using.*dispose/)
  expect(held.length).toBeGreaterThan(4)
  for (const b of held) backend.free(b)
  backend.free(backend.alloc(50 * 2 ** 20))
})

test('freed memory cannot be read', () => {
  const backend = make({ threads: 1 })
  const b = backend.alloc(16)
  backend.free(b)
  expect(code(() => backend.readSync(b, 'f32', 4))).toBe('E_DISPOSED')
})

test('a worker that dies is an error after bounded waits, and the pool comes back', { timeout: 20_000 }, async () => {
  const device = new Device({ threads: 2, workerPatience: 200 }, wasmTarget)
  const n = 2_000_000
  const exe = new WasmExecutable(device, program(double(n, 1024)))
  const x = device.buffers.adopt(device.heap.alloc(4 * n), 4 * n)
  device.copyIn(x.memory, ramp(n))
  const check = (): void => {
    const [y] = exe.run([x])
    const b = y === undefined ? undefined : device.buffers.own(y)
    if (b === undefined) throw new Error('no output')
    const got = new Float32Array(device.memory.buffer, b.memory, n)
    for (let i = 0; i < n; i += 977) expect(got[i]).toBe(2 * ((i % 251) - 100))
    device.heap.free(b.memory)
  }
  check()
  for (let i = 0; i < 100 && !device.pool?.isUp; i++) await new Promise((done) => setTimeout(done, 20))
  expect(device.pool?.isUp).toBe(true)
  check()
  // Die without the main thread's event loop noticing.
  const dying = device.pool?.workers.map((w) => w.terminate())
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 100)
  const waits = vi.spyOn(Atomics, 'wait')
  expect(code(check)).toBe('E_WORKER_LOST')
  const waited = waits.mock.calls.map(([, , , ms]) => ms ?? Number.POSITIVE_INFINITY)
  waits.mockRestore()
  expect(waited.length).toBeGreaterThan(0)
  for (const ms of waited) expect(ms).toBeLessThanOrEqual(1000)
  await Promise.all(dying ?? [])
  check()
  for (let i = 0; i < 100 && !device.pool?.isUp; i++) await new Promise((done) => setTimeout(done, 20))
  check()
  device.dispose()
})

test('a run of a small program is one allocation and one launch on the calling thread', () => {
  const device = new Device({ threads: 2 }, wasmTarget)
  const exe = new WasmExecutable(device, program(double(64)))
  const x = device.buffers.adopt(device.heap.alloc(4 * 64), 4 * 64)
  const words = device.words()
  const [alloc, launch, copyIn] = [
    vi.spyOn(device.heap, 'alloc'),
    vi.spyOn(device, 'scratch'),
    vi.spyOn(device, 'copyIn'),
  ]
  const outputs = new Set<number>()
  for (let i = 0; i < 100; i++)
    for (const y of exe.run([x])) {
      outputs.add(device.buffers.own(y).memory)
      device.heap.free(device.buffers.own(y).memory)
    }
  expect([alloc.mock.calls.length, launch.mock.calls.length]).toEqual([100, 100])
  expect(copyIn).not.toHaveBeenCalled()
  // The same memory each time, so that no table of addresses is written again.
  expect(outputs.size).toBe(1)
  expect(device.words()).toBe(words)
  expect(device.pool?.workers).toEqual([])
  device.dispose()
})

test('kernels that run long are a module of their own, each of its kernels found in it', () => {
  const backend = make({ threads: 1 })
  const [n, few] = [8_000_000, 64]
  const texts = [n, few].map((size, i) =>
    double(size, size).replaceAll('double', `d${i}`).replaceAll(' x', ` x${i}`).replaceAll(' y', ` y${i}`),
  )
  const executable = backend.prepare(
    programOf({ kernels: texts.flatMap((t) => parseKernels(t)), inputs: ['x0', 'x1'], outputs: ['y0', 'y1'] }),
  )
  expect(executable.code?.modules.map((m) => m.isHot)).toEqual([true, false])
  expect(executable.code?.functions.map((f) => f.module)).toEqual([0, 1])
  const results = executable.run([upload(backend, ramp(n)), upload(backend, ramp(few))])
  for (const [i, size] of [n, few].entries()) {
    const y = results[i]
    if (y === undefined) throw new Error('no result')
    expect(floats(backend, y, size).every((v, at) => v === 2 * ((at % 251) - 100))).toBe(true)
  }
  const small = backend.prepare(program(double(few)))
  expect(small.code?.modules.map((m) => m.isHot)).toEqual([false])
})
