/** A program prepared for WebAssembly: its module, constants, arena and parameter tables; and its runs. */

import { compileModule, type KernelJob } from '../../codegen/wasm/kernel.ts'
import { mathImports } from '../../codegen/wasm/lanes.ts'
import { InternalError, invariant, UserError } from '../../diagnostics/errors.ts'
import { gridSize } from '../../kernel/ir.ts'
import type { DeviceBuffer, Executable, StepTime } from '../../runtime/backend.ts'
import type { Program, ProgramBuffer, ProgramStep } from '../../runtime/program.ts'
import { type HostArray, hostArray, hostView } from '../../types/host.ts'
import type { Device, WasmBuffer } from './device.ts'
import { setEngineFlag } from './host.ts'
import type { KernelFunction } from './pool.ts'
import { estimateNanoseconds } from './work.ts'

/** Kernels with at least this much work (nanoseconds a run) are compiled by the optimising compiler at once. */
const optimisedAbove = 1_500_000

interface KernelStep {
  readonly kind: 'kernel'
  readonly run: KernelFunction
  readonly number: number
  readonly table: number
  readonly programs: number
  readonly shared: boolean
  /** Calls a run on one thread is cut into: the engine replaces a function by its optimised code between calls. */
  readonly calls: number
}

type PreparedStep = KernelStep | { readonly kind: 'host'; readonly step: Exclude<ProgramStep, { kind: 'kernel' }> }

/** Table entries that change from run to run. */
interface Patch {
  /** Index into the memory's u32 view. */
  readonly at: number
  readonly buffer: number
}

export class WasmExecutable implements Executable {
  readonly program: Program
  readonly residentBytes: number
  private readonly device: Device
  private readonly moduleId: number
  private readonly steps: readonly PreparedStep[]
  private readonly patches: readonly Patch[]
  /** Address of each buffer; of inputs and outputs, in the run that is on. */
  private readonly addresses: Float64Array
  private readonly owned: readonly number[]
  private readonly scratch: number
  /** Buffers that a run allocates. */
  private readonly fresh: readonly number[]
  private disposed = false

  constructor(device: Device, program: Program) {
    this.device = device
    this.program = program
    const kernels = program.steps.flatMap((s, i) => (s.kind === 'kernel' ? [{ s, i }] : []))
    const jobs: KernelJob[] = kernels.map(({ s, i }) => ({
      kernel: s.kernel,
      name: `k${i}`,
      mayAlias: (x, y) => overlap(program, s.buffers[x] ?? -1, s.buffers[y] ?? -1),
    }))
    const compiled = compileModule(jobs, {
      relaxed: device.relaxed,
      memory: { min: 1, max: device.maxPages, shared: device.shared },
    })
    const module = new WebAssembly.Module(compiled.bytes as Uint8Array<ArrayBuffer>)
    const instance = new WebAssembly.Instance(module, { env: { memory: device.memory }, math: mathImports })
    this.scratch = Math.max(0, ...compiled.functions.map((f) => f.scratch))
    const owned: number[] = []
    const take = (bytes: number): number => {
      const a = device.heap.alloc(bytes)
      owned.push(a)
      return a
    }
    this.owned = owned
    let resident = program.arenaBytes
    const addresses = new Float64Array(program.buffers.length)
    try {
      const arena = program.arenaBytes > 0 ? take(program.arenaBytes) : 0
      program.buffers.forEach((b, i) => {
        if (b.source.kind === 'temp') addresses[i] = arena + b.source.offset
        if (b.source.kind !== 'constant') return
        resident += b.bytes
        addresses[i] = take(b.bytes)
        device.copyIn(addresses[i] ?? 0, b.source.data)
      })
      const table = take(4 * kernels.reduce((n, { s }) => n + s.buffers.length, 0))
      const patches: Patch[] = []
      let next = table
      const tables = new Map<number, number>()
      for (const { s, i } of kernels) {
        tables.set(i, next)
        for (const b of s.buffers) {
          const { source } = bufferOf(program, b)
          if (source.kind === 'temp' || source.kind === 'constant') device.words()[next / 4] = addresses[b] ?? 0
          else patches.push({ at: next / 4, buffer: b })
          next += 4
        }
      }
      this.patches = patches
      let job = 0
      this.steps = program.steps.map((step, i): PreparedStep => {
        if (step.kind !== 'kernel') return { kind: 'host', step }
        const run = instance.exports[`k${i}`]
        invariant(typeof run === 'function', `no function k${i}`)
        const programs = step.kernel.parts.reduce((n, p) => n + gridSize(p), 0)
        const work = estimateNanoseconds(step.kernel)
        if (work > optimisedAbove) compileOptimised(run as KernelFunction)
        const native = compiled.functions[job++]?.imports.every((name) => Object.hasOwn(Math, name)) ?? false
        return {
          kind: 'kernel',
          run: run as KernelFunction,
          number: i,
          table: tables.get(i) ?? 0,
          programs,
          shared: native && programs > 1 && work > device.shareAbove && !scatters(step),
          calls: Math.min(programs, Math.max(1, Math.floor(work / 500_000))),
        }
      })
    } catch (e) {
      for (const a of owned) device.heap.free(a)
      throw e
    }
    this.addresses = addresses
    this.residentBytes = resident
    this.fresh = program.buffers.flatMap((b, i) => (b.source.kind === 'output' ? [i] : []))
    this.moduleId = device.addModule(module)
    device.reserveScratch(this.scratch)
  }

