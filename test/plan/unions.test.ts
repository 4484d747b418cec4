/** Independent kernels launched as one: optimiser steps over unequal tensors, dependence, memory, limits and memory in place. */
import { afterAll, describe, expect, test } from 'vitest'
import { type Compiled, type CompileOptions, compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { formatReport } from '../../src/report/format.ts'
import type { Backend } from '../../src/runtime/backend.ts'
import type { Machine } from '../../src/target/machine.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, check, expectClose, type Input, trace } from '../compile/support.ts'
import { compiledBackend, compiledTarget } from '../support/device.ts'
import { nightly, turn } from '../support/nightly.ts'

const one = compiledBackend({ threads: 1 })
const two = compiledBackend({ threads: 2, shareAbove: 0 })
afterAll(() => {
  one.dispose()
  two.dispose()
})

/** Shapes of parameters: scalars, empties, matrices and vectors of 1 to 5000 elements. */
const shapes = Array.from({ length: nightly ? 200 : 100 }, (_, i): number[] => {
  if (i % 17 === 0) return []
  if (i % 29 === 0) return [0, 3]
  if (i === 1) return [5000]
  return i % 3 === 0 ? [1 + ((i * 13) % 71), 1 + ((i * 7) % 70)] : [1 + ((i * 251) % 5000)]
})
const full = shapes.filter((s) => sizeOf(s) > 0)

/** One AdamW step: parameters, first and second moments, gradients, step number. */
function adamw(of: readonly number[][]): Graph {
  const inputs: Input[] = [...[0, 1, 2, 3].flatMap(() => of.map((shape) => ({ shape }))), { shape: [] }]
  return trace(inputs, (all) => {
    const step = at(all, 4 * of.length)
    const [c1, c2] = [0.9, 0.999].map((b) => c.sub(1, c.pow(b, step)))
    return of.flatMap((_, i) => {
      const [p, m, v, g] = [0, 1, 2, 3].map((k) => at(all, k * of.length + i)) as [Node, Node, Node, Node]
      const m1 = c.add(c.mul(m, 0.9), c.mul(g, 0.1))
      const v1 = c.add(c.mul(v, 0.999), c.mul(c.mul(g, g), 0.001))
      const update = c.div(c.div(m1, c1 as Node), c.add(c.sqrt(c.div(v1, c2 as Node)), 1e-8))
      return [c.sub(p, c.mul(c.add(update, c.mul(p, 0.01)), 1e-3)), m1, v1]
    })
  })
}

/** Values in (0, 1], the same on every call. */
function positive(graph: Graph): HostArray[] {
  let s = 777
  return graph.params.map((p) => {
    const out = hostArray(p.dtype, sizeOf(p.shape)) as Float32Array
    for (let i = 0; i < out.length; i++) {
      s = (Math.imul(s, 1664525) + 1013904223) >>> 0
      out[i] = (s + 1) / 2 ** 32
    }
    return out
  })
}

function run(backend: Backend, compiled: Compiled, graph: Graph, inputs: readonly HostArray[]): HostArray[] {
  const executable = backend.prepare(compiled.program)
  const bound = inputs.map((data) => {
    const b = backend.alloc(data.byteLength)
    backend.write(b, data)
    return b
  })
  const got = executable.run(bound).map((b, i) => {
    const node = at(graph.outputs, i)
    return backend.readSync(b, node.dtype, sizeOf(node.shape))
  })
  executable.dispose()
  return got
}

describe(`AdamW over ${shapes.length} unequal tensors`, () => {
  const graph = adamw(shapes)
  const inputs = positive(graph)
  const want = evaluateGraph(graph, inputs, { rounding: 'f64' }).map(toHostArray)
  const donated = graph.params.map((_, i) => i < 3 * shapes.length)

  for (const [i, mode] of (['fast', 'strict'] as const).entries())
    for (const given of turn([donated, []], i))
      test(`is one kernel, ${mode}, ${given.length > 0 ? 'donated' : 'inputs kept'}`, () => {
        const compiled = compileGraph(graph, { mode, target: compiledTarget, donated: given, verify: mode === 'fast' })
        const { report, program } = compiled
        expect([report.totals.kernels, report.totals.stages]).toEqual([1, 0])
        expect(program.steps.filter((s) => s.kind === 'kernel')).toHaveLength(1)
        expect(report.kernels[0]?.kind).toBe('elementwise')
        if (given.length > 0) expect(report.memory.inPlace).toBe(3 * full.length)
        expectClose(run(one, compiled, graph, inputs), want, graph, 'one thread')
        expectClose(run(two, compiled, graph, inputs), want, graph, 'two threads')
      })

  test('the report counts its parts instead of listing them', () => {
    const { report } = compileGraph(graph, { mode: 'fast', target: compiledTarget })
    expect(report.kernels[0]?.parts).toBeGreaterThan(nightly ? 100 : 50)
    const text = formatReport(report)
    expect(text).toContain(`${report.kernels[0]?.parts} parts, read`)
    expect(text.split('\n').length).toBeLessThan(12)
  })
})

test('SGD over unequal tensors is one kernel, in place', () => {
  const n = full.length
  const graph = trace(
    [...full, ...full].map((shape) => ({ shape })),
    (p) => full.map((_, i) => c.sub(at(p, i), c.mul(at(p, n + i), 0.1))),
  )
  const donated = graph.params.map((_, i) => i < n)
  const { report } = check(graph, { donated }, two)
  expect(report.totals.kernels).toBe(1)
  expect(report.memory.inPlace).toBe(n)
})

describe('dependence', () => {
  const sum = (x: Node): Node => c.sum(x)

  test('clipping by the global norm: sums of squares, their total, updates', () => {
    const of = [[40, 3], [7], [], [301], [2, 2, 2], [33, 9]]
    const graph = trace(
      [...of, ...of].map((shape) => ({ shape })),
      (p) => {
        const grads = of.map((_, i) => at(p, of.length + i))
        const squares = grads.map((g) => c.reshape(sum(c.mul(g, g)), [1]))
        const norm = c.sqrt(sum(c.concat(squares, 0)))
        const scale = c.div(1, c.add(norm, 1))
        return grads.map((g, i) => c.sub(at(p, i), c.mul(c.mul(g, scale), 0.1)))
      },
    )
    const { report } = check(graph, {}, two)
    expect(report.totals.kernels).toBeLessThanOrEqual(3)
  })

  test('what a part reads is never stored by another', () => {
    // a -> total -> b, while a and b look alike.
    const graph = trace([{ shape: [50] }, { shape: [70] }], (p) => {
      const total = sum(c.exp(at(p, 0)))
      return [c.tanh(at(p, 0)), c.mul(at(p, 1), total), c.unary('sin', at(p, 1)), sum(c.mul(at(p, 1), total))]
    })
    const { report } = check(graph, {}, two)
    expect(report.totals.kernels).toBeLessThanOrEqual(2)
  })

  test('a matrix product joins nothing', () => {
    const graph = trace([{ shape: [24, 24] }, { shape: [24, 24] }, { shape: [9] }], (p) => {
      const a = c.softmax(at(p, 0), -1)
      return [c.softmax(c.matmul(a, at(p, 1)), -1), c.exp(at(p, 2))]
    })
    const { report } = check(graph, {}, two)
    expect(report.kernels.map((k) => [k.kind, k.parts])).toEqual([
      ['union', 2],
      ['matrix', 1],
    ])
  })
})

describe('memory', () => {
  test('a donated input that another kernel reads is overwritten after it', () => {
    const graph = trace([{ shape: [600] }, { shape: [600] }], (p) => [
      c.sub(at(p, 0), c.mul(at(p, 1), 0.1)),
      c.exp(c.sliceAxis(c.flip(at(p, 0), 0), 0, 0, 299)),
    ])
    const { report } = check(graph, { donated: [true, false] }, two)
    expect(report.memory.inPlace).toBe(1)
  })

  test('a part that reads elsewhere what another could overwrite: both right whatever is taken over', () => {
    const square: Input = { shape: [30, 30] }
    const graph = trace([square, square], (p) => [
      c.mul(at(p, 0), 2),
      c.softmax(c.add(c.permute(at(p, 0), [1, 0]), at(p, 1)), -1),
      c.mul(c.permute(at(p, 1), [1, 0]), 3),
    ])
    for (const donated of [
      [true, true],
      [true, false],
      [false, true],
    ])
      check(graph, { donated }, two)
  })

  test('intermediates do not live longer for a launch less', () => {
    // Products that depend on each other, each reduced: all the reductions at the end would keep all the products.
    const square: Input = { shape: [192, 192] }
    const graph = trace([square, square], (p) => {
      const out: Node[] = []
      let x = at(p, 0)
      for (let i = 0; i < 6; i++) {
        x = c.matmul(x, at(p, 1))
        out.push(c.reduceMax(c.cumsum(c.flip(x, 0), 0), 0))
      }
      return out
    })
    // Launches so dear that each reduction is one kernel.
    const target = { ...compiledTarget, launch: 1e-3 }
    const options = { mode: 'fast', target } as const
    const alone = compileGraph(graph, { ...options, target: { ...target, maxUnionBuffers: 1 } })
    const joined = compileGraph(graph, options)
    expect(alone.report.totals.kernels).toBe(12)
    expect(joined.report.memory.arenaBytes).toBeLessThanOrEqual(alone.report.memory.arenaBytes * (1 + 1 / 32))
    expect(joined.report.refused.map((r) => r.code)).toContain('longer-lifetimes')
  })
})

describe('limits', () => {
  const graph = trace(
    Array.from({ length: 30 }, (_, i) => ({ shape: [5 + i] })),
    (p) => p.map((x) => c.exp(x)),
  )
  const kernels = (target: Partial<Machine>, options: Partial<CompileOptions> = {}): Compiled =>
    check(graph, { target: { ...compiledTarget, ...target }, ...options }, one)

  test('of buffers', () => {
    const { report } = kernels({ maxUnionBuffers: 12 })
    expect(report.kernels.map((k) => k.parts)).toEqual([6, 6, 6, 6, 6])
    expect(report.refused.map((r) => r.code)).toContain('too-many-buffers')
  })
  test('of code', () => {
    const { report } = kernels({ maxUnionStatements: 9, sharesUnionCode: false })
    expect(report.kernels.map((k) => k.parts)).toEqual(Array.from({ length: 10 }, () => 3))
    expect(report.refused.map((r) => r.code)).toContain('too-much-code')
  })
  test('of code, where equal parts count once', () => {
    const { report } = kernels({ maxUnionStatements: 9, sharesUnionCode: true })
    expect(report.kernels.map((k) => k.parts)).toEqual([30])
    const other = trace(
      Array.from({ length: 30 }, (_, i) => ({ shape: [5 + i] })),
      (p) => p.map((x, i) => c.mul(x, i + 2)),
    )
    const target = { ...compiledTarget, maxUnionStatements: 9, sharesUnionCode: true }
    expect(check(other, { target }, one).report.kernels.length).toBeGreaterThan(9)
  })
  test('where launches cost nothing, nothing is joined', () => {
    expect(kernels({ launch: 0 }).report.totals.kernels).toBe(30)
  })
  test('without fusion every operation stands alone', () => {
    expect(kernels({}, { fuse: false }).report.totals.kernels).toBe(30)
  })
})

test('cut reductions keep one finishing stage between them', () => {
  const target: Machine = { ...compiledTarget, elementBlock: 32, minPrograms: 4, rowBytes: 1 << 16 }
  const graph = trace([{ shape: [1500] }, { shape: [2100] }, { shape: [40] }], (p) =>
    p.map((x) => c.sqrt(c.sum(c.exp(x)))),
  )
  const { report } = check(graph, { target }, two)
  expect([report.totals.kernels, report.totals.stages]).toEqual([1, 1])
  expect(report.kernels[0]?.parts).toBe(3)
})
