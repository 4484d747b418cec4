/** A kernel of the kernel IR as source code of a SIMT dialect: one block of threads a program. */

import { invariant, UserError } from '../../diagnostics/errors.ts'
import type { GridAxis, Kernel, LaunchScalar } from '../../kernel/ir.ts'
import { allStmts } from '../../kernel/walk.ts'
import { debug } from '../../schedule/debug.ts'
import { candidateSchedules } from '../../schedule/simt/candidates.ts'
import type { AxisInfo, Part } from '../../schedule/simt/part/part.ts'
import type { TableEntry } from '../../schedule/simt/part/union.ts'
import { printAxis } from '../../schedule/simt/print.ts'
import { scheduleThreads } from '../../schedule/simt/scheduleThreads.ts'
import { placeShared } from '../../schedule/simt/storage/sharedMemory.ts'
import type { Form, PartSchedule, Scheduled } from '../../schedule/simt/threadSchedule.ts'
import type { Language, SimtMachine } from '../../target/simt.ts'
import { checkKernel } from './capability.ts'
import { dialects } from './dialects/table.ts'
import type { LaunchFacts, PassedScalar, ThreadCode } from './ir/code.ts'
import { add, type Block, bin, cast, type Ex, int, least, lit, lt, mul, type S, sub, v } from './ir/ir.ts'
import { type LaunchGrid, launchGridOf } from './ir/launchGrid.ts'
import { visitExpressions, visitStatements } from './ir/walk.ts'
import { type Member, memberOf } from './member.ts'
import { openHalfway, parityName } from './memory/halfway.ts'
import { type AxisRange, extentOf, Scope } from './nest/scope.ts'
import { emitSequence } from './nest/sequence.ts'
import { runPasses } from './passes.ts'
import { leaves32 } from './programNumber.ts'
import { openCluster, roundName } from './reduce/exchangeInCluster.ts'
import { Unit } from './unit.ts'

export interface Binding {
  readonly name: string
  readonly access: 'read' | 'write' | 'update'
  readonly binding: number
}

/** Source code with what launching it takes. */
export interface KernelSource {
  readonly dialect: Language
  readonly source: string
  readonly entry: string
  /** Threads of a block. */
  readonly threads: number
  readonly programs: number
  /** Blocks that run a program: `programs * cluster` of them are launched. */
  readonly cluster: number
  /** Rows of the grid (CUDA), where one does not hold all programs: `ceil(programs / rows)` of them are in each, along x. */
  readonly rows?: number
  /** Shared memory the source declares. */
  readonly sharedBytes: number
  /** Shared memory to give at launch (CUDA beyond 48 KB), else 0. */
  readonly dynamicSharedBytes: number
  /**
   * What is bound, in order: pointers (CUDA), bindings of group 0 (WGSL, where parameters that the code does not touch have
   * none). Buffers are 16-byte aligned and whole multiples of 16 bytes.
   */
  readonly bindings: readonly Binding[]
  /**
   * A table of 8-byte words in device memory: addresses of parameters and numbers, in order; one more pointer, the last, is the
   * table's address. Absent: there is no table and no such pointer.
   */
  readonly table?: readonly TableEntry[]
  /** Launch scalars that are 8-byte arguments behind all pointers (CUDA), in order. */
  readonly scalars?: readonly LaunchScalar[]
  /** Where extents of its grid vary: the programs of a launch, `programs` at most. */
  readonly grid?: LaunchGrid
}

/**
 * The code under a name that does not tell which kernel of a program it is, so that layers that are alike are compiled once;
 * and that name.
 */
export function commonCode({ source, entry }: Pick<KernelSource, 'source' | 'entry'>): {
  readonly text: string
  readonly entry: string
} {
  const common = entry.replace(/^k\d+_/, 'kernel_')
  return { text: common === entry ? source : source.replace(new RegExp(`\\b${entry}\\b`, 'g'), common), entry: common }
}

