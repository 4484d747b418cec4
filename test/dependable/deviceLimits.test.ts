/**
 * WebAssembly (memory of 4 GiB, positions of 32 bits) and WebGPU (bytes a kernel binds, bytes of a buffer, positions of 32 bits) one below, at
 * and one above their own limits: a coded error before anything is allocated. A product beyond what the library counts is refused.
 *
 * Sites looked at: wasm/heap.ts and executable.ts (arena, constants, results), codegen/wasm/kernel.ts, kernel/beyond32.ts,
 * webgpu/memory.ts, prepared.ts and executable.ts (bindings, arena, constants, results), codegen/simt/capability.ts.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { createWebgpuBackend, type WebgpuBackend } from '../../src/backends/webgpu/backend.ts'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import type { Backend } from '../../src/runtime/backend.ts'
import type { Program } from '../../src/runtime/program.ts'
import { readMargin } from '../../src/schedule/loop/ir/tile.ts'
import type { Machine } from '../../src/target/machine.ts'
import { webgpuSimt } from '../../src/target/simt.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import type { DType } from '../../src/types/dtype.ts'
import { openSoftware } from '../webgpu/software.ts'

/** x + 1 of so many elements. */
function plusOne(n: number, dtype: DType, target: Machine): Program {
  const graph = withOrigin('limit', undefined, () =>
    withContext(() => {
      const x = param(0, [n], dtype)
      return { params: [x], outputs: [c.add(x, 1)], effects: [] }
    }),
  )
  return compileGraph(graph, { mode: 'fast', target }).program
}

/** The code that planning or preparing a program ends with, and that nothing was taken where it is an error. */
function codeOf(backend: Backend, program: () => Program): string {
  const before = backend.memory().used
  try {
    backend.prepare(program()).dispose()
    return 'prepared'
  } catch (e) {
    if (!(e instanceof UserError)) throw e
    expect(backend.memory().used).toBe(before)
    return e.code
  }
}

describe('WebAssembly', () => {
  /** More than what a memory has beside blocks. */
  const beside = 2 * readMargin + 65536

  /** The greatest block that a fresh memory has room for, in bytes a program may ask for. */
  function capacity(backend: Backend): number {
    let [fits, fails] = [0, backend.memory().limit]
    while (fails - fits > 1) {
      const bytes = Math.floor((fits + fails) / 2)
      try {
        backend.free(backend.alloc(bytes))
        fits = bytes
      } catch {
        fails = bytes
      }
    }
    return fits
  }

  test('memory: what a program stores', () => {
    const limit = 4 << 20
    const most = capacity(createWasmBackend({ threads: 1, memoryLimit: limit }))
    // Copies and products may read in front of all there is and behind it.
    expect(most).toBeGreaterThan(limit - beside)
    const backend = createWasmBackend({ threads: 1, memoryLimit: limit })
    // The arena is empty, which takes a block of its own.
    const around = [-1, 0, 1].map((d) => codeOf(backend, () => plusOne(most - 64 + d, 'u8', wasmTarget)))
    expect(around).toEqual(['prepared', 'prepared', 'E_OUT_OF_MEMORY'])
  })

  test('memory: all there is', () => {
    const backend = createWasmBackend({ threads: 1 })
    const { limit } = backend.memory()
    expect(limit).toBeLessThan(2 ** 32)
    const elements = (bytes: number): number => bytes / 4
    const around = [limit / 2, limit - beside, limit, 2 ** 32, 2 ** 33].map((bytes) =>
      codeOf(backend, () => plusOne(elements(bytes), 'f32', wasmTarget)),
    )
    // Planning asks the target first; the backend has a little less.
    expect(around).toEqual(['prepared', 'prepared', 'E_OUT_OF_MEMORY', 'E_OVERFLOW', 'E_OVERFLOW'])
    expect(backend.memory().used).toBeLessThan(1 << 20)
  })

  test('positions', () => {
    const backend = createWasmBackend({ threads: 1 })
    const most = 2 ** 31 - 1 - 4 * wasmTarget.elementBlock
    const around = [-1, 0, 1].map((d) => codeOf(backend, () => plusOne(most + d, 'u8', wasmTarget)))
    expect(around).toEqual(['prepared', 'prepared', 'E_UNSUPPORTED'])
    expect(() => backend.prepare(plusOne(most + 1, 'u8', wasmTarget))).toThrow(
      /limit gives u8\[\d+\], whose positions do not fit the 32 bits that kernels of the target wasm count with/,
    )
  })
})

const kernelOver = (n: number, index: string, extra = ''): ReturnType<typeof parseKernel> =>
  parseKernel(`kernel k {
  param x: u8[${n}] read
  param y: u8[${n}] write
  axes i: ${n}${extra}
  grid i/2048
  %0 u8{i} = load x[${index}]
  store y[i] = %0
}`)

test('WebGPU positions', () => {
  const most = 2 ** 31 - 1 - 4 * 2048
  const emit = (n: number, index = 'i'): string => {
    try {
      return emitKernel(kernelOver(n, index), webgpuSimt).dialect
    } catch (e) {
      if (!(e instanceof UserError)) throw e
      return e.code
    }
  }
  expect([most - 1, most, most + 1].map((n) => emit(n))).toEqual(['wgsl', 'wgsl', 'E_UNSUPPORTED'])
  // The position fits, what it is a remainder of does not.
  expect(emit(2 ** 20, `(4097*i) % ${2 ** 20}`)).toBe('E_UNSUPPORTED')
  expect(emit(2 ** 19, `(2047*i) % ${2 ** 19}`)).toBe('wgsl')
})

describe('WebGPU', () => {
  let missing: string | undefined
  beforeAll(async () => {
    const device = await openSoftware()
    if (typeof device === 'string') missing = device
  })

  const boundless: Machine = { ...webgpuTarget(), mostBytes: { value: 2 ** 40, arena: 2 ** 40 } }
  const codes = (backend: WebgpuBackend, sizes: readonly number[]): string[] =>
    // Planned for a device without limits of bytes: it is the backend that is asked.
    sizes.map((n) => codeOf(backend, () => plusOne(n, 'f32', boundless)))

  test('bytes a kernel binds', async ({ skip }) => {
    skip(missing !== undefined, missing)
    const backend = await createWebgpuBackend({ limits: { maxStorageBufferBindingSize: 4096 } })
    expect(codes(backend, [1023, 1024, 1025])).toEqual(['prepared', 'prepared', 'E_UNSUPPORTED'])
  })

  test('bytes of a buffer', async ({ skip }) => {
    skip(missing !== undefined, missing)
    const backend = await createWebgpuBackend({ limits: { maxBufferSize: 1 << 16 } })
    expect(codes(backend, [16383, 16384, 16385])).toEqual(['prepared', 'prepared', 'E_OUT_OF_MEMORY'])
  })

  test("the adapter's own limits", async ({ skip }) => {
    skip(missing !== undefined, missing)
    const backend = await createWebgpuBackend({})
    const { limits } = backend['device']
    const most = Math.floor(limits.maxStorageBufferBindingSize / 16) * 4
    expect(codes(backend, [most - 1, most])).toEqual(['prepared', 'prepared'])
    expect(['E_UNSUPPORTED', 'E_OUT_OF_MEMORY', 'E_OVERFLOW']).toContain(codes(backend, [most + 1])[0])
    expect(backend.memory().used).toBe(0)
  })
})