  run(inputs: readonly DeviceBuffer[]): DeviceBuffer[] {
    return this.execute(inputs, undefined)
  }

  /** Runs with a clock around every step. */
  profile(inputs: readonly DeviceBuffer[]): { outputs: DeviceBuffer[]; times: StepTime[] } {
    const times: StepTime[] = []
    const outputs = this.execute(inputs, times)
    return { outputs, times }
  }

  private execute(inputs: readonly DeviceBuffer[], times: StepTime[] | undefined): DeviceBuffer[] {
    const { device, program, addresses } = this
    if (this.disposed) throw new UserError('E_DISPOSED', `program ${program.name} has been disposed`)
    const given = inputs.map((b) => device.own(b))
    program.inputs.forEach((b, i) => {
      const have = given[i]
      if (have === undefined) throw new InternalError(`program ${program.name} takes ${program.inputs.length} inputs`)
      addresses[b] = have.address
    })
    const taken: number[] = []
    try {
      for (const b of this.fresh) {
        const a = device.heap.alloc(bufferOf(program, b).bytes)
        taken.push(a)
        addresses[b] = a
      }
      const words = device.words()
      for (const p of this.patches) words[p.at] = addresses[p.buffer] ?? 0
      this.steps.forEach((s, i) => {
        const from = times === undefined ? 0 : performance.now()
        if (s.kind === 'kernel') this.launch(s)
        else this.host(s.step)
        times?.push({ step: i, ms: performance.now() - from })
      })
      return this.results(given, taken)
    } catch (e) {
      for (const a of taken) device.heap.free(a)
      throw e
    }
  }

  private launch(s: KernelStep): void {
    const { device } = this
    if (s.shared && device.pool !== undefined) {
      device.pool.run(s.run, this.moduleId, s.number, s.table, s.programs, device.scratch(0), (w) =>
        device.scratch(w + 1),
      )
      return
    }
    const scratch = device.scratch(0)
    if (s.calls <= 1) {
      s.run(s.table, 0, s.programs, scratch)
      return
    }
    const step = Math.ceil(s.programs / s.calls)
    for (let at = 0; at < s.programs; at += step) s.run(s.table, at, Math.min(at + step, s.programs), scratch)
  }

