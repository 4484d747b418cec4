/** `sinter explain`: the fusion report of a model, with the graph and the kernels behind it on demand. */

import { resolve } from 'node:path'
import type { KernelResources } from '../backends/cuda/compile.ts'
import { printGraph } from '../graph/print.ts'
import { printKernel } from '../kernel/print.ts'
import type { FusionReport } from '../report/data.ts'
import { formatReport } from '../report/format.ts'
import { reportPage } from '../report/html.ts'
import { reportPicture } from '../report/svg.ts'
import type { Program } from '../runtime/program.ts'
import { kernelsOf } from '../runtime/region.ts'
import { bytesTouched, overlap } from '../runtime/shared.ts'
import type { Form } from '../schedule/simt/threadSchedule.ts'
import { scheduleText } from '../schedule/text.ts'
import type { Machine } from '../target/machine.ts'
import { type Console, printData, printLines, UsageError } from './console.ts'
import type { DeviceName } from './devices.ts'
import { writeBytes } from './files.ts'
import { launchOf } from './launch.ts'
import { loadModel } from './load.ts'
import { type InputTexts, parseInputs } from './options.ts'
import { planFor, printPlannedFor } from './planned.ts'
import type { Mode } from './session.ts'

export interface ExplainOptions extends InputTexts {
  /** What it is compiled for; on cuda the kernels are built too where a GPU opens, and what they take of it is told. */
  readonly device: DeviceName
  readonly index?: number
  readonly mode: Mode
  readonly unfused: boolean
  readonly kernels: boolean
  /** How each kernel runs on the device. */
  readonly schedule: boolean
  readonly graph: boolean
  readonly html?: string
  readonly svg?: string
  readonly json: boolean
}

/** Threads a multiprocessor has room for. */
const fullOccupancy = 2048

export function printResources(resources: readonly KernelResources[], console: Pick<Console, 'line'>): void {
  console.line()
  console.line('on this GPU: registers a thread, bytes a thread keeps in local memory (spills), shared memory a block')
  for (const r of resources) {
    console.line(
      `  ${r.name.padEnd(28)} ${String(r.blocks).padStart(8)} x ${String(r.threads).padEnd(5)} ${String(r.registers).padStart(4)} registers  ${String(r.localBytes).padStart(5)} B local  ${String(r.blockSharedBytes).padStart(7)} B shared  ${((100 * r.residentThreads) / fullOccupancy).toFixed(0).padStart(3)}% occupancy${r.cluster > 1 ? `, clusters of ${r.cluster} blocks` : ''}`,
    )
    if (r.replanned !== undefined)
      console.line(`    planned again ${formOf(r.replanned)}: ${r.replanned.spilled} B a thread were spilled before`)
  }
}

/** How a kernel that spilled was planned again. */
function formOf({ registers, loadsAhead, waits, alone }: Form): string {
  if (registers !== undefined) return `with tiles of ${registers} registers`
  if (loadsAhead === false) return 'without loads ahead of loops'
  if (alone !== true && waits !== true) return 'with loops over divided indices around the others'
  return waits === true ? 'with products that are waited for at once' : 'with a block alone on a multiprocessor'
}

export async function explainCommand(path: string, options: ExplainOptions, console: Console): Promise<number> {
  if (options.html !== undefined && options.svg !== undefined && resolve(options.html) === resolve(options.svg))
    throw new UsageError('--html and --svg name one file', 'give each a file of its own')
  const model = await loadModel(path, parseInputs(options), console)
  const settings = { name: model.name, mode: options.mode, fuse: !options.unfused }
  console.progress(`compiling ${model.name}`)
  const { compiled, machine, resources, plannedFor } = await planFor(
    options.device,
    model.graph,
    settings,
    options.index,
  )
  console.progress(undefined)
  const kernels = kernelsOf(compiled.program).map(({ step }) => printKernel(step.kernel))
  const schedules = options.schedule ? schedulesOf(compiled.program, machine) : []
  const pictures = [
    [options.html, (r: FusionReport) => reportPage(r, plannedFor?.text)],
    [options.svg, (r: FusionReport) => reportPicture(r, { alone: true })],
  ] as const
  for (const [file, draw] of pictures) {
    if (file === undefined) continue
    writeBytes(file, draw(compiled.report))
    if (!options.json) console.note(`wrote ${file}`)
  }
  if (options.json) {
    const data = {
      ...compiled.report,
      specialised: model.specialised,
      inferred: Object.fromEntries(model.inferred),
      ...(options.graph ? { graph: { before: printGraph(model.graph), after: printGraph(compiled.graph) } } : {}),
      ...(options.kernels ? { kernelText: kernels } : {}),
      ...(options.schedule ? { schedules } : {}),
      ...(plannedFor === undefined ? {} : { plannedFor }),
      ...(resources === undefined ? {} : { resources }),
    }
    printData(data, console)
    return 0
  }
  printLines(formatReport(compiled.report), console)
  if (plannedFor !== undefined) printPlannedFor(plannedFor, console)
  if (resources !== undefined) printResources(resources, console)
  for (const name of model.specialised) {
    console.line()
    console.line(`compiled for the value of input ${name}`)
  }
  if (options.graph) {
    printLines(`\ngraph before the passes\n\n${printGraph(model.graph)}`, console)
    printLines(`\ngraph after the passes\n\n${printGraph(compiled.graph)}`, console)
  }
  if (options.kernels) printLines(`\nkernels\n\n${kernels.join('\n\n')}`, console)
  if (options.schedule) printLines(`\nschedules\n\n${schedules.map((s) => s.join('\n')).join('\n\n')}`, console)
  return 0
}

/** How each kernel of a program runs on a machine: lines for each. */
function schedulesOf(program: Program, machine: Machine): readonly (readonly string[])[] {
  return kernelsOf(program).map((found) => {
    const { step, program: of } = found
    if (machine.simt === undefined) {
      const mayShare = (x: number, y: number): boolean => overlap(of, step.buffers[x] ?? -1, step.buffers[y] ?? -1)
      return scheduleText(step.kernel, machine, { mayShare, held: bytesTouched(of) })
    }
    const { kernel, launch } = launchOf(found, machine.simt.language)
    return scheduleText(kernel, machine, launch)
  })
}
