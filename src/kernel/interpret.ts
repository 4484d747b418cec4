/**
 * The interpreter of the kernel IR, the oracle of every lowering: runs each program of each part on host arrays, tiles as
 * dense arrays over the indices the program holds.
 */

import { type Expr, visitAtoms } from '../affine/expr.ts'
import type { Predicate } from '../affine/predicate.ts'
import { UserError } from '../diagnostics/errors.ts'
import { isRandomDType, randomElement, roundTo } from '../scalar/eval.ts'
import { combinerOp, type Scalar } from '../scalar/ops.ts'
import { type DType, isFloat } from '../types/dtype.ts'
import type { HostArray } from '../types/host.ts'
import { loopAxes, startOf } from './axes.ts'
import { evaluatorOf } from './evaluator.ts'
import { dotTile, reduceTile, scanTile } from './fold.ts'
import {
  gridSize,
  type Kernel,
  type KernelPart,
  type LetStmt,
  type LoopStmt,
  type Stmt,
  type StoreStmt,
  type TileOp,
  type ValueId,
} from './ir.ts'
import { closeKernel, launchValues } from './launch.ts'
import { HostBuffer } from './memory.ts'
import { showStmt } from './print.ts'
import { Points, Program } from './tile.ts'
import { verifyKernel } from './verify.ts'

export interface InterpretOptions {
  /** 'f64': floats in double precision, rounded only by memory; 'dtype': rounded to the value's dtype after each statement. */
  readonly rounding?: 'f64' | 'dtype'
  /** The order of the programs of each grid (none reads what another wrote, so results agree). */
  readonly order?: 'forward' | 'backward'
}

/**
 * Runs a kernel on buffers by parameter name, in place. Throws E_KERNEL_INVALID for a kernel the verifier rejects,
 * E_ARGUMENT for a missing or short buffer or a launch scalar outside its bounds, E_INDEX where a data-dependent index leaves its buffer, or where
 * two points of a store of distinct places lead to one.
 */
export function interpretKernel(
  kernel: Kernel,
  buffers: Readonly<Record<string, HostArray>>,
  options: InterpretOptions = {},
): void {
  verifyKernel(kernel)
  const memory = new Map(kernel.params.map((p) => [p.name, new HostBuffer(p, buffers[p.name])]))
  const machine: Machine = { memory, rounded: options.rounding === 'dtype', taken: new Map() }
  for (const part of closeKernel(kernel, launchValues(kernel, buffers)).parts) {
    const n = gridSize(part)
    for (let i = 0; i < n; i++) runProgram(part, options.order === 'backward' ? n - 1 - i : i, machine)
  }
}

interface Machine {
  readonly memory: ReadonlyMap<string, HostBuffer>
  readonly rounded: boolean
  /** Places that a store of distinct ones has been to. */
  readonly taken: Map<StoreStmt, Set<string>>
}

/** Program number `number`, row-major over the grid's axes. */
function runProgram(part: KernelPart, number: number, machine: Machine): void {
  const program = new Program()
  const extents = new Map(part.axes.map((a) => [a.name, a.extent]))
  const loops = loopAxes(part.body)
  for (const { name, extent } of part.axes) if (!loops.has(name)) program.extents.set(name, { start: 0, size: extent })
  let rest = number
  for (const { axis, block } of [...part.grid].reverse()) {
    const extent = extents.get(axis) ?? 0
    const blocks = Math.ceil(extent / block)
    const start = (rest % blocks) * block
    program.extents.set(axis, { start, size: Math.min(block, extent - start) })
    rest = Math.floor(rest / blocks)
  }
  runBody(part.body, program, machine, extents)
}

function runBody(
  body: readonly Stmt[],
  program: Program,
  machine: Machine,
  extents: ReadonlyMap<string, number>,
): void {
  for (const s of body) {
    try {
      switch (s.kind) {
        case 'let':
          runLet(s, program, machine)
          break
        case 'store':
          runStore(s, program, machine)
          break
        case 'loop':
          runLoop(s, program, machine, extents)
          break
      }
    } catch (e) {
      if (e instanceof UserError && e.where === undefined)
        throw new UserError(e.code, describe(e), { where: showStmt(s) })
      throw e
    }
  }
}

const describe = (e: UserError): string => e.message.replace(/^\[\w+\] /, '')

function runLoop(s: LoopStmt, program: Program, machine: Machine, extents: ReadonlyMap<string, number>): void {
  const extent = extents.get(s.axis) ?? 0
  const bound = (id: ValueId | undefined, otherwise: number): number =>
    id === undefined ? otherwise : Math.min(extent, Math.max(0, Number(program.scalar(id))))
  const to = bound(s.to, extent)
  for (const c of s.carries) program.tiles.set(c.param, program.tile(c.init))
  for (let start = bound(s.from, 0); start < to; start += s.block) {
    program.extents.set(s.axis, { start, size: Math.min(s.block, to - start) })
    runBody(s.body, program, machine, extents)
    const next = s.carries.map((c) => program.tile(c.next))
    s.carries.forEach((c, i) => {
      const t = next[i]
      if (t !== undefined) program.tiles.set(c.param, t)
    })
  }
  program.extents.delete(s.axis)
  for (const c of s.carries) program.tiles.set(c.result, program.tile(c.param))
}

