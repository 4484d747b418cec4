/**
 * Short rows that share what they read (the heads of a token its angles): a program takes more of them where the target says so and
 * enough programs remain, and its threads pass through them one by one.
 */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { Machine } from '../../../src/target/machine.ts'
import { webgpuSimt } from '../../../src/target/simt.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import { at, inputsOf, trace } from '../../compile/support.ts'
import { difference } from '../../random/execute.ts'
import { some } from '../../support/nightly.ts'
import { rotaries } from '../../support/rotary.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { openDevice } from '../dialects/wgsl.ts'
import { execute, executeWgsl } from '../programs/programs.ts'

const rotary = at(rotaries('bf16'), 0)
const graphOf = (tokens: number, heads: number, width: number): Graph =>
  trace(rotary.inputs(tokens, heads, width), rotary.build)

const programOf = (graph: Graph, target: Machine): Program => compileGraph(graph, { mode: 'fast', target }).program

function onlyKernel(program: Program): Kernel {
  const [step, ...others] = program.steps
  if (step?.kind !== 'kernel' || others.length > 0) throw new Error('not one kernel')
  return step.kernel
}

/** Rows a program takes. */
function rowsOf(graph: Graph, target: Machine): number {
  const [part] = onlyKernel(programOf(graph, target)).parts
  return part?.grid.reduce((n, g) => n * g.block, 1) ?? 0
}

describe('rows a program takes', () => {
  test('all heads of a token', () => {
    expect(rowsOf(graphOf(16384, 40, 128), webgpuTarget())).toBe(40)
    expect(rowsOf(graphOf(16384, 24, 128), webgpuTarget())).toBe(24)
  })
  test('parts of one length of many heads', () => {
    expect(rowsOf(graphOf(16384, 64, 128), webgpuTarget())).toBe(32)
  })
  test('as few as ever where few programs would remain', () => {
    expect(rowsOf(graphOf(64, 40, 128), webgpuTarget())).toBe(8)
  })
  test('as few as ever where the target gains nothing', () => {
    expect(rowsOf(graphOf(16384, 40, 128), cudaTarget)).toBe(16)
  })
})

test('threads pass through rows one by one, and no thread has none', () => {
  const { source, threads } = emitKernel(onlyKernel(programOf(graphOf(16384, 40, 128), webgpuTarget())), {
    ...webgpuSimt,
    laneBits: 5,
  })
  expect(threads).toBe(64)
  expect(source).toContain('40 of 40 a program = 5 chunks x 8 threads')
})

const cases = [
  [2, 27, 128],
  [3, 40, 128],
  [2, 13, 256],
  [5, 64, 130],
] as const

describe.each(some(cases, 2))('%i tokens, %i heads of %i elements', (...extents) => {
  const graph = graphOf(...extents)
  const inputs = inputsOf(graph)
  const program = programOf(graph, { ...webgpuTarget(), minPrograms: 2 })
  const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)

  test('in WGSL', async ({ skip }) => {
    const machine = await openDevice()
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const got = await executeWgsl(machine, program, inputs)
    expect(difference(at(got, 0), at(want, 0), 'bf16')).toBeUndefined()
  })

  test.skipIf(!hasCompiler())('in CUDA on the host (skipped where g++ is missing)', async () => {
    const emulated = new Emulated([onlyKernel(program)])
    const got = await execute(program, inputs, (_, buffers) => emulated.run(0, buffers))
    emulated.dispose()
    expect(difference(at(got, 0), at(want, 0), 'bf16')).toBeUndefined()
  })
})
