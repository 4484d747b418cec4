/** A session: one open device; graphs are compiled for it and run on host arrays. Shared by all commands. */

import { checkCapabilities } from '../compile/capability.ts'
import { type Compiled, compileGraph } from '../compile/index.ts'
import { type CompiledFor, compileFor } from '../compile/prepare.ts'
import { invariant, UserError } from '../diagnostics/errors.ts'
import type { Graph } from '../graph/node.ts'
import type { HostTensor } from '../onnx/index.ts'
import { evaluateGraph, toHostArray } from '../reference/evaluate.ts'
import type { Backend, DeviceBuffer, StepTime } from '../runtime/backend.ts'
import type { Machine } from '../target/machine.ts'
import { wasmTarget } from '../target/wasm.ts'
import { sizeOf } from '../types/shape.ts'
import { type DeviceName, type OpenDevice, type OpenOptions, openDevice } from './devices.ts'

export type Mode = 'fast' | 'strict'

export interface PrepareOptions {
  readonly name: string
  readonly mode: Mode
  /** `false`: every operation a kernel of its own. */
  readonly fuse?: boolean
}

/** Compiles a graph as every command does, for WebAssembly unless another target is given. */
export const compile = (
  graph: Graph,
  { name, mode, fuse = true }: PrepareOptions,
  target: Machine = wasmTarget,
): Compiled => compileGraph(graph, { name, mode, fuse, target })

/** A program with its inputs on the device: what a benchmark runs again and again. */
export interface BoundProgram {
  /** Runs once; gives the milliseconds it took. */
  time(): Promise<number>
  /** Runs once with a clock around every step. */
  profile(): Promise<readonly StepTime[]>
  /** The outputs of one run. */
  outputs(): Promise<HostTensor[]>
  dispose(): void
}

/** A graph made ready on a device. */
export interface PreparedModel {
  /** What was compiled; undefined on the reference device, which evaluates the graph as it is. */
  readonly compiled: Compiled | undefined
  run(inputs: readonly HostTensor[]): Promise<HostTensor[]>
  dispose(): void
}

export class Session {
  readonly device: DeviceName
  readonly #open: OpenDevice | undefined

  private constructor(device: DeviceName, open: OpenDevice | undefined) {
    this.device = device
    this.#open = open
  }

  /** Opens a device. Throws E_DEVICE naming what is missing. */
  static async open(device: DeviceName, options: OpenOptions = {}): Promise<Session> {
    return new Session(device, await openDevice(device, options))
  }

  /** What programs are planned and emitted for; undefined on the reference device. */
  get machine(): Machine | undefined {
    return this.#open?.target
  }

  /** Compiles a graph for the device and makes it ready. */
  #compile(
    { backend, target, capabilities }: OpenDevice,
    graph: Graph,
    options: PrepareOptions,
  ): CompiledFor<Compiled> {
    if (capabilities !== undefined) checkCapabilities(graph, this.device, capabilities)
    return compileFor(backend, target, (t) => compile(graph, options, t))
  }

  /** Makes a graph ready to run. */
  prepare(graph: Graph, options: PrepareOptions): PreparedModel {
    const open = this.#open
    if (open === undefined)
      return { compiled: undefined, run: async (inputs) => evaluateOn(graph, inputs, options.mode), dispose: () => {} }
    const { backend } = open
    const { compiled, executable } = this.#compile(open, graph, options)
    return {
      compiled,
      run: async (inputs) => {
        const bound = bind(backend, graph, executable, inputs)
        try {
          return await bound.outputs()
        } finally {
          bound.dispose()
        }
      },
      dispose: () => executable.dispose(),
    }
  }

  /** Compiles a graph and binds its inputs, to run it many times. Throws E_DEVICE on the reference device. */
  bind(graph: Graph, options: PrepareOptions, inputs: readonly HostTensor[]): BoundProgram & { compiled: Compiled } {
    const open = this.#open
    if (open === undefined)
      throw new UserError('E_DEVICE', `the device ${this.device} runs no kernels, so there is nothing to measure`, {
        help: 'measure on --device wasm',
      })
    const { backend } = open
    const { compiled, executable } = this.#compile(open, graph, options)
    const bound = bind(backend, graph, executable, inputs)
    return {
      ...bound,
      compiled,
      dispose: () => {
        bound.dispose()
        executable.dispose()
      },
    }
  }

  /** Gives the device back. */
  close(): void {
    this.#open?.backend.dispose()
  }
}

function evaluateOn(graph: Graph, inputs: readonly HostTensor[], mode: Mode): HostTensor[] {
  const data = inputs.map((t) => t.data)
  return evaluateGraph(graph, data, { rounding: mode === 'strict' ? 'strict' : 'f64' }).map((t) => ({
    data: toHostArray(t),
    shape: t.shape,
    dtype: t.dtype,
  }))
}

type Executable = ReturnType<Backend['prepare']>

function bind(backend: Backend, graph: Graph, executable: Executable, inputs: readonly HostTensor[]): BoundProgram {
  const buffers: DeviceBuffer[] = []
  const release = (list: readonly DeviceBuffer[]): void => {
    for (const b of new Set(list)) backend.free(b)
  }
  try {
    for (const t of inputs) {
      const buffer = backend.alloc(t.data.byteLength)
      buffers.push(buffer)
      backend.write(buffer, t.data)
    }
  } catch (error) {
    release(buffers)
    throw error
  }
  return {
    time: async () => {
      const started = performance.now()
      const outputs = executable.run(buffers)
      await backend.settled()
      const ms = performance.now() - started
      release(outputs)
      return ms
    },
    profile: async () => {
      const { outputs, times } = await backend.profile(executable, buffers)
      release(outputs)
      return times
    },
    outputs: async () => {
      const outputs = executable.run(buffers)
      try {
        const tensors: HostTensor[] = []
        for (const [i, n] of graph.outputs.entries()) {
          const b = outputs[i]
          invariant(b !== undefined, 'a program with too few outputs')
          tensors.push({ data: await backend.read(b, n.dtype, sizeOf(n.shape)), shape: n.shape, dtype: n.dtype })
        }
        return tensors
      } finally {
        release(outputs)
      }
    },
    dispose: () => release(buffers),
  }
}
