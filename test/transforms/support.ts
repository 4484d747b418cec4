/** What tests of transforms share: evaluation in float64, random inputs, checks of derivatives against differences and each other. */
import { expect } from 'vitest'
import { param } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { rootsOf, topologicalOrder } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement, toHost } from '../../src/scalar/host.ts'
import { jvpGraph, vjpGraph, vmapGraph } from '../../src/transforms/index.ts'
import { type DType, isFloat } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { tameData } from '../random/values.ts'

/** A parameter of a test program: values are drawn from [lo, hi]. */
export interface Input {
  readonly shape: readonly number[]
  readonly dtype?: DType
  readonly lo?: number
  readonly hi?: number
  /** All elements differ by at least half their mean distance, so no small step makes a tie. */
  readonly distinct?: boolean
}

export interface Program {
  readonly inputs: readonly Input[]
  readonly build: (...xs: Node[]) => Node | readonly Node[]
}

export function graphOf({ inputs, build }: Program): Graph {
  const params = inputs.map((x, i) => param(i, x.shape, x.dtype ?? 'f64'))
  const made = build(...params)
  const outputs: readonly Node[] = 'op' in made ? [made] : made
  const effects = topologicalOrder(outputs).filter((n) => n.op === 'inspect')
  const graph = { params, outputs, effects }
  verifyGraph(graph)
  return graph
}

function draw(rng: Rng, x: Input): HostArray {
  const { dtype = 'f64', lo = -2, hi = 2 } = x
  const n = sizeOf(x.shape)
  if (x.distinct !== true) return tameData(rng, dtype, n, lo, hi)
  const order = rng.shuffle(Array.from({ length: n }, (_, i) => i))
  return toHost(
    order.map((i) => lo + ((hi - lo) * (i + rng.real(0.25, 0.75))) / Math.max(1, n)),
    dtype,
  )
}

export const drawInputs = (program: Program, rng: Rng): HostArray[] => program.inputs.map((x) => draw(rng, x))

/** Outputs of a graph, floats in double precision between operations. */
export function evaluate(graph: Graph, inputs: readonly HostArray[]): HostArray[] {
  return evaluateGraph(graph, inputs, { rounding: 'f64' }).map(toHostArray)
}

/** Elements as numbers. */
export const numbersOf = (data: HostArray, dtype: DType): number[] =>
  Array.from({ length: data.length }, (_, i) => Number(readElement(data, dtype, i)))

const flat = (data: readonly HostArray[]): number[] => data.flatMap((d) => numbersOf(d, 'f64'))

const dot = (a: readonly number[], b: readonly number[]): number => a.reduce((s, x, i) => s + x * (b[i] ?? 0), 0)

const gaussian = (rng: Rng, n: number): HostArray => tameData(rng, 'f64', n, -1, 1)

/** Agreement relative to the largest magnitude. */
export function expectClose(got: readonly number[], want: readonly number[], tolerance: number, what: string): void {
  expect(got.length, what).toBe(want.length)
  const largest = want.reduce((m, v) => Math.max(m, Math.abs(v)), 1)
  const far = got.findIndex((v, i) => !(Math.abs(v - (want[i] ?? 0)) <= tolerance * largest) && !Object.is(v, want[i]))
  if (far >= 0) expect.fail(`${what}: element ${far} is ${got[far]}, not ${want[far]}`)
}

const step = 1e-5

/** Central differences of the float outputs in a direction. */
function difference(
  graph: Graph,
  inputs: readonly HostArray[],
  wrt: readonly number[],
  along: readonly HostArray[],
): number[] {
  const moved = (by: number): number[] => {
    const there = inputs.map((x, i) => {
      const v = along[wrt.indexOf(i)]
      if (v === undefined) return x
      return Float64Array.from({ length: x.length }, (_, k) => Number(x[k]) + by * Number(v[k]))
    })
    const outputs = evaluate(graph, there)
    return flat(outputs.filter((_, i) => isFloat(graph.outputs[i]?.dtype ?? 'bool')))
  }
  const [up, down] = [moved(step), moved(-step)]
  return up.map((v, i) => (v - (down[i] ?? 0)) / (2 * step))
}

/**
 * Forward mode against central differences, and reverse mode against forward mode (u . J v = J^T u . v), in a random direction
 * of all f64 inputs. `order` 2 does the same to the gradients. Numbers are float64 throughout.
 */
