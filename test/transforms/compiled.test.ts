/** Random programs, plain and in regions, through stacks of transforms and the whole compiler: the reference's results on one thread and two. */
import { afterAll, describe, expect, it } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import { graphsInside } from '../../src/graph/ops/region.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { jvpGraph, vjpGraph, vmapGraph } from '../../src/transforms/index.ts'
import { isFloat } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { execute } from '../random/execute.ts'
import { randomGraph } from '../random/graphs.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { tameData } from '../random/values.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { nightly, seedsOf } from '../support/nightly.ts'
import { enclosed } from './enclose.ts'
import { expectClose, numbersOf } from './support.ts'

const one = compiledBackend({ threads: 1 })
const two = compiledBackend({ threads: 2, shareAbove: 0 })
afterAll(() => {
  one.dispose()
  two.dispose()
})

const floats = (g: Graph): number[] => g.params.flatMap((p, i) => (isFloat(p.dtype) ? [i] : []))

type Transform = (g: Graph) => Graph
const reverse: Transform = (g) => vjpGraph(g, floats(g))
const forward: Transform = (g) =>
  jvpGraph(
    g,
    g.params.map((p) => isFloat(p.dtype)),
  )
const batch: Transform = (g) =>
  vmapGraph(
    g,
    g.params.map((_, i) => (i === 0 ? 0 : null)),
    g.outputs.map(() => 0),
    2,
  )
const after =
  (outer: Transform, inner: Transform): Transform =>
  (g) =>
    outer(inner(g))

const transforms: readonly Transform[] = [
  (g) => g,
  reverse,
  forward,
  batch,
  after(forward, reverse),
  after(batch, reverse),
  after(reverse, batch),
]

/** Data by parameter index. */
function inputsFor(g: Graph, rng: Rng): HostArray[] {
  const inputs: HostArray[] = []
  for (const p of g.params) inputs[p.attrs.index] = tameData(rng, p.dtype, sizeOf(p.shape), -1, 1)
  return inputs
}

/** The coarsest rounding among the float dtypes of a graph and those inside it. */
function precision(graph: Graph): number {
  const worst = { f64: 1e-9, f32: 1e-4, f16: 5e-2, bf16: 2e-1 } as const
  return nodesOf(graph).reduce(
    (m, n) => Math.max(m, isFloat(n.dtype) ? worst[n.dtype] : 0, ...graphsInside(n).map((i) => precision(i.graph))),
    0,
  )
}

const programs = seedsOf('SINTER_STACKS', 21, 300)
const each = nightly ? 50 : 21

describe('random programs through stacks of transforms, compiled', () => {
  it.each(Array.from({ length: Math.ceil(programs / each) }, (_, i) => i * each))('seeds from %i', (first) => {
    let compared = 0
    for (let seed = first; seed < first + each; seed++) {
      const rng = makeRng(seed + 100)
      const plain = randomGraph(seed, { operations: 6, dtypes: ['f64', 'f64', 'i32', 'bool'], maxElements: 60 }).graph
      const graph = (transforms[seed % transforms.length] ?? ((g) => g))(seed % 2 === 0 ? plain : enclosed(plain, rng))
      const inputs = inputsFor(graph, rng)
      try {
        const reference = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
        const numbers = graph.outputs.map((y, i) => numbersOf(reference[i] ?? new Float64Array(0), y.dtype))
        if (!numbers.flat().every((v) => Math.abs(v) < 1e6)) continue
        compared++
        for (const [backend, mode, fuse] of [
          [one, 'fast', true],
          [one, 'strict', false],
          [two, 'strict', true],
        ] as const) {
          const { program } = compileGraph(graph, { mode, target: compiledTarget, fuse, verify: true })
          const got = execute(backend, program, { graph, inputs, tolerances: [] })
          graph.outputs.forEach((y, i) => {
            const mine = numbersOf(got[i] ?? new Float64Array(0), y.dtype)
            expectClose(mine, numbers[i] ?? [], precision(graph), `${mode} ${fuse ? 'fused' : 'unfused'}, output ${i}`)
          })
        }
      } catch (cause) {
        throw new Error(`seed ${seed}: ${cause instanceof Error ? cause.message : cause}`, { cause })
      }
    }
    expect(compared).toBeGreaterThan(each * 0.7)
  })
})
