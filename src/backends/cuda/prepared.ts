/** The commands of a launch plan made ready: kernels compiled, arguments in place, launches gathered into sections. */
import { programsOf } from '../../codegen/simt/ir/launchGrid.ts'
import { callInspector, callKernel, InternalError, UserError } from '../../diagnostics/errors.ts'
import { ProductRefused } from '../../runtime/backend.ts'
import { type BoundBuffer, type Command, elementsOf, type Place } from '../../runtime/commands.ts'
import { bytesAt, type Extents, formulaAt, productAt } from '../../runtime/extents.ts'
import { scalarFormulas } from '../../runtime/launchScalars.ts'
import type { Resources } from '../../runtime/resources.ts'
import { dtypeBytes } from '../../types/dtype.ts'
import { type HostArray, hostArray } from '../../types/host.ts'
import type { ProductCalls, ProductOffsets } from '../../types/product.ts'
import { copyBlocks, copyKernel } from './copy.ts'
import type { Touch } from './dependencies.ts'
import type { CudaDevice } from './device.ts'
import type { Launch } from './driver.ts'
import { StepKernels } from './kernels.ts'
import type { LoadedKernel } from './loading.ts'
import { alignmentOf, type Products } from './products.ts'
import { Section, type SectionLaunch } from './section.ts'
import { DeviceTable } from './table.ts'

/** What runs between sections, on the host. */
export interface HostWork {
  readonly kind: 'host'
  readonly top: number
  readonly run: () => void
}

export type Work = { readonly kind: 'section'; readonly section: Section } | HostWork

/** Arguments, or a table of pointers. */
interface Slots {
  set(i: number, value: number): void
}

/** Addresses that a library's call is given. */
class AddressList implements Slots {
  readonly values: number[]

  constructor(length: number) {
    this.values = new Array<number>(length).fill(0)
  }

  set(i: number, value: number): void {
    this.values[i] = value
  }
}

type ProductCommand = Extract<Command, { kind: 'product' }>

/** A place of arguments or of a table that holds the address of a base. */
interface Use {
  readonly slots: Slots
  readonly index: number
  readonly offset: number
}

/** A launch of a kernel, whose grid may vary from run to run. */
type KernelLaunch = SectionLaunch & Omit<Launch, 'grid'> & { grid: number; varies: boolean }

const endSection = (section: Section): void => section.dispose()

export class Prepared {
  /** Address of each base. */
  readonly addresses: Float64Array
  readonly kernels: StepKernels
  private readonly device: CudaDevice
  /** What of launches follows from the extents of a run. */
  private readonly varying: ((at: Extents) => void)[] = []
  /** The extents of the run, where the program has open ones. */
  private at: Extents | undefined
  /** Bases that change from run to run. */
  private readonly moving: ReadonlySet<number>
  private readonly uses = new Map<number, Use[]>()
  private readonly resources: Resources
  private copier: LoadedKernel | undefined
  /** Memory of what runs once. */
  private transient: number[] = []

  constructor(device: CudaDevice, addresses: Float64Array, moving: ReadonlySet<number>, resources: Resources) {
    this.device = device
    this.addresses = addresses
    this.moving = moving
    this.resources = resources
    this.kernels = new StepKernels(device.kernels, device.machine.simt, resources)
  }

  /** Says where a base stands in the next run. */
  bind(base: number, address: number): void {
    if (this.addresses[base] === address) return
    this.addresses[base] = address
    for (const { slots, index, offset } of this.uses.get(base) ?? []) slots.set(index, address + offset)
  }

  /** Says what the extents of the next run are. */
  open(at: Extents | undefined): void {
    const before = this.at
    if (at === undefined || (before !== undefined && at.every((n, i) => before[i] === n))) return
    // Where one of them fails, the next run begins anew.
    this.at = undefined
    for (const vary of this.varying) vary(at)
    this.at = at
  }

  /** Does what follows from the extents of a run whenever they change; of what passes, once. */
  private vary(passing: boolean, by: (at: Extents) => void): void {
    if (!passing) this.varying.push(by)
    else if (this.at !== undefined) by(this.at)
  }

