/** Whole random programs: rewriting them must not change what they compute. */
import { describe, expect, test } from 'vitest'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { readElement } from '../../src/scalar/host.ts'
import { isFloat } from '../../src/types/dtype.ts'
import { randomGraph, steps } from '../random/graphs.ts'
import { nightly } from '../support/nightly.ts'
import { bitDifference, evaluate, foldIn, roundingDifference } from './support.ts'

const seeds = Array.from({ length: nightly ? 400 : 180 }, (_, i) => i)

/** Programs large enough to hold many patterns. */
const program = (seed: number): ReturnType<typeof randomGraph> => randomGraph(seed, { operations: 6 + (seed % 30) })

describe('random programs', () => {
  test('are the same for the same seed, valid, finite, and cover every step', () => {
    const ops = new Set<string>()
    for (const seed of seeds) {
      const { graph, inputs } = program(seed)
      verifyGraph(graph)
      for (const n of nodesOf(graph)) ops.add(n.op)
      evaluate(graph, inputs, 'f64').forEach((data, i) => {
        const dtype = graph.outputs[i]?.dtype ?? 'f32'
        if (!isFloat(dtype)) return
        for (let j = 0; j < data.length; j++)
          expect(Number.isFinite(Number(readElement(data, dtype, j))), `seed ${seed}, output ${i}`).toBe(true)
      })
    }
    const [first, second] = [program(7), program(7)]
    expect(second.inputs).toEqual(first.inputs)
    expect(nodesOf(second.graph).map((n) => n.op)).toEqual(nodesOf(first.graph).map((n) => n.op))
    const expected = [
      'contract',
      'window',
      'gather',
      'scan',
      'reduce',
      'concat',
      'pad',
      'randomBits',
      'select',
      'cast',
      'erf',
      'shr',
    ]
    expect(expected.filter((op) => !ops.has(op))).toEqual([])
    expect(new Set(steps.map((s) => s.name)).size).toBe(steps.length)
  })

  test.each(['dtype', 'strict'] as const)('rewritten exactly, give the same bits (%s rounding)', (rounding) => {
    for (const seed of seeds) {
      const { graph, inputs } = program(seed)
      const { graph: after } = rewriteGraph(graph, { mode: 'strict', fold: foldIn(rounding) })
      verifyGraph(after)
      const want = evaluate(graph, inputs, rounding)
      evaluate(after, inputs, rounding).forEach((got, i) => {
        const dtype = graph.outputs[i]?.dtype ?? 'f32'
        const difference = bitDifference(want[i] ?? got, got, dtype)
        expect(difference, `seed ${seed}, output ${i} (${dtype})`).toBeUndefined()
      })
    }
  })

  test('rewritten for speed, stay within the programs’ own bounds', () => {
    for (const seed of seeds) {
      const { graph, inputs, tolerances } = program(seed)
      const { graph: after } = rewriteGraph(graph, { mode: 'fast', fold: foldIn('dtype') })
      verifyGraph(after)
      for (const rounding of ['f64', 'dtype'] as const) {
        const want = evaluate(graph, inputs, 'f64')
        evaluate(after, inputs, rounding).forEach((got, i) => {
          const dtype = graph.outputs[i]?.dtype ?? 'f32'
          const difference = roundingDifference(want[i] ?? got, got, dtype, tolerances[i])
          expect(difference, `seed ${seed}, output ${i} (${dtype}, ${rounding})`).toBeUndefined()
        })
      }
    }
  })

  test('rewritten twice, change no more', () => {
    for (const seed of seeds.slice(0, nightly ? 150 : 70))
      for (const mode of ['fast', 'strict'] as const) {
        const once = rewriteGraph(program(seed).graph, { mode, fold: foldIn('dtype') }).graph
        // Operands are ordered by age, and a copied graph ages anew.
        const again = rewriteGraph(once, { mode, fold: foldIn('dtype') }).applied.filter((x) => x.rule !== 'commute')
        expect(again, `seed ${seed}, ${mode}`).toEqual([])
      }
  })
})
