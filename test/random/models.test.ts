/**
 * Seeded random models as people write them (layers, attention, convolutions, recurrences, losses; their gradients, batches,
 * second derivatives, steps): on WebAssembly, and as kernels for CUDA interpreted, against float64. SINTER_MODELS sets how many,
 * SINTER_FIRST_SEED where they start.
 */
import { afterAll, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { setDevice } from '../../src/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { cudaSimt } from '../../src/target/simt.ts'
import { type DType, isFloat } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { nightly, seedsOf } from '../support/nightly.ts'
import { execute, smallBlocks } from './execute.ts'
import { inputsOf, type ModelProgram, modelProgram } from './models/programs.ts'

const count = seedsOf('SINTER_MODELS', 8, 300)
const first = Number(process.env.SINTER_FIRST_SEED ?? 0)
/** Nodes of a graph at most: longer programs take seconds. */
const mostNodes = nightly ? 160 : 80

const backend = compiledBackend({ threads: 1 })
afterAll(() => {
  backend.dispose()
})

const roundoff: Partial<Record<DType, number>> = { f32: 2 ** -24, f16: 2 ** -11, bf16: 2 ** -8 }
const numbers = (x: HostArray, dtype: DType): number[] =>
  Array.from({ length: x.length }, (_, i) => Number(readElement(x, dtype, i)))
const greatest = (list: readonly number[]): number =>
  list.reduce((m, v) => (Number.isFinite(v) ? Math.max(m, Math.abs(v)) : m), 0)

/** Holds results against those in float64: as far from them as several times what rounding every operation is, or what it is to the greatest number. */
function hold(
  p: ModelProgram,
  got: readonly HostArray[],
  want: readonly HostArray[],
  rounded: readonly HostArray[],
  how: string,
): void {
  const types = p.graph.outputs.map((o) => o.dtype)
  const all = want.map((w, o) => numbers(w, types[o] ?? 'f32'))
  const most = Math.max(...all.map(greatest))
  const least = Math.max(0, ...p.inputs.map((i) => roundoff[i.dtype] ?? 0))
  all.forEach((exact, o) => {
    const dtype = types[o] ?? 'f32'
    const near = numbers(rounded[o] ?? new Float32Array(), dtype)
    const far = greatest(exact.map((e, i) => e - (near[i] ?? 0)))
    const bound = isFloat(dtype) ? 16 * Math.max(far, least * most) : 0
    // Of what rounding alone changes by as much as it is nothing can be said.
    if (isFloat(dtype) && bound > 0.5 * greatest(exact) + 1e-6) return
    const found = numbers(got[o] ?? new Float32Array(), dtype)
    const at = exact.findIndex((e, i) => !Object.is(e, found[i]) && !(Math.abs(e - (found[i] ?? Number.NaN)) <= bound))
    if (at >= 0)
      expect.fail(
        `seed ${p.seed} ${how}: result ${o} is ${found[at]} at ${at}, not ${exact[at]} (bound ${bound})\n${p.text}`,
      )
  })
}

test.each(Array.from({ length: count }, (_, i) => first + i))('model %d', { timeout: 120_000 }, (seed) => {
  setDevice('reference')
  const p = modelProgram(seed)
  if (nodesOf(p.graph).length > mostNodes) return
  const inputs = inputsOf(p)
  const want = evaluateGraph(p.graph, inputs).map(toHostArray)
  const rounded = evaluateGraph(p.graph, inputs, { rounding: 'dtype' }).map(toHostArray)
  const target = seed % 2 === 0 ? compiledTarget : smallBlocks
  const { program } = compileGraph(p.graph, { mode: 'fast', target, verify: true })
  hold(p, execute(backend, program, { graph: p.graph, inputs, tolerances: [] }), want, rounded, 'run')
  const gpu = compileGraph(p.graph, { mode: 'fast', target: cudaTarget, verify: true })
  for (const s of gpu.program.steps) if (s.kind === 'kernel') emitKernel(s.kernel, cudaSimt)
  hold(p, interpretProgram(gpu.program, inputs, 'dtype', p.graph.outputs), want, rounded, 'interpreted')
})
