/**
 * Kernels to functions of the vector IR, `(params, start, end, scratch)`: each runs programs [start, end) of the kernel's linearised grid (parts
 * one after another, last grid axis fastest). `params` points to one i32 address for each kernel parameter.
 */
import { invariant } from '../../diagnostics/errors.ts'
import type { Kernel, KernelParam, KernelPart, LaunchScalar } from '../../kernel/ir.ts'
import { debug } from '../../schedule/debug.ts'
import { definitionsOf } from '../../schedule/loop/ir/tile.ts'
import { factsOf, type ScheduledPart, scheduleKernel } from '../../schedule/loop/scheduleKernel.ts'
import type { Machine } from '../../target/machine.ts'
import { Builder } from './ir/builder.ts'
import * as X from './ir/expr.ts'
import type { Expr, Register, VectorFunction } from './ir/ir.ts'
import * as T from './ir/types.ts'
import { verifyFunction } from './ir/verify.ts'
import { emitLevel } from './loop/level.ts'
import { bindBlock, endOf } from './loop/loops.ts'
import type { Env } from './value/lanes.ts'
import { type Index, indexKey, Scope, scaled } from './value/scope.ts'
import { Values } from './value/values.ts'

export interface KernelJob {
  readonly kernel: Kernel
  /** Name of its function. */
  readonly name: string
  /** Whether parameters i and j may share memory (an output in place of an input it is computed from, point by point). */
  readonly mayAlias: (i: number, j: number) => boolean
}

export interface VectorOptions {
  /** What schedules are priced by. */
  readonly machine: Machine
  /** Whether code may multiply and add with one rounding, in fast mode. */
  readonly hasMultiplyAdd: boolean
}

/** A kernel's functions. */
export interface VectorKernel {
  /** Every one, callees first; the last is the kernel. */
  readonly functions: readonly VectorFunction[]
  /** Scratch bytes a thread needs to run it. */
  readonly scratch: number
}

const signature = [T.i32, T.i32, T.i32, T.i32] as const

/** A kernel's parameters, for all of its parts: there may be thousands of either. */
interface Params {
  readonly byName: ReadonlyMap<string, KernelParam>
  readonly places: ReadonlyMap<string, number>
  readonly scalars: readonly LaunchScalar[]
}

/** The functions of a kernel; of several parts, each is a function of its own (engines' compilers like small ones). */
export function emitVectorKernel(job: KernelJob, options: VectorOptions): VectorKernel {
  const made = emitFunctions(job, options)
  if (debug.verify) for (const fn of made.functions) verifyFunction(fn, { width: vectorBytes, ...options })
  return made
}

/** Bytes of a vector: four elements of 32 bits, which is what schedules count in. */
const vectorBytes = 16

function emitFunctions({ kernel, name, mayAlias }: KernelJob, options: VectorOptions): VectorKernel {
  const env: Env = { ...options, mode: kernel.mode }
  const scheduled = scheduleKernel(kernel, factsOf(kernel, env.machine, mayAlias))
  const scratch = Math.max(0, ...scheduled.map((p) => p.schedule.scratch))
  const params: Params = {
    byName: new Map(kernel.params.map((p) => [p.name, p])),
    places: new Map(kernel.params.map((p, i) => [p.name, i])),
    scalars: kernel.scalars ?? [],
  }
  const [only, second] = scheduled
  if (second === undefined) {
    const entry = Builder.function(name, signature, (f) => {
      if (only !== undefined) emitPart(f, env, params, only)
    })
    return { functions: [entry], scratch }
  }
  const parts = scheduled.map((p, i) => ({
    of: Builder.function(`${name}.${i}`, signature, (f) => emitPart(f, env, params, p)),
    offset: p.offset,
  }))
  const entry = Builder.function(name, signature, (f) => callParts(f, parts))
  return { functions: [...parts.map((p) => p.of), entry], scratch }
}

