/**
 * The report says what is so: time and traffic of scatters, users' kernels and effects; what fusion saves of operations run alone, never
 * negative where an operation alone takes the same kernels; refusals that tell a user something, with reasons that name the cause.
 * Sites looked at: `boundaryCost`, `operationTraffic`, `savedText` and who prints it (text, SVG, demo), every `refuse(...)` of src/plan.
 */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { inspect, jit, opaque, spec, type Tensor } from '../../src/index.ts'
import type { FusionReport } from '../../src/report/data.ts'
import { formatReport, savedText } from '../../src/report/format.ts'
import { reportPicture } from '../../src/report/svg.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { bandwidthOf } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { at, type Input, trace } from '../compile/support.ts'
import { randomGraph } from '../random/graphs.ts'

const report = (
  inputs: readonly Input[],
  build: (p: readonly Node[]) => Node | Node[],
  target: Machine = wasmTarget,
): FusionReport => compileGraph(trace(inputs, build), { mode: 'fast', target }).report

const targets = [wasmTarget, cudaTarget, webgpuTarget()]
const codes = (r: FusionReport): string[] => r.refused.map((x) => x.code)
const matrix: Input = { shape: [512, 512] }

describe('steps of their own are modelled', () => {
  const updates = 5000
  const scatter = (target: Machine, rows: number, combiner: 'set' | 'sum') =>
    report(
      [{ shape: [rows, 64] }, { shape: [updates, 1], dtype: 'i32' }, { shape: [updates, 64] }],
      (p) => c.scatterND(at(p, 0), at(p, 1), at(p, 2), combiner),
      target,
    ).kernels.find((k) => k.kind === 'scatter')

  test.each(targets.map((t) => [t.name, t] as const))('a scatter, for %s', (_, target) => {
    const few = scatter(target, 1000, 'sum')
    const many = scatter(target, 1 << 20, 'sum')
    const set = scatter(target, 1000, 'set')
    const bytes = { target: 1000 * 64 * 4, updates: updates * 64 * 4, indices: updates * 4 }
    expect(few?.bytesRead).toBe(bytes.target + 2 * bytes.updates + bytes.indices)
    expect(few?.bytesWritten).toBe(bytes.target + bytes.updates)
    expect(set?.bytesRead).toBe(bytes.target + bytes.updates + bytes.indices)
    // At least what it moves, at the rate of the memory that holds the program's data.
    const moved = bytes.target + bytes.updates
    expect(few?.modelledMs).toBeGreaterThan((1e3 * moved) / bandwidthOf(target, 2 * bytes.target + bytes.updates))
    expect(many?.modelledMs).toBeGreaterThan(few?.modelledMs ?? Number.POSITIVE_INFINITY)
    // Where programs share places out, what they look at may take longer than what is moved.
    expect(set?.modelledMs).toBeLessThanOrEqual(few?.modelledMs ?? 0)
  })

  test('into zeros, which nobody reads', () => {
    const r = report([{ shape: [updates, 1], dtype: 'i32' }, { shape: [updates, 64] }], (p) =>
      c.scatterND(c.full([1000, 64], 0, 'f32'), at(p, 0), at(p, 1), 'sum'),
    )
    expect(r.kernels.find((k) => k.kind === 'scatter')?.bytesRead).toBe(2 * updates * 64 * 4 + updates * 4)
  })

  test("users' kernels and effects", () => {
    const own = (x: Tensor): Tensor =>
      opaque({ name: 'own', shapeRule: () => ({ shape: [64, 64], dtype: 'f32' }), run: () => {} }, x)
    const r = jit((x: Tensor) => own(inspect(x.add(1), () => {}))).explain(spec([64, 64], 'f32'))
    expect(r.kernels.map((k) => k.kind).sort()).toEqual(['effect', 'elementwise', 'opaque'])
    for (const k of r.kernels) expect(k.modelledMs).toBeGreaterThan(0)
  })
})