  private host(s: Exclude<ProgramStep, { kind: 'kernel' }>): void {
    const { device, program } = this
    if (s.kind === 'copy') {
      device.copy(this.address(s.from), this.address(s.to), bufferOf(program, s.to).bytes)
      return
    }
    if (s.kind === 'inspect') {
      const b = bufferOf(program, s.buffer)
      guarded(s.label, () => s.call(this.read(s.buffer), b.shape, b.dtype))
      return
    }
    const out = bufferOf(program, s.output)
    const result = hostArray(out.dtype, elements(out))
    guarded(s.name, () =>
      s.run(
        s.inputs.map((b) => this.read(b)),
        result,
      ),
    )
    device.copyIn(this.address(s.output), result)
  }

  private address(b: number): number {
    return this.addresses[b] ?? 0
  }

  /** A copy of a buffer's elements. */
  private read(b: number): HostArray {
    const buffer = bufferOf(this.program, b)
    return hostView(buffer.dtype, this.device.memory.buffer, this.address(b), elements(buffer)).slice()
  }

  /** The outputs as device buffers; donated inputs that are not among them are freed. */
  private results(given: readonly WasmBuffer[], taken: number[]): DeviceBuffer[] {
    const { device, program } = this
    const handed = new Set<number>()
    const donated = new Map(program.inputs.map((b, i) => [b, program.donated[i] === true ? given[i] : undefined]))
    const outputs: DeviceBuffer[] = []
    for (const b of program.outputs) {
      const { bytes, source } = bufferOf(program, b)
      const own = source.kind === 'output' || donated.get(b) !== undefined
      const address = this.address(b)
      if (own && !handed.has(address)) {
        handed.add(address)
        outputs.push(device.adopt(address, bytes))
        continue
      }
      const copy = device.heap.alloc(bytes)
      taken.push(copy)
      handed.add(copy)
      device.copy(address, copy, bytes)
      outputs.push(device.adopt(copy, bytes))
    }
    for (const buffer of donated.values()) {
      if (buffer === undefined || !buffer.alive) continue
      buffer.alive = false
      if (!handed.has(buffer.address)) device.heap.free(buffer.address)
    }
    // Outputs of the table that the program does not hand out.
    for (const a of taken) if (!handed.has(a)) device.heap.free(a)
    return outputs
  }

  dispose(): void {
    if (this.disposed) return
    this.disposed = true
    for (const a of this.owned) this.device.heap.free(a)
    this.device.removeModule(this.moduleId)
  }
}

/**
 * Has the engine compile a function with its optimising compiler: by default it starts with code of its baseline compiler
 * and replaces that between calls, long after a large kernel began. An empty range compiles and runs nothing.
 */
function compileOptimised(run: KernelFunction): void {
  setEngineFlag('--no-liftoff')
  run(0, 0, 0, 0)
  setEngineFlag('--liftoff')
}

function bufferOf(program: Program, b: number): ProgramBuffer {
  const found = program.buffers[b]
  if (found === undefined) throw new InternalError(`program ${program.name} has no buffer ${b}`)
  return found
}

const elements = (b: ProgramBuffer): number => b.shape.reduce((n, d) => n * d, 1)

/** Whether two buffers of a program may share memory. */
function overlap(program: Program, x: number, y: number): boolean {
  if (x === y) return true
  const [a, b] = [bufferOf(program, x), bufferOf(program, y)]
  if (a.source.kind !== 'temp' || b.source.kind !== 'temp') return false
  return a.source.offset < b.source.offset + b.bytes && b.source.offset < a.source.offset + a.bytes
}

/** Whether programs of a kernel may write the same element. */
const scatters = (s: Extract<ProgramStep, { kind: 'kernel' }>): boolean =>
  s.kernel.parts.some((p) => p.body.some((x) => x.kind === 'store' && x.combiner !== undefined))

function guarded(name: string, call: () => void): void {
  try {
    call()
  } catch (cause) {
    throw new UserError('E_CALLBACK', `${name} threw: ${cause instanceof Error ? cause.message : String(cause)}`, {
      cause,
    })
  }
}
