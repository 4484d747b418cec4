/** The commands of a launch plan made ready for WebGPU: pipelines, bind groups, and commands encoded. */

import { programsOf } from '../../codegen/simt/ir/launchGrid.ts'
import { dispatchSize, emitKernel, type KernelSource } from '../../codegen/simt/kernel.ts'
import { InternalError, UserError } from '../../diagnostics/errors.ts'
import type { Kernel, KernelParam } from '../../kernel/ir.ts'
import { printUnnamed } from '../../kernel/print.ts'
import { bufferOf, type Command, type commandsOf, type Place } from '../../runtime/commands.ts'
import { bytesAt, type Extents, formulaAt } from '../../runtime/extents.ts'
import { scalarFormulas } from '../../runtime/launchScalars.ts'
import type { Program } from '../../runtime/program.ts'
import { kernelsOf } from '../../runtime/region.ts'
import type { Resources } from '../../runtime/resources.ts'
import { showShape } from '../../types/shape.ts'
import { shareParams } from './aliases.ts'
import { byteCopy } from './byteCopy.ts'
import type { WebgpuDevice } from './device.ts'
import { uniformParams } from './uniforms.ts'
import { refuseHostStep } from './unsupported.ts'

type CommandList = ReturnType<typeof commandsOf>

/** What is bound: a place, or a buffer of the backend's own. */
type Bound = { readonly binding: number } & ({ readonly place: Place } | { readonly own: GPUBuffer })

/** A kernel to dispatch. */
export interface Dispatch {
  readonly kind: 'dispatch'
  readonly top: number
  readonly pipeline: GPUComputePipeline
  readonly name: string
  /** Workgroups; where extents vary, those of the run. */
  size: readonly [number, number]
  readonly bound: readonly Bound[]
  /** Copied from places before. */
  readonly before: readonly { readonly from: Place; readonly to: GPUBuffer }[]
  /** Bind groups by the buffers of their places, used last first. */
  readonly groups: { readonly buffers: readonly GPUBuffer[]; readonly group: GPUBindGroup }[]
}

interface BufferCopy {
  readonly kind: 'copy'
  readonly top: number
  readonly from: Place
  readonly to: Place
  /** Between places of one buffer, which WebGPU does not copy directly. */
  readonly through: GPUBuffer | undefined
}

interface Repeat {
  readonly kind: 'repeat'
  readonly top: number
  readonly length: number
  readonly at: (step: number) => Work[]
}

export type Work = Dispatch | BufferCopy | Repeat

type BufferCopyArguments = [from: GPUBuffer, fromOffset: number, to: GPUBuffer, toOffset: number, bytes: number]

/** Buffers of tensors alternate between few; more bind groups than this are not kept. */
const maxGroups = 16

const padded = (bytes: number): number => Math.max(16, Math.ceil(bytes / 16) * 16)

export class Prepared {
  readonly buffers: (GPUBuffer | undefined)[]
  private readonly device: WebgpuDevice
  private readonly bases: CommandList['bases']
  private readonly resources: Resources
  /** By source. */
  private readonly pipelines = new Map<string, GPUComputePipeline>()
  /** By the kernel's text and what it may write and reads as uniforms: kernels that are equal up to their names are emitted once. */
  private readonly sources = new Map<string, KernelSource>()
  private take: (bytes: number) => GPUBuffer
  private isTried = false
  /** What is prepared now runs once. */
  private isPassing = false
  private readonly program: Program
  /** The extents of the run, where the program has open ones. */
  private at: Extents | undefined
  /** What of dispatches follows from them. */
  private readonly varying: ((at: Extents) => void)[] = []

  constructor(device: WebgpuDevice, program: Program, list: CommandList, resources: Resources) {
    this.device = device
    this.program = program
    this.buffers = list.bases.map(() => undefined)
    this.bases = list.bases
    this.resources = resources
    this.take = (bytes) => resources.hold(device.release, device.take(bytes), bytes)
  }

  /** The pipeline of a source, held once however often its kernel is dispatched. */
  private pipeline(source: Pick<KernelSource, 'source' | 'entry'>): GPUComputePipeline {
    const have = this.pipelines.get(source.source)
    if (have !== undefined) return have
    const made = this.device.pipeline(source, this.resources)
    this.pipelines.set(source.source, made)
    return made
  }

  /** Says what the extents of the next run are. */
  open(at: Extents | undefined): void {
    const before = this.at
    this.at = at
    if (at === undefined || (before !== undefined && at.every((n, i) => before[i] === n))) return
    for (const vary of this.varying) vary(at)
  }

  buffer(base: number): GPUBuffer {
    const b = this.buffers[base]
    if (b === undefined) throw new InternalError(`base ${base} has no buffer`)
    return b
  }