/** Calls the parts with programs among [start, end), found by halving. */
function callParts(f: Builder, parts: readonly { readonly of: VectorFunction; readonly offset: number }[]): void {
  const half = parts.length >> 1
  const [first, middle] = [parts[0], parts[half]]
  if (first === undefined || middle === undefined) return
  if (half === 0) {
    f.run(first.of, f.params)
    return
  }
  f.if(X.compare('lt_s', f.param(1), middle.offset), () => callParts(f, parts.slice(0, half)))
  f.if(X.compare('gt_s', f.param(2), middle.offset), () => callParts(f, parts.slice(half)))
}

/** Emits a function that runs a part's own programs among [start, end). */
function emitPart(
  f: Builder,
  env: Env,
  { byName, places, scalars }: Params,
  { schedule, offset, size }: ScheduledPart,
): void {
  const { part, axes, body } = schedule
  const scope = new Scope(f)
  const [table, start, end, scratchBase] = [f.param(0), f.param(1), f.param(2), f.param(3)]
  scope.push()
  const base = (name: string): Register => {
    const i = places.get(name)
    invariant(i !== undefined, `parameter ${name} is not declared`)
    return scope.once(0, `base:${name}`, () => X.load(T.i32, table, 4 * i, 4))
  }
  const values = new Values(scope, env, byName, definitionsOf(part.body), axes, base, scratchBase)
  for (const s of scalars)
    scope.bind(
      s.by,
      scope.once(0, `launch:${s.by}`, () => X.load(T.i32, base(s.param), 4 * s.at, 4)),
    )
  const counts = programCounts(values, part)
  const own = counts.reduce((n, c) => times(values, n, c), 1 as Index)
  const first = f.register(T.i32)
  const last = f.register(T.i32)
  const program = f.register(T.i32)
  // The part's own programs among [start, end).
  scope.here(() => {
    f.assign(first, clamped(f, start, offset, 0, X.greatest))
    f.assign(last, clamped(f, end, offset, typeof own === 'number' ? size : own, X.least))
  })
  scope.push()
  bindGrid(values, part, program, counts)
  emitLevel(values, body)
  const { block } = scope.pop()
  scope.here(() => f.for(program, first, last, 1, () => f.splice(block)))
  f.splice(scope.pop().block)
}

/** `x - offset` within a bound. */
function clamped(
  f: Builder,
  x: Register,
  offset: number,
  bound: Index,
  within: (a: X.Operand, b: X.Operand) => Expr,
): Expr {
  const shifted = f.keep(X.sub(x, offset))
  f.release(shifted)
  return within(shifted, bound)
}

/** The number of programs along each axis of the grid, in this launch. */
function programCounts(values: Values, part: KernelPart): Index[] {
  const { scope, axes } = values
  return part.grid.map(({ axis, block }): Index => {
    const extent = endOf(values, axes.view(axis))
    if (typeof extent === 'number') return Math.ceil(extent / block)
    if (block === 1) return extent
    return scope.once(0, `programs:${axis}`, () => X.binary('div_u', X.add(extent, block - 1), block))
  })
}

/** The product of two numbers, outside all loops. */
function times({ scope }: Values, a: Index, b: Index): Index {
  if (typeof a === 'number' && typeof b === 'number') return a * b
  if (a === 1) return b
  if (b === 1) return a
  return scope.once(0, `times:${indexKey(a)}:${indexKey(b)}`, () => X.mul(a, b))
}

/** Binds the grid axes, which have so many programs each, to the coordinates of program number `program`. */
function bindGrid(values: Values, part: KernelPart, program: Register, counts: readonly Index[]): void {
  const { scope, axes } = values
  let rest: Register = program
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
    const coordinate = outermost ? at : scope.once(scope.depth, `grid:${i}`, () => scope.quotient('mod', at, n, true))
    if (!outermost) rest = scope.once(scope.depth, `rest:${i}`, () => scope.quotient('div', at, n, true))
    const begin = g.block === 1 ? coordinate : scope.once(scope.depth, `start:${i}`, () => scaled(coordinate, g.block))
    bindBlock(values, view, g.block, begin, endOf(values, view))
  }
  for (const a of part.axes) {
    const v = axes.view(a.name)
    if (scope.isBound(`${a.name}.start`) || v.moves) continue
    bindBlock(values, v, v.extent, 0, endOf(values, v))
  }
}
