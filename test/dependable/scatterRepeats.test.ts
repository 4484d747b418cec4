/**
 * A scatter combines every point, those too that differ from others in nothing: neither in their value nor in their place (constants, and what is
 * broadcast; the gradient of `sum(take(x, i))` for equal `i`). They were combined once. Sites: lower/scatter.ts, with sharePlaces.ts, which
 * every device's scatter goes through.
 */
import { describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as c from '../../src/compose/index.ts'
import { makeNode, param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import * as s from '../../src/index.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { execute } from '../random/execute.ts'
import { some } from '../support/nightly.ts'
import { compileAll, faults, type Held, testOnHost, testOnSoftwareGpu } from './devices.ts'

const n = 5

interface Case {
  readonly combiner: 'set' | 'sum' | 'prod' | 'max' | 'min'
  readonly places: string
  readonly values: string
}

/** Places of [2, 3, 12] updates. */
const places: Readonly<Record<string, () => Node>> = {
  'one place': () => c.full([2, 3, 12], 1, 'i32'),
  'a place a row': () => c.broadcastTo(c.reshape(c.iota([2], 0, 'i32'), [2, 1, 1]), [2, 3, 12]),
  'a place a column, some outside': () => c.sub(c.broadcastTo(c.mul(c.iota([12], 0, 'i32'), 2), [2, 3, 12]), 1),
  'a place each': () => c.rem(c.reshape(c.iota([72], 0, 'i32'), [2, 3, 12]), n),
}
const values: Readonly<Record<string, (x: Node) => Node>> = {
  'one value': () => c.full([2, 3, 12], 2, 'f32'),
  'one element': (x) => c.broadcastTo(c.sliceAxis(x, 0, 1, 2), [2, 3, 12]),
  'a value a row': (x) => c.broadcastTo(c.reshape(c.sliceAxis(x, 0, 0, 3), [1, 3, 1]), [2, 3, 12]),
}

const cases: readonly Case[] = (['sum', 'prod', 'max', 'set'] as const).flatMap((combiner) =>
  Object.keys(places).flatMap((p) => Object.keys(values).map((v) => ({ combiner, places: p, values: v }))),
)

const graphOf = (of: Case): Graph =>
  withContext(() => {
    const x = param(0, [n], 'f32')
    const inputs = [x, values[of.values]?.(x) ?? x, places[of.places]?.() ?? x]
    const y = makeNode('scatter', inputs, { sources: [{ input: 0 }], combiner: of.combiner })
    return { params: [x], outputs: [y], effects: [] }
  })

// Products of many: powers of two, which are exact.
const held: Held<Case, undefined> = {
  given: () => [undefined],
  valuesOf: () => Float32Array.from([1, 2, 0.5, 4, 8]),
  faultOf: (of, mode, _, x, got) => {
    const [want] = evaluateGraph(graphOf(of), [x], { rounding: 'dtype' }).map(toHostArray)
    return String(got) === String(want)
      ? undefined
      : `${of.combiner} of ${of.values} at ${of.places}, ${mode}: ${got}, not ${want}`
  },
}

test('WebAssembly', async () => {
  const backend = createWasmBackend({ threads: 2, shareAbove: 0 })
  const all = compileAll(cases, graphOf, wasmTarget)
  const graphs = new Map(all.map((k) => [k.program, graphOf(k.of)]))
  const none: Graph = { params: [], outputs: [], effects: [] }
  const fault = await faults(all, held, (p, x) =>
    Promise.resolve(execute(backend, p, { inputs: [x], graph: graphs.get(p) ?? none, tolerances: [] })),
  )
  backend.dispose()
  expect(fault).toEqual([])
})

describe('thread code', () => {
  testOnHost(() => compileAll(some(cases, 5), graphOf, cudaTarget), held)
  // A shader takes the software GPU seconds to compile.
  const few = cases.filter((k) => k.combiner === 'sum' && k.places !== 'a place each')
  testOnSoftwareGpu(() => compileAll(few, graphOf, webgpuTarget(), ['fast']), held)
})

test('gradients of elements taken more than once', () => {
  for (const device of ['reference', 'wasm'] as const) {
    s.setDevice(device)
    const at = s.zeros([4], 'i32')
    expect(
      s
        .grad((x: s.Tensor) => x.take(at, 0).sum())(s.ones([3]))
        .tolist(),
    ).toEqual([4, 0, 0])
    const both = s.tensor([1, 2], { dtype: 'i32' }).reshape([2, 1]).broadcastTo([2, 3])
    expect(
      s
        .grad((x: s.Tensor) => x.take(both, 0).mul(2).sum())(s.ones([3]))
        .tolist(),
    ).toEqual([0, 6, 6])
  }
  s.setDevice('reference')
})