  private address(p: Place): number {
    return (this.addresses[p.base] ?? 0) + p.offset
  }

  /** The commands as works. `passing` works run once and are not remembered. */
  prepare(commands: readonly Command[], passing = false): Work[] {
    const works: Work[] = []
    let launches: SectionLaunch[] = []
    const close = (): void => {
      if (launches.length === 0) return
      const section = new Section(this.device.context, launches)
      if (!passing) this.resources.hold(endSection, section)
      works.push({ kind: 'section', section })
      launches = []
    }
    for (const c of commands) {
      if (c.kind === 'launch') {
        const kernel = this.kernels.of(c.step, c.places)
        if (kernel.source.programs > 0) launches.push(this.kernelLaunch(kernel, c, passing))
        continue
      }
      if (c.kind === 'copy') {
        launches.push(this.copyLaunch(c, passing))
        continue
      }
      if (c.kind === 'product') {
        launches.push(this.productCall(c, passing))
        continue
      }
      close()
      works.push({ kind: 'host', top: c.top, run: this.hostWork(c, passing) })
    }
    close()
    return works
  }

  private copyLaunch({ from, to, top }: Extract<Command, { kind: 'copy' }>, passing: boolean): SectionLaunch {
    const touches = [
      { place: to, written: true },
      { place: from, written: false },
    ]
    const { bytes, varying } = to
    const launch: KernelLaunch = this.makeLaunch(
      this.copying(),
      copyBlocks(bytes),
      [to, from],
      [bytes],
      undefined,
      top,
      passing,
      touches,
      false,
    )
    if (varying === undefined) return launch
    launch.varies = true
    this.vary(passing, (at) => {
      const now = bytesAt(to, at)
      launch.args.set(2, now)
      launch.grid = Math.max(1, copyBlocks(now))
    })
    return launch
  }

  /** The kernel that copies, which the program holds once. */
  private copying(): LoadedKernel {
    if (this.copier !== undefined) return this.copier
    const { kernels } = this.device
    this.copier = kernels.load(copyKernel)
    this.resources.hold(kernels.letGo, kernels.hold(this.copier))
    return this.copier
  }

  /** A library's product. Throws ProductRefused where the library has no algorithm for it. */
  private productCall({ step, top, a, b, out, addend }: ProductCommand, passing: boolean): SectionLaunch {
    const { products } = this.device
    if (products === undefined) throw new InternalError(`product ${step.name} on a device without a library`)
    const isVarying = step.varying !== undefined
    const matrices = { a, b, out, ...(addend === undefined ? {} : { addend }) }
    const places = addend === undefined ? [a, b, out] : [a, b, out, addend]
    const at = new AddressList(places.length)
    places.forEach((p, i) => {
      this.fill(at, i, p, passing)
    })
    const bound = [...new Set(places.map((p) => p.base))].filter((base) => this.moving.has(base))
    let calls = this.foundCalls(products, step, matrices)
    if (isVarying)
      this.vary(passing, (extents) => {
        const now = productAt(step, extents)
        try {
          calls = this.foundCalls(products, now, matrices)
        } catch (cause) {
          if (!(cause instanceof ProductRefused)) throw cause
          throw new UserError('E_UNSUPPORTED', `${cause.message}, in a program with open extents`, {
            help: "open the device without its library: cuda({ products: 'none' })",
            cause,
          })
        }
      })
    const enqueue = (stream: number): void => {
      const [x = 0, y = 0, to = 0, added] = at.values
      for (const o of calls.offsets)
        calls.run(
          {
            a: x + o.a,
            b: y + o.b,
            out: to + o.out,
            ...(added === undefined || o.addend === undefined ? {} : { addend: added + o.addend }),
          },
          stream,
        )
    }
    const touches = places.map((place, i) => ({ place, written: i === 2 }))
    return { enqueue, top, name: step.name, bound, touches, table: undefined, varies: isVarying }
  }