describe('what is saved', () => {
  const rows: Input = { shape: [2, 1 << 20] }
  const alone: [string, readonly Input[], (p: readonly Node[]) => Node | Node[]][] = [
    ['a transpose given back', [matrix], (p) => c.permute(at(p, 0))],
    ['a transpose beside a sum', [matrix], (p) => [c.permute(at(p, 0)), c.add(at(p, 0), at(p, 0))]],
    ['a concatenation', [matrix, matrix], (p) => c.concat([at(p, 0), at(p, 1)], 0)],
    ['a pad', [matrix], (p) => c.slidingWindow(at(p, 0), 0, 3)],
    ['a generated value', [matrix], () => c.full([512, 512], 1, 'f32')],
    ['a softmax of several kernels', [rows], (p) => c.softmax(at(p, 0), -1)],
    ['a running sum', [matrix], (p) => c.cumsum(at(p, 0), 1)],
    [
      'a scatter',
      [matrix, { shape: [99, 1], dtype: 'i32' }, { shape: [99, 512] }],
      (p) => c.scatterND(at(p, 0), at(p, 1), at(p, 2), 'sum'),
    ],
  ]
  test.each(alone)('%s moves what it moves alone', (_, inputs, build) => {
    for (const target of targets) {
      const r = report(inputs, build, target)
      expect(r.totals.operations).toBeGreaterThan(0)
      expect(r.totals.bytesOpByOp).toBeGreaterThanOrEqual(r.totals.bytes)
    }
  })

  test('is told as more where it is more, and as the same where it is', () => {
    const totals = { kernels: 1, stages: 0, operations: 1, bytes: 100, bytesOpByOp: 400, flops: 0, modelledMs: 0 }
    expect(savedText(totals)).toBe('saved 300 B (75%)')
    expect(savedText({ ...totals, bytes: 600 })).toBe('200 B more (50%), for less time or less memory at once')
    expect(savedText({ ...totals, bytes: 401 })).toBe('the same')
    expect(savedText({ ...totals, bytes: 0, bytesOpByOp: 0 })).toBe('the same')
  })

  test('no report prints a negative saving', () => {
    for (let seed = 1; seed <= 60; seed++) {
      const target = at(targets, seed % 3)
      const { report: r } = compileGraph(randomGraph(seed).graph, { mode: 'fast', target })
      for (const text of [formatReport(r), reportPicture(r)]) expect(text).not.toMatch(/saved -|-\d+%|NaN%/)
    }
  })
})

describe('refusals', () => {
  test('of a cycle are kept where the merge would gain, and name what stands between', () => {
    const r = report([matrix, matrix], (p) => {
      const f = c.exp(at(p, 0))
      const g = c.matmul(c.softmax(c.matmul(f, at(p, 1)), -1), at(p, 1))
      return c.softmax(c.add(f, g), -1)
    })
    const cycles = r.refused.filter((x) => x.code === 'cycle')
    expect(cycles.length).toBeGreaterThan(0)
    for (const x of cycles) {
      expect(x.lossMs).toBeLessThan(0)
      expect(x.detail).toMatch(/stands between the two/)
    }
    expect(formatReport(r)).toContain('would gain')
  })

  test('of a cycle are left out where the merge is no kernel', () => {
    // The row's first maximum is needed again after a product of all: one kernel of the two ends holds no product.
    const r = report([matrix, matrix], (p) => {
      const first = c.matmul(at(p, 0), at(p, 1))
      const second = c.matmul(c.softmax(first, -1), at(p, 1))
      return c.matmul(c.add(first, second), at(p, 1))
    })
    expect(r.totals.kernels).toBeGreaterThan(2)
    expect(codes(r)).not.toContain('cycle')
  })

  test('name a reshape that regroups axes', () => {
    const r = report([{ shape: [64, 96] }], (p) => {
      const x = c.reshape(at(p, 0), [64, 8, 12])
      const centred = c.sub(x, c.mean(x, 2, true))
      return c.sum(c.reshape(centred, [64, 6, 16]), 2)
    })
    expect(codes(r)).toContain('regrouped-axes')
    expect(codes(r)).not.toContain('reduction-recomputed')
  })

  test('name a part of a result, and windows that read it again', () => {
    const part = report([matrix], (p) => {
      const s = c.sum(at(p, 0), 1)
      return [c.exp(c.sliceAxis(s, 0, 0, 100)), c.tanh(c.sliceAxis(s, 0, 50, 150))]
    })
    expect(codes(part)).toContain('reduction-in-part')
    const windows = report([{ shape: [2, 3, 34, 34, 9] }], (p) => c.maxPool(c.sum(at(p, 0), 4), [3, 3], { stride: 1 }))
    expect(codes(windows)).toContain('reduction-recomputed')
  })

  test('tell bytes that are saved from programs that are too few', () => {
    const r = report([{ shape: [2, 1 << 20] }], (p) => c.softmax(at(p, 0), -1), cudaTarget)
    const few = r.refused.find((x) => x.code === 'too-few-programs')
    expect(few?.detail).toMatch(/keep \d+(\.\d+)?% of the device busy/)
    expect(codes(r)).not.toContain('no-gain')
  })

  test('of a prologue beside one row say how often it would be computed', () => {
    const r = report([{ shape: [2048, 1024] }, { shape: [1024] }], (p) => c.matmul(at(p, 0), c.exp(at(p, 1))))
    expect(r.refused.find((x) => x.code === 'recompute-cost')?.detail).toContain('about 2048 times an element')
  })
})
