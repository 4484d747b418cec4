/** Trials whose axes are bound anew for every level of a recursion: more of them than a trial has attempts is no kernel, and no error. */
import { test } from 'vitest'
import * as s from '../../src/index.ts'
import { program, type Tensor } from '../../src/index.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { runGraph } from '../support/runGraph.ts'

test('the direction of a running sum of exponentials, normalised by rows', () => {
  const shape = [32, 32]
  const model = (x: Tensor, w: Tensor): Tensor => {
    const y = s.layerNorm(s.logcumsumexp(s.softmax(x), 0), { epsilon: 0.1 })
    return y.matmul(w).add(y).abs().sum()
  }
  const { graph } = program(
    ({ x, w, dx, dw }: { x: Tensor; w: Tensor; dx: Tensor; dw: Tensor }) => s.jvp(model, [x, w], [dx, dw]),
    { x: { shape }, w: { shape }, dx: { shape }, dw: { shape } },
  ).trace()
  runGraph(graph, 5, wasmTarget)
})
