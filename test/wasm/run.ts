/** Runs kernels compiled to WebAssembly on host buffers, without a backend. */

import { mathImports } from '../../src/codegen/vector/value/lanes.ts'
import { compileModule } from '../../src/codegen/wasm/kernel.ts'
import { gridSize, type Kernel } from '../../src/kernel/ir.ts'
import { readMargin } from '../../src/schedule/loop/ir/tile.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { HostArray } from '../../src/types/host.ts'

export type Buffers = Record<string, HostArray>

type KernelFunction = (params: number, start: number, end: number, scratch: number) => void

export interface RunOptions {
  /** Programs a call runs; the whole grid by default. */
  readonly step?: number
}

const align = (n: number): number => Math.ceil(n / 64) * 64

/** Runs kernels in order on buffers by parameter name. */
export function runKernels(kernels: readonly Kernel[], buffers: Buffers, options: RunOptions = {}): void {
  const at = new Map<string, number>()
  let top = readMargin
  for (const [name, data] of Object.entries(buffers)) {
    at.set(name, top)
    top = align(top + data.byteLength) + 64
  }
  const tables: number[] = []
  for (const k of kernels) {
    tables.push(top)
    top = align(top + 4 * k.params.length)
  }
  const { bytes, functions } = compileModule(
    kernels.map((kernel, i) => ({ kernel, name: `k${i}`, mayAlias: () => false })),
    { machine: wasmTarget, relaxed: false, memory: { min: 1, max: 65536, shared: false } },
  )
  const pages = Math.ceil((top + Math.max(...functions.map((f) => f.scratch)) + readMargin) / 65536)
  const memory = new WebAssembly.Memory({ initial: pages, maximum: 65536 })
  // Junk everywhere: nothing may rely on fresh memory.
  new Uint8Array(memory.buffer).fill(0x7f)
  const instance = new WebAssembly.Instance(new WebAssembly.Module(bytes), { env: { memory }, math: mathImports })
  for (const [name, data] of Object.entries(buffers))
    new Uint8Array(memory.buffer).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength), at.get(name) ?? 0)
  kernels.forEach((k, i) => {
    const table = tables[i] ?? 0
    const view = new DataView(memory.buffer)
    k.params.forEach((p, j) => {
      const address = at.get(p.name)
      if (address === undefined) throw new Error(`no buffer ${p.name}`)
      view.setInt32(table + 4 * j, address, true)
    })
    const run = instance.exports[`k${i}`] as KernelFunction
    // Engines are made to compile kernels by runs of no programs, which have no scratch.
    const before = Buffer.from(memory.buffer.slice(0))
    run(table, 0, 0, 0)
    if (!before.equals(new Uint8Array(memory.buffer))) throw new Error(`${k.name} of no programs writes to memory`)
    const programs = k.parts.reduce((n, p) => n + gridSize(p), 0)
    const step = options.step ?? programs
    for (let start = 0; start < programs; start += step) run(table, start, Math.min(start + step, programs), top)
  })
  for (const [name, data] of Object.entries(buffers))
    new Uint8Array(data.buffer, data.byteOffset, data.byteLength).set(
      new Uint8Array(memory.buffer, at.get(name) ?? 0, data.byteLength),
    )
}
