/** Recurrences written out become loops that compute the same; what is no recurrence stays as it is. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import type { Kernel, LetStmt, LoopStmt } from '../../src/kernel/ir.ts'
import { rollPart } from '../../src/kernel/roll.ts'
import { verifyKernel } from '../../src/kernel/verify.ts'
import { scalarInfo } from '../../src/scalar/ops.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { cudaSimt } from '../../src/target/simt.ts'
import { hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, trace } from '../compile/support.ts'
import { randomGraph } from '../random/graphs.ts'
import { Emulated, hasCompiler } from '../simt/dialects/emulator/emulator.ts'

const kernelsOf = (graph: Graph, mode: 'fast' | 'strict' = 'fast'): Kernel[] =>
  compileGraph(graph, { mode, target: cudaTarget }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [s.kernel] : [],
  )

const only = (graph: Graph): Kernel => {
  const kernels = kernelsOf(graph)
  expect(kernels).toHaveLength(1)
  return at(kernels, 0)
}

/** Special functions are worth eight additions. */
const weigh = ({ op }: LetStmt): number => (op.kind === 'scalar' && scalarInfo(op.op).cost === 'special' ? 8 : 1)

const rolled = (k: Kernel, least?: number): Kernel => ({ ...k, parts: k.parts.map((p) => rollPart(p, weigh, least)) })
const loopsOf = (k: Kernel): LoopStmt[] => k.parts.flatMap((p) => p.body.flatMap((s) => (s.kind === 'loop' ? [s] : [])))

function buffersOf(k: Kernel) {
  let s = 99
  return Object.fromEntries(
    k.params.map((p) => {
      const data = p.format === 'plain' ? hostArray(p.dtype, sizeOf(p.shape)) : new Uint8Array(sizeOf(p.shape))
      for (let i = 0; i < data.length; i++) {
        s = (Math.imul(s, 1664525) + 1013904223) >>> 0
        const x = (4 * s) / 2 ** 32 - 2
        if (data instanceof BigInt64Array || data instanceof BigUint64Array) data[i] = BigInt(Math.floor(x + 4))
        else
          data[i] = p.dtype === 'f32' || p.dtype === 'f64' ? x : p.dtype === 'bool' ? Number(x > 0) : Math.floor(x + 4)
      }
      return [p.name, data]
    }),
  )
}

function same(k: Kernel, other: Kernel): void {
  verifyKernel(other)
  const [want, got] = [buffersOf(k), buffersOf(k)]
  interpretKernel(k, want, { rounding: 'dtype' })
  interpretKernel(other, got, { rounding: 'dtype' })
  expect(got).toEqual(want)
}

