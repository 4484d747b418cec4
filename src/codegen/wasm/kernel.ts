/**
 * Kernels to WebAssembly functions `(params: i32, start: i32, end: i32, scratch: i32)`: each runs programs [start, end) of
 * the kernel's linearised grid (parts one after another, last grid axis fastest). `params` points to one i32 address for each
 * kernel parameter.
 */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { beyond32 } from '../../kernel/beyond32.ts'
import type { Kernel, KernelParam, KernelPart, LaunchScalar } from '../../kernel/ir.ts'
import { printUnnamed } from '../../kernel/print.ts'
import { definitionsOf } from '../../schedule/loop/ir/tile.ts'
import { factsOf, type ScheduledPart, scheduleKernel } from '../../schedule/loop/scheduleKernel.ts'
import type { Machine } from '../../target/machine.ts'
import { type FuncRef, type FunctionBuilder, type Local, ModuleBuilder } from './binary/builder.ts'
import { emitLevel } from './loop/level.ts'
import { bindBlock, endOf } from './loop/loops.ts'
import type { Env } from './value/lanes.ts'
import { type Index, indexKey, Scope } from './value/scope.ts'
import { Values } from './value/values.ts'

export interface KernelJob {
  readonly kernel: Kernel
  /** Name of the exported function. */
  readonly name: string
  /** Whether parameters i and j may share memory (an output in place of an input it is computed from, point by point). */
  readonly mayAlias: (i: number, j: number) => boolean
}

export interface ModuleOptions {
  readonly machine: Machine
  /** Relaxed SIMD is available on the engine. */
  readonly relaxed: boolean
  /** The imported memory `env.memory`, in pages of 64 KiB. */
  readonly memory: { readonly min: number; readonly max: number; readonly shared: boolean }
}

export interface CompiledFunction {
  /** Scratch bytes a thread needs to run it. */
  readonly scratch: number
  /** Names it imports from `math`. */
  readonly imports: readonly string[]
  /** Exported names of the functions that hold its code: its own, or those of its parts, which it calls. */
  readonly bodies: readonly string[]
}

export interface CompiledModule {
  readonly bytes: Uint8Array
  /** One for each job. */
  readonly functions: readonly CompiledFunction[]
}

/** A module that notes which functions are imported. */
class NotingModule extends ModuleBuilder {
  readonly names = new Set<string>()

  override importFunction(...args: Parameters<ModuleBuilder['importFunction']>): FuncRef {
    this.names.add(args[1])
    return super.importFunction(...args)
  }
}

/** One module with a function for each job; jobs of one code share it. Its imports are `env.memory` and `math` (see `mathImports`). */
export function compileModule(jobs: readonly KernelJob[], options: ModuleOptions): CompiledModule {
  const module = new NotingModule()
  module.importMemory('env', 'memory', options.memory)
  const emitted = new Map<string, Emitted[]>()
  const functions = jobs.map((job): CompiledFunction => {
    const text = printUnnamed(job.kernel)
    const same = emitted.get(text) ?? []
    emitted.set(text, same)
    const have = same.find(({ asked }) => asked.every(({ i, j, may }) => job.mayAlias(i, j) === may))
    if (have !== undefined) {
      module.export(job.name, have.entry)
      return have.code
    }
    checkPositions(job.kernel)
    module.names.clear()
    const asked = new Map<number, Asked>()
    const mayAlias = (i: number, j: number): boolean => {
      const pair = i * job.kernel.params.length + j
      const have = asked.get(pair)
      if (have !== undefined) return have.may
      const may = job.mayAlias(i, j)
      asked.set(pair, { i, j, may })
      return may
    }
    const { entry, ...code } = emitKernel({ ...job, mayAlias }, { ...options, mode: job.kernel.mode, module })
    const made = { ...code, imports: [...module.names] }
    same.push({ entry, code: made, asked: [...asked.values()] })
    return made
  })
  return { bytes: module.finish(), functions }
}

/** Whether two parameters may share memory, as scheduling was told. */
interface Asked {
  readonly i: number
  readonly j: number
  readonly may: boolean
}

