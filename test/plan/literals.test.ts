/** Literals of products that meet where rounding was left out. */
import { expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { makeNode } from '../../src/graph/build.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, check, trace } from '../compile/support.ts'

/** (x K) y, rounded to half precision as a result is, times L. */
const graph = (k: number, l: number) =>
  trace([{ shape: [40] }, { shape: [40] }], (p) => {
    const product = c.mul(c.mul(c.relu(at(p, 0)), k), at(p, 1))
    return c.mul(c.cast(makeNode('cast', [product], { dtype: 'bf16', loose: true }), 'f32'), l)
  })

test('moderate ones are multiplied', () => {
  const moderate = graph(0.5, 0.01)
  check(moderate)
  const { program } = compileGraph(moderate, { mode: 'fast', target: wasmTarget })
  const text = kernelsOf(program).map(({ step }) => printKernel(step.kernel))
  expect(text.join().match(/ mul /g)?.length).toBe(2)
})

test('extreme ones stay apart: zero times both is zero', () => check(graph(1e30, 1e30)))
