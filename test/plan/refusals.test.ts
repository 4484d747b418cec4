/** Fusion that hurts, or is not legal, is refused with a reason; and the field's arithmetic of traffic. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { inOrigin, makeOrigin } from '../../src/diagnostics/origin.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

function trace(
  shapes: readonly (readonly number[])[],
  build: (p: readonly Node[]) => Node[],
  effects: (outs: readonly Node[]) => Node[] = () => [],
): Graph {
  return withContext(() => {
    const params = shapes.map((s, i) => param(i, s, 'f32'))
    const outputs = build(params)
    return { params, outputs, effects: effects(outputs) }
  })
}

const compile = (g: Graph) => compileGraph(g, { mode: 'fast', target: wasmTarget, verify: true }).report
const at = (p: readonly Node[], i: number): Node => p[i] as Node

describe('refusals', () => {
  test('an expensive prologue recomputed for every output block', () => {
    const r = compile(
      trace(
        [
          [4096, 4096],
          [4096, 4096],
        ],
        (p) => [c.matmul(c.exp(c.exp(at(p, 0))), at(p, 1))],
      ),
    )
    expect(r.totals.kernels).toBe(2)
    expect(r.refused.map((x) => x.code)).toContain('recompute-cost')
    expect(r.refused.find((x) => x.code === 'recompute-cost')?.lossMs).toBeGreaterThan(0)
  })

  test('a cheap prologue is fused', () => {
    expect(
      compile(
        trace(
          [
            [512, 512],
            [512, 128],
          ],
          (p) => [c.matmul(c.mul(at(p, 0), 2), at(p, 1))],
        ),
      ).totals.kernels,
    ).toBe(1)
  })

  test('an exp chain with 64 consumers', () => {
    const r = compile(
      trace([[512, 512], ...Array.from({ length: 64 }, (_, i) => [512, 8 + i])], (p) => {
        const e = c.exp(c.exp(c.exp(at(p, 0))))
        return Array.from({ length: 64 }, (_, i) => c.matmul(e, at(p, i + 1)))
      }),
    )
    expect(r.totals.kernels).toBe(65)
    expect(r.refused.map((x) => x.code)).toContain('recompute-cost')
  })

  test('a sum of 200 inputs', () => {
    const r = compile(
      trace(
        Array.from({ length: 200 }, () => [1000]),
        (p) => [p.reduce((s, x) => c.add(s, x))],
      ),
    )
    expect(r.totals.kernels).toBeGreaterThan(1)
    expect(r.totals.kernels).toBeLessThanOrEqual(5)
    expect(r.refused.map((x) => x.code)).toContain('too-many-buffers')
  })

  const around = trace(
    [
      [512, 512],
      [512, 512],
    ],
    (p) => {
      const f = c.exp(at(p, 0))
      const g = c.matmul(c.softmax(c.matmul(f, at(p, 1)), -1), at(p, 1))
      return [c.softmax(c.add(f, g), -1)]
    },
  )

  test('a merge that would make a cycle', () => {
    expect(compile(around).refused.map((x) => x.code)).toContain('cycle')
  })

  test('which of them would gain is tried when it is asked, once', () => {
    const plan = planFusion(around, wasmTarget, 'fast')
    const { trials } = plan.work
    expect(plan.refused.map((x) => x.code)).toContain('cycle')
    const asked = plan.work.trials
    expect(asked).toBeGreaterThan(trials)
    expect(plan.refused).toBe(plan.refusals.value)
    expect(plan.work.trials).toBe(asked)
  })

  const product = [
    [300, 280],
    [280, 320],
  ]
  const codes = (build: (y: Node) => Node[], mode: 'fast' | 'strict' = 'fast'): string[] =>
    compileGraph(
      trace(product, (p) => build(c.matmul(at(p, 0), at(p, 1)))),
      { mode, target: wasmTarget, verify: true },
    ).report.refused.map((x) => x.code)

  test('rows of a product wider than a block, needed again after their reduction', () => {
    expect(codes((y) => [c.softmax(y)])).toContain('reduction-of-contraction')
  })

  test('a sum of a product in strict mode, which blocks would take in another order', () => {
    expect(codes((y) => [c.sum(y)], 'strict')).toContain('strict-order')
    expect(codes((y) => [c.reduceMax(y)], 'strict')).toEqual([])
  })

  test('a reduction that an operand of a product depends on', () => {
    const r = compile(trace(product, (p) => [c.matmul(c.softmax(at(p, 0)), at(p, 1))]))
    expect(r.totals.kernels).toBe(2)
    expect(r.refused.map((x) => x.code)).toContain('reduction-in-prologue')
  })

  test('a merge across an effect', () => {
    const seen: Node[] = []
    const r = compile(
      trace(
        [[64]],
        (p) => {
          const y = c.inspect(c.exp(at(p, 0)), { label: 'y', call: () => {} })
          seen.push(y)
          return [c.tanh(y)]
        },
        () => seen,
      ),
    )
    expect(r.kernels.map((k) => k.kind)).toEqual(['elementwise', 'effect', 'elementwise'])
    expect(r.refused.map((x) => x.code)).toEqual(['effect-boundary', 'effect-boundary'])
  })

  test('a merge across an opaque op', () => {
    const kernel = {
      name: 'mine',
      shapeRule: (x: readonly { shape: readonly number[]; dtype: 'f32' }[]) =>
        x[0] as { shape: readonly number[]; dtype: 'f32' },
      run: () => {},
    }
    const r = compile(trace([[64]], (p) => [c.tanh(c.opaque(kernel as never, c.exp(at(p, 0))))]))
    expect(r.totals.kernels).toBe(3)
    expect(r.refused.map((x) => x.code)).toEqual(['opaque-boundary', 'opaque-boundary'])
  })
})

describe('the arithmetic of traffic', () => {
  const named = (name: string, build: () => Node): Node => inOrigin(makeOrigin(name), build)

  test('gelu(x @ w + b) at 4096', () => {
    const [M, N, K] = [4096, 4096, 4096]
    const r = compile(
      trace([[M, K], [K, N], [N]], (p) => {
        const y = named('matmul', () => c.matmul(at(p, 0), at(p, 1)))
        const z = named('add', () => c.add(y, at(p, 2)))
        return [named('gelu', () => c.gelu(z))]
      }),
    )
    expect(r.totals.kernels).toBe(1)
    expect(r.totals.operations).toBe(3)
    expect(r.totals.bytes).toBe((M * K + K * N + N + M * N) * 4)
    expect(r.totals.bytesOpByOp).toBe((M * K + K * N + M * N + (2 * M * N + N) + 2 * M * N) * 4)
  })

  test('a chain of k elementwise operations', () => {
    const k = 12
    const size = 1000
    const r = compile(
      trace([[size]], (p) => {
        let x = at(p, 0)
        for (let i = 0; i < k; i++) {
          const y = x
          x = named(`op${i}`, () => (i % 2 === 0 ? c.exp(y) : c.tanh(y)))
        }
        return [x]
      }),
    )
    expect(r.totals.bytes).toBe(2 * size * 4)
    expect(r.totals.bytesOpByOp).toBe(2 * k * size * 4)
  })
})
