/** A program prepared for a CUDA device with its kernels, constants and arena; and its runs. */
import { InternalError, UserError } from '../../diagnostics/errors.ts'
import type { DeviceBuffer, Executable, StepTime } from '../../runtime/backend.ts'
import type { TensorBuffer } from '../../runtime/buffers.ts'
import { type Base, bufferOf, commandsOf, type Place } from '../../runtime/commands.ts'
import { bytesAt, type Extents } from '../../runtime/extents.ts'
import type { Program } from '../../runtime/program.ts'
import { Resources } from '../../runtime/resources.ts'
import { handOut, type Outlets, outletsAt, outletsOf } from '../../runtime/results.ts'
import type { KernelResources } from './compile.ts'
import { type CudaDevice, guarded } from './device.ts'
import { Prepared, type Work } from './prepared.ts'

/** Kernels read and write 16 bytes at a time. */
const alignment = 16

export class CudaExecutable implements Executable {
  readonly program: Program
  private readonly device: CudaDevice
  private readonly places: readonly (Place | undefined)[]
  private readonly prepared: Prepared
  private readonly works: readonly Work[]
  private readonly held: Resources
  private readonly inputs: readonly { readonly base: number; readonly index: number }[]
  private readonly fresh: readonly { readonly base: number; readonly buffer: number }[]
  private readonly outlets: Outlets
  private disposed = false
  hasBegun = false

  constructor(device: CudaDevice, program: Program) {
    this.device = device
    this.program = program
    const { bases, commands, places } = commandsOf(program, { alignment })
    this.places = places
    this.held = new Resources(device.residents)
    const moving = new Set(bases.flatMap((b, i) => (b.kind === 'input' || b.kind === 'output' ? [i] : [])))
    this.inputs = bases.flatMap((b, base) => (b.kind === 'input' ? [{ base, index: b.index }] : []))
    this.outlets = outletsOf(program)
    this.fresh = bases.flatMap((b, base) => (b.kind === 'output' ? [{ base, buffer: b.buffer }] : []))
    try {
      const addresses = Float64Array.from(bases, (b) => this.place(b))
      this.prepared = new Prepared(device, addresses, moving, this.held)
      this.prepared.kernels.prepare(commands)
      this.works = this.prepared.prepare(commands)
    } catch (e) {
      this.held.dispose()
      throw e
    }
    this.held.endWith(this)
  }

  get residentBytes(): number {
    return this.held.bytes
  }

  private place(b: Base): number {
    if (b.kind === 'input' || b.kind === 'output') return 0
    const address = this.device.take(b.bytes, this.held)
    if (b.kind === 'constant') this.device.copyIn(address, b.data)
    return address
  }

  run(inputs: readonly DeviceBuffer[], at?: Extents): DeviceBuffer[] {
    return guarded(this.device.context.properties.name, () =>
      this.execute(inputs, at, () => this.prepared.run(this.works)),
    )
  }

  /** Runs launch by launch with an event around every step. */
  profile(inputs: readonly DeviceBuffer[], at?: Extents): { outputs: DeviceBuffer[]; times: StepTime[] } {
    let times: StepTime[] = []
    const outputs = this.execute(inputs, at, () => {
      times = this.timed()
    })
    return { outputs, times }
  }

  private timed(): StepTime[] {
    const { context } = this.device
    const marks: { readonly event: number; readonly top: number }[] = []
    const mark = (top: number): void => {
      if (marks.at(-1)?.top === top) return
      const event = context.createEvent()
      context.record(event)
      marks.push({ event, top })
    }
    try {
      for (const w of this.works) {
        if (w.kind === 'host') {
          mark(w.top)
          w.run()
          continue
        }
        w.section.refresh()
        for (const l of w.section.launches) {
          mark(l.top)
          context.launch(l)
        }
      }
      mark(-1)
      context.synchronize()
      const ms = new Map<number, number>()
      marks.forEach((m, i) => {
        const next = marks[i + 1]
        if (next !== undefined) ms.set(m.top, (ms.get(m.top) ?? 0) + context.elapsed(m.event, next.event))
      })
      return [...ms].map(([step, time]) => ({ step, ms: time }))
    } finally {
      for (const m of marks) context.destroyEvent(m.event)
    }
  }

  /** What each kernel takes of the device. */
  resources(): KernelResources[] {
    return this.prepared.kernels.all().map((k) => this.device.kernels.resources(k))
  }

  private execute(inputs: readonly DeviceBuffer[], at: Extents | undefined, run: () => void): DeviceBuffer[] {
    const { device, program, prepared } = this
    if (this.disposed) throw new UserError('E_DISPOSED', `program ${program.name} has been disposed`)
    this.hasBegun = false
    const given = inputs.map((b) => device.buffers.own(b))
    const taken: number[] = []
    try {
      for (const { base, buffer } of this.fresh) {
        const address = device.pool.alloc(bytesAt(bufferOf(program, buffer), at))
        taken.push(address)
        prepared.bind(base, address)
      }
      for (const { base, index } of this.inputs) {
        const have = given[index]
        if (have === undefined) throw new InternalError(`program ${program.name} takes ${program.inputs.length} inputs`)
        prepared.bind(base, have.memory)
      }
      prepared.open(at)
      this.hasBegun = true
      run()
      return this.results(given, taken, at)
    } catch (e) {
      for (const a of taken) device.pool.release(a)
      throw e
    }
  }

  private address(buffer: number): number {
    const p = this.places[buffer]
    return p === undefined ? 0 : (this.prepared.addresses[p.base] ?? 0) + p.offset
  }

  private results(given: readonly TensorBuffer<number>[], taken: number[], at: Extents | undefined): DeviceBuffer[] {
    const { device } = this
    return handOut(outletsAt(this.outlets, this.program, at), given, taken, {
      at: (b) => this.address(b),
      alloc: (bytes) => device.pool.alloc(bytes),
      copy: (b, to, bytes) => {
        if (bytes > 0) device.context.copy(to, this.address(b), bytes)
      },
      buffers: device.buffers,
    })
  }

  dispose(): void {
    if (this.disposed) return
    this.disposed = true
    this.held.dispose()
  }
}
