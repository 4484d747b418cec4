/**
 * Gradients in strict mode: bit for bit what running each operation alone gives, on one thread and on two, with values kept or
 * computed again.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import * as s from '../../src/index.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { difference, execute, smallBlocks } from '../random/execute.ts'
import { makeRng } from '../random/rng.ts'

const one = createWasmBackend({ threads: 1 })
const two = createWasmBackend({ threads: 2, shareAbove: 0 })
afterAll(() => {
  one.dispose()
  two.dispose()
})

type Tensors = readonly s.Tensor[]
type Model = (parameters: Tensors, inputs: Tensors) => s.Tensor

interface Case {
  readonly model: (wrap: typeof s.checkpoint) => Model
  /** Shapes of what is differentiated in, and of the rest; a number: labels below it. */
  readonly parameters: readonly (readonly number[])[]
  readonly inputs: readonly (readonly number[])[]
  readonly labels?: { readonly shape: readonly number[]; readonly classes: number }
}

const take = (list: Tensors, i: number): s.Tensor => {
  const t = list[i]
  if (t === undefined) throw new Error(`no tensor ${i}`)
  return t
}

const cases: Readonly<Record<string, Case>> = {
  'three layers and cross-entropy': {
    parameters: [[61, 67], [67], [67, 65], [65], [65, 10], [10]],
    inputs: [[33, 61]],
    labels: { shape: [33], classes: 10 },
    model: (wrap) => (p, inputs) => {
      const hidden = wrap((x: s.Tensor, ...w: s.Tensor[]) => {
        const first = s.relu(s.linear(x, take(w, 0), take(w, 1)))
        return s.relu(s.linear(first, take(w, 2), take(w, 3)))
      })
      const logits = s.linear(hidden(take(inputs, 0), ...p.slice(0, 4)), take(p, 4), take(p, 5))
      return s.crossEntropy(logits, take(inputs, 1)).mean()
    },
  },
  'a normalised block with a residual': {
    parameters: [[48], [48], [48, 97], [97, 48]],
    inputs: [[5, 19, 48]],
    model: (wrap) => (p, inputs) => {
      const x = take(inputs, 0)
      const block = wrap((v: s.Tensor, scale: s.Tensor, shift: s.Tensor, up: s.Tensor, down: s.Tensor) =>
        s
          .gelu(s.layerNorm(v, { scale, bias: shift }).matmul(up))
          .matmul(down)
          .add(v),
      )
      return s.square(block(x, take(p, 0), take(p, 1), take(p, 2), take(p, 3))).mean()
    },
  },
  'causal attention': {
    parameters: [
      [32, 96],
      [32, 32],
    ],
    inputs: [[3, 37, 32]],
    model: (wrap) => (p, inputs) => {
      const x = take(inputs, 0)
      const attend = wrap((v: s.Tensor, w: s.Tensor, o: s.Tensor) => {
        const heads = (part: number): s.Tensor =>
          v
            .matmul(w)
            .slice(null, null, [part * 32, part * 32 + 32])
            .reshape([3, 37, 4, 8])
            .transpose([0, 2, 1, 3])
        const y = s.attention(heads(0), heads(1), heads(2), { causal: true })
        return y.transpose([0, 2, 1, 3]).reshape([3, 37, 32]).matmul(o)
      })
      return s.sum(s.tanh(attend(x, take(p, 0), take(p, 1))))
    },
  },
  'convolutions and pooling': {
    parameters: [[6, 2, 3, 3], [6], [5, 6, 3, 3], [5]],
    inputs: [[4, 2, 13, 11]],
    model: (wrap) => (p, inputs) => {
      const stage = (x: s.Tensor, w: s.Tensor, b: s.Tensor): s.Tensor =>
        s.relu(s.conv(x, w, { padding: 'same' }).add(b.reshape([-1, 1, 1])))
      const all = wrap((x: s.Tensor, ...w: s.Tensor[]) =>
        stage(s.maxPool(stage(x, take(w, 0), take(w, 1)), [2, 2]), take(w, 2), take(w, 3)),
      )
      return s.square(all(take(inputs, 0), ...p)).mean()
    },
  },
}

function gradientGraph({ model, parameters, inputs, labels }: Case, wrap: typeof s.checkpoint): Graph {
  const f = (p: Tensors, v: Tensors): unknown => s.valueAndGrad(model(wrap))(p, v)
  const specs = inputs.map((shape) => s.spec(shape))
  if (labels !== undefined) specs.push(s.spec(labels.shape, 'i32'))
  return traceFunction(f, [parameters.map((shape) => s.spec(shape)), specs]).graph
}

function dataOf(graph: Graph, classes: number): HostArray[] {
  const random = makeRng(99)
  return graph.params.map(({ dtype, shape }) =>
    dtype === 'i32'
      ? Int32Array.from({ length: sizeOf(shape) }, () => random.int(0, classes - 1))
      : Float32Array.from({ length: sizeOf(shape) }, () => random.real(-0.5, 0.5)),
  )
}

describe.each(Object.entries(cases))('strict gradients: %s', (_, c) => {
  const graph = gradientGraph(c, (f) => f)
  const inputs = dataOf(graph, c.labels?.classes ?? 1)
  const options: CompileOptions = { mode: 'strict', target: wasmTarget, verify: true }
  const alone = execute(one, compileGraph(graph, { ...options, fuse: false }).program, {
    graph,
    inputs,
    tolerances: [],
  })
  const expectSame = (got: readonly HostArray[]): void => {
    expect(got.length).toBe(c.parameters.length + 1)
    alone.forEach((want, i) => {
      const x = got[i]
      expect(x === undefined ? 'no result' : difference(x, want, 'f32', undefined), `output ${i}`).toBeUndefined()
    })
  }
  it('is no trivial gradient', () => {
    for (const g of alone)
      expect(g.some((v) => Number(v) !== 0) && g.every((v) => Number.isFinite(Number(v)))).toBe(true)
  })
  it('fused as unfused, on one thread and on two, whatever the blocks', () => {
    const fused = compileGraph(graph, options)
    const kernels = compileGraph(graph, { ...options, fuse: false }).report.totals.kernels
    expect(fused.report.totals.kernels).toBeLessThan(kernels)
    expectSame(execute(one, fused.program, { graph, inputs, tolerances: [] }))
    expectSame(execute(two, fused.program, { graph, inputs, tolerances: [] }))
    expectSame(
      execute(two, compileGraph(graph, { ...options, target: smallBlocks }).program, { graph, inputs, tolerances: [] }),
    )
  })
  it('computed again as kept', () => {
    const again = gradientGraph(c, s.checkpoint)
    const { program, report } = compileGraph(again, options)
    expect(report.passes?.values.some((v) => v.choice === 'again')).toBe(true)
    expectSame(execute(two, program, { graph: again, inputs, tolerances: [] }))
  })
})