/** A kernel's code, and all that it depends on beside the kernel: kernels of equal text and answers have it too. */
interface Emitted {
  readonly entry: FuncRef
  readonly code: CompiledFunction
  readonly asked: readonly Asked[]
}

/** Throws E_UNSUPPORTED where positions are beyond the 32 bits that WebAssembly's memory has. */
function checkPositions(kernel: Kernel): void {
  const wide = beyond32(kernel)
  if (wide === undefined) return
  throw new UserError(
    'E_UNSUPPORTED',
    `${wide.what} of the kernel ${kernel.name}: ${wide.why} does not fit 32 bits, which is all WebAssembly has`,
    { help: 'work on smaller pieces of the tensor, or run this program on another device' },
  )
}

const signature = ['i32', 'i32', 'i32', 'i32'] as const

/** A kernel's parameters, for all of its parts: there may be thousands of either. */
interface Params {
  readonly byName: ReadonlyMap<string, KernelParam>
  readonly places: ReadonlyMap<string, number>
  readonly scalars: readonly LaunchScalar[]
}

/** The function of a kernel; of several parts, each is a function of its own (the engine's compilers like small ones). */
function emitKernel({ kernel, name, mayAlias }: KernelJob, env: Env) {
  const scheduled = scheduleKernel(kernel, factsOf(kernel, env.machine, mayAlias))
  const scratch = Math.max(0, ...scheduled.map((p) => p.schedule.scratch))
  const define = (as: string, body: (f: FunctionBuilder) => void): FuncRef =>
    env.module.function(as, signature, [], body, { export: true })
  const params: Params = {
    byName: new Map(kernel.params.map((p) => [p.name, p])),
    places: new Map(kernel.params.map((p, i) => [p.name, i])),
    scalars: kernel.scalars ?? [],
  }
  const [only, second] = scheduled
  if (second === undefined) {
    const entry = define(name, (f) => {
      if (only !== undefined) emitPart(f, env, params, only)
    })
    return { entry, scratch, bodies: [name] }
  }
  const bodies = scheduled.map((_, i) => `${name}.${i}`)
  const parts = scheduled.map((p, i) => ({
    of: define(bodies[i] ?? name, (f) => emitPart(f, env, params, p)),
    offset: p.offset,
  }))
  const entry = define(name, (f) => callParts(f, parts))
  return { entry, scratch, bodies }
}

/** Calls the parts with programs among [start, end), found by halving. */
function callParts(f: FunctionBuilder, parts: readonly { readonly of: FuncRef; readonly offset: number }[]): void {
  const half = parts.length >> 1
  const [first, middle] = [parts[0], parts[half]]
  if (first === undefined || middle === undefined) return
  if (half === 0) {
    for (let i = 0; i < signature.length; i++) f.get(f.param(i))
    f.call(first.of)
    return
  }
  f.get(f.param(1))
  f.i32Const(middle.offset)
  f.op('i32.lt_s')
  f.if(() => callParts(f, parts.slice(0, half)))
  f.get(f.param(2))
  f.i32Const(middle.offset)
  f.op('i32.gt_s')
  f.if(() => callParts(f, parts.slice(half)))
}

