/** A program prepared for WebAssembly with its module, constants and arena; and its runs. */

import { mathImports } from '../../codegen/vector/math/special.ts'
import { compileModule, type KernelJob } from '../../codegen/wasm/kernel.ts'
import { InternalError, invariant, UserError } from '../../diagnostics/errors.ts'
import { compilingModule } from '../../host/engine.ts'
import { ofUnnamed } from '../../kernel/unnamed.ts'
import type { DeviceBuffer, Executable, KeptCode, KeptFunction, StepTime } from '../../runtime/backend.ts'
import type { TensorBuffer } from '../../runtime/buffers.ts'
import { bytesAt, type Extents } from '../../runtime/extents.ts'
import type { Program } from '../../runtime/program.ts'
import { callsHost, kernelsOf } from '../../runtime/region.ts'
import { Resources } from '../../runtime/resources.ts'
import { handOut, type Outlets, outletsAt, outletsOf } from '../../runtime/results.ts'
import { bufferOf, overlap } from '../../runtime/shared.ts'
import type { Device } from './device.ts'
import type { KernelFunction } from './pool.ts'
import { type Preparation, Prepared, programsOf, scatters } from './prepared.ts'
import { estimateSeconds } from './work.ts'

/** Kernels with at least this much work (nanoseconds a run) are compiled by the optimising compiler at once. */
const hotAbove = 1_500_000

export class WasmExecutable implements Executable {
  readonly program: Program
  private readonly device: Device
  private readonly resources: Resources
  private readonly prepared: Prepared
  /** Buffers that a run allocates. */
  private readonly fresh: readonly number[]
  private readonly outlets: Outlets
  private disposed = false
  hasBegun = false

  readonly code: KeptCode

  constructor(device: Device, program: Program, kept?: KeptCode) {
    this.device = device
    this.program = program
    this.outlets = outletsOf(program)
    this.fresh = this.outlets.outputs.flatMap(({ buffer, from }) => (from === 'taken' ? [buffer] : []))
    const constants = program.buffers.flatMap((b) => (b.source.kind === 'constant' ? b.bytes : []))
    const results = this.fresh.map((b) => bufferOf(program, b).bytes)
    const blocks = [program.arenaBytes, ...constants, ...results]
    device.heap.checkRoom(blocks)
    const kernels = kernelsOf(program)
    const compiled = kept ?? codeOf(device, program)
    this.code = compiled
    const modules = compiled.modules.map(({ bytes, isHot }) =>
      compilingModule(isHot, () => new WebAssembly.Module(bytes as Uint8Array<ArrayBuffer>)),
    )
    const instances = modules.map(
      (m) => new WebAssembly.Instance(m, { env: { memory: device.memory }, math: mathImports }),
    )
    const numbers = new Map(kernels.map(({ step }, i) => [step, i]))
    const resources = new Resources(device.residents)
    this.resources = resources
    const preparation: Preparation = {
      device,
      moduleIds: [],
      kernel: (step) => {
        const number = numbers.get(step)
        const code = number === undefined ? undefined : compiled.functions[number]
        invariant(number !== undefined && code !== undefined, `no code of k${number}`)
        const run = instances[code.module]?.exports[`k${number}`]
        // What is kept in a file may say anything.
        if (typeof run !== 'function') throw new WebAssembly.LinkError(`no function k${number}`)
        const { programs } = code
        const work = 1e9 * code.seconds
        const native = code.imports.every((name) => Object.hasOwn(Math, name))
        return {
          run: run as KernelFunction,
          module: code.module,
          number,
          programs,
          shared: native && programs > 1 && work > device.shareAbove && !code.scatters,
          calls: Math.min(programs, Math.max(1, Math.floor(work / 500_000))),
        }
      },
      take: (bytes) => resources.hold(device.freeMemory, device.heap.alloc(bytes), bytes),
    }
    device.heap.reserve(blocks)
    try {
      const { arenaBytes } = program
      const arena =
        arenaBytes > 0 ? device.arenas.take(arenaBytes, !callsHost(program), program.open === undefined) : undefined
      if (arena !== undefined) resources.share(device.arenas.release, arena, arenaBytes)
      this.prepared = new Prepared(program, arena?.address ?? 0, preparation)
      device.reserveScratch(Math.max(0, ...compiled.functions.map((f) => f.scratch)))
    } catch (e) {
      resources.dispose()
      throw e
    }
    preparation.moduleIds = modules.map((m) => resources.hold(device.removeModule, device.addModule(m)))
    resources.endWith(this)
  }

