/** A graph compiled for a machine, with its inputs there, to be run again and again. */
import { checkCapabilities } from '../../src/compile/capability.ts'
import { type Compiled, compileGraph } from '../../src/compile/index.ts'
import { Predicted } from '../../src/compile/predicted.ts'
import { compileFor } from '../../src/compile/prepare.ts'
import type { Graph } from '../../src/graph/node.ts'
import type { FusionReport } from '../../src/report/data.ts'
import type { DeviceBuffer } from '../../src/runtime/backend.ts'
import type { Program } from '../../src/runtime/program.ts'
import type { Machine as Target } from '../../src/target/machine.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import type { Machine } from './machine.ts'

export interface Bound {
  readonly report: FusionReport
  readonly compileSeconds: number
  /** Seconds of one of so many calls. */
  seconds(calls: number): Promise<number>
  /** The results of one call. */
  results(): Promise<HostArray[]>
  /** Milliseconds of each launch of one call, by the kernel's name. */
  kernelTimes(): Promise<ReadonlyMap<string, number>>
  /** Seconds of each launch, by the kernel's name, that the plan was chosen by. */
  readonly planned: ReadonlyMap<string, number>
  /** The same by its loop schedule; none on GPUs. */
  readonly scheduled: ReadonlyMap<string, number>
  /** Other data for the inputs. */
  write(data: readonly HostArray[]): void
  dispose(): void
}

/** The names of launches' main kernels, by the launch's number. */
function namesOf(program: Program): Map<number, string> {
  const names = new Map<number, string>()
  for (const s of program.steps) if (s.kind === 'kernel' && s.stage === 'main') names.set(s.launch, s.kernel.name)
  return names
}

/** What the loop schedules of a program predict: seconds of launches, stages included, by the kernel's name. */
function scheduledSeconds(program: Program, target: Target): Map<string, number> {
  const predicted = new Predicted(program, target)
  const all = [...namesOf(program)].map(([launch, name]) => [name, predicted.of(launch)] as const)
  return new Map(all.flatMap(([name, s]) => (s === undefined ? [] : [[name, s]])))
}

/** What the planner's model says of launches, by the kernel's name. */
const plannedSeconds = ({ program, plan }: Compiled): Map<string, number> =>
  new Map([...namesOf(program)].map(([launch, name]) => [name, plan.groups[launch]?.cost.seconds ?? 0]))

/** Milliseconds of launches, stages included, by the name of the kernel or call. */
function byKernel(
  program: Program,
  times: readonly { readonly step: number; readonly ms: number }[],
): Map<string, number> {
  const names = namesOf(program)
  const found = new Map<string, number>()
  for (const t of times) {
    const step = program.steps[t.step]
    const name = step?.kind === 'kernel' ? names.get(step.launch) : step?.kind === 'product' ? step.name : undefined
    if (name !== undefined) found.set(name, (found.get(name) ?? 0) + t.ms)
  }
  return found
}

/** Compiles a graph, fused or operation by operation. Throws UserError where the device cannot run it. */
export function bindGraph(machine: Machine, graph: Graph, data: readonly HostArray[], fuse = true): Bound {
  const { backend, target, capabilities, name } = machine
  if (capabilities !== undefined) checkCapabilities(graph, name, capabilities)
  const start = performance.now()
  const { compiled, executable } = compileFor(backend, target, (t) =>
    compileGraph(graph, { mode: 'fast', target: t, fuse }),
  )
  const compileSeconds = (performance.now() - start) / 1e3
  const inputs = data.map((d) => {
    const buffer = backend.alloc(d.byteLength)
    backend.write(buffer, d)
    return buffer
  })
  const release = (list: readonly DeviceBuffer[]): void => {
    for (const b of new Set(list)) backend.free(b)
  }
  return {
    report: compiled.report,
    compileSeconds,
    seconds: async (calls) => {
      const seconds = await machine.time(() => {
        for (let i = 0; i < calls; i++) release(executable.run(inputs))
      })
      return seconds / calls
    },
    results: async () => {
      const outputs = executable.run(inputs)
      const read = graph.outputs.map(async ({ dtype, shape }, i) => {
        const b = outputs[i]
        if (b === undefined) throw new Error('a program with too few results')
        return backend.read(b, dtype, sizeOf(shape))
      })
      const values = await Promise.all(read)
      release(outputs)
      return values
    },
    kernelTimes: async () => {
      const { outputs, times } = await backend.profile(executable, inputs)
      release(outputs)
      return byKernel(compiled.program, times)
    },
    planned: plannedSeconds(compiled),
    scheduled: scheduledSeconds(compiled.program, target),
    write: (other) => {
      for (const [i, b] of inputs.entries()) {
        const d = other[i]
        if (d !== undefined) backend.write(b, d)
      }
    },
    dispose: () => {
      executable.dispose()
      release(inputs)
    },
  }
}