  /** The library's algorithm for a product's calls, and where their matrices begin, in bytes. Throws ProductRefused. */
  private foundCalls(
    products: Products,
    { product, calls }: ProductCalls,
    { a, b, out, addend }: Pick<ProductCommand, 'a' | 'b' | 'out'> & { readonly addend?: Place },
  ): {
    readonly run: (at: ProductOffsets, stream: number) => void
    readonly offsets: readonly ProductOffsets[]
  } {
    const offsets = calls.map(
      (c): ProductOffsets => ({
        a: c.a * dtypeBytes(product.a.dtype),
        b: c.b * dtypeBytes(product.b.dtype),
        out: c.out * dtypeBytes(product.out.dtype),
        ...(c.addend === undefined ? {} : { addend: c.addend * dtypeBytes(product.out.dtype) }),
      }),
    )
    // Bases are aligned as the pool aligns its blocks.
    const run = products.find(product, {
      a: alignmentOf([a.offset, ...offsets.map((o) => o.a)]),
      b: alignmentOf([b.offset, ...offsets.map((o) => o.b)]),
      out: alignmentOf([out.offset, ...offsets.map((o) => o.out)]),
      ...(addend === undefined ? {} : { addend: alignmentOf([addend.offset, ...offsets.map((o) => o.addend ?? 0)]) }),
    })
    return { run, offsets }
  }

  private kernelLaunch(
    kernel: LoadedKernel,
    command: Extract<Command, { kind: 'launch' }>,
    passing: boolean,
  ): SectionLaunch {
    const { step, places, top } = command
    const { bindings, programs, cluster, rows = 1, table: tabled = [], scalars = [] } = kernel.source
    const blocks = Math.ceil(programs / rows) * cluster
    const none = scalars.map(() => 0)
    const byName = new Map(step.kernel.params.map((p, i) => [p.name, places[i]]))
    const touches = places.map((place, i) => ({ place, written: step.kernel.params[i]?.access !== 'read' }))
    const placeOf = (name: string): Place => {
      const place = byName.get(name)
      if (place === undefined) throw new InternalError(`kernel ${step.kernel.name} has no place for ${name}`)
      return place
    }
    const direct = bindings.map((b) => placeOf(b.name))
    const { waits } = this.kernels
    if (tabled.length === 0) {
      const made = this.makeLaunch(kernel, blocks, direct, none, undefined, top, passing, touches, waits)
      return this.opened(made, kernel, command, direct.length, passing)
    }
    const bytes = 8 * tabled.length
    const address = passing ? this.device.pool.alloc(bytes) : this.device.take(bytes, this.resources)
    if (passing) this.transient.push(address)
    const table = new DeviceTable(this.device, address, tabled.length)
    tabled.forEach((entry, i) => {
      if (typeof entry === 'number') table.set(i, entry)
      else this.fill(table, i, placeOf(entry), passing)
    })
    const made = this.makeLaunch(kernel, blocks, direct, [address, ...none], table, top, passing, touches, waits)
    return this.opened(made, kernel, command, direct.length + 1, passing)
  }

  /** A launch whose arguments behind its first `pointers` and whose grid follow from the extents of the run. */
  private opened(
    launch: KernelLaunch,
    { source }: LoadedKernel,
    { program, step }: Extract<Command, { kind: 'launch' }>,
    pointers: number,
    passing: boolean,
  ): SectionLaunch {
    const { scalars = [], grid, cluster } = source
    if (scalars.length === 0) return launch
    launch.varies = true
    const formulas = scalarFormulas(program, step)
    this.vary(passing, (at) => {
      const values = new Map([...formulas].map(([by, f]) => [by, formulaAt(f, at)]))
      scalars.forEach(({ by }, i) => {
        launch.args.set(pointers + i, values.get(by) ?? 0)
      })
      // A grid has a block, which finds that there is nothing to do.
      if (grid !== undefined)
        launch.grid =
          Math.max(
            1,
            programsOf(grid, (by) => values.get(by) ?? 0),
          ) * cluster
    })
    return launch
  }