  /**
   * Throws for the first thing that is more than the device has, before there is memory or code for any: E_UNSUPPORTED for what a kernel
   * binds, E_OUT_OF_MEMORY for a buffer.
   */
  checkLimits(): void {
    for (const { step, program: of } of kernelsOf(this.program))
      step.kernel.params.forEach((p, i) => {
        this.checkBinding(step.kernel, p, bufferOf(of, step.buffers[i] ?? -1).bytes)
      })
    for (const b of this.bases) this.device.pool.checkSize(b.bytes)
  }

  private checkBinding({ name }: Kernel, p: KernelParam, size: number): void {
    const most = this.device.limits.maxStorageBufferBindingSize
    const bytes = padded(size)
    if (bytes <= most) return
    throw new UserError(
      'E_UNSUPPORTED',
      `a tensor ${p.dtype}${showShape(p.shape)} of the kernel ${name} has ${bytes} bytes; this WebGPU device binds at most ${most} at once`,
      { help: 'work on smaller pieces of it' },
    )
  }

  prepare(commands: readonly Command[]): Work[] {
    return commands.flatMap((c): Work[] => {
      switch (c.kind) {
        case 'launch':
          return this.dispatch(c)
        case 'copy':
          return [this.copy(c.from, c.to, c.top)]
        case 'repeat':
          return [{ kind: 'repeat', top: c.top, length: c.length, at: (t) => this.prepare(c.at(t)) }]
        default:
          return refuseHostStep(c.step)
      }
    })
  }

  /** Whole words are copied by the queue, other bytes by a kernel. */
  private copy(from: Place, to: Place, top: number): Work {
    // Bytes behind a whole buffer are its own.
    const whole = to.offset % 4 === 0 && from.offset % 4 === 0
    if (whole && (to.bytes % 4 === 0 || (to.offset % 16 === 0 && from.offset % 16 === 0 && isAlone(to))))
      return { kind: 'copy', top, from, to, through: from.base === to.base ? this.take(to.bytes) : undefined }
    const words = this.device.scoped('a copy', () => {
      const buffer = this.take(16)
      this.device.write(buffer, new Uint32Array([from.offset, to.offset, to.bytes, 0]))
      return buffer
    })
    const pipeline = this.pipeline(byteCopy)
    const all = (p: Place): Place => ({ base: p.base, offset: 0, bytes: Math.ceil((p.offset + p.bytes) / 16) * 16 })
    return {
      kind: 'dispatch',
      top,
      pipeline,
      name: byteCopy.entry,
      size: dispatchSize(
        Math.ceil((to.bytes + 3) / 4 / byteCopy.threads) + 1,
        this.device.limits.maxComputeWorkgroupsPerDimension,
      ),
      bound: [
        { binding: 0, place: all(from) },
        { binding: 1, place: all(to) },
        { binding: 2, own: words },
      ],
      before: [],
      groups: [],
    }
  }

  private dispatch({ step, program, places: given, top }: Extract<Command, { kind: 'launch' }>): Work[] {
    const shared = shareParams(step.kernel, given)
    const { kernel, places, writable, copied } = shared
    const { device } = this
    const uniform = uniformParams(shared, this.bases)
    const source = this.sourceOf(kernel, writable, uniform)
    if (source.programs === 0) return []
    const before: { from: Place; to: GPUBuffer }[] = []
    const placeOf = new Map(kernel.params.map((p, i) => [p.name, places[i]]))
    const bound = source.bindings.map(({ name, binding }): Bound => {
      const place = placeOf.get(name)
      if (place === undefined) throw new InternalError(`kernel ${kernel.name} has no place for ${name}`)
      if (!copied.has(name)) return { binding, place }
      const own = this.take(place.bytes)
      before.push({ from: place, to: own })
      return { binding, own }
    })
    const size = (programs: number): readonly [number, number] =>
      dispatchSize(programs, device.limits.maxComputeWorkgroupsPerDimension)
    const dispatch: Dispatch = {
      kind: 'dispatch',
      top,
      pipeline: this.pipeline(source),
      name: kernel.name,
      size: size(source.programs),
      bound,
      before,
      groups: [],
    }
    const { grid } = source
    if (grid === undefined) return [dispatch]
    const formulas = scalarFormulas(program, step)
    const vary = (at: Extents): void => {
      const scalarAt = (by: string): number => {
        const formula = formulas.get(by)
        return formula === undefined ? 0 : formulaAt(formula, at)
      }
      dispatch.size = size(programsOf(grid, scalarAt))
    }
    if (!this.isPassing) this.varying.push(vary)
    else if (this.at !== undefined) vary(this.at)
    return [dispatch]
  }

