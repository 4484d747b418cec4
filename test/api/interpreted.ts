/** A backend that runs launch plans with the kernel interpreter: what the library does with programs, without a code generator. */
import { createCompiledDevice } from '../../src/api/device/compiled.ts'
import type { Device } from '../../src/api/device/device.ts'
import type { Backend, DeviceBuffer } from '../../src/runtime/backend.ts'
import type { Program } from '../../src/runtime/program.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { type HostArray, type hostArray, hostView } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { runSteps } from '../support/runSteps.ts'

class Bytes implements DeviceBuffer {
  readonly memory: ArrayBuffer
  live = true
  constructor(bytes: number) {
    this.memory = new ArrayBuffer(bytes)
  }
  get bytes(): number {
    return this.memory.byteLength
  }
}

const bytesOf = (b: DeviceBuffer): Bytes => {
  if (!(b instanceof Bytes) || !b.live) throw new Error('a dead buffer is used')
  return b
}

export function interpretedBackend(): Backend {
  let used = 0
  const alloc = (bytes: number): Bytes => {
    used += bytes
    return new Bytes(bytes)
  }
  const free = (b: DeviceBuffer): void => {
    used -= bytesOf(b).bytes
    bytesOf(b).live = false
  }
  const readSync = (b: DeviceBuffer, dtype: Parameters<typeof hostArray>[0], n: number): HostArray =>
    hostView(dtype, bytesOf(b).memory.slice(0), 0, n)
  const run = (program: Program, inputs: readonly DeviceBuffer[]): DeviceBuffer[] => {
    const held = program.buffers.map((b, i) => {
      if (b.source.kind === 'input') return bytesOf(inputs[b.source.index] ?? new Bytes(0))
      const fresh = program.outputs.includes(i) ? alloc(b.bytes) : new Bytes(b.bytes)
      if (b.source.kind === 'constant')
        new Uint8Array(fresh.memory).set(
          new Uint8Array(b.source.data.buffer, b.source.data.byteOffset, b.source.data.byteLength),
        )
      return fresh
    })
    const view = (i: number): HostArray => {
      const [b, h] = [program.buffers[i], held[i]]
      if (b === undefined || h === undefined) throw new Error(`no buffer ${i}`)
      if (b.format !== 'plain') return new Uint8Array(h.memory)
      return hostView(b.dtype, h.memory, 0, sizeOf(b.shape))
    }
    runSteps(program, view, 'f64')
    const outputs = program.outputs.map((i) => held[i] ?? new Bytes(0))
    inputs.forEach((b, i) => {
      if (program.donated[i] === true && !outputs.includes(bytesOf(b))) free(b)
    })
    return outputs
  }
  return {
    name: 'interpreted',
    alloc,
    free,
    write: (b, data) => {
      new Uint8Array(bytesOf(b).memory).set(new Uint8Array(data.buffer, data.byteOffset, data.byteLength))
    },
    readSync,
    read: async (b, dtype, n) => readSync(b, dtype, n),
    prepare: (program) => ({
      program,
      run: (inputs) => run(program, inputs),
      hasBegun: true,
      residentBytes: 0,
      dispose: () => {},
    }),
    copy: (b) => {
      const to = alloc(bytesOf(b).bytes)
      new Uint8Array(to.memory).set(new Uint8Array(bytesOf(b).memory))
      return to
    },
    settled: async () => {},
    profile: async (executable, inputs) => ({ outputs: executable.run(inputs), times: [] }),
    memory: () => ({ used, limit: 2 ** 32, programs: 0, modules: 0, arenaBytes: 0, pooledBytes: 0 }),
    dispose: () => {},
  }
}

export const interpretedDevice = (): Device => createCompiledDevice('wasm', interpretedBackend(), wasmTarget)