  get residentBytes(): number {
    return this.resources.bytes
  }

  run(inputs: readonly DeviceBuffer[], at?: Extents): DeviceBuffer[] {
    return this.execute(inputs, () => this.prepared.run(), at)
  }

  /** Runs with a clock around every step. */
  profile(
    inputs: readonly DeviceBuffer[],
    now: () => number,
    at?: Extents,
  ): { outputs: DeviceBuffer[]; times: StepTime[] } {
    let times: StepTime[] = []
    const outputs = this.execute(
      inputs,
      () => {
        times = this.prepared.profile(now)
      },
      at,
    )
    return { outputs, times }
  }

  private execute(inputs: readonly DeviceBuffer[], run: () => void, at?: Extents): DeviceBuffer[] {
    const { device, program, prepared } = this
    if (this.disposed) throw new UserError('E_DISPOSED', `program ${program.name} has been disposed`)
    this.hasBegun = false
    const given = inputs.map((b) => device.buffers.own(b))
    const taken: number[] = []
    try {
      for (const b of this.fresh) taken.push(device.heap.alloc(bytesAt(bufferOf(program, b), at)))
      prepared.at = at
      const words = device.words()
      this.fresh.forEach((b, i) => {
        prepared.bind(b, taken[i] ?? 0, words)
      })
      program.inputs.forEach((b, i) => {
        const have = given[i]
        if (have === undefined) throw new InternalError(`program ${program.name} takes ${program.inputs.length} inputs`)
        prepared.bind(b, have.memory, words)
      })
      this.hasBegun = true
      run()
      return this.results(given, taken, at)
    } catch (e) {
      for (const a of taken) device.heap.free(a)
      throw e
    }
  }

  private results(given: readonly TensorBuffer<number>[], taken: number[], at: Extents | undefined): DeviceBuffer[] {
    const { device, prepared } = this
    return handOut(outletsAt(this.outlets, this.program, at), given, taken, {
      at: (b) => prepared.address(b),
      alloc: (bytes) => device.heap.alloc(bytes),
      copy: (b, to, bytes) => device.copy(prepared.address(b), to, bytes),
      buffers: device.buffers,
    })
  }

  dispose(): void {
    if (this.disposed) return
    this.disposed = true
    this.resources.dispose()
  }
}

/** What code is made for: of the engine, and of the device's memory. */
export const engineOf = ({ relaxed, maxPages, shared }: Device): string =>
  `wasm ${relaxed ? 'relaxed' : 'plain'} ${shared ? 'shared' : 'own'} ${maxPages}`

/** The code of a program's kernels: those that run long in a module of their own. */
function codeOf(device: Device, program: Program): KeptCode {
  const { machine, relaxed, maxPages, shared } = device
  const memory = { min: 1, max: maxPages, shared }
  const secondsOf = ofUnnamed((kernel) => estimateSeconds(kernel, machine))
  const kernels = kernelsOf(program).map(({ step, program: of }, i) => {
    const seconds = secondsOf(step.kernel)
    const job: KernelJob = {
      kernel: step.kernel,
      name: `k${i}`,
      mayAlias: (x, y) => overlap(of, step.buffers[x] ?? -1, step.buffers[y] ?? -1),
    }
    return { step, job, seconds, isHot: 1e9 * seconds > hotAbove }
  })
  const made = [true, false].flatMap((isHot) => {
    const own = kernels.filter((k) => k.isHot === isHot)
    if (own.length === 0) return []
    const jobs = own.map((k) => k.job)
    const { bytes, functions } = compileModule(jobs, { machine, relaxed, memory })
    return [{ bytes, isHot, functions: new Map(jobs.map((job, i) => [job, functions[i]])) }]
  })
  const functions = kernels.map(({ step, job, seconds, isHot }): KeptFunction => {
    const module = made.findIndex((m) => m.isHot === isHot)
    const code = made[module]?.functions.get(job)
    invariant(code !== undefined, `no code of ${job.name}`)
    return { module, ...code, programs: programsOf(step), seconds, scatters: scatters(step) }
  })
  return { engine: engineOf(device), modules: made.map(({ bytes, isHot }) => ({ bytes, isHot })), functions }
}
