/** `jit`: a function of tensors compiled once per input signature. */
import '../tensor/disposal.ts'
import type { Budgets } from '../../compile/planGraph.ts'
import { invariant, UserError } from '../../diagnostics/errors.ts'
import type { FusionReport } from '../../report/data.ts'
import { formatReport } from '../../report/format.ts'
import type { DeviceBuffer } from '../../runtime/backend.ts'
import { callsHost } from '../../runtime/region.ts'
import { outletsOf } from '../../runtime/results.ts'
import { precisions } from '../../types/product.ts'
import { checkChoice, checkList, checkTransform, kinds, optionNames } from '../calls/options.ts'
import { located, placed } from '../calls/place.ts'
import { type ByteSize, byteSize } from '../device/bytes.ts'
import type { Compiled, CompileRequest, Device, DeviceName, Mode } from '../device/device.ts'
import { deviceOr } from '../device/session.ts'
import { currentTrace, donate, settledStorage, storageOf, type TensorCore } from '../tensor/core.ts'
import { retain, Storage } from '../tensor/storage.ts'
import { type Tensor, wrap } from '../tensor/tensor.ts'
import { type Traced, traceFunction } from '../tensor/traceFunction.ts'
import { type Abstract, describe, matches, rebuildTree, sameTree, TensorSpec, type TreeSpec } from '../tensor/tree.ts'
import { DynamicPrograms, declaredDynamic } from './dynamic.ts'
import { Recompiles } from './recompiles.ts'

/** Options of `jit`. */
export interface JitOptions {
  /** Positions of arguments whose memory the program may take over: reading those tensors afterwards throws E_DISPOSED. */
  readonly donate?: readonly number[]
  /** `fast` (default) or `strict`: bits equal to running each operation alone. */
  readonly mode?: Mode
  /** Device to run on; the current one unless given. */
  readonly device?: DeviceName | Device
  /**
   * How contractions of f32 multiply in fast mode where they do not say themselves: `ieee` in f32, `tf32` with operands of
   * ten bits behind the point, `tf32x3` with sums of two such numbers, almost as exact as f32, on devices whose matrix units take them
   * (docs/numerics.md, "Precision"). Unless given `tf32x3` on such devices, `ieee` elsewhere.
   */
  readonly precision?: 'ieee' | 'tf32x3' | 'tf32'
  /**
   * Most bytes of intermediate values at once (inputs and results are the caller's): `512MB`, `1GiB` or a number. Values the
   * backward pass needs are computed again to stay inside, then large values are computed a strip of an axis at a time, as loops. Throws
   * E_OUT_OF_MEMORY with the least that computing again reaches. Over extents that vary it holds at each of them. The reference device keeps no plan and takes no budget.
   */
  readonly memoryBudget?: ByteSize
  /** Most bytes that stand between a forward pass and its backward pass. Otherwise as `memoryBudget`. */
  readonly savedBudget?: ByteSize
  /**
   * Arguments whose extents vary from call to call, as specs with dimensions: `[spec([dim('batch', 1, 64), 384])]`; `undefined` for an argument
   * whose shape does not, and trees of specs for trees. One program serves a range of extents, where the function is the same there but for numbers;
   * else one is compiled for a shape, and `explain` says why (docs/open.md).
   */
  readonly dynamic?: readonly unknown[]
}

const jitOptions = optionNames<JitOptions>('{ donate: [0] }', {
  donate: kinds.anything,
  mode: kinds.anything,
  device: kinds.anything,
  precision: kinds.anything,
  memoryBudget: kinds.anything,
  savedBudget: kinds.anything,
  dynamic: kinds.anything,
})

/** A fusion report that prints itself. */
export type Explanation = FusionReport & { toString(): string }

/** A jitted function. */
export interface JitFunction<A extends readonly unknown[], R> {
  /** Runs the compiled program, compiling it if this signature is new. */
  (...args: A): R
  /** The fusion report for arguments like these; `spec(shape, dtype)` may stand for a tensor. Throws E_DEVICE where nothing is compiled. */
  explain(...args: { [K in keyof A]: Abstract<A[K]> }): Explanation
  /** Compiles for arguments like these without running. */
  compile(...args: { [K in keyof A]: Abstract<A[K]> }): void
  /**
   * Gives back what its programs hold of the device: code, constants, intermediates. Without it they go when the function is collected.
   * Tensors it gave stay. Calls afterwards throw E_DISPOSED; twice is harmless.
   */
  dispose(): void
  [Symbol.dispose](): void
}

