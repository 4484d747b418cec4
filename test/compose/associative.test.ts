/** associativeScan against running the combination element by element. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { param } from '../../src/graph/build.ts'
import type { Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { makeRng } from '../random/rng.ts'
import { checkProgram, drawInputs, evaluate, graphOf, numbersOf, type Program } from '../transforms/support.ts'

const at = (x: Node | undefined): Node => {
  if (x === undefined) throw new Error('no tensor')
  return x
}

/** h' = a h + b as pairs: the later after the earlier. */
const recurrence: c.Combine = ([a, b], [p, q]) => [c.mul(at(a), at(p)), c.add(c.mul(at(b), at(p)), at(q))]

function oneByOne(a: readonly number[], b: readonly number[], n: number, reverse: boolean): number[][] {
  const inner = a.length / Math.max(1, n)
  const out = [new Array<number>(a.length).fill(0), new Array<number>(a.length).fill(0)]
  for (let j = 0; j < inner; j++) {
    let state = [1, 0]
    for (let k = 0; k < n; k++) {
      const i = (reverse ? n - 1 - k : k) * inner + j
      state = [(state[0] ?? 0) * (a[i] ?? 0), (state[1] ?? 0) * (a[i] ?? 0) + (b[i] ?? 0)]
      out.forEach((o, s) => {
        o[i] = state[s] ?? 0
      })
    }
  }
  return out
}

describe('associativeScan', () => {
  it.each([0, 1, 2, 3, 4, 5, 7, 8, 9, 16, 17, 33])('%i elements', (n) => {
    for (const reverse of [false, true]) {
      const program: Program = {
        inputs: [
          { shape: [n, 2], lo: -1, hi: 1 },
          { shape: [n, 2], lo: -1, hi: 1 },
        ],
        build: (a, b) => c.associativeScan(recurrence, [a, b], { reverse }),
      }
      const graph = graphOf(program)
      const inputs = drawInputs(program, makeRng(n + 1))
      const [a, b] = inputs.map((x) => numbersOf(x, 'f64'))
      const want = oneByOne(a ?? [], b ?? [], n, reverse)
      evaluate(graph, inputs).forEach((y, i) => {
        numbersOf(y, 'f64').forEach((v, k) => {
          expect(v).toBeCloseTo(want[i]?.[k] ?? Number.NaN, 12)
        })
      })
    }
  })

  it('keeps bits: the maximum so far, along the last axis, with infinities, zeros of both signs and NaN', () => {
    const x = param(0, [2, 7], 'f64')
    const outputs = c.associativeScan(([a], [b]) => [c.max(at(a), at(b))], [x], { axis: -1 })
    const graph = { params: [x], outputs, effects: [] }
    verifyGraph(graph)
    const data = Float64Array.from([-0, -1, 0, 3, Number.NaN, 4, 5, -Infinity, -2, -0, -0, 7, Infinity, 1])
    const [y] = evaluate(graph, [data])
    const want = [-0, -0, 0, 3, Number.NaN, Number.NaN, Number.NaN, -Infinity, -2, -0, -0, 7, Infinity, Infinity]
    expect([...(y ?? [])]).toEqual(want)
  })

  it('takes as many combinations as the logarithm of the length', () => {
    let calls = 0
    const x = param(0, [1024], 'f32')
    const outputs = c.associativeScan(
      ([a], [b]) => {
        calls++
        return [c.mul(at(a), at(b))]
      },
      [x],
    )
    expect(calls).toBeLessThanOrEqual(20)
    expect(nodesOf({ params: [x], outputs, effects: [] }).filter((n) => n.op === 'mul').length).toBe(calls)
  })

  it('has derivatives', () => {
    checkProgram(
      {
        inputs: [{ shape: [2, 5] }, { shape: [2, 5] }],
        build: (a, b) => c.associativeScan(recurrence, [a, b], { axis: 1 }),
      },
      1,
      2,
    )
  })

  const x = param(0, [3], 'f32')
  const y = param(1, [4], 'f32')
  it.each([
    ['no tensors', () => c.associativeScan(recurrence, []), 'E_ARGUMENT'],
    ['lengths that differ', () => c.associativeScan(recurrence, [x, y]), 'E_SHAPE'],
    ['an axis out of range', () => c.associativeScan(recurrence, [x, x], { axis: 1 }), 'E_AXIS'],
    ['a combination that forgets one', () => c.associativeScan(([a]) => [at(a)], [x, x]), 'E_STRUCTURE'],
    ['a combination that sums', () => c.associativeScan(([a]) => [c.sum(at(a))], [x]), 'E_SHAPE'],
  ])('refuses %s', (_, call, code) => {
    expect(call).toThrow(expect.objectContaining({ code }))
  })
})