export function checkGrads(graph: Graph, inputs: readonly HostArray[], rng: Rng = makeRng(1), order = 1): void {
  const wrt = graph.params.flatMap((p, i) => (isFloat(p.dtype) ? [i] : []))
  const n = graph.outputs.length
  const forward = jvpGraph(
    graph,
    graph.params.map((_, i) => wrt.includes(i)),
  )
  verifyGraph(forward)
  const along = wrt.map((i) => gaussian(rng, inputs[i]?.length ?? 0))
  const pushed = evaluate(forward, [...inputs, ...along])
  const floats = graph.outputs.filter((y) => isFloat(y.dtype))
  const tangents = flat(pushed.slice(n))
  expect(pushed.slice(0, n)).toEqual(evaluate(graph, inputs))
  expectClose(tangents, difference(graph, inputs, wrt, along), 2e-6, 'forward mode against differences')

  const reverse = vjpGraph(graph, wrt)
  verifyGraph(reverse)
  const cotangents = floats.map((y) => gaussian(rng, sizeOf(y.shape)))
  const pulled = evaluate(reverse, [...inputs, ...cotangents])
  expect(pulled.slice(0, n)).toEqual(pushed.slice(0, n))
  const gradients = pulled.slice(n)
  expect(gradients.map((g) => g.length)).toEqual(wrt.map((i) => inputs[i]?.length))
  const [left, right] = [dot(flat(cotangents), tangents), dot(flat(gradients), flat(along))]
  expectClose([right], [left], 1e-8 * Math.max(1, tangents.length), 'reverse mode against forward mode')

  if (order < 2) return
  const gradient: Graph = { ...reverse, outputs: reverse.outputs.slice(n) }
  checkGrads(gradient, [...inputs, ...cotangents], rng, order - 1)
}

/** Draws inputs and checks derivatives of a program. */
export function checkProgram(program: Program, seed = 1, order = 1): void {
  const rng = makeRng(seed)
  checkGrads(graphOf(program), drawInputs(program, rng), rng, order)
}

/** Element `b` of the batch along an axis, as a row-major host array. */
export function elementAt(data: HostArray, shape: readonly number[], axis: number, b: number, dtype: DType): HostArray {
  const inner = sizeOf(shape.slice(axis + 1))
  const outer = sizeOf(shape.slice(0, axis))
  const size = shape[axis] ?? 1
  const out = hostArray(dtype, outer * inner)
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++) {
      const v = data[(o * size + b) * inner + i]
      if (v !== undefined) out[o * inner + i] = v
    }
  return out
}

/** How many nodes of each op a graph computes. */
export function countOps(graph: Graph): Map<string, number> {
  const counts = new Map<string, number>()
  for (const n of topologicalOrder(rootsOf(graph))) counts.set(n.op, (counts.get(n.op) ?? 0) + 1)
  return counts
}

/** Where inputs have the batch. */
export type BatchAxes = readonly (number | null)[]

/** vmap of a program against the program on each element. */
export function checkBatch(program: Program, inAxes: BatchAxes, size = 3): void {
  const graph = graphOf(program)
  const rng = makeRng(7)
  // Outputs take turns in where they have the batch.
  const outAxes = graph.outputs.map((y, i) => (i + inAxes.indexOf(0) + 1) % (y.shape.length + 1))
  const batch = vmapGraph(graph, inAxes, outAxes, size)
  verifyGraph(batch)
  const wide: Program = {
    ...program,
    inputs: program.inputs.map((x, i) => {
      const axis = inAxes[i] ?? null
      return axis === null ? x : { ...x, shape: x.shape.toSpliced(axis, 0, size) }
    }),
  }
  expect(batch.params.map((p) => p.shape)).toEqual(wide.inputs.map((x) => x.shape))
  const inputs = drawInputs(wide, rng)
  const got = evaluate(batch, inputs)
  for (let b = 0; b < size; b++) {
    const own = inputs.map((x, i): HostArray => {
      const axis = inAxes[i] ?? null
      const p = batch.params[i]
      return axis === null || p === undefined ? x : elementAt(x, p.shape, axis, b, p.dtype)
    })
    const want = evaluate(graph, own)
    batch.outputs.forEach((y, i) => {
      const data = got[i]
      const axis = outAxes[i]
      if (data === undefined || axis === undefined) throw new Error('no output')
      expect(elementAt(data, y.shape, axis, b, y.dtype), `element ${b} of output ${i}`).toEqual(want[i])
    })
  }
}

/** All inputs batched first; each alone, at its last axis; all but the first, in the middle. */
export function batchVariants(program: Program): BatchAxes[] {
  const { inputs } = program
  const middle = (rank: number): number => Math.floor((rank + 1) / 2)
  return [
    inputs.map(() => 0),
    ...inputs.map((x, i) => inputs.map((_, j) => (i === j ? x.shape.length : null))),
    inputs.map((x, i) => (i === 0 && inputs.length > 1 ? null : middle(x.shape.length))),
  ]
}