/** One compiled signature. */
interface Entry {
  readonly args: TreeSpec
  readonly device: Device
  readonly compiled: Compiled
  readonly donated: readonly boolean[]
  readonly donates: boolean
  readonly captured: readonly TensorCore[]
  readonly result: TreeSpec
  readonly places: readonly number[]
  /** Of each output of the program, the number of the donated argument whose memory it stands in. */
  readonly standsIn: readonly (number | undefined)[]
  /** Type of each output of the program. */
  readonly outputs: readonly { readonly shape: readonly number[]; readonly dtype: Tensor['dtype'] }[]
  /** Whether code of the user runs inside it, which may call the function again. */
  readonly callsBack: boolean
  /** Calls under way, of those that call back. */
  running: number
  /** It is to go when it has run. */
  ended: boolean
}

/** Compiled signatures kept for one function; the least recently used that does not run goes first. */
const maxEntries = 128

/** Ends a program: at once, or when it has run. */
function end(entry: Entry): void {
  entry.ended = true
  if (entry.running === 0) entry.compiled.dispose()
}

class Jitted {
  readonly #f: (...args: never[]) => unknown
  readonly #name: string
  readonly #options: JitOptions
  readonly #budgets: Budgets
  /** Most recently used first. */
  readonly #entries: Entry[] = []
  #disposed = false
  readonly #recompiles: Recompiles
  /** Where extents of arguments vary. */
  readonly #dynamic: DynamicPrograms | undefined

