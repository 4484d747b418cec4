/** Kernels of many kinds, as the compiler makes them, with what their schedules are made from. */
import { readdirSync, readFileSync } from 'node:fs'
import { compileGraph } from '../../src/compile/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { parseKernels } from '../../src/kernel/parse.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { overlap } from '../../src/runtime/shared.ts'
import { factsOf } from '../../src/schedule/loop/scheduleKernel.ts'
import type { KernelFacts } from '../../src/schedule/loop/tiles/places.ts'
import type { Machine } from '../../src/target/machine.ts'
import { randomGraph } from '../random/graphs.ts'
import { workloads } from '../simt/programs/workloads.ts'

export interface Sample {
  readonly name: string
  readonly kernel: Kernel
  readonly facts: KernelFacts
}

/** The kernels of a graph, planned for a machine. */
export function samplesOf(name: string, graph: Graph, machine: Machine, mode: 'fast' | 'strict'): Sample[] {
  const { program } = compileGraph(graph, { target: machine, mode })
  return kernelsOf(program).map(({ step, program: of }, i) => ({
    name: `${name} (${mode}), kernel ${i}`,
    kernel: step.kernel,
    facts: factsOf(step.kernel, machine, (x, y) => overlap(of, step.buffers[x] ?? -1, step.buffers[y] ?? -1)),
  }))
}

const hardCases = new URL('../kernel/hard-cases/', import.meta.url)

/** Hard cases of the kernel IR, the SIMT workloads, and random programs. */
export function* samples(machine: Machine, seeds: number): Generator<Sample> {
  for (const file of readdirSync(hardCases)) {
    if (!file.endsWith('.kernel')) continue
    const text = readFileSync(new URL(file, hardCases), 'utf8')
    for (const kernel of parseKernels(text)) yield { name: file, kernel, facts: factsOf(kernel, machine, () => false) }
  }
  for (const [name, graph] of Object.entries(workloads()))
    for (const mode of ['fast', 'strict'] as const) yield* samplesOf(name, graph, machine, mode)
  for (let seed = 0; seed < seeds; seed++)
    yield* samplesOf(`random ${seed}`, randomGraph(seed).graph, machine, seed % 4 === 0 ? 'strict' : 'fast')
}
