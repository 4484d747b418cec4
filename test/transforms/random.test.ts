/**
 * Seeded random programs through random stacks of transforms: reverse mode against forward mode, forward mode against
 * differences where it can be, batching against a loop.
 */
import { describe, expect, it } from 'vitest'
import type { Graph, Node } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { jvpGraph, vjpGraph, vmapGraph } from '../../src/transforms/index.ts'
import { isFloat } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { randomGraph } from '../random/graphs.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { tameData } from '../random/values.ts'
import { nightly } from '../support/nightly.ts'
import { enclosed } from './enclose.ts'
import { elementAt, evaluate, expectClose, numbersOf } from './support.ts'

interface Case {
  readonly graph: Graph
  /** Data by position. */
  readonly inputs: readonly HostArray[]
}

const dataFor = (rng: Rng, params: Graph['params']): HostArray[] =>
  params.map((p) => tameData(rng, p.dtype, sizeOf(p.shape), -1, 1))

const floatInputs = (g: Graph): number[] => g.params.flatMap((p, i) => (isFloat(p.dtype) ? [i] : []))

function forward({ graph, inputs }: Case, rng: Rng): Case {
  const next = jvpGraph(
    graph,
    graph.params.map((p) => isFloat(p.dtype)),
  )
  return { graph: next, inputs: [...inputs, ...dataFor(rng, next.params.slice(inputs.length))] }
}

function reverse({ graph, inputs }: Case, rng: Rng): Case {
  const next = vjpGraph(graph, floatInputs(graph))
  return { graph: next, inputs: [...inputs, ...dataFor(rng, next.params.slice(inputs.length))] }
}

/** Two copies of the data: the domain of a program is not ours to leave. */
function batch({ graph, inputs }: Case, rng: Rng): Case {
  const wide = graph.params.map(() => rng.chance(0.6))
  const next = vmapGraph(
    graph,
    wide.map((w) => (w ? 0 : null)),
    graph.outputs.map(() => 0),
    2,
  )
  const twice = (x: HostArray): HostArray => {
    const out = x.slice()
    const both = new (out.constructor as new (n: number) => typeof out)(2 * out.length)
    for (let i = 0; i < both.length; i++) {
      const v = x[i % x.length]
      if (v !== undefined) both[i] = v
    }
    return both
  }
  return { graph: next, inputs: inputs.map((x, i) => (wide[i] === true ? twice(x) : x)) }
}

const transforms = [forward, reverse, batch]

const finite = (xs: readonly number[]): boolean => xs.every((v) => Math.abs(v) < 1e8)

const floatsOf = (graph: Graph, data: readonly HostArray[]): number[] =>
  data.flatMap((d, i) => {
    const dtype = graph.outputs[i]?.dtype ?? 'bool'
    return isFloat(dtype) ? numbersOf(d, dtype) : []
  })

/** How exactly a program's casts are linear: as the widest step between the values of a float dtype it passes through. */
function precision(graph: Graph): number {
  const dtypes = new Set(nodesOf(graph).map((n) => n.dtype))
  if (dtypes.has('f16') || dtypes.has('bf16')) return 5e-2
  return dtypes.has('f32') ? 1e-5 : 1e-9
}

/** u . J v = J^T u . v; whether the numbers allowed the comparison. */
function checkDuality(c: Case, rng: Rng): boolean {
  const n = c.graph.outputs.length
  const [f, r] = [forward(c, rng), reverse(c, rng)]
  verifyGraph(f.graph)
  verifyGraph(r.graph)
  const dot = (of: Case, values: readonly HostArray[]): { sum: number; scale: number } => {
    const other = of.inputs
      .slice(c.inputs.length)
      .flatMap((d, i) => numbersOf(d, of.graph.params[c.inputs.length + i]?.dtype ?? 'f64'))
    const own = floatsOf({ ...of.graph, outputs: of.graph.outputs.slice(n) }, values.slice(n))
    return own.reduce((s, v, i) => ({ sum: s.sum + v * (other[i] ?? 0), scale: s.scale + Math.abs(v) }), {
      sum: 0,
      scale: 1,
    })
  }
  const tangents = evaluate(f.graph, f.inputs)
  const gradients = evaluate(r.graph, r.inputs)
  const u = r.inputs.slice(c.inputs.length)
  const v = f.inputs.slice(c.inputs.length)
  const left = dot({ ...f, inputs: [...c.inputs, ...u], graph: { ...f.graph, params: r.graph.params } }, tangents)
  const right = dot({ ...r, inputs: [...c.inputs, ...v], graph: { ...r.graph, params: f.graph.params } }, gradients)
  if (!finite([left.sum, left.scale, right.sum, right.scale])) return false
  expectClose(
    [right.sum / (left.scale + right.scale)],
    [left.sum / (left.scale + right.scale)],
    precision(c.graph),
    'reverse against forward',
  )
  return true
}

function checkLoop(c: Case, rng: Rng): void {
  const b = batch(c, rng)
  verifyGraph(b.graph)
  const want = evaluate(c.graph, c.inputs)
  evaluate(b.graph, b.inputs).forEach((data, i) => {
    const y = b.graph.outputs[i]
    if (y === undefined) throw new Error('no output')
    for (const k of [0, 1]) expect(elementAt(data, y.shape, 0, k, y.dtype)).toEqual(want[i])
  })
}

/** Exact rewriting of a transformed program keeps every bit, inside its regions too. */
function checkRewriting({ graph, inputs }: Case): void {
  const fold = (node: Node): HostArray => {
    const [value] = evaluateGraph({ params: [], outputs: [node], effects: [] }, [], { rounding: 'dtype' })
    if (value === undefined) throw new Error('no value')
    return toHostArray(value)
  }
  const { graph: after } = rewriteGraph(graph, { mode: 'strict', fold })
  verifyGraph(after)
  const run = (g: Graph): HostArray[] => {
    const byIndex: HostArray[] = []
    g.params.forEach((p, i) => {
      byIndex[p.attrs.index] = inputs[i] ?? new Float64Array(0)
    })
    return evaluateGraph(g, byIndex, { rounding: 'dtype' }).map(toHostArray)
  }
  expect(run(after)).toEqual(run(graph))
}

const programs = nightly ? 500 : 220

describe('random programs', () => {
  it.each([
    ['plain', programs],
    ['in regions', programs / 2],
  ] as const)('%s, %i of them through stacks of up to two transforms', (kind, count) => {
    let compared = 0
    for (let seed = 0; seed < count; seed++) {
      const rng = makeRng(seed + 1)
      const { graph, inputs } = randomGraph(seed, {
        operations: 8,
        dtypes: ['f64', 'f64', 'i32', 'bool'],
        maxElements: 60,
      })
      const byPosition = graph.params.map((p) => {
        const data = inputs[p.attrs.index]
        if (data === undefined) throw new Error('no data')
        return data
      })
      let c: Case = { graph: kind === 'plain' ? graph : enclosed(graph, rng), inputs: byPosition }
      verifyGraph(c.graph)
      const names: string[] = []
      try {
        for (let depth = rng.int(0, 2); depth > 0; depth--) {
          const t = rng.pick(transforms)
          names.push(t.name)
          c = t(c, rng)
          verifyGraph(c.graph)
        }
        if (checkDuality(c, rng)) compared++
        checkLoop(c, rng)
        if (kind !== 'plain') checkRewriting(c)
      } catch (cause) {
        throw new Error(`seed ${seed} through ${names.join(', ')}: ${cause instanceof Error ? cause.message : cause}`, {
          cause,
        })
      }
    }
    expect(compared).toBeGreaterThan(count * 0.8)
  })
})