/** Emits a function that runs a part's own programs among [start, end). */
function emitPart(
  f: FunctionBuilder,
  env: Env,
  { byName, places, scalars }: Params,
  { schedule, offset, size }: ScheduledPart,
): void {
  const { part, axes, body } = schedule
  const scope = new Scope(f)
  const [table, start, end, scratchBase] = [f.param(0), f.param(1), f.param(2), f.param(3)]
  scope.push()
  const base = (name: string): Local => {
    const i = places.get(name)
    invariant(i !== undefined, `parameter ${name} is not declared`)
    return scope.once(0, `base:${name}`, 'i32', () => {
      f.get(table)
      f.load('i32.load', 4, 4 * i)
    })
  }
  const values = new Values(scope, env, byName, definitionsOf(part.body), axes, base, scratchBase)
  for (const s of scalars)
    scope.bind(
      s.by,
      scope.once(0, `launch:${s.by}`, 'i32', () => {
        f.get(base(s.param))
        f.load('i32.load', 4, 4 * s.at)
      }),
    )
  const counts = programCounts(values, part)
  const own = counts.reduce((n, c) => times(values, n, c), 1 as Index)
  const first = f.local('i32')
  const last = f.local('i32')
  const program = f.local('i32')
  // The part's own programs among [start, end).
  scope.here(() => {
    clamp(f, start, offset, 0, 'max')
    f.set(first)
    clamp(f, end, offset, typeof own === 'number' ? size : own, 'min')
    f.set(last)
  })
  scope.push()
  bindGrid(values, part, program, counts)
  emitLevel(values, body)
  const { fragment } = scope.pop()
  scope.here(() => f.forLoop(program, first, last, 1, () => f.splice(fragment)))
  f.splice(scope.pop().fragment)
}

/** Pushes max or min of `x - offset` and a bound. */
function clamp(f: FunctionBuilder, x: Local, offset: number, bound: Index, which: 'max' | 'min'): void {
  f.get(x)
  f.i32Const(offset)
  f.op('i32.sub')
  const shifted = f.toLocal('i32')
  f.get(shifted)
  f.push(bound)
  f.get(shifted)
  f.push(bound)
  f.op(which === 'max' ? 'i32.gt_s' : 'i32.lt_s')
  f.op('select')
  f.release(shifted)
}

/** The number of programs along each axis of the grid, in this launch. */
function programCounts(values: Values, part: KernelPart): Index[] {
  const { scope, axes, f } = values
  return part.grid.map(({ axis, block }): Index => {
    const extent = endOf(values, axes.view(axis))
    if (typeof extent === 'number') return Math.ceil(extent / block)
    if (block === 1) return extent
    return scope.once(0, `programs:${axis}`, 'i32', () => {
      f.get(extent)
      f.i32Const(block - 1)
      f.op('i32.add')
      f.i32Const(block)
      f.op('i32.div_u')
    })
  })
}

/** The product of two numbers, outside all loops. */
function times({ scope, f }: Values, a: Index, b: Index): Index {
  if (typeof a === 'number' && typeof b === 'number') return a * b
  if (a === 1) return b
  if (b === 1) return a
  return scope.once(0, `times:${indexKey(a)}:${indexKey(b)}`, 'i32', () => {
    f.push(a)
    f.push(b)
    f.op('i32.mul')
  })
}

/** Binds the grid axes, which have so many programs each, to the coordinates of program number `program`. */
function bindGrid(values: Values, part: KernelPart, program: Local, counts: readonly Index[]): void {
  const { scope, axes } = values
  let rest: Local = program
  for (let i = part.grid.length - 1; i >= 0; i--) {
    const g = part.grid[i]
    const n = counts[i]
    if (g === undefined || n === undefined) continue
    const view = axes.view(g.axis)
    if (n === 1 || !view.moves) {
      bindBlock(values, view, g.block, 0, endOf(values, view))
      continue
    }
    const outermost = counts.slice(0, i).every((c, j) => c === 1 || !axes.view(part.grid[j]?.axis ?? '').moves)
    const at = rest
    const coordinate = outermost
      ? at
      : scope.once(scope.depth, `grid:${i}`, 'i32', () => scope.pushQuotient('mod', at, n, true))
    if (!outermost) rest = scope.once(scope.depth, `rest:${i}`, 'i32', () => scope.pushQuotient('div', at, n, true))
    const begin =
      g.block === 1
        ? coordinate
        : scope.once(scope.depth, `start:${i}`, 'i32', () => scope.pushScaled(coordinate, g.block))
    bindBlock(values, view, g.block, begin, endOf(values, view))
  }
  for (const a of part.axes) {
    const v = axes.view(a.name)
    if (scope.isBound(`${a.name}.start`) || v.moves) continue
    bindBlock(values, v, v.extent, 0, endOf(values, v))
  }
}
