/**
 * Kernels to WebAssembly functions `(params: i32, start: i32, end: i32, scratch: i32)`: each runs programs [start, end) of
 * the kernel's linearised grid (parts one after another, last grid axis fastest). `params` points to one i32 address for each
 * kernel parameter.
 */
import { invariant, UserError } from '../../diagnostics/errors.ts'
import { loopAxes } from '../../kernel/axes.ts'
import { beyond32 } from '../../kernel/beyond32.ts'
import { gridSize, type Kernel, type KernelPart, type Stmt, type ValueId } from '../../kernel/ir.ts'
import type { Machine } from '../../target/machine.ts'
import { type FuncRef, type FunctionBuilder, type Local, ModuleBuilder } from './builder.ts'
import type { Env } from './lanes.ts'
import { emitLevel } from './level.ts'
import { bindBlock } from './loops.ts'
import { joinPairs } from './pairs.ts'
import { Scope } from './scope.ts'
import { Axes, type AxisView, blockView, type Def, localView, Scratch } from './tile.ts'
import { Values } from './values.ts'

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

/** One module with a function for each job. Its imports are `env.memory` and `math` (see `mathImports`). */
export function compileModule(jobs: readonly KernelJob[], options: ModuleOptions): CompiledModule {
  const module = new NotingModule()
  module.importMemory('env', 'memory', options.memory)
  const functions: CompiledFunction[] = []
  for (const job of jobs) {
    checkPositions(job.kernel)
    module.names.clear()
    const code = emitKernel(job, { ...options, mode: job.kernel.mode, module })
    functions.push({ ...code, imports: [...module.names] })
  }
  return { bytes: module.finish(), functions }
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

/** A part with programs, and how many programs come before its own. */
interface Placed {
  readonly part: KernelPart
  readonly offset: number
  readonly size: number
}

/** The parameters of a kernel, their places in the table, and which may share memory. */
interface ParamAccess {
  readonly params: Values['params']
  readonly order: ReadonlyMap<string, number>
  readonly mayAlias: (a: string, b: string) => boolean
}

/** The function of a kernel; of several parts, each is a function of its own (the engine's compilers like small ones). */
function emitKernel(job: KernelJob, env: Env): { readonly scratch: number; readonly bodies: readonly string[] } {
  let programs = 0
  const params = new Map(job.kernel.params.map((p) => [p.name, p]))
  const placed = job.kernel.parts.flatMap((part): Placed[] => {
    const size = gridSize(part)
    programs += size
    return size === 0 ? [] : [{ part: joinPairs(part, params), offset: programs - size, size }]
  })
  const order = new Map(job.kernel.params.map((p, i) => [p.name, i]))
  const mayAlias = (a: string, b: string): boolean => {
    const [i, j] = [order.get(a), order.get(b)]
    return i !== undefined && j !== undefined && job.mayAlias(i, j)
  }
  const access: ParamAccess = { params, order, mayAlias }
  let scratch = 0
  const define = (name: string, body: (f: FunctionBuilder) => void): FuncRef =>
    env.module.function(name, signature, [], body, { export: true })
  const [only, second] = placed
  if (second === undefined) {
    define(job.name, (f) => {
      if (only !== undefined) scratch = emitPart(f, env, access, only)
    })
    return { scratch, bodies: [job.name] }
  }
  const bodies: string[] = []
  const parts = placed.map((p, i) => {
    const name = `${job.name}.${i}`
    bodies.push(name)
    const of = define(name, (f) => {
      scratch = Math.max(scratch, emitPart(f, env, access, p))
    })
    return { of, offset: p.offset }
  })
  define(job.name, (f) => callParts(f, parts))
  return { scratch, bodies }
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

/** Emits a function that runs a part's own programs among [start, end); the scratch bytes it needs. */
function emitPart(f: FunctionBuilder, env: Env, access: ParamAccess, { part, offset, size }: Placed): number {
  const { params, order, mayAlias } = access
  const scope = new Scope(f)
  const [table, start, end, scratchBase] = [f.param(0), f.param(1), f.param(2), f.param(3)]
  const scratch = new Scratch()
  scope.push()
  const base = (name: string): Local => {
    const i = order.get(name)
    invariant(i !== undefined, `parameter ${name} is not declared`)
    return scope.once(0, `base:${name}`, 'i32', () => {
      f.get(table)
      f.load('i32.load', 4, 4 * i)
    })
  }
  const loops = loopAxes(part.body)
  const blocks = new Map(part.grid.map((g) => [g.axis, g.block]))
  const views = new Map<string, AxisView>()
  for (const { name, extent } of part.axes) {
    const block = blocks.get(name)
    if (block !== undefined) views.set(name, blockView(name, extent, block))
    else views.set(name, localView(name, extent))
  }
  // A loop's axis is bound inside the loop alone; its extent is known everywhere.
  for (const name of loops) if (blocks.has(name)) invariant(false, `${name} is both a grid and a loop axis`)
  const values = new Values(scope, env, params, definitionsOf(part.body), new Axes(views), base, scratchBase)
  const first = f.local('i32')
  const last = f.local('i32')
  const program = f.local('i32')
  // The part's own programs among [start, end).
  scope.here(() => {
    clamp(f, start, offset, 0, 'max')
    f.set(first)
    clamp(f, end, offset, size, 'min')
    f.set(last)
  })
  scope.push()
  bindGrid(values, part, program)
  emitLevel(values, part.body, { mayAlias, scratch })
  const { fragment } = scope.pop()
  scope.here(() => f.forLoop(program, first, last, 1, () => f.splice(fragment)))
  f.splice(scope.pop().fragment)
  return scratch.bytes
}

/** Pushes max or min of `x - offset` and a bound. */
function clamp(f: FunctionBuilder, x: Local, offset: number, bound: number, which: 'max' | 'min'): void {
  f.get(x)
  f.i32Const(offset)
  f.op('i32.sub')
  const shifted = f.toLocal('i32')
  f.get(shifted)
  f.i32Const(bound)
  f.get(shifted)
  f.i32Const(bound)
  f.op(which === 'max' ? 'i32.gt_s' : 'i32.lt_s')
  f.op('select')
  f.release(shifted)
}

/** Binds the grid axes to the coordinates of program number `program`. */
function bindGrid(values: Values, part: KernelPart, program: Local): void {
  const { scope, axes } = values
  let rest: Local = program
  const counts = part.grid.map((g) => Math.ceil(axes.view(g.axis).extent / g.block))
  for (let i = part.grid.length - 1; i >= 0; i--) {
    const g = part.grid[i]
    const n = counts[i]
    if (g === undefined || n === undefined) continue
    const view = axes.view(g.axis)
    if (n === 1) {
      bindBlock(values, view, g.block, 0, view.extent)
      continue
    }
    const outermost = counts.slice(0, i).every((c) => c === 1)
    const at = rest
    const coordinate = outermost
      ? at
      : scope.once(scope.depth, `grid:${i}`, 'i32', () => scope.pushQuotient('mod', at, n, true))
    if (!outermost) rest = scope.once(scope.depth, `rest:${i}`, 'i32', () => scope.pushQuotient('div', at, n, true))
    const begin =
      g.block === 1
        ? coordinate
        : scope.once(scope.depth, `start:${i}`, 'i32', () => scope.pushScaled(coordinate, g.block))
    bindBlock(values, view, g.block, begin, view.extent)
  }
  for (const a of part.axes) {
    const v = axes.view(a.name)
    if (scope.isBound(`${a.name}.start`) || v.moves) continue
    bindBlock(values, v, v.extent, 0, v.extent)
  }
}

function definitionsOf(body: readonly Stmt[]): Map<ValueId, Def> {
  const out = new Map<ValueId, Def>()
  const walk = (stmts: readonly Stmt[]): void => {
    for (const s of stmts) {
      if (s.kind === 'let') out.set(s.id, s)
      if (s.kind !== 'loop') continue
      for (const { param, result, dtype, axes } of s.carries) {
        out.set(param, { id: param, dtype, axes })
        out.set(result, { id: result, dtype, axes })
      }
      walk(s.body)
    }
  }
  walk(body)
  return out
}
