/** Planning of deep graphs: nothing recurses over the graph. */
import { expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { dataInputs, reductionDepth } from '../../src/plan/body/region.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, trace } from '../compile/support.ts'

test('a chain of 15000 operations', () => {
  const graph = trace([{ shape: [4] }], (p) => {
    let x = at(p, 0)
    for (let i = 0; i < 15_000; i++) x = c.unary('tanh', x)
    return x
  })
  const { groups } = planFusion(graph, wasmTarget, 'fast')
  expect(groups.length).toBeGreaterThanOrEqual(15_000 / wasmTarget.maxStatements)
  expect(groups.reduce((n, g) => n + (g.kind === 'kernel' ? g.members.size : 1), 0)).toBe(15_000)
})

test('reductions on the longest way down', () => {
  trace([{ shape: [4, 5] }], (p) => {
    const x = at(p, 0)
    const s = c.reduceMax(x, 1, true)
    const y = c.sub(x, s)
    expect([x, s, y, c.reduceMax(c.add(y, s), 0)].map(reductionDepth)).toEqual([0, 1, 1, 2])
    return y
  })
})

test('inputs are read through views, generated values are none', () => {
  trace([{ shape: [4, 5] }], (p) => {
    const x = at(p, 0)
    const e = c.exp(x)
    const y = c.add(c.mul(c.permute(c.reshape(e, [5, 4]), [1, 0]), c.full([4, 5], 2, 'f32')), x)
    expect(new Set(y.inputs.flatMap((n) => dataInputs(n)))).toEqual(new Set([e]))
    expect(dataInputs(y)).toContain(x)
    return y
  })
})