describe('recurrences', () => {
  const steps = (n: number, step: (y: Node, x: Node, i: number) => Node | Node[]): Graph =>
    trace([{ shape: [24, 8] }], (p) => {
      const x = at(p, 0)
      let y = x
      for (let i = 0; i < n; i++) y = step(y, x, i) as Node
      return y
    })

  test('alternating means: two steps are one of the loop', () => {
    const k = only(
      steps(50, (y, _, i) => {
        const t = c.unary('tanh', y)
        return c.sub(t, c.mean(t, i % 2, true))
      }),
    )
    const r = rolled(k)
    expect(at(k.parts, 0).body.length).toBeGreaterThan(200)
    expect(at(r.parts, 0).body.length).toBeLessThan(30)
    expect(at(loopsOf(r), 0).carries).toHaveLength(1)
    expect(at(r.parts, 0).axes.find((a) => a.name === at(loopsOf(r), 0).axis)?.extent).toBeGreaterThanOrEqual(24)
    same(k, r)
  })

  test('an input that every step reads stands outside', () => {
    const k = only(steps(40, (y, x) => c.add(c.unary('sin', y), x)))
    const r = rolled(k)
    expect(loopsOf(r)).toHaveLength(1)
    expect(at(loopsOf(r), 0).body.some((s) => s.kind === 'let' && s.op.kind === 'load')).toBe(false)
    same(k, r)
  })

  test('two values handed on, and one that only what follows reads', () => {
    const graph = trace([{ shape: [16] }, { shape: [16] }], (p) => {
      let [a, b] = [at(p, 0), at(p, 1)]
      let s = a
      for (let i = 0; i < 40; i++) {
        s = c.unary('sin', a)
        const next = c.add(c.mul(b, 0.5), s)
        b = c.mul(a, 0.25)
        a = next
      }
      return [a, b, c.exp(s)]
    })
    const k = only(graph)
    const r = rolled(k)
    expect(at(loopsOf(r), 0).carries.length).toBeGreaterThanOrEqual(2)
    same(k, r)
  })

  test('short ones, and steps that differ, stay written out', () => {
    const short = only(steps(5, (y) => c.unary('sin', y)))
    expect(rolled(short)).toEqual(short)
    const unequal = only(steps(60, (y, _, i) => c.mul(c.unary('sin', y), 1 + i / 100)))
    expect(loopsOf(rolled(unequal))).toHaveLength(0)
    // Every step's value is stored: none is handed on alone.
    const kept = trace([{ shape: [16] }], (p) => {
      const out = [at(p, 0)]
      for (let i = 0; i < 40; i++) out.push(c.unary('sin', at(out, i)))
      return out.slice(1)
    })
    for (const k of kernelsOf(kept)) expect(loopsOf(rolled(k))).toHaveLength(0)
  })
})

describe('on GPUs', () => {
  const means = (rows: number, columns: number, steps: number): Kernel =>
    only(
      trace([{ shape: [rows, columns] }], (p) => {
        let y = at(p, 0)
        for (let i = 0; i < steps; i++) {
          const t = c.unary('tanh', y)
          y = c.sub(t, c.mean(t, i % 2, true))
        }
        return y
      }),
    )

  test('code does not grow with the number of steps', () => {
    const size = (steps: number): number => emitKernel(means(1024, 32, steps), cudaSimt).source.length
    expect(size(50)).toBeLessThan(8000)
    expect(Math.abs(size(50) - size(32))).toBeLessThan(100)
  })

  test.skipIf(!hasCompiler)('and computes the same (skipped where g++ is missing)', { timeout: 60_000 }, () => {
    const kernel = means(40, 6, 41)
    const [want, got] = [buffersOf(kernel), buffersOf(kernel)]
    interpretKernel(kernel, want, { rounding: 'dtype' })
    const emulated = new Emulated([kernel])
    emulated.run(0, got)
    emulated.dispose()
    const written = kernel.params.find((p) => p.access !== 'read')?.name ?? ''
    const [a, b] = [want[written], got[written]]
    expect(a?.length).toBe(240)
    a?.forEach((x, i) => {
      expect(Math.abs(Number(x) - Number(b?.[i]))).toBeLessThan(1e-4)
    })
  })
})

test('whatever is rolled computes the same', () => {
  let loops = 0
  for (let seed = 0; seed < 120; seed++) {
    const { graph } = randomGraph(seed, { maxElements: 200 })
    for (const k of kernelsOf(graph, seed % 3 === 0 ? 'strict' : 'fast')) {
      const r = rolled(k, 1)
      loops += loopsOf(r).length
      if (loopsOf(r).length > 0) same(k, r)
    }
  }
  const repeated = trace([{ shape: [12, 5] }], (p) => {
    let x = at(p, 0)
    for (let i = 0; i < 6; i++) x = c.softmax(c.add(x, c.transpose(c.transpose(x))), i % 2)
    return x
  })
  for (const k of kernelsOf(repeated)) {
    const r = rolled(k, 1)
    loops += loopsOf(r).length
    same(k, r)
  }
  expect(loops).toBeGreaterThan(0)
})
