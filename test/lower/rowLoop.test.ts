/** Column sums over rows that are reduced themselves: one kernel with a loop over some rows, and a finishing stage. */
import { afterAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { makeRng } from '../random/rng.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { turn } from '../support/nightly.ts'

/** Small blocks: many programs, loops that end inside a block. Launches so dear that one kernel does it all. */
const small: Machine = { ...wasmTarget, elementBlock: 64, rowsAtOnce: 48, minPrograms: 1024, launch: 1e-3 }

function graphOf(shapes: readonly (readonly number[])[], body: (p: readonly Node[]) => Node[]): Graph {
  return withContext(() => {
    const params = shapes.map((shape, i) => param(i, shape, 'f32'))
    return { params, outputs: body(params), effects: [] }
  })
}

const at = (p: readonly Node[], i: number): Node => {
  const n = p[i]
  if (n === undefined) throw new Error(`no parameter ${i}`)
  return n
}

const layerNormGradient = (rows: number, columns: number): Graph =>
  vjpGraph(
    graphOf([[rows, columns], [columns], [columns]], (p) => [
      c.layerNorm(at(p, 0), { scale: at(p, 1), bias: at(p, 2) }),
    ]),
    [0, 1, 2],
  )

/** Sum, product, maximum and minimum of columns of a softmax, whose rows are results too. */
const foldsOfRows = (rows: number, columns: number): Graph =>
  graphOf([[rows, columns]], (p) => {
    const y = c.softmax(at(p, 0))
    return [y, c.sum(y, [0]), c.reduceMax(y, [0]), c.reduceMin(y, [0]), c.prod(c.add(y, c.full([], 0.9, 'f32')), [0])]
  })

const backends = [createWasmBackend({ threads: 1 }), createWasmBackend({ threads: 2, shareAbove: 0 })]
afterAll(() => {
  for (const b of backends) b.dispose()
})

function inputsOf(graph: Graph): HostArray[] {
  const rng = makeRng(23)
  return graph.params.map((p) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    for (let i = 0; i < out.length; i++) out[i] = rng.unit() * 3 - 1.5
    return out
  })
}

function expectClose(graph: Graph, got: readonly HostArray[], inputs: readonly HostArray[]): void {
  evaluateGraph(graph, inputs, { rounding: 'f64' })
    .map(toHostArray)
    .forEach((want, o) => {
      want.forEach((w, i) => {
        expect(Math.abs(Number(got[o]?.[i]) - Number(w)), `result ${o}, element ${i}`).toBeLessThan(
          1e-4 * (1 + Math.abs(Number(w))),
        )
      })
    })
}

describe('one kernel and one finishing stage', () => {
  const sizes = [
    [150, 53],
    [70, 33],
    [301, 7],
  ] as const
  for (const [i, [name, make]] of (
    [
      ['layer normalisation, both passes', layerNormGradient],
      ['folds of the columns of a softmax', foldsOfRows],
    ] as const
  ).entries())
    for (const [rows, columns] of turn(sizes, i + 1))
      test(`${name}, ${rows} x ${columns}`, () => {
        const graph = make(rows, columns)
        const inputs = inputsOf(graph)
        const { program, report } = compileGraph(graph, { mode: 'fast', target: small, verify: true })
        expect([report.totals.kernels, report.totals.stages], report.toString()).toEqual([1, 1])
        const main = program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === 'main' ? [s.kernel] : []))
        expect(main[0]?.parts[0]?.body.some((s) => s.kind === 'loop')).toBe(true)
        expectClose(graph, interpretProgram(program, inputs, 'f64'), inputs)
        for (const backend of backends) {
          const executable = backend.prepare(program)
          const buffers = inputs.map((d) => {
            const b = backend.alloc(d.byteLength)
            backend.write(b, d)
            return b
          })
          const out = executable.run(buffers)
          expectClose(
            graph,
            out.map((b, i) => backend.readSync(b, 'f32', sizeOf(graph.outputs[i]?.shape ?? []))),
            inputs,
          )
          executable.dispose()
        }
      })

  test('on tensors that do not fit a cache, reading each once', () => {
    const { report } = compileGraph(layerNormGradient(4096, 1024), { mode: 'fast', target: wasmTarget, verify: true })
    expect([report.totals.kernels, report.totals.stages]).toEqual([1, 1])
    // x, its adjoint, the result and the gradient, and the vectors.
    expect(report.totals.bytes).toBe(4 * (4 * 4096 * 1024 + 4 * 1024))
  })
})

describe('programs of rows that are folded', () => {
  const mainOf = (graph: Graph, target: Machine) => {
    const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })
    const [part] = program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === 'main' ? s.kernel.parts : []))
    const loop = part?.body.find((s) => s.kind === 'loop')
    if (part === undefined || loop?.kind !== 'loop') throw new Error('no loop over rows')
    const extent = (axis: string): number => part.axes.find((a) => a.name === axis)?.extent ?? 0
    const programs = part.grid.reduce((n, g) => n * Math.ceil(extent(g.axis) / g.block), 1)
    return { loop, extent, programs }
  }

  /** Row sums of squares, what they scale summed over pictures and rows, and over rows alone. */
  const pictures = (shape: readonly number[]): Graph =>
    graphOf([shape, shape], (p) => {
      const x = at(p, 0)
      const y = c.div(at(p, 1), c.sqrt(c.add(c.mean(c.square(x), [2], true), 1)))
      return [c.sum(y, [0, 1]), c.sum(y, 1)]
    })

  test('a step is as large as a program holds, with the pictures that it goes through whole', () => {
    const graph = pictures([3, 60, 8])
    const inputs = inputsOf(graph)
    const { loop } = mainOf(graph, small)
    expect(loop.block * 3 * 8).toBeLessThanOrEqual(small.rowsAtOnce)
    const { program } = compileGraph(graph, { mode: 'fast', target: small, verify: true })
    expectClose(graph, interpretProgram(program, inputs, 'f64'), inputs)
  })

  test.each([
    [77, 768],
    [672, 320],
    [1665, 512],
  ])('%i rows of %i on threads: a program has a step or two', (rows, columns) => {
    const { loop, programs } = mainOf(layerNormGradient(rows, columns), { ...cudaTarget, launch: 1e-4 })
    expect(programs).toBeGreaterThanOrEqual(Math.min(132, rows / 8))
    expect(loop.block * 2 * programs).toBeGreaterThanOrEqual(rows)
  })

  test('neighbours in memory stay together where other rows may be cut', () => {
    const [n, k] = [777, 600]
    const graph = graphOf(
      [
        [6, n, k],
        [n, k],
        [n, 6],
      ],
      (p) => {
        const y = c.mul(at(p, 0), at(p, 1))
        const weighed = c.sum(c.mul(at(p, 0), c.expandDims(c.transpose(at(p, 2), [1, 0]), [2])), 0)
        return [c.sum(y, 2), c.mean(c.mul(at(p, 1), weighed))]
      },
    )
    const { program } = compileGraph(graph, { mode: 'fast', target: { ...cudaTarget, launch: 1e-4 }, verify: true })
    const [part] = program.steps.flatMap((s) => (s.kind === 'kernel' && s.stage === 'main' ? s.kernel.parts : []))
    const extents = part?.grid.map((g) => part.axes.find((a) => a.name === g.axis)?.extent)
    expect(extents).toContain(n)
    expect(extents).not.toContain(k)
  })
})
