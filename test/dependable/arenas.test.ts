/**
 * Programs on one device share what they need while they run, and array buffers that weigh for device memory are no memory.
 * Sites looked at: WasmExecutable's arena (programs that call the user have their own), api/device/compiled.ts (a program that is called by code it
 * runs), Resources (what is shared is counted once), Arenas' sizes, reclaim.ts (weights, nudges), the weights of storages and of programs.
 */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import { giveWeight, takeWeight } from '../../src/api/device/reclaim.ts'
import { Arenas } from '../../src/backends/wasm/arenas.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { Heap } from '../../src/backends/wasm/heap.ts'
import * as s from '../../src/index.ts'
import { Residents } from '../../src/runtime/resources.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

beforeAll(() => s.setDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice('reference'))

const openWasm = (threads: number) =>
  createCompiledDevice('wasm', createWasmBackend({ threads, shareAbove: 0 }), wasmTarget)

test('functions of one size have one arena', () => {
  const device = openWasm(1)
  const x = s.tensor(new Float32Array(4096).fill(1 / 64), { shape: [64, 64] })
  const functions = Array.from({ length: 20 }, (_, i) =>
    s.jit((a: s.Tensor) => a.matmul(a).add(i).matmul(a), { device }),
  )
  const held: number[] = []
  for (const f of functions) {
    f(x)
    held.push(device.memory().arenaBytes)
  }
  // More functions add their tables of parameters, not a matrix of 16 KiB each.
  expect((held[19] ?? 0) - (held[0] ?? 0)).toBeLessThan(19 * 1024)
  functions.forEach((f, i) => {
    expect(f(x).dataSync()[0]).toBeCloseTo(1 / 64 + i, 4)
  })
  for (const f of functions) f.dispose()
  expect(device.memory().arenaBytes).toBe(0)
})

test('an arena ends with its last holder, and is not given to programs that need far less', () => {
  const residents = new Residents()
  const heap = new Heap(new WebAssembly.Memory({ initial: 64, maximum: 64 }), 1024, 64 * 65536)
  const arenas = new Arenas(heap, residents)
  const large = arenas.take(1 << 20, true, true)
  const same = arenas.take(1 << 19, true, true)
  const small = arenas.take(1 << 10, true, true)
  const own = arenas.take(1 << 19, false, true)
  expect(same).toBe(large)
  expect(small.address).not.toBe(large.address)
  expect(own.address).not.toBe(large.address)
  expect(residents.bytes).toBe((1 << 20) + (1 << 19) + (1 << 10))
  arenas.release(large)
  expect(residents.bytes).toBe((1 << 20) + (1 << 19) + (1 << 10))
  arenas.release(same)
  expect(residents.bytes).toBe((1 << 19) + (1 << 10))
  expect(arenas.take(1 << 19, true, true)).not.toBe(own)
  for (const a of [small, own]) arenas.release(a)
  expect(residents.bytes).toBe(1 << 19)
})

test.each([1, 2])(
  'a function that code of the user calls while it runs, with other values, on %i threads',
  (threads) => {
    const device = openWasm(threads)
    const depth = 3
    const right = (v: number): number => (4 * v * v + 1) * v * 4 + 16 * v
    for (const by of ['kernel', 'inspector'] as const) {
      const seen: number[] = []
      const again = (): void => {
        const level = seen.length
        seen.push(Number.NaN)
        if (level < depth) seen[level] = Number(f(s.full([4, 4], level + 2)).dataSync()[0])
      }
      const kernel: Parameters<typeof s.opaque>[0] = {
        name: 'around',
        shapeRule: ([x]) => ({ shape: x?.shape ?? [], dtype: 'f32' }),
        run: ([x], out) => {
          again()
          ;(out as Float32Array).set(x as Float32Array)
        },
      }
      const around = (x: s.Tensor): s.Tensor => (by === 'kernel' ? s.opaque(kernel, x) : s.inspect(x, again))
      const f: s.JitFunction<[s.Tensor], s.Tensor> = s.jit(
        (a: s.Tensor) => around(a.matmul(a).add(1)).matmul(a).add(a.sum()),
        { device },
      )
      expect(f(s.ones([4, 4])).dataSync()[0], by).toBe(right(1))
      expect(seen.slice(0, depth), by).toEqual([right(2), right(3), right(4)])
      expect(f(s.full([4, 4], 5)).dataSync()[0], by).toBe(right(5))
      // Those made for calls inside have gone.
      expect(device.memory().programs).toBe(1)
      f.dispose()
      expect(device.memory().arenaBytes).toBe(0)
    }
  },
)

test('a lazy program that its own kernel asks for', () => {
  let inner = 0
  const kernel: Parameters<typeof s.opaque>[0] = {
    name: 'around',
    shapeRule: ([x]) => ({ shape: x?.shape ?? [], dtype: 'f32' }),
    run: ([x], out) => {
      if (inner === 0) {
        inner = 1
        inner = Number(value(2).dataSync()[0])
      }
      ;(out as Float32Array).set(x as Float32Array)
    },
  }
  const value = (v: number): s.Tensor => {
    const a = s.tensor(new Float32Array(64).fill(v), { shape: [8, 8] })
    return s.opaque(kernel, a.matmul(a)).matmul(a).add(a.sum())
  }
  expect(value(1).dataSync()[0]).toBe(64 + 64)
  expect(inner).toBe(512 + 128)
})

test('a program weighs on the engine, however little it holds', () => {
  const device = openWasm(1)
  const x = s.ones([4])
  const before = process.memoryUsage().external
  const functions = Array.from({ length: 60 }, (_, i) => s.jit((a: s.Tensor) => a.mul(i), { device }))
  for (const f of functions) f(x)
  expect(process.memoryUsage().external - before).toBeGreaterThan(30 << 20)
  for (const f of functions) f.dispose()
})

test('weights are address space, not memory of the C library', () => {
  const bytes = 2 << 20
  const before = process.memoryUsage()
  const weights = Array.from({ length: 50 }, () => takeWeight(bytes))
  const after = process.memoryUsage()
  // The engine's accounts hold them; its allocator of array buffers does not know them.
  expect(after.external - before.external).toBeGreaterThan(45 * bytes)
  expect(after.arrayBuffers - before.arrayBuffers).toBeLessThan(bytes)
  for (const w of weights) giveWeight(w)
})