  /** Puts the address of a place into a slot, now and whenever it changes. */
  private fill(slots: Slots, index: number, p: Place, passing: boolean): void {
    slots.set(index, this.address(p))
    if (passing || !this.moving.has(p.base)) return
    const list = this.uses.get(p.base) ?? []
    this.uses.set(p.base, list)
    list.push({ slots, index, offset: p.offset })
  }

  private makeLaunch(
    { fn, source }: LoadedKernel,
    grid: number,
    places: readonly Place[],
    values: readonly number[],
    table: DeviceTable | undefined,
    top: number,
    passing: boolean,
    touches: readonly Touch[],
    waits: boolean,
  ): KernelLaunch {
    const args = this.device.context.makeArguments(places.length + values.length)
    const bound = [...new Set(places.map((p) => p.base))].filter((b) => this.moving.has(b))
    const sharedBytes = source.dynamicSharedBytes
    places.forEach((p, i) => {
      this.fill(args, i, p, passing)
    })
    values.forEach((v, i) => {
      args.set(places.length + i, v)
    })
    const { threads, rows, entry: name } = source
    return {
      ...(rows === undefined ? {} : { rows }),
      fn,
      grid,
      threads,
      sharedBytes,
      args,
      waits,
      top,
      name,
      bound,
      touches,
      table,
      varies: false,
    }
  }

  private hostWork(c: Exclude<Command, { kind: 'launch' | 'copy' | 'product' }>, passing: boolean): () => void {
    switch (c.kind) {
      case 'inspect':
        return () => {
          callInspector(c.step.label, () =>
            c.step.call(this.read(c.buffer), c.buffer.buffer.shape, c.buffer.buffer.dtype),
          )
        }
      case 'opaque':
        return () => {
          const { place, buffer } = c.output
          const result = hostArray(buffer.dtype, elementsOf(buffer))
          callKernel(c.step.name, () =>
            c.step.run(
              c.inputs.map((b) => this.read(b)),
              result,
            ),
          )
          this.device.copyIn(this.address(place), result)
        }
      case 'cond': {
        const whenTrue = this.prepare(c.whenTrue, passing)
        const whenFalse = this.prepare(c.whenFalse, passing)
        return () => this.run(this.holds(c.test) ? whenTrue : whenFalse)
      }
      case 'while': {
        const rounds = c.rounds.map((r) => ({
          test: this.prepare(r.test, passing),
          body: this.prepare(r.body, passing),
          finish: this.prepare(r.finish, passing),
          next: r.next,
        }))
        return () => {
          for (let state = rounds[0]; state !== undefined; state = rounds[state.next]) {
            this.run(state.test)
            if (!this.holds(c.flag)) {
              this.run(state.finish)
              return
            }
            this.run(state.body)
          }
        }
      }
      case 'repeat':
        // What a library refuses shows now: places move by equal steps, so that two of them have every alignment there is.
        for (let t = 0; t < Math.min(2, c.length); t++) this.once(() => this.prepare(c.at(t), true))
        return () => {
          for (let t = 0; t < c.length; t++) this.once(() => this.run(this.prepare(c.at(t), true)))
        }
    }
  }

  /** Works that run once: memory of theirs goes back behind them. */
  private once(body: () => void): void {
    const around = this.transient
    this.transient = []
    try {
      body()
    } finally {
      for (const a of this.transient) this.device.pool.release(a)
      this.transient = around
    }
  }

  run(works: readonly Work[]): void {
    for (const w of works) {
      if (w.kind === 'section') w.section.run(this.addresses, this.at)
      else w.run()
    }
  }

  /** Whether a bool scalar in memory is true. */
  private holds(p: Place): boolean {
    const out = new Uint8Array(1)
    this.device.copyOut(this.address(p), out)
    return out[0] !== 0
  }

  private read({ place, buffer }: BoundBuffer): HostArray {
    const out = hostArray(buffer.dtype, elementsOf(buffer))
    this.device.copyOut(this.address(place), out)
    return out
  }
}
