/** A launch plan prepared for WebAssembly: addresses of its buffers, parameter tables of its kernels, and its steps run. */
import { callInspector, callKernel, InternalError, invariant } from '../../diagnostics/errors.ts'
import { gridSize } from '../../kernel/ir.ts'
import type { StepTime } from '../../runtime/backend.ts'
import { bytesAt, type Extents } from '../../runtime/extents.ts'
import type {
  InnerProgram,
  KernelStep as Kernel,
  ProductStep,
  Program,
  ProgramBuffer,
  ProgramStep,
  RegionStep,
} from '../../runtime/program.ts'
import { bufferOf } from '../../runtime/shared.ts'
import { type HostArray, hostArray, hostView } from '../../types/host.ts'
import type { Device } from './device.ts'
import type { KernelFunction } from './pool.ts'
import { type Placed, prepareRegion, type Region } from './regions.ts'

type HostStep = Exclude<ProgramStep, { kind: 'kernel' } | ProductStep | RegionStep>

/** A kernel compiled. */
export interface CompiledKernel {
  readonly run: KernelFunction
  /** The module it is in, and its number among the program's kernels. */
  readonly module: number
  readonly number: number
  readonly programs: number
  /** Worth sharing between threads. */
  readonly shared: boolean
  /** Calls a run on one thread is cut into: the engine replaces a function by its optimised code between calls. */
  readonly calls: number
}

/** What a program and the programs inside it are prepared with. */
export interface Preparation {
  readonly device: Device
  /** The modules of their kernels, once the device has them. */
  moduleIds: readonly number[]
  kernel(step: Kernel): CompiledKernel
  /** Memory until the executable is disposed of. */
  take(bytes: number): number
}

interface KernelStep extends CompiledKernel {
  readonly kind: 'kernel'
  readonly table: number
}

type PreparedStep =
  | KernelStep
  | { readonly kind: 'host'; readonly step: HostStep }
  | { readonly kind: 'region'; readonly region: Region }

export class Prepared implements Placed {
  readonly program: Program
  /** Address of each buffer; those of inputs and outputs are bound before a run. */
  readonly addresses: Float64Array
  /** The extents of the run, where the program has open ones. */
  at: Extents | undefined
  private readonly with: Preparation
  private readonly steps: readonly PreparedStep[]
  /** By buffer, the places (32-bit words of memory) of parameter tables that hold its address. */
  private readonly uses: readonly (readonly number[])[]

  /** `arena` is the address of the program's arena. */
  constructor(program: Program, arena: number, preparation: Preparation) {
    const { device } = preparation
    this.program = program
    this.with = preparation
    const addresses = new Float64Array(program.buffers.length).fill(-1)
    this.addresses = addresses
    program.buffers.forEach((b, i) => {
      if (b.source.kind === 'temp') addresses[i] = arena + b.source.offset
      if (b.source.kind !== 'constant') return
      addresses[i] = preparation.take(b.bytes)
      device.copyIn(addresses[i] ?? 0, b.source.data)
    })
    const uses: number[][] = program.buffers.map(() => [])
    this.uses = uses
    this.steps = program.steps.map((step): PreparedStep => {
      switch (step.kind) {
        case 'kernel': {
          const table = preparation.take(4 * step.buffers.length)
          step.buffers.forEach((b, i) => {
            const at = table / 4 + i
            const { kind } = bufferOf(program, b).source
            if (kind === 'temp' || kind === 'constant') device.words()[at] = addresses[b] ?? 0
            else uses[b]?.push(at)
          })
          return { kind: 'kernel', table, ...preparation.kernel(step) }
        }
        case 'cond':
        case 'while':
        case 'loop':
          return { kind: 'region', region: prepareRegion(this, step, device, (inner) => this.inside(inner)) }
        case 'product':
          throw new InternalError(`${step.name} is a library call: WebAssembly has no library`)
        default:
          return { kind: 'host', step }
      }
    })
  }

  /** An inner program at the arena that this one has for it. */
  private inside({ program, arena }: InnerProgram): Prepared {
    if (arena === undefined) return new Prepared(program, 0, this.with)
    invariant(bufferOf(this.program, arena).source.kind === 'temp', 'the arena of a region is no intermediate')
    return new Prepared(program, this.address(arena), this.with)
  }

  address(b: number): number {
    return this.addresses[b] ?? 0
  }

  /** Says where an input or output stands in the next run; `words` is memory. */
  bind(b: number, address: number, words: Uint32Array): void {
    if (this.addresses[b] === address) return
    this.addresses[b] = address
    for (const at of this.uses[b] ?? []) words[at] = address
  }

  run(): void {
    for (const s of this.steps) this.step(s)
  }

  /** Runs with a clock around every step; `now` reads it, in milliseconds. */
  profile(now: () => number): StepTime[] {
    return this.steps.map((s, step) => {
      const from = now()
      this.step(s)
      return { step, ms: now() - from }
    })
  }

  private step(s: PreparedStep): void {
    if (s.kind === 'kernel') this.launch(s)
    else if (s.kind === 'host') this.host(s.step)
    else s.region.run()
  }

  private launch(s: KernelStep): void {
    const { device } = this.with
    if (s.shared && device.pool !== undefined) {
      const id = this.with.moduleIds[s.module] ?? 0
      device.pool.run(s.run, id, s.number, s.table, s.programs, device.scratch(0), (w) => device.scratch(w + 1))
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

  private host(s: HostStep): void {
    const { program } = this
    const { device } = this.with
    if (s.kind === 'copy') {
      device.copy(this.address(s.from), this.address(s.to), bytesAt(bufferOf(program, s.to), this.at))
      return
    }
    if (s.kind === 'inspect') {
      const b = bufferOf(program, s.buffer)
      callInspector(s.label, () => s.call(this.read(s.buffer), b.shape, b.dtype))
      return
    }
    const out = bufferOf(program, s.output)
    const result = hostArray(out.dtype, elements(out))
    callKernel(s.name, () =>
      s.run(
        s.inputs.map((b) => this.read(b)),
        result,
      ),
    )
    device.copyIn(this.address(s.output), result)
  }

  /** A copy of a buffer's elements. */
  private read(b: number): HostArray {
    const buffer = bufferOf(this.program, b)
    return hostView(buffer.dtype, this.with.device.memory.buffer, this.address(b), elements(buffer)).slice()
  }
}

const elements = (b: ProgramBuffer): number => b.shape.reduce((n, d) => n * d, 1)

/** Programs of a kernel's grid. */
export const programsOf = (s: Kernel): number => s.kernel.parts.reduce((n, p) => n + gridSize(p), 0)

/** Whether programs of a kernel may write the same element. */
export const scatters = (s: Kernel): boolean =>
  s.kernel.parts.some((p) => p.body.some((x) => x.kind === 'store' && x.combiner !== undefined))