/** A scheduled kernel as code of one thread, as it is emitted: the passes come next (passes.ts). */
export function threadCodeOf({ kernel, parts, schedule }: Scheduled, launch: LaunchFacts = {}): ThreadCode {
  const { machine, threads, cluster, together, programs, rows } = schedule
  const dialect = dialects[machine.language].facts
  const unit = new Unit(
    dialect,
    machine,
    kernel.mode,
    kernel.params,
    ['tid', 'program', 'table', roundName, parityName, kernel.name],
    cluster,
  )
  unit.program = v(rows > 1 ? 'i64' : 'i32', 'program')
  const { program } = unit
  unit.loops = parts.some((p) => p.loops.length > 0)
  const passed = dialect.passesScalars ? passScalars(unit, kernel) : []
  const launched = dialect.passesScalars ? [] : readScalars(unit, kernel)
  const summary: string[] = []
  const joined = codeOfParts(unit, parts, schedule, program, summary)
  if (debug.verify) {
    const { bytes } = placeShared(unit.shared)
    invariant(
      bytes === schedule.sharedBytes,
      `${kernel.name} takes ${bytes} bytes of shared memory, of ${schedule.sharedBytes} that are scheduled`,
    )
  }
  const read = [...launched, ...joined]
  const met = unit.halfway.length === 0 ? read : [...openHalfway(unit, threads), ...read]
  const body: readonly S[] = unit.exchanges === 0 ? met : [...openCluster(unit, threads), ...met]
  const { table, tabled } = schedule
  const grid = rows > 1 ? undefined : launchGridOf(kernel, schedule.parts)
  return {
    kernel,
    threads,
    cluster,
    together,
    programs,
    rows,
    shared: unit.shared,
    body,
    called: new Set(),
    tabled: new Set([...tabled, ...(dialect.passesScalars ? scalarParams(kernel) : [])]),
    table,
    passed,
    ...(grid === undefined ? {} : { grid }),
    machine,
    launch,
    summary,
  }
}

/** The parts, each by the programs that are its own. */
function codeOfParts(
  unit: Unit,
  infos: readonly Part[],
  { parts, programs }: Scheduled['schedule'],
  program: Ex,
  summary: string[],
): readonly S[] {
  const bodies = parts.map((g, i): { readonly end: number; readonly body: Block } => {
    const body: Block = []
    const info = infos[i]
    invariant(info !== undefined, 'a part without facts')
    const end = g.first + g.programs
    const isHidden = unit.dialect.movesConstants && leaves32(g.part, unit.params, end)
    const member = memberOf(unit, g, sub(program, int(g.first)), isHidden, body)
    unit.next = g.next
    lowerPart(unit, info, g, member, body, summary)
    return { end, body }
  })
  return bodies.reduceRight<readonly S[]>(
    (otherwise, b) =>
      b.end === programs && otherwise.length === 0 && bodies.length === 1
        ? b.body
        : [{ k: 'if', cond: lt(program, int(b.end)), body: b.body, otherwise }],
    [],
  )
}

/** A kernel's launch scalars as arguments. */
const passScalars = (unit: Unit, { scalars = [] }: Kernel): PassedScalar[] =>
  scalars.map((scalar) => {
    const name = unit.name(scalar.by.slice(1))
    unit.scalars.set(scalar.by, v('i32', name))
    return { name, scalar }
  })

/** Parameters of which launch scalars alone are read. */
export function scalarParams({ scalars = [], parts }: Kernel): ReadonlySet<string> {
  const out = new Set(scalars.map((s) => s.param))
  if (out.size > 0)
    for (const s of parts.flatMap((p) => [...allStmts(p.body)])) {
      if (s.kind === 'let' && s.op.kind === 'load') out.delete(s.op.param)
      if (s.kind === 'store') out.delete(s.param)
    }
  return out
}

/** Reads a kernel's launch scalars: the same for all threads. */
const readScalars = (unit: Unit, kernel: Kernel): S[] =>
  (kernel.scalars ?? []).map(({ by, param, at }) => {
    const name = unit.name(by.slice(1))
    unit.scalars.set(by, v('i32', name))
    return { k: 'let', name, value: { k: 'load', type: 'i32', param, index: int(at) } }
  })

