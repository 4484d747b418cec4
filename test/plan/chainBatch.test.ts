/** What a chain of products computes alike for several indices of its batch counts once for each of them. */
import { expect, test } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { compileGraph } from '../../src/compile/index.ts'
import type { Tensor } from '../../src/index.ts'
import { conv2d, einsum, sigmoid, spec } from '../../src/index.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { runGraph } from '../support/runGraph.ts'

/** Channels scaled by a gate of each image, then a convolution of 1 x 1: positions are the batch of a chain, and the gate has none. */
function gated(images: number, channels: number, size: number, out: number, hidden: number) {
  const f = ({ x, s, v, w }: Record<'x' | 's' | 'v' | 'w', Tensor>): Tensor => {
    const gate = sigmoid(einsum('nh,ch->nc', s, v)).reshape([images, channels, 1, 1])
    return conv2d(x.mul(gate), w)
  }
  const args = {
    x: spec([images, channels, size, size]),
    s: spec([images, hidden]),
    v: spec([channels, hidden]),
    w: spec([out, channels, 1, 1]),
  }
  return traceFunction(f, [args]).graph
}

test('a gate is stored before what goes over positions, not made at each of them', () => {
  const { report } = compileGraph(gated(3, 672, 15, 112, 28), { mode: 'fast', target: wasmTarget })
  expect(report.kernels.map((k) => k.name)).toMatchInlineSnapshot(`
    [
      "k0_einsum_sigmoid",
      "k1_mul_conv2d",
    ]
  `)
})

test('as the reference has it', () => {
  runGraph(gated(3, 37, 5, 11, 7), 5, wasmTarget)
  runGraph(gated(1, 20, 7, 9, 3), 6, wasmTarget)
})
