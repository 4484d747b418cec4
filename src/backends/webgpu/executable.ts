/** A program prepared for WebGPU with its pipelines, constants and arena; and its runs. */
import { InternalError, invariant, UserError } from '../../diagnostics/errors.ts'
import type { DeviceBuffer, Executable, StepTime } from '../../runtime/backend.ts'
import type { TensorBuffer } from '../../runtime/buffers.ts'
import { bufferOf, commandsOf, type Place } from '../../runtime/commands.ts'
import { bytesAt, type Extents } from '../../runtime/extents.ts'
import type { Program } from '../../runtime/program.ts'
import { Resources } from '../../runtime/resources.ts'
import { handOut, type Outlets, outletsAt, outletsOf } from '../../runtime/results.ts'
import type { WebgpuDevice } from './device.ts'
import { mapRead, usage } from './host.ts'
import { Prepared, type Work } from './prepared.ts'

/** Memory of a result that every run takes anew. */
interface Fresh {
  readonly base: number
  /** Its buffer in the program. */
  readonly buffer: number
  /** Buffers of the last runs, the latest first: where one is free again, its bind groups are there too. */
  readonly known: GPUBuffer[]
}

/** Most queries of a set (WebGPU, "GPUQuerySet"). */
const mostQueries = 4096

/** Most buffers of one result that are asked for again: a loop holds two or three at once. */
const mostKnown = 4

function remember(known: GPUBuffer[], buffer: GPUBuffer): void {
  const at = known.indexOf(buffer)
  if (at >= 0) known.splice(at, 1)
  known.unshift(buffer)
  if (known.length > mostKnown) known.pop()
}

export class WebgpuExecutable implements Executable {
  readonly program: Program
  private readonly device: WebgpuDevice
  private readonly places: readonly (Place | undefined)[]
  private readonly prepared: Prepared
  private readonly works: readonly Work[]
  private readonly resources: Resources
  private readonly inputs: readonly { readonly base: number; readonly index: number }[]
  private readonly fresh: readonly Fresh[]
  private readonly outlets: Outlets
  private disposed = false
  hasBegun = false

  constructor(device: WebgpuDevice, program: Program) {
    this.device = device
    this.program = program
    const list = commandsOf(program, { alignment: device.limits.minStorageBufferOffsetAlignment })
    this.places = list.places
    const resources = new Resources(device.residents)
    this.resources = resources
    this.prepared = new Prepared(device, program, list, resources)
    this.outlets = outletsOf(program)
    this.inputs = list.bases.flatMap((b, base) => (b.kind === 'input' ? [{ base, index: b.index }] : []))
    this.fresh = list.bases.flatMap((b, base) => (b.kind === 'output' ? [{ base, buffer: b.buffer, known: [] }] : []))
    this.prepared.checkLimits()
    try {
      this.works = this.prepared.prepare(list.commands)
      list.bases.forEach((b, i) => {
        if (b.kind === 'input' || b.kind === 'output') return
        const buffer = resources.hold(device.release, device.take(b.bytes), b.bytes)
        if (b.kind === 'constant') device.write(buffer, b.data)
        this.prepared.buffers[i] = buffer
      })
    } catch (e) {
      resources.dispose()
      throw e
    }
    resources.endWith(this)
  }

  get residentBytes(): number {
    return this.resources.bytes
  }

  run(inputs: readonly DeviceBuffer[], at?: Extents): DeviceBuffer[] {
    return this.execute(inputs, at, () => this.prepared.run(this.works))
  }

