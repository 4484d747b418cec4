/** What a pre-norm transformer block keeps between its passes, by default and under budgets; results against the oracle. */
import { afterAll, describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import type { Budgets } from '../../src/compile/planGraph.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { makeRng } from '../random/rng.ts'
import { atNight, nightly, some } from '../support/nightly.ts'

interface Size {
  readonly batch: number
  readonly steps: number
  readonly width: number
  readonly heads: number
}

/** x + attention(norm(x)), then that + mlp(norm(that)): the block and its gradients in x and all parameters. */
function block({ batch, steps, width, heads }: Size): Graph {
  const shapes = [
    [batch, steps, width],
    [width],
    [width],
    [width, 3 * width],
    [3 * width],
    [width, width],
    [width],
    [width],
    [width],
    [width, 4 * width],
    [4 * width],
    [4 * width, width],
    [width],
  ]
  const forward = withContext((): Graph => {
    const params = shapes.map((shape, i) => param(i, shape, 'f32'))
    const p = (i: number): Node => {
      const n = params[i]
      if (n === undefined) throw new Error(`no parameter ${i}`)
      return n
    }
    const depth = width / heads
    const qkv = c.add(c.matmul(c.layerNorm(p(0), { scale: p(1), bias: p(2) }), p(3)), p(4))
    const split = c.permute(c.reshape(qkv, [batch, steps, 3, heads, depth]), [2, 0, 3, 1, 4])
    const part = (i: number): Node => c.reshape(c.sliceAxis(split, 0, i, i + 1), [batch, heads, steps, depth])
    const scores = c.mul(c.matmul(part(0), c.permute(part(1), [0, 1, 3, 2])), c.full([], 1 / Math.sqrt(depth), 'f32'))
    const mixed = c.permute(c.matmul(c.softmax(scores), part(2)), [0, 2, 1, 3])
    const x = c.add(p(0), c.add(c.matmul(c.reshape(mixed, [batch, steps, width]), p(5)), p(6)))
    const inner = c.gelu(c.add(c.matmul(c.layerNorm(x, { scale: p(7), bias: p(8) }), p(9)), p(10)))
    return { params, outputs: [c.add(x, c.add(c.matmul(inner, p(11)), p(12)))], effects: [] }
  })
  return vjpGraph(
    forward,
    shapes.map((_, i) => i),
  )
}

const large: Size = { batch: 4, steps: 256, width: 256, heads: 4 }
/** Bytes of one activation [batch, steps, width]. */
const activation = large.batch * large.steps * large.width * 4

const compile = (graph: Graph, budgets: Budgets = {}): ReturnType<typeof compileGraph> =>
  compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true, budgets })

const backend = createWasmBackend({ threads: 1 })
afterAll(() => backend.dispose())

describe('a transformer block keeps', () => {
  const graph = block(large)
  const limit = (10 + large.heads) * activation
  let compiled: ReturnType<typeof compile> | undefined
  /** What it is compiled to without budgets. */
  const unbounded = (): ReturnType<typeof compile> => {
    compiled ??= compile(graph)
    return compiled
  }

  test('at most (10 + heads) activations, and the report lists them with their reasons', () => {
    const { report } = unbounded()
    const { passes } = report
    expect(passes?.savedBytes, report.toString()).toBeLessThanOrEqual(limit)
    expect(passes?.savedBytes).toBe(passes?.values.reduce((n, v) => n + (v.choice === 'kept' ? v.bytes : 0), 0))
    const again = passes?.values.filter((v) => v.choice === 'again') ?? []
    expect(again.length).toBeGreaterThan(0)
    for (const v of again) expect(v.againMs).toBeLessThan(2 * v.keepMs)
    expect(passes?.liveBytes).toBeLessThan(passes?.liveBytesKeepingAll ?? 0)
    expect(report.toString()).toContain('between forward and backward')
  })

  atNight('at most half of that under a budget of half, slower, saying what it computes again', () => {
    const free = unbounded().report
    const { report } = compile(graph, { saved: limit / 2 })
    expect(report.passes?.savedBytes).toBeLessThanOrEqual(limit / 2)
    expect(report.totals.modelledMs).toBeGreaterThan(free.totals.modelledMs)
    expect(report.passes?.extraMs).toBeGreaterThan(free.passes?.extraMs ?? 0)
    const names = (r: typeof report): number => r.passes?.values.filter((v) => v.choice === 'again').length ?? 0
    expect(names(report)).toBeGreaterThan(names(free))
  })

  test('less at once under a budget of intermediates, or says the least it can reach', () => {
    const free = unbounded().report.memory.arenaBytes
    const { report } = compile(graph, { memory: 0.85 * free })
    expect(report.memory.arenaBytes).toBeLessThanOrEqual(0.85 * free)
    // By day what is beyond reach is a case of strips.test.ts.
    if (!nightly) return
    expect(() => compile(graph, { memory: 1 << 20 })).toThrow(
      /E_OUT_OF_MEMORY.* take \d+ bytes, more than the budget of 1048576/,
    )
  })
})

describe('results with values computed again', () => {
  const size: Size = { batch: 2, steps: 7, width: 12, heads: 3 }
  const graph = block(size)
  const rng = makeRng(3)
  const inputs = graph.params.map((p) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    for (let i = 0; i < out.length; i++) out[i] = rng.unit() * 2 - 1
    return out
  })
  const expected = evaluateGraph(graph, inputs, { rounding: 'f64' }).map(toHostArray)

  const run = (budgets: Budgets, mode: 'fast' | 'strict', fuse = true): HostArray[] => {
    const { program } = compileGraph(graph, { mode, target: wasmTarget, verify: true, budgets, fuse })
    const executable = backend.prepare(program)
    const buffers = inputs.map((d) => {
      const b = backend.alloc(d.byteLength)
      backend.write(b, d)
      return b
    })
    const out = executable.run(buffers).map((b, i) => backend.readSync(b, 'f32', sizeOf(graph.outputs[i]?.shape ?? [])))
    executable.dispose()
    return out
  }

  const whole = 14 * size.batch * size.steps * size.width * 4
  for (const part of some([0.3, 1, 0.6, 0], 4))
    test(`keeping at most ${part * 100}% agree with the reference`, () => {
      run({ saved: part * whole }, 'fast').forEach((got, o) => {
        expected[o]?.forEach((e, i) => {
          expect(Math.abs(Number(got[i]) - Number(e)), `output ${o}, element ${i}`).toBeLessThan(
            2e-4 * (1 + Math.abs(Number(e))),
          )
        })
      })
    })

  test('in strict mode have the bits of running each operation alone', () => {
    const alone = run({}, 'strict', false)
    for (const budgets of some([{ saved: 0 }, {}], 2)) expect(run(budgets, 'strict')).toEqual(alone)
  })
})