  constructor(f: (...args: never[]) => unknown, options: JitOptions) {
    this.#f = f
    this.#name = f.name === '' ? 'program' : f.name
    this.#options = options
    this.#recompiles = new Recompiles(this.#name)
    const { memoryBudget, savedBudget } = options
    this.#budgets = {
      memory: memoryBudget === undefined ? undefined : byteSize(memoryBudget, 'memoryBudget'),
      saved: savedBudget === undefined ? undefined : byteSize(savedBudget, 'savedBudget'),
    }
    const dynamic = options.dynamic ?? declaredDynamic(f)
    if (dynamic === undefined) return
    if (savedBudget !== undefined)
      throw new UserError('E_ARGUMENT', 'dynamic beside savedBudget', {
        help: 'nothing is computed again for a backward pass over extents that vary: give memoryBudget, or leave one of the two out',
      })
    this.#dynamic = new DynamicPrograms(f, dynamic)
  }

  /** Ends its programs, those that run when they have run. */
  dispose(): void {
    this.#disposed = true
    for (const entry of this.#entries.splice(0)) end(entry)
    this.#dynamic?.dispose()
  }

  #checkAlive(): void {
    if (this.#disposed)
      throw new UserError('E_DISPOSED', `the jitted function ${this.#name} has been disposed of`, {
        help: 'dispose of it after its last call, or make it again with jit',
      })
  }

  call(args: readonly unknown[]): unknown {
    this.#checkAlive()
    // Inside another trace the function is part of it.
    if (currentTrace() !== undefined) return this.#f(...(args as never[]))
    const leaves: Tensor[] = []
    const entry = this.#find(args, leaves) ?? this.#compileFor(args, leaves)
    if (!entry.callsBack) return run(entry, leaves)
    entry.running++
    try {
      return run(entry, leaves)
    } finally {
      entry.running--
      if (entry.ended) end(entry)
    }
  }

  /** The entry of a call's signature, moved to the front. */
  #find(args: readonly unknown[], leaves: Tensor[]): Entry | undefined {
    const device = deviceOr(this.#options.device)
    for (let i = 0; i < this.#entries.length; i++) {
      const entry = this.#entries[i]
      if (entry === undefined) continue
      leaves.length = 0
      if (entry.device !== device || !matches(entry.args, args, leaves)) continue
      if (i > 0) {
        this.#entries.splice(i, 1)
        this.#entries.unshift(entry)
      }
      return entry
    }
    return undefined
  }

  #compileFor(args: readonly unknown[], leaves: Tensor[]): Entry {
    const found: (Tensor | TensorSpec)[] = []
    const structure = describe(args, found, 'arguments')
    leaves.length = 0
    for (const x of found) {
      if (x instanceof TensorSpec)
        throw new UserError('E_ARGUMENT', 'a jitted function called with a tensor spec', {
          help: 'specs are for explain and compile',
        })
      // A disposed argument must not cost a compilation.
      storageOf(x, 'a jitted call')
      leaves.push(x)
    }
    const entry = this.#add(structure, args)
    if (entry.compiled.report?.open === undefined) this.#recompiles.note(structure, calls)
    return entry
  }

  /** A program for arguments, and what was traced for it. */
  #program(
    structure: TreeSpec,
    args: readonly unknown[],
    device: Device,
  ): { readonly compiled: Compiled; readonly traced: Traced } {
    const request = (traced: Traced): CompileRequest => this.#request(traced, args.length).request
    if (this.#dynamic !== undefined) return this.#dynamic.of(structure, device, request)
    const traced = traceFunction(this.#f, args)
    return { compiled: device.compile(traced.graph, request(traced)), traced }
  }

  /** How a traced function is to be compiled, and which of the arguments' tensors are donated. */
  #request(traced: Traced, count: number): { readonly request: CompileRequest; readonly donated: readonly boolean[] } {
    const given = new Set(this.#options.donate ?? [])
    for (const i of given)
      if (traced.leavesOfArgument[i] === undefined)
        throw new UserError('E_ARGUMENT', `donate names argument ${i} of ${count}`, {
          help: 'positions count from 0',
        })
    const donated = traced.leavesOfArgument.flatMap((n, i) => new Array<boolean>(n).fill(given.has(i)))
    const { mode = 'fast', precision } = this.#options
    const request = {
      mode,
      donated: [...donated, ...traced.captured.map(() => false)],
      name: this.#name,
      budgets: this.#budgets,
      ...(precision === undefined ? {} : { precision }),
    }
    return { request, donated }
  }

  #add(structure: TreeSpec, args: readonly unknown[]): Entry {
    this.#checkAlive()
    const device = deviceOr(this.#options.device)
    const { compiled, traced } = this.#program(structure, args, device)
    const { donated } = this.#request(traced, args.length)
    const outlets = compiled.program === undefined ? [] : outletsOf(compiled.program).outputs
    const entry: Entry = {
      args: structure,
      device,
      compiled,
      standsIn: outlets.map(({ from }) => (typeof from === 'number' ? from : undefined)),
      donated,
      donates: donated.includes(true),
      captured: traced.captured,
      result: traced.result,
      places: traced.places,
      outputs: traced.graph.outputs.map((n) => ({ shape: n.shape, dtype: n.dtype })),
      callsBack: compiled.program === undefined || callsHost(compiled.program),
      running: 0,
      ended: false,
    }
    this.#entries.unshift(entry)
    if (this.#entries.length > maxEntries) {
      const oldest = this.#entries.findLastIndex((e) => e !== entry && e.running === 0)
      for (const e of oldest < 0 ? [] : this.#entries.splice(oldest, 1)) end(e)
    }
    return entry
  }

  /** The entry for arguments that may be specs. */
  entryFor(args: readonly unknown[]): Entry {
    const device = deviceOr(this.#options.device)
    const structure = describe(args, [], 'arguments')
    return this.#entries.find((e) => e.device === device && sameTree(e.args, structure)) ?? this.#add(structure, args)
  }
}

/** A donated argument of a call. */
interface Donation {
  readonly tensor: Tensor
  readonly storage: Storage
  readonly buffer: DeviceBuffer
  /** What the program gets where someone else holds the value too. */
  readonly copy: DeviceBuffer | undefined
}

/** The donated arguments of a call, by number. */
type Donations = (Donation | undefined)[]

/**
 * The storages of a call's results, when the program has run: donated arguments end. A result in the memory of one takes over its
 * storage where it is of the same type, so that a step of training makes none.
 */
function storagesOf(entry: Entry, buffers: readonly DeviceBuffer[], donations: Donations): Storage[] {
  const { device, outputs, standsIn } = entry
  for (const d of donations) if (d !== undefined) donate(d.tensor, d.storage)
  const kept = outputs.map(({ shape, dtype }, i) => {
    const d = donations[standsIn[i] ?? -1]
    return d !== undefined && d.buffer === buffers[i] && d.storage.takeBack(shape, dtype) ? d.storage : undefined
  })
  for (const d of donations) {
    if (d === undefined || d.storage.refs > 0) continue
    if (d.copy === undefined) d.storage.surrender()
    else d.storage.free()
  }
  return outputs.map(({ shape, dtype }, i) => {
    const buffer = buffers[i]
    invariant(buffer !== undefined, 'a program with too few outputs')
    return kept[i] ?? Storage.ofBuffer(device, buffer, shape, dtype)
  })
}

/** Donated arguments of a call that failed: they stay, unless the program may have written over them. */
function keep(donations: Donations, { compiled, device }: Entry, ran: boolean): void {
  for (const d of donations) {
    if (d === undefined) continue
    if (d.copy !== undefined) device.free(d.copy)
    else if (ran && compiled.hasBegun) {
      donate(d.tensor, d.storage)
      d.storage.free()
    }
  }
}

/** A donated argument, which is given only when the program has run. */
function lend(tensor: Tensor, device: Device): Donation {
  const storage = settledStorage(tensor)
  const buffer = storage.on(device)
  return { tensor, storage, buffer, copy: storage.refs > 1 ? device.copy(buffer) : undefined }
}

/** Jitted calls so far. */
let calls = 0

/** Runs a compiled signature. This is the path whose cost every call pays: no strings, no structure built but the result. */
function run(entry: Entry, leaves: readonly Tensor[]): unknown {
  const { device, captured, donated, places } = entry
  const inputs: DeviceBuffer[] = []
  const donations: Donations = []
  const call = ++calls
  let repeats = false
  const use = (storage: Storage): Storage => {
    repeats ||= storage.usedBy === call
    storage.usedBy = call
    return storage
  }
  let buffers: readonly DeviceBuffer[]
  let ran = false
  try {
    leaves.forEach((t, i) => {
      const d = donated[i] === true ? lend(t, device) : undefined
      donations.push(d)
      if (d === undefined) inputs.push(use(storageOf(t, 'a jitted call')).on(device))
      else {
        use(d.storage)
        inputs.push(d.copy ?? d.buffer)
      }
    })
    for (const t of captured) inputs.push(use(storageOf(t, 'a jitted call that closes over it: use')).on(device))
    if (repeats && entry.donates) rejectAliases(entry, leaves)
    ran = true
    buffers = entry.compiled.run(inputs)
  } catch (error) {
    keep(donations, entry, ran)
    throw error
  }
  const storages = storagesOf(entry, buffers, donations)
  const uses = new Uint8Array(storages.length)
  let next = 0
  return rebuildTree(entry.result, () => {
    const place = places[next++] ?? 0
    const storage = storages[place]
    invariant(storage !== undefined, 'a result without output')
    if (uses[place] !== 0) retain(storage)
    uses[place] = 1
    return wrap({ kind: 'stored', storage })
  })
}

/** A donated tensor may be passed once only, and not be closed over besides. */
function rejectAliases({ donated, captured }: Entry, leaves: readonly Tensor[]): void {
  const refuse = (summary: string): never => {
    throw new UserError('E_ARGUMENT', summary, { help: 'pass a copy, or do not donate it' })
  }
  leaves.forEach((t, i) => {
    if (donated[i] !== true) return
    if (leaves.some((u, j) => j !== i && u === t)) refuse('a donated tensor is passed twice')
    if (captured.includes(t)) refuse('a donated tensor is one that the function closes over')
  })
}

/**
 * Compiles a function of tensors. The function runs once per input signature (structure, shapes, dtypes, static values) to be
 * traced; calls with a known signature only run the program. Concrete tensors it closes over are passed at each call. Inside
 * another jitted function it is part of that one.
 * @throws E_ARGUMENT for what is no function, options that are none and budgets that are no amounts of memory; calls throw
 * E_STRUCTURE for arguments that are no trees of tensors and static values, E_NOT_CONCRETE where the function reads a value,
 * E_OUT_OF_MEMORY where a budget cannot be met, E_DISPOSED after `dispose`, and what tracing throws
 * @example
 * const f = jit((x: Tensor, w: Tensor) => relu(x.matmul(w)).sum(-1))
 * f(tensor([[1, -2], [3, 4]]), tensor([[1, 0], [0, 1]])) // [1, 7]
 * f.explain(spec([8, 4]), spec([4, 4])).totals.kernels // 1
 */
export function jit<A extends readonly unknown[], R>(
  f: (...args: A) => R,
  options: JitOptions = {},
): JitFunction<A, R> {
  const jitted = placed(() => {
    checkTransform('jit', f, options, jitOptions)
    if (options.donate !== undefined) checkList(options.donate, 'donate', '[0]')
    if (options.dynamic !== undefined) checkList(options.dynamic, 'dynamic', "[spec([dim('batch', 1, 64), 384])]")
    if (options.mode !== undefined) checkChoice(options.mode, ['fast', 'strict'], 'mode')
    if (options.precision !== undefined) checkChoice(options.precision, precisions, 'precision')
    return new Jitted(f as (...args: never[]) => unknown, options)
  })
  const call = (...args: A): R => {
    try {
      return jitted.call(args) as R
    } catch (error) {
      throw located(error)
    }
  }
  const explain = (...args: readonly unknown[]): Explanation =>
    placed(() => {
      const { compiled, device } = jitted.entryFor(args)
      const { report } = compiled
      if (report === undefined)
        throw new UserError('E_DEVICE', `the device ${device.name} compiles nothing, so there is nothing to explain`, {
          help: "explain on the device 'wasm'",
        })
      return explained(report)
    })
  const compile = (...args: readonly unknown[]): void => {
    placed(() => jitted.entryFor(args))
  }
  const dispose = (): void => jitted.dispose()
  return Object.assign(call, { explain, compile, dispose, [Symbol.dispose]: dispose }) as JitFunction<A, R>
}

/** A report with `toString`, which stays out of its data. */
export const explained = (report: FusionReport): Explanation =>
  Object.defineProperty({ ...report }, 'toString', {
    value: () => formatReport(report),
    enumerable: false,
  }) as Explanation