/** The source code of a kernel for a machine. Throws E_UNSUPPORTED for what its language or its blocks do not hold. */
export function emitKernel(kernel: Kernel, machine: SimtMachine, launch: LaunchFacts = {}): KernelSource {
  checkKernel(kernel, dialects[machine.language].facts)
  return emitSchedule(scheduleThreads(kernel, machine, launch), launch)
}

/** A source, and what its schedule was allowed. */
export interface SourceCandidate {
  readonly source: KernelSource
  readonly form: Form
}

/** The source code of a kernel by one schedule after another, no two of them the same. Throws as `emitKernel` does. */
export function* candidateSources(
  kernel: Kernel,
  machine: SimtMachine,
  launch: LaunchFacts = {},
): Generator<SourceCandidate, undefined> {
  checkKernel(kernel, dialects[machine.language].facts)
  const seen = new Set<string>()
  for (const candidate of candidateSchedules(kernel, machine, launch)) {
    const source = emitSchedule(candidate, launch)
    if (seen.has(source.source)) continue
    seen.add(source.source)
    yield { source, form: candidate.form }
  }
}

/** The source code of a scheduled kernel. Throws E_UNSUPPORTED for what its blocks do not hold. */
function emitSchedule(scheduled: Scheduled, launch: LaunchFacts): KernelSource {
  const code = runPasses(threadCodeOf(scheduled, launch))
  const { kernel, machine, threads, programs, cluster, rows, table, tabled, passed, grid } = code
  const { facts, print } = dialects[machine.language]
  const touched = touchedParams(code.body)
  const sharedBytes = placeShared(code.shared).bytes
  if (sharedBytes > machine.maxSharedBytes)
    throw new UserError(
      'E_UNSUPPORTED',
      `the kernel ${kernel.name} needs ${sharedBytes} bytes of memory shared by a block; the device has ${machine.maxSharedBytes}`,
      { help: 'plan for a target with smaller blocks' },
    )
  const isDynamic = sharedBytes > machine.staticSharedBytes
  return {
    dialect: machine.language,
    source: print(code, isDynamic),
    entry: kernel.name,
    threads,
    programs,
    cluster,
    ...(rows > 1 ? { rows } : {}),
    sharedBytes,
    dynamicSharedBytes: isDynamic ? sharedBytes : 0,
    bindings: kernel.params
      .map(({ name, access }, binding) => ({ name, access, binding }))
      .filter((b) => !tabled.has(b.name) && (!facts.bindsTouched || touched.has(b.name))),
    ...(table.length === 0 ? {} : { table }),
    ...(passed.length === 0 ? {} : { scalars: passed.map((s) => s.scalar) }),
    ...(grid === undefined ? {} : { grid }),
  }
}

/** Parameters that code reads or writes. */
function touchedParams(body: readonly S[]): Set<string> {
  const out = new Set<string>()
  visitStatements(body, (s) => {
    if (s.k === 'vload' || s.k === 'vstore' || s.k === 'store' || s.k === 'storeBits') out.add(s.param)
  })
  visitExpressions(body, (e) => {
    if (e.k === 'load' || e.k === 'word') out.add(e.param)
  })
  return out
}

/** Programs along an axis of the grid, in this launch. */
function blocksAlong(unit: Unit, { name, extent, open }: AxisInfo, block: number, out: Block): Ex {
  if (open === undefined) return int(Math.ceil(extent / block))
  if (block === 1) return unit.launched(open)
  const count = unit.name(`${name}_blocks`)
  out.push({ k: 'let', name: count, value: bin('/', add(unit.launched(open), int(block - 1)), int(block)) })
  return v('i32', count)
}

/** The code of one part: its program's blocks of the grid's axes, then its statements. */
function lowerPart(
  unit: Unit,
  info: Part,
  { part, layout, order, body }: PartSchedule,
  { own, ends }: Member,
  all: Block,
  summary: string[],
): void {
  for (const a of layout.axes.values()) summary.push(printAxis(a, info.axis(a.name).extent))
  const counts = new Map(part.grid.map((g) => [g.axis, blocksAlong(unit, info.axis(g.axis), g.block, all)]))
  const isOpen = part.grid.some((g) => info.axis(g.axis).open !== undefined)
  const programs = [...counts.values()].reduce((n, c) => mul(n, cast(own.type, c)), lit(own.type, 1))
  const out: Block = isOpen ? [] : all
  // Programs beyond those of this launch have nothing to do.
  if (isOpen) all.push({ k: 'if', cond: lt(own, programs), body: out, otherwise: [] })
  const ranges = openBlocks(unit, info, part.grid, { own, ends, order }, counts, out)
  const scope = new Scope(unit, info, layout, new Map(), ranges, new Map())
  const held = [...layout.axes.keys()].filter((a) => info.axis(a).role !== 'loop')
  emitSequence(scope.openWhole(held, out), body, out)
}