function runLet(s: LetStmt, program: Program, machine: Machine): void {
  const data = computeTile(s, s.op, program, machine)
  program.tiles.set(s.id, {
    dtype: s.dtype,
    axes: s.axes,
    sizes: s.axes.map((a) => program.extent(a).size),
    data: machine.rounded && isFloat(s.dtype) ? data.map((v) => roundTo(s.dtype, v)) : data,
  })
}

function computeTile(s: LetStmt, op: TileOp, program: Program, machine: Machine): Scalar[] {
  switch (op.kind) {
    case 'reduce':
      return reduceTile(s, op, program)
    case 'scan':
      return scanTile(s, op, program)
    case 'dot':
      return dotTile(s, op, program)
    default: {
      const points = new Points(program, s.axes)
      const at = pointwise(op, s.dtype, points, program, machine)
      const out: Scalar[] = new Array(points.count)
      for (let n = 0; n < points.count; n++, points.advance()) out[n] = at()
      return out
    }
  }
}

type PointwiseOp = Exclude<TileOp, { kind: 'reduce' | 'scan' | 'dot' }>

/** The value of an operation at the walk's current point. */
function pointwise(op: PointwiseOp, dtype: DType, points: Points, program: Program, machine: Machine): () => Scalar {
  switch (op.kind) {
    case 'const':
      return () => op.value
    case 'index': {
      const at = points.expr(op.expr)
      return () => roundTo(dtype, at())
    }
    case 'predicate':
      return points.predicate(op.predicate)
    case 'load': {
      const buffer = bufferOf(op.param, machine)
      const unmasked = unmaskedAt(op, points)
      const coordinates = coordinatesAt(op.index, points)
      return () => (unmasked() ? buffer.read(coordinates()) : op.other)
    }
    case 'scalar':
      return scalarAt(op, dtype, points, program)
    case 'random': {
      const [k0, k1] = [points.reader(op.k0), points.reader(op.k1)]
      const index = points.expr(op.index)
      if (!isRandomDType(dtype)) throw new UserError('E_KERNEL_INVALID', `random bits of ${dtype}`)
      return () => randomElement(dtype, Number(k0()), Number(k1()), index(), op.rounds)
    }
    case 'stage':
      return points.reader(op.of)
    case 'at':
      return points.readerAt(op.of, op.index)
  }
}

function scalarAt(
  op: Extract<TileOp, { kind: 'scalar' }>,
  dtype: DType,
  points: Points,
  program: Program,
): () => Scalar {
  const [first, ...rest] = op.args
  if (first === undefined) throw new UserError('E_KERNEL_INVALID', `${op.op} has no operand`)
  const run = evaluatorOf(op.op, program.tile(rest[rest.length - 1] ?? first).dtype, dtype)
  const a = points.reader(first)
  const [b, c] = rest.map((id) => points.reader(id))
  if (b === undefined) return () => run(a())
  return c === undefined ? () => run(a(), b()) : () => run(a(), b(), c())
}

function runStore(s: StoreStmt, program: Program, machine: Machine): void {
  const buffer = bufferOf(s.param, machine)
  const points = new Points(program, storeAxes(s, program))
  const { dtype } = program.tile(s.value)
  const merge = s.combiner === undefined ? undefined : evaluatorOf(combinerOp[s.combiner], dtype, dtype)
  const unmasked = unmaskedAt(s, points)
  const coordinates = coordinatesAt(s.index, points)
  const read = points.reader(s.value)
  for (let n = 0; n < points.count; n++, points.advance()) {
    if (!unmasked()) continue
    const index = coordinates()
    if (s.distinct === true) take(machine.taken, s, index)
    buffer.write(index, merge === undefined ? read() : merge(buffer.read(index), read()))
  }
}

/** Holds a store to its promise that no two points lead to one place. */
function take(taken: Machine['taken'], s: StoreStmt, index: readonly number[]): void {
  const places = taken.get(s) ?? new Set()
  taken.set(s, places)
  const place = index.join()
  if (places.has(place)) throw new UserError('E_INDEX', `two points of a store of distinct places lead to [${place}]`)
  places.add(place)
}

/** The axes whose points a store visits: the value's, then the mask's and the index's. */
function storeAxes(s: StoreStmt, program: Program): string[] {
  const out = new Set(program.tile(s.value).axes)
  if (s.maskValue !== undefined) for (const a of program.tile(s.maskValue).axes) out.add(a)
  for (const e of [...s.mask.map((b) => b.expr), ...s.index])
    visitAtoms(e, (a) => {
      if (a.kind === 'axis' && startOf(a.name) === undefined) out.add(a.name)
      if (a.kind === 'value') for (const x of program.tile(a.id).axes) out.add(x)
    })
  return [...out]
}

interface Masked {
  readonly mask: Predicate
  readonly maskValue?: ValueId
}

/** The mask's value is asked first: index values it guards may be out of range where it fails. */
function unmaskedAt(m: Masked, points: Points): () => boolean {
  const inside = points.predicate(m.mask)
  if (m.maskValue === undefined) return inside
  const value = points.reader(m.maskValue)
  return () => value() === true && inside()
}

function coordinatesAt(index: readonly Expr[], points: Points): () => number[] {
  const each = index.map((e) => points.expr(e))
  return () => each.map((at) => at())
}

function bufferOf(name: string, machine: Machine): HostBuffer {
  const b = machine.memory.get(name)
  if (b === undefined) throw new UserError('E_KERNEL_INVALID', `there is no parameter ${name}`)
  return b
}
