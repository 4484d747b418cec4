/** Makes the schedule of a kernel on a machine of threads: each decision from those above it on this page. */
import { typeUpTo } from '../../kernel/indexType.ts'
import { gridSize, type Kernel, type KernelPart } from '../../kernel/ir.ts'
import { rollPart } from '../../kernel/roll.ts'
import { inAdditions } from '../../target/prices.ts'
import type { SimtMachine } from '../../target/simt.ts'
import { debug } from '../debug.ts'
import { dtypesIn, statementSeconds } from '../price.ts'
import { type KnownRange, Place, type Setting } from './access/place.ts'
import { type LaunchShape, launchShapeOf } from './layout/launchShape.ts'
import type { Layout } from './layout/layout.ts'
import { nextProgramOf } from './layout/nextProgram.ts'
import { mainLayout } from './layout/partLayout.ts'
import { programOrderOf } from './layout/programOrder.ts'
import { separateLoops } from './part/loopAxes.ts'
import { declaredOf, Part } from './part/part.ts'
import { unionOf } from './part/union.ts'
import { threadSeconds } from './seconds.ts'
import { rollEnd } from './sequence/rolledEnd.ts'
import { itemsOf, type Sequence } from './sequence/sequence.ts'
import { planItems } from './sequence/statements.ts'
import { SharedMemory } from './storage/sharedMemory.ts'
import type { Form, PartSchedule, Scheduled, ScheduleFacts } from './threadSchedule.ts'
import { verifyThreadSchedule } from './verify.ts'

export function scheduleThreads(
  given: Kernel,
  machineGiven: SimtMachine,
  { mayAlias = () => false }: ScheduleFacts = {},
  form: Form = {},
): Scheduled {
  const kernel = { ...given, parts: given.parts.map((p) => separateLoops(rolled(p, machineGiven))) }
  const machine = inForm(machineGiven, form)
  const programs = kernel.parts.reduce((n, p) => n + gridSize(p), 0)
  // The numbers of programs in a table are of 32 bits.
  const hasTables = machine.hasPointerTable && typeUpTo(programs) === 'i32'
  const { groups, table, tabled } = unionOf(kernel, hasTables, mayAlias)
  const declared = declaredOf(kernel)
  const { params } = declared
  const parts = groups.map((g) => new Part(g.part, kernel.mode, declared, machine))
  const team = launchShapeOfAll(parts, programs, machine, form)
  const rows = Math.max(1, Math.ceil((programs * team.cluster) / (machine.maxBlocks + 1 - team.cluster)))
  const isAlone = groups.length === 1 && groups[0]?.count === 1
  const shared = new SharedMemory()
  const loadsAhead = form.loadsAhead !== false
  const hasLoops = parts.some((p) => p.loops.length > 0)
  const aliased = new Set(groups.flatMap((g) => [...g.aliased]))
  const setting: Setting = {
    machine,
    mode: kernel.mode,
    params,
    mayAlias: (p) => aliased.has(p) || mayAlias(p),
    cluster: team.cluster,
    together: team.together,
    loadsAhead,
    waits: form.waits === true,
    divided: form.divided === true,
    hasLoops,
    shared,
  }
  let first = 0
  const schedules = groups.map((g, i): PartSchedule => {
    const part = parts[i] ?? new Part(g.part, kernel.mode, declared, machine)
    const layout = mainLayout(part, machine, team.threads * team.cluster)
    const next = isAlone ? nextProgramOf(part, layout, team, programs, machine) : undefined
    const order = programOrderOf(part, machine)
    const schedule = { ...g, first, layout, next, order, body: bodyOf(setting, part, layout) }
    first += g.programs
    return schedule
  })
  const seconds = schedules.reduce((sum, s, i) => {
    const part = parts[i]
    const each = part === undefined ? 0 : threadSeconds(part, s.layout, s.body, machine.prices)
    return sum + s.programs * team.threads * team.cluster * each
  }, 0)
  const schedule = {
    kernel: kernel.name,
    machine,
    ...team,
    programs,
    rows,
    seconds,
    sharedBytes: shared.bytes,
    parts: schedules,
    table,
    tabled,
    aliased,
  }
  const scheduled = { kernel, parts, schedule }
  if (debug.verify) verifyThreadSchedule(scheduled)
  return scheduled
}

/** What the threads of a part do, in order. */
function bodyOf(setting: Setting, part: Part, layout: Layout): Sequence {
  const blocks = part.part.grid.filter((g) => Math.ceil(part.axis(g.axis).extent / g.block) > 1)
  const ranges = new Map(blocks.map(({ axis }): [string, KnownRange] => [axis, { start: undefined, end: undefined }]))
  const held = [...layout.axes.keys()].filter((a) => part.axis(a).role !== 'loop')
  const place = new Place(setting, part, layout, { ranges }).openWhole(held)
  const body = planItems(place, itemsOf(part.inMain(part.part.body)), new Set())
  return rollEnd(part, layout, place.held, body, setting.shared.bytes, setting.machine)
}

/** A part with its recurrences as loops, statements weighed by their prices. */
function rolled(part: KernelPart, { prices }: SimtMachine): KernelPart {
  const dtypes = dtypesIn(part.body)
  return rollPart(part, (l) =>
    inAdditions(
      statementSeconds(l, (id) => dtypes.get(id) ?? l.dtype, prices),
      prices,
    ),
  )
}

/** The machine, with registers as a form of the code has them. */
const inForm = (machine: SimtMachine, { registers = machine.registers }: Form): SimtMachine => ({
  ...machine,
  registers,
  walkedRegisters: Math.min(registers, machine.walkedRegisters),
})

/** The threads and blocks of a kernel's programs; the parts of a union run in one block each. */
function launchShapeOfAll(
  parts: readonly Part[],
  programs: number,
  machine: SimtMachine,
  { alone }: Form,
): LaunchShape {
  const [only] = parts
  if (only !== undefined && parts.length === 1) return launchShapeOf(only, programs, machine, alone)
  return { threads: Math.max(...parts.map((p) => mainLayout(p, machine).threads), 32), cluster: 1, together: 1 }
}