/** A program's block of each axis of the grid that has several, from the program's number. */
function openBlocks(
  unit: Unit,
  info: Part,
  grid: readonly GridAxis[],
  { own, ends, order }: Member & Pick<PartSchedule, 'order'>,
  counts: ReadonlyMap<string, Ex>,
  out: Block,
): Map<string, AxisRange> {
  const ranges = new Map<string, AxisRange>()
  let rest = own
  const named = (wish: string, value: Ex): Ex => {
    const name = unit.name(wish)
    out.push({ k: 'let', name, value })
    return v(value.type, name)
  }
  if (grid.length > 1 && rest.k !== 'var') rest = named('rest', rest)
  const blocksOf = (axis: string): Ex => counts.get(axis) ?? int(1)
  const startOf = ({ axis, block }: GridAxis, number: Ex): Ex => {
    const isLastFirst = order?.axis === axis && order.descends
    const last = sub(cast(number.type, blocksOf(axis)), lit(number.type, 1))
    const index = isLastFirst ? sub(last, number) : number
    return named(block === 1 ? axis : `${axis}_start`, mul(cast(info.axis(axis).type, index), int(block)))
  }
  const open = ({ axis, block }: GridAxis, start: Ex): void => {
    const end = add(start, int(block))
    const cut = (): Ex => named(`${axis}_end`, least(end, ends.get(axis) ?? extentOf(unit, info.axis(axis))))
    ranges.set(axis, { start, end: info.axis(axis).tail ? cut() : end })
  }
  let cut = grid.filter((g) => Math.ceil(info.axis(g.axis).extent / g.block) > 1)
  const first = cut.find((g) => g.axis === order?.axis)
  if (first !== undefined && order !== undefined && order.together > 1) {
    cut = cut.filter((g) => g !== first)
    const rows = cut.reduce((n, g) => n * Math.ceil(info.axis(g.axis).extent / g.block), 1)
    const blocks = Math.ceil(info.axis(first.axis).extent / first.block)
    const { number, row } = inTurn(rest, rows, blocks, order.together, named)
    open(first, startOf(first, number))
    rest = row
  }
  for (const [i, g] of [...cut.entries()].reverse()) {
    const start = startOf(g, i === 0 ? rest : bin('%', rest, blocksOf(g.axis)))
    if (i > 0) rest = named('rest', bin('/', rest, blocksOf(g.axis)))
    open(g, start)
  }
  return ranges
}

/** A program's block of the axis along which programs differ, and its row of the grid's other axes, of which so many are in turn at every block. */
function inTurn(
  own: Ex,
  rows: number,
  blocks: number,
  together: number,
  named: (wish: string, value: Ex) => Ex,
): { readonly number: Ex; readonly row: Ex } {
  const { type } = own
  const of = (n: number): Ex => lit(type, n)
  if (together === rows) return { number: bin('/', own, of(rows)), row: named('row', bin('%', own, of(rows))) }
  const begun = named('begun', mul(bin('/', own, of(together * blocks)), of(together)))
  const inside = named('inside', bin('%', own, of(together * blocks)))
  const width = rows % together === 0 ? of(together) : named('in_turn', least(of(together), sub(of(rows), begun)))
  return { number: bin('/', inside, width), row: named('row', add(begun, bin('%', inside, width))) }
}

/** Blocks along each dispatch dimension for a number of programs: x at most `most`, the rest along y. */
export function dispatchSize(programs: number, most: number): readonly [number, number] {
  if (programs <= most) return [programs, 1]
  const rows = Math.ceil(programs / most)
  return [Math.ceil(programs / rows), rows]
}
