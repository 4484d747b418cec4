/** Loops of registers: nests that are not cut for what fewer loops compute, and loops over divided indices around the others where registers spill. */
import { describe, expect, test } from 'vitest'
import { candidateSources, type KernelSource } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { candidateSchedules } from '../../../src/schedule/simt/candidates.ts'
import type { Entry, Sequence } from '../../../src/schedule/simt/sequence/sequence.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { DType } from '../../../src/types/dtype.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { at, inputsOf, trace } from '../../compile/support.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from '../programs/programs.ts'

const programOf = (graph: Graph): Program =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, precision: 'tf32', verify: true }).program

const kernelsOf = ({ steps }: Program): Kernel[] => steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))

const scheduled = (k: Kernel, divided: boolean) =>
  [...candidateSchedules(k, cudaTarget.simt)].find(({ form }) => form.divided === (divided || undefined))

type Nest = Extract<Entry, { kind: 'nest' }>

const nestsOf = ({ entries }: Sequence): Nest[] => entries.flatMap((e) => (e.kind === 'nest' ? [e] : []))

/** A pointwise convolution of few columns an image, with a residual, scaled by channel and cut off. */
const convolution = (batch: number, channels: number, side: number, dtype: DType = 'f32'): Graph => {
  const image = { shape: [batch, channels, side, side], dtype }
  const vector = { shape: [channels], dtype }
  return trace([image, { shape: [channels, channels, 1, 1], dtype }, vector, vector, image], (p) => {
    const along = (i: number) => c.reshape(at(p, i), [channels, 1, 1])
    const y = c.add(c.mul(c.conv(at(p, 0), at(p, 1)), along(2)), along(3))
    return c.relu(c.add(y, at(p, 4)))
  })
}

describe('beside a product', () => {
  const [kernel] = kernelsOf(programOf(convolution(64, 512, 7, 'bf16'))).filter((k) => scheduled(k, true) !== undefined)

  test('a second schedule has loops over divided indices around the others', () => {
    const axes = (divided: boolean): readonly string[][] => {
      const found = kernel === undefined ? undefined : scheduled(kernel, divided)
      const nests = found?.schedule.parts.flatMap((p) => nestsOf(p.body)) ?? []
      const stores = nests.flatMap((n) => n.steps.filter((s) => s.work.kind === 'store'))
      return stores.map((s) => [...new Set(s.loops.map((l) => l.axis))])
    }
    const [first, second] = [axes(false), axes(true)]
    expect(first.some((a) => a.length === 2)).toBe(true)
    expect(second).toEqual(first.map((a) => [...a].reverse()))
  })

  test('what follows it is one nest: nothing is handed on in registers', () => {
    const found = kernel === undefined ? undefined : scheduled(kernel, false)
    const nests = found?.schedule.parts.flatMap((p) => nestsOf(p.body)) ?? []
    const isDeep = (n: Nest): boolean => new Set(n.steps[0]?.loops.map((l) => l.axis)).size === 2
    const deep = nests.filter((n) => isDeep(n) && n.steps.some((s) => s.work.kind !== 'value'))
    expect(deep.map((n) => n.arrays)).toEqual([[]])
  })
})

test('numbers come before a nest that reads them: it hands nothing on in registers', () => {
  const graph = trace([{ shape: [64, 512, 7, 7] }, { shape: [512] }, { shape: [512] }], (p) => {
    const along = (i: number) => c.reshape(at(p, i), [512, 1, 1])
    const scaled = c.mul(at(p, 0), along(1))
    return [c.sub(c.mul(c.add(scaled, 3), along(2)), c.mul(along(1), 0.25)), c.mul(scaled, 7)]
  })
  const [kernel] = kernelsOf(programOf(graph))
  const nests = (kernel === undefined ? undefined : scheduled(kernel, false))?.schedule.parts.flatMap((p) =>
    nestsOf(p.body),
  )
  expect(nests?.flatMap((n) => n.arrays)).toEqual([])
})

describe.skipIf(!hasCompiler)('the second schedule gives the bits of the first', () => {
  const emit = (k: Kernel, divided: boolean): KernelSource => {
    const all = [...candidateSources(k, cudaTarget.simt)]
    const found = all.find((s) => s.form.divided === (divided || undefined))?.source
    if (found === undefined && !divided) throw new Error(`${k.name} has no schedule`)
    return found ?? emit(k, false)
  }

  const resultsOf = async (graph: Graph, program: Program, divided: boolean): Promise<readonly HostArray[]> => {
    const kernels = kernelsOf(program)
    const emulated = new Emulated(kernels, cudaTarget.simt, (k) => emit(k, divided))
    const got = await execute(program, inputsOf(graph), (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
    emulated.dispose()
    return got.flatMap((y) => y ?? [])
  }

  test.each<[string, Graph]>([
    ['few columns', convolution(3, 64, 7, 'bf16')],
    ['odd rows', convolution(2, 48, 9, 'bf16')],
    ['tf32', convolution(2, 64, 7)],
  ])('%s', async (_, graph) => {
    const program = programOf(graph)
    expect(kernelsOf(program).some((k) => scheduled(k, true) !== undefined)).toBe(true)
    const first = await resultsOf(graph, program, false)
    expect(await resultsOf(graph, program, true)).toEqual(first)
    expect(first.flatMap((y) => [...y]).some((y) => Number(y) !== 0)).toBe(true)
  })
})
