/** What the library promises on the WebAssembly device: memory over long loops, errors, what a call does. */
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import type { Device } from '../../src/api/device/device.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as s from '../../src/index.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { nightly } from '../support/nightly.ts'
import { codeOf } from './messages.ts'

beforeAll(() => s.setDevice('wasm', { threads: 1, memoryLimit: 640 << 20 }))
afterAll(() => s.setDevice('reference'))

const elements = (64 << 20) / 4

const steps = nightly ? 1000 : 150

describe(`${steps} synchronous steps over 64 MB`, () => {
  it('by donation', () => {
    const step = s.jit((x: s.Tensor) => x.mul(0.5).add(1), { donate: [0] })
    let x = s.zeros([elements]).evaluate()
    for (let i = 0; i < steps; i++) x = step(x)
    expect(x.slice(elements - 1).item()).toBe(2)
    expect(s.memory().used).toBeLessThan(200 << 20)
    x.dispose()
  })
  it('a step that finds no memory leaves what was donated to it', () => {
    const step = s.jit((p: s.Tensor) => s.concat([p, p, p, p], 0).mul(2), { donate: [0] })
    step.compile(s.spec([elements]))
    const x = s.ones([elements]).evaluate()
    const others = Array.from({ length: 6 }, () => s.ones([elements]).evaluate())
    const { used } = s.memory()
    expect(codeOf(() => step(x))).toBe('E_OUT_OF_MEMORY')
    expect(s.memory().used).toBe(used)
    for (const t of others) t.dispose()
    const y = step(x)
    expect(y.slice(elements).item()).toBe(2)
    y.dispose()
  })
  it('a step that fails while it runs has taken what was donated to it', () => {
    const fail = (): void => {
      throw new Error('no')
    }
    const x = s.ones([4]).evaluate()
    const step = s.jit((p: s.Tensor) => s.inspect(p.add(1), fail).add(1), { donate: [0] })
    expect(codeOf(() => step(x))).toBe('E_CALLBACK')
    expect(x.disposed).toBe(true)
  })
  it('in a scope', () => {
    const step = s.jit((x: s.Tensor) => x.mul(0.5).add(1))
    let x = s.zeros([elements]).evaluate()
    for (let i = 0; i < 20; i++) {
      const next = s.tidy(() => step(x))
      x.dispose()
      x = next
    }
    expect(s.memory().used).toBeLessThan(200 << 20)
    x.dispose()
  })
  it('or a clear error that names the remedy, and the library goes on', () => {
    const step = s.jit((x: s.Tensor) => x.mul(0.5).add(1))
    let x = s.zeros([elements]).evaluate()
    const held: s.Tensor[] = [x]
    const loop = (): void => {
      for (let i = 0; i < steps; i++) {
        x = step(x)
        held.push(x)
      }
    }
    expect(loop).toThrow(/E_OUT_OF_MEMORY[\s\S]*(donate|dispose|tidy)/)
    expect(held.length).toBeGreaterThan(4)
    for (const t of held) t.dispose()
    expect(s.tensor([1]).add(1).tolist()).toEqual([2])
  })
})

it('an asynchronous loop needs no scope: what is unreachable is collected', async () => {
  const step = s.jit((x: s.Tensor) => x.mul(0.5).add(1))
  const n = (16 << 20) / 4
  let x = s.zeros([n]).evaluate()
  // Results of 16 MB under a limit of 640 MB.
  for (let i = 0; i < (nightly ? 200 : 80); i++) {
    x = step(x)
    await x.slice([0, 1]).data()
  }
  expect(x.slice(0).item()).toBe(2)
  x.dispose()
})

describe('errors', () => {
  it('shapes beyond the address space', () => {
    expect(codeOf(() => s.zeros([2 ** 30, 2 ** 30]))).toBe('E_OVERFLOW')
    expect(codeOf(() => s.zeros([2 ** 20, 2 ** 20]).dataSync())).toBe('E_OVERFLOW')
    expect(codeOf(() => s.zeros([2 ** 29]).dataSync())).toBe('E_OUT_OF_MEMORY')
    expect(s.tensor([3]).mul(2).item()).toBe(6)
  })
  it('a callback that throws', () => {
    const f = s.jit((x: s.Tensor) =>
      s.inspect(x, () => {
        throw new Error('boom')
      }),
    )
    expect(codeOf(() => f(s.tensor(1)))).toBe('E_CALLBACK')
    expect(s.tensor([3]).mul(2).item()).toBe(6)
  })
})

/** How often a body looks at a stack. */
function stacksRead(body: () => void): number {
  const before = Error.prepareStackTrace
  const stacks = vi.fn(() => '')
  try {
    Error.prepareStackTrace = stacks
    body()
  } finally {
    Error.prepareStackTrace = before
  }
  return stacks.mock.calls.length
}

it('a call of a known signature runs one program: nothing is traced, compiled, copied or kept', () => {
  const inner = createCompiledDevice('wasm', createWasmBackend({ threads: 1 }), wasmTarget)
  const calls: string[] = []
  const counted = <A extends readonly unknown[], R>(name: string, f: (...args: A) => R): ((...args: A) => R) => {
    return (...args) => {
      calls.push(name)
      return f(...args)
    }
  }
  const compile: Device['compile'] = (graph, request) => {
    const compiled = inner.compile(graph, request)
    return { ...compiled, run: counted('run', compiled.run) }
  }
  const device: Device = {
    ...inner,
    upload: counted('upload', inner.upload),
    readSync: counted('readSync', inner.readSync),
    copy: counted('copy', inner.copy),
    free: counted('free', inner.free),
    compile: counted('compile', compile),
  }
  let traces = 0
  const f = s.jit(
    (x: s.Tensor, w: s.Tensor, b: s.Tensor) => {
      traces++
      return s.relu(x.mul(w).add(b))
    },
    { device },
  )
  s.setDevice(device)
  const [x, w, b] = [s.ones([64]).evaluate(), s.ones([64]).evaluate(), s.ones([64]).evaluate()]
  const call = (): void => f(x, w, b).dispose()
  // Tracing looks for the user's lines; the calls after it must not.
  expect(stacksRead(call)).toBeGreaterThan(0)
  const used = inner.memory().used
  calls.length = 0
  const read = stacksRead(() => {
    for (let i = 0; i < 100; i++) call()
  })
  expect([traces, read]).toEqual([1, 0])
  expect(calls).toEqual(Array.from({ length: 100 }, () => ['run', 'free']).flat())
  expect(inner.memory().used).toBe(used)
  s.setDevice('wasm')
})