  /** Runs with timestamps around every step, or (without the feature) step by step on the host's clock. */
  async profile(
    inputs: readonly DeviceBuffer[],
    at?: Extents,
  ): Promise<{ outputs: DeviceBuffer[]; times: StepTime[] }> {
    const { gpu } = this.device
    if (!gpu.features.has('timestamp-query')) return this.profileByHost(inputs, at)
    const tops = [...new Set(this.works.map((w) => w.top))]
    const count = 2 * tops.length
    const sets = Array.from({ length: Math.max(1, Math.ceil(count / mostQueries)) }, (_, i) =>
      gpu.createQuerySet({ type: 'timestamp', count: Math.max(2, Math.min(mostQueries, count - i * mostQueries)) }),
    )
    const seen = new Set<number>()
    const outputs = this.execute(inputs, at, () =>
      this.device.recorder.timed(() =>
        this.prepared.run(this.works, (top) => {
          if (seen.has(top)) return undefined
          seen.add(top)
          const query = 2 * tops.indexOf(top)
          const [at, querySet] = [query % mostQueries, sets[Math.floor(query / mostQueries)]]
          invariant(querySet !== undefined, 'a query without a set')
          return { querySet, beginningOfPassWriteIndex: at, endOfPassWriteIndex: at + 1 }
        }),
      ),
    )
    const size = 8 * Math.max(2, count)
    const resolved = gpu.createBuffer({ size, usage: usage.queryResolve | usage.copySource })
    const read = gpu.createBuffer({ size, usage: usage.mapRead | usage.copyTarget })
    let ns: BigUint64Array
    try {
      const encoder = gpu.createCommandEncoder()
      sets.forEach((set, i) => {
        encoder.resolveQuerySet(set, 0, set.count, resolved, 8 * i * mostQueries)
      })
      encoder.copyBufferToBuffer(resolved, 0, read, 0, size)
      gpu.queue.submit([encoder.finish()])
      await read.mapAsync(mapRead)
      ns = new BigUint64Array(read.getMappedRange()).slice()
    } catch (cause) {
      await this.device.checked()
      throw new UserError('E_DEVICE', 'the WebGPU device gave no times back', { cause })
    } finally {
      for (const b of [resolved, read]) b.destroy()
      for (const set of sets) set.destroy()
    }
    const times = tops.map((step, i) => ({
      step,
      ms: seen.has(step) ? Number((ns[2 * i + 1] ?? 0n) - (ns[2 * i] ?? 0n)) / 1e6 : 0,
    }))
    return { outputs, times }
  }

  private async profileByHost(
    inputs: readonly DeviceBuffer[],
    at: Extents | undefined,
  ): Promise<{ outputs: DeviceBuffer[]; times: StepTime[] }> {
    const { queue } = this.device.gpu
    const tops = [...new Set(this.works.map((w) => w.top))]
    const times: StepTime[] = []
    let waits: Promise<void> = Promise.resolve()
    this.device.recorder.flush()
    await queue.onSubmittedWorkDone()
    const outputs = this.execute(inputs, at, () => {
      let last = performance.now()
      for (const step of tops) {
        this.prepared.run(this.works.filter((w) => w.top === step))
        this.device.recorder.flush()
        const done = queue.onSubmittedWorkDone()
        waits = waits.then(async () => {
          await done
          const now = performance.now()
          times.push({ step, ms: now - last })
          last = now
        })
      }
    })
    await waits
    return { outputs, times }
  }

  private execute(inputs: readonly DeviceBuffer[], at: Extents | undefined, run: () => void): DeviceBuffer[] {
    const { device, program, prepared } = this
    this.hasBegun = false
    if (this.disposed) throw new UserError('E_DISPOSED', `program ${program.name} has been disposed`)
    device.check()
    const given = inputs.map((b) => device.buffers.own(b))
    const taken: GPUBuffer[] = []
    try {
      for (const { base, buffer, known } of this.fresh) {
        const memory = device.take(bytesAt(bufferOf(program, buffer), at), known)
        taken.push(memory)
        remember(known, memory)
        prepared.buffers[base] = memory
      }
      for (const { base, index } of this.inputs) {
        const have = given[index]
        if (have === undefined) throw new InternalError(`program ${program.name} takes ${program.inputs.length} inputs`)
        prepared.buffers[base] = have.memory
      }
      prepared.open(at)
      this.hasBegun = true
      run()
      return this.results(given, taken, at)
    } catch (e) {
      for (const b of taken) device.release(b)
      throw e
    }
  }

  private results(
    given: readonly TensorBuffer<GPUBuffer>[],
    taken: GPUBuffer[],
    at: Extents | undefined,
  ): DeviceBuffer[] {
    const { device, program, prepared } = this
    const placeOf = (b: number): Place => {
      const place = this.places[b]
      if (place === undefined) throw new InternalError(`program ${program.name} has no buffer ${b}`)
      return place
    }
    return handOut(outletsAt(this.outlets, program, at), given, taken, {
      at: (b) => prepared.buffer(placeOf(b).base),
      alloc: (bytes) => device.take(bytes),
      copy: (b, to, bytes) => copyBuffer(device, prepared.buffer(placeOf(b).base), placeOf(b).offset, to, bytes),
      buffers: device.buffers,
    })
  }

  dispose(): void {
    if (this.disposed) return
    this.disposed = true
    this.resources.dispose()
  }
}

/** Copies bytes (to a whole word) from a place to the beginning of another buffer. */
export function copyBuffer(device: WebgpuDevice, from: GPUBuffer, offset: number, to: GPUBuffer, bytes: number): void {
  if (bytes > 0) device.recorder.copy(from, offset, to, 0, Math.ceil(bytes / 4) * 4)
}
