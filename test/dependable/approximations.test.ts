/**
 * Issue 15, section 6: special functions are data, and adding one touches five files. Formulas against exact values on the oracle, on
 * WebAssembly's vectors and through the interface (GPUs: test/simt/scalar/approximations.test.ts). What derives from the table of operations and
 * from the formulas: batching, transposition, derivatives, GPU libraries and call names, prices of all machines, bounds, cases of the
 * transforms' tests. Sites looked at beside these: ONNX (has none of these functions); what CONTRIBUTING says is held by
 * contributing.test.ts.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { cudaLibrary } from '../../src/codegen/simt/dialects/cuda/library.ts'
import { wgslMath } from '../../src/codegen/simt/dialects/wgsl/math.ts'
import * as sinter from '../../src/index.ts'
import { type Approximated, approximated, approximations } from '../../src/scalar/approximations.ts'
import { boundOf, ulpOf, withinBound } from '../../src/scalar/bounds.ts'
import { evalScalar } from '../../src/scalar/eval.ts'
import { scalarInfo, scalarOps } from '../../src/scalar/ops.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { priceOf } from '../../src/target/prices.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { elementwiseJvp } from '../../src/transforms/jvp/elementwise.ts'
import { elementwiseTranspose } from '../../src/transforms/transpose/elementwise.ts'
import { elementwiseBatching } from '../../src/transforms/vmap/elementwise.ts'
import { opCases } from '../transforms/cases.ts'
import { runOp } from '../wasm-math/harness.ts'
import { exactValues } from './exactValues.ts'

const { NaN: nan } = Number

const functionOf = (op: Approximated): ((...operands: readonly sinter.Tensor[]) => sinter.Tensor) => {
  const f: unknown = new Map(Object.entries(sinter)).get(op)
  expect(typeof f, `sinter.${op}`).toBe('function')
  return f as (...operands: readonly sinter.Tensor[]) => sinter.Tensor
}

describe.each(approximated)('%s', (op) => {
  const rows = exactValues(op)
  const { arity } = scalarInfo(op)
  const column = (k: number): number[] => rows.map((row) => row[k] ?? nan)

  test('in f64, on the oracle', () => {
    expect(rows.length).toBeGreaterThan(100)
    for (const row of rows) {
      const expected = row[arity] ?? nan
      const got = Number(evalScalar(op, 'f64', 'f64', row.slice(0, arity)))
      const { ulp, absolute = 0 } = boundOf(op)
      // The absolute error scales with the format.
      const slack = Math.max(ulp * ulpOf('f64', expected), absolute * 2 ** -29)
      const close = Object.is(got, expected) || Math.abs(got - expected) <= slack
      expect(close, `${op}(${row.slice(0, arity)}) = ${got}, not ${expected}`).toBe(true)
    }
  })

  test.each(['fast', 'strict'] as const)('in f32, %s', (mode) => {
    const spec = { op, operand: 'f32', result: 'f32', mode, relaxed: mode === 'fast', lanes: 4 } as const
    const padded = Array.from({ length: arity }, (_, k) =>
      Float32Array.from({ length: Math.ceil(rows.length / 4) * 4 }, (_, i) => rows[i]?.[k] ?? 1),
    )
    const got = runOp(spec, padded)
    for (const [i, row] of rows.entries()) {
      const expected = row[arity] ?? nan
      const y = Number(got[i])
      expect(withinBound(op, 'f32', y, expected), `${op}(${row.slice(0, arity)}) = ${y}, not ${expected}`).toBe(true)
      if (expected === 0) expect(Object.is(y, expected), `${op}(${row.slice(0, arity)}) = ${y}`).toBe(true)
    }
  })

  describe.each(['reference', 'wasm'] as const)('through the interface, on %s', (device) => {
    beforeAll(() => sinter.setDevice(device, { threads: 1 }))
    afterAll(() => sinter.setDevice('reference'))

    test.each(['f16', 'bf16', 'f32', 'f64'] as const)('%s', (dtype) => {
      // Half precision holds other operands.
      const operands = Array.from({ length: arity }, (_, k) => sinter.tensor(column(k), { dtype }))
      const result = functionOf(op)(...operands)
      expect([result.dtype, result.shape]).toEqual([dtype, [rows.length]])
      const held = operands.map((x) => x.tolist() as number[])
      const got = result.tolist() as number[]
      for (const [i, y] of got.entries()) {
        const at = held.map((x) => x[i] ?? nan)
        const exact = Number(evalScalar(op, 'f64', 'f64', at))
        const { absolute = 0 } = boundOf(op)
        const close =
          withinBound(op, dtype, y, exact) || (dtype === 'f64' && Math.abs(y - exact) <= absolute * 2 ** -29)
        expect(close, `${op}(${at}) = ${y}, not ${exact}`).toBe(true)
      }
    })

    test('integers and bools are computed in f32', () => {
      const one = sinter.tensor([true, true])
      expect(functionOf(op)(...Array.from({ length: arity }, () => one)).dtype).toBe('f32')
    })
  })

  test('stands where an operation must', () => {
    expect(Object.hasOwn(cudaLibrary, `f32_${op}`) && Object.hasOwn(cudaLibrary, `f64_${op}`)).toBe(true)
    expect(Object.hasOwn(wgslMath, `f32_${op}`)).toBe(true)
    for (const { prices } of [wasmTarget, cudaTarget, webgpuTarget()])
      expect(priceOf(op, 'f32', prices)).toBeGreaterThan(priceOf('exp', 'f32', prices) / 2)
    const { derivatives } = approximations[op]
    expect('unsupported' in derivatives || derivatives.length === arity).toBe(true)
  })
})

test('lengths are exact where squares would overflow or vanish', () => {
  for (const scale of [2 ** 126, 2 ** -126]) {
    const y = sinter.hypot(sinter.tensor([3 * scale]), sinter.tensor([4 * scale]))
    expect(y.item()).toBe(Math.fround(5 * scale))
  }
})

test('a derivative that is missing says so', () => {
  const second = (x: sinter.Tensor): sinter.Tensor =>
    sinter
      .grad((y: sinter.Tensor) => sinter.digamma(y).sum())(x)
      .sum()
  expect(() => sinter.grad(second)(sinter.tensor([1.5]))).toThrow(/trigamma.*polygamma\(2, x\)/s)
})

test('every operation has its rules and its cases, written or derived', () => {
  const names = Object.keys(scalarOps).sort()
  for (const rules of [elementwiseBatching, elementwiseTranspose, elementwiseJvp])
    expect(Object.keys(rules).sort()).toEqual(names)
  for (const [op, cases] of Object.entries(opCases)) if (names.includes(op)) expect(cases.length, op).toBeGreaterThan(0)
})