  private sourceOf(kernel: Kernel, writable: ReadonlySet<string>, uniform: ReadonlySet<string>): KernelSource {
    const key = `${[...writable].join()};${[...uniform].join()};${printUnnamed(kernel)}`
    const have = this.sources.get(key)
    if (have !== undefined) return have
    const made = emitKernel(kernel, this.device.machine.simt, {
      writable: (p) => writable.has(p),
      uniform: (p) => uniform.has(p),
    })
    this.sources.set(key, made)
    return made
  }

  private copyInto(from: Place, to: GPUBuffer, offset: number): BufferCopyArguments {
    return [this.buffer(from.base), from.offset, to, offset, Math.ceil(bytesAt(from, this.at) / 4) * 4]
  }

  private copies({ from, to, through }: BufferCopy): BufferCopyArguments[] {
    const target = this.buffer(to.base)
    if (through === undefined) return [this.copyInto(from, target, to.offset)]
    const bytes = Math.ceil(bytesAt(to, this.at) / 4) * 4
    return [this.copyInto(from, through, 0), [through, 0, target, to.offset, bytes]]
  }

  private group(d: Dispatch): GPUBindGroup {
    const { groups } = d
    for (let i = 0; i < groups.length; i++) {
      const have = groups[i]
      if (have === undefined || !this.stands(d, have.buffers)) continue
      if (i > 0) {
        groups.splice(i, 1)
        groups.unshift(have)
      }
      return have.group
    }
    const group = this.device.scoped(`the buffers of kernel ${d.name}`, () =>
      this.device.gpu.createBindGroup({
        layout: d.pipeline.getBindGroupLayout(0),
        entries: d.bound.map((b) => {
          if ('own' in b) return { binding: b.binding, resource: { buffer: b.own } }
          const buffer = this.buffer(b.place.base)
          const { offset } = b.place
          return {
            binding: b.binding,
            resource: { buffer, offset, size: Math.min(padded(b.place.bytes), buffer.size - offset) },
          }
        }),
      }),
    )
    const buffers = d.bound.flatMap((b) => ('own' in b ? [] : [this.buffer(b.place.base)]))
    groups.unshift({ buffers, group })
    if (groups.length > maxGroups) groups.pop()
    return group
  }

  /** Whether the places of a dispatch lie in these buffers now. */
  private stands(d: Dispatch, buffers: readonly GPUBuffer[]): boolean {
    let i = 0
    for (const b of d.bound) if (!('own' in b) && this.buffers[b.place.base] !== buffers[i++]) return false
    return true
  }

  /** Records works; `timestamps` gives what a pass of a step writes. */
  run(works: readonly Work[], timestamps?: (top: number) => GPUComputePassTimestampWrites | undefined): void {
    // What is wrong with the commands themselves shows when they are first submitted.
    if (this.isTried) this.record(works, timestamps)
    else {
      const { recorder } = this.device
      recorder.flush()
      this.device.scoped('the commands of a program', () => {
        this.record(works, timestamps)
        recorder.flush()
      })
      this.isTried = true
    }
  }

  /** Works that are prepared and recorded once: their own buffers go back at once, since what is recorded still sees them. */
  private passing(body: () => void): void {
    const { take, device } = this
    const taken: GPUBuffer[] = []
    this.isPassing = true
    this.take = (bytes) => {
      const buffer = device.take(bytes)
      taken.push(buffer)
      return buffer
    }
    try {
      body()
    } finally {
      this.take = take
      this.isPassing = false
      for (const b of taken) device.release(b)
    }
  }

  private record(
    works: readonly Work[],
    timestamps: ((top: number) => GPUComputePassTimestampWrites | undefined) | undefined,
  ): void {
    const { recorder } = this.device
    let top = -1
    for (const w of works) {
      if (w.kind === 'repeat') {
        for (let t = 0; t < w.length; t++) this.passing(() => this.record(w.at(t), timestamps))
        continue
      }
      if (w.kind === 'copy') {
        for (const c of this.copies(w)) recorder.copy(...c)
        continue
      }
      for (const c of w.before) recorder.copy(...this.copyInto(c.from, c.to, 0))
      if (timestamps !== undefined && top !== w.top) {
        const writes = timestamps(w.top)
        if (writes === undefined) recorder.endPass()
        else recorder.beginTimed(writes)
        top = w.top
      }
      recorder.dispatch(w.pipeline, this.group(w), w.size[0], w.size[1])
    }
  }
}

/** Whether the bytes behind a place, to a whole word, belong to it: places of buffers begin at multiples of 16 bytes. */
const isAlone = (p: Place): boolean => p.offset % 16 === 0
