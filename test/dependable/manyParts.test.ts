/**
 * Issue: compile time is near-linear. Here: a kernel of thousands of parts and parameters (an optimiser's lazy step over thousands of small
 * tensors). What all parts share is made once: counted as reads of the kernel's parameters.
 * Sites looked at: `emitPart` of WebAssembly (made its tables again for each part), `scheduleKernel`, `beyond32`, `verifyKernel`,
 * `scheduleThreads`, `unionOf`, `Unit` (one a kernel already).
 */
import { describe, expect, test } from 'vitest'
import { compileModule } from '../../src/codegen/wasm/kernel.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'
import { scheduleThreads } from '../../src/schedule/simt/scheduleThreads.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)

/** n parts, each of its own parameters: y = 2 x. */
function kernelOf(n: number): Kernel {
  const one = parseKernel(`kernel double {
    param x: f32[4] read
    param y: f32[4] write
    part {
      axes j: 4
      grid j/4
      %0 f32{j} = load x[j]
      %1 f32{j} = add %0, %0
      store y[j] = %1
    }
  }`)
  const renamed = (name: string, i: number): string => `${name}${i}`
  const part = one.parts[0]
  if (part === undefined) throw new Error('no part')
  return {
    ...one,
    params: range(n).flatMap((i) => one.params.map((p) => ({ ...p, name: renamed(p.name, i) }))),
    parts: range(n).map((i) => ({
      ...part,
      body: part.body.map((s) => {
        if (s.kind === 'store') return { ...s, param: renamed(s.param, i) }
        if (s.kind === 'loop' || s.op.kind !== 'load') return s
        return { ...s, op: { ...s.op, param: renamed(s.op.param, i) } }
      }),
    })),
  }
}

/** Reads of elements of the kernel's list of parameters. */
function readsOf(n: number, of: (kernel: Kernel) => void): number {
  let reads = 0
  const kernel = kernelOf(n)
  const params = new Proxy(kernel.params, {
    get: (list, key) => {
      if (typeof key === 'string' && /^\d/.test(key)) reads++
      return Reflect.get(list, key)
    },
  })
  of({ ...kernel, params })
  return reads
}

const compile = (kernel: Kernel): void => {
  const job = { kernel, name: 'k', mayAlias: () => false }
  compileModule([job], { machine: wasmTarget, relaxed: false, memory: { min: 1, max: 65536, shared: false } })
}

describe('a kernel of many parts goes through its parameters a few times, not once a part', () => {
  const walks: Readonly<Record<string, (kernel: Kernel) => void>> = {
    'compiling to WebAssembly': compile,
    verifying: verifyKernel,
    'scheduling threads': (kernel) => {
      scheduleThreads(kernel, cudaTarget.simt)
    },
  }
  for (const [name, of] of Object.entries(walks))
    test(name, () => {
      const n = 300
      expect(readsOf(n, of)).toBeLessThanOrEqual(8 * 2 * n)
    })
})
