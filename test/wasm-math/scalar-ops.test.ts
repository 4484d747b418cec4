/** Every scalar operation on every dtype it is defined on, one and four lanes, both modes, against the scalar oracle. */
import { describe, expect, test } from 'vitest'
import type { Lanes } from '../../src/codegen/vector/value/lanes.ts'
import { boundOf, withinBound } from '../../src/scalar/bounds.ts'
import { evalScalar, roundTo } from '../../src/scalar/eval.ts'
import { readElement, toHost } from '../../src/scalar/host.ts'
import { type Scalar, type ScalarOp, scalarInfo, scalarOps } from '../../src/scalar/ops.ts'
import { allDTypes, type DType, dtypeBits, dtypeClass, isFloat } from '../../src/types/dtype.ts'
import { turn } from '../support/nightly.ts'
import { runOp } from './harness.ts'
import { edges, randoms } from './values.ts'

const names = Object.keys(scalarOps) as ScalarOp[]

/** Columns of operands: all combinations of edges for two operands, then random rows. */
function operands(dtype: DType, arity: number): Scalar[][] {
  const e = edges(dtype)
  const random = (k: number): Scalar[] => randoms(dtype, 400, 12345 + 77 * k)
  const rows: Scalar[][] = arity === 1 ? [e] : [e.flatMap((a) => e.map(() => a)), e.flatMap(() => e)]
  const columns = rows.map((r, k) => [...r, ...random(k)])
  const n = columns[0]?.length ?? 0
  const pad = (4 - (n % 4)) % 4
  return columns.map((c) => [...c, ...c.slice(0, pad)])
}

function show(v: Scalar): string {
  return Object.is(v, -0) ? '-0' : String(v)
}

function agrees(op: ScalarOp, operand: DType, result: DType, got: Scalar, args: readonly Scalar[]): boolean {
  const raw = evalScalar(op, operand, result, args)
  const rounded = roundTo(result, raw)
  if (Object.is(got, rounded)) return true
  if (typeof got !== 'number' || typeof raw !== 'number' || !isFloat(result) || boundOf(op).ulp === 0) return false
  const { within } = boundOf(op)
  if (within !== undefined && Math.abs(Number(args[0])) > within) return true
  // Half precision: correct operations round the f32 result, so the double rounding of the oracle's way is theirs too.
  return withinBound(op, result, got, boundOf(op).ulp <= 0.5 ? Number(rounded) : raw)
}

const modes = [
  ['fast', true],
  ['fast', false],
  ['strict', true],
] as const

/** By day in one of the modes, by operation, dtype and lanes. */
function check(op: ScalarOp, operand: DType, result: DType, columns: readonly Scalar[][]): void {
  const dtypes = op === 'select' ? (['bool', operand, operand] as const) : columns.map(() => operand)
  const inputs = columns.map((c, k) => toHost(c, dtypes[k] ?? operand))
  // What the kernel sees is what the host array holds.
  const seen = inputs.map((a, k) => Array.from({ length: a.length }, (_, i) => readElement(a, dtypes[k] ?? operand, i)))
  const lanesList: Lanes[] = [1, 4]
  for (const lanes of lanesList)
    for (const [mode, relaxed] of turn(modes, names.indexOf(op) + allDTypes.indexOf(operand) + lanes)) {
      const out = runOp({ op, operand, result, lanes, mode, relaxed }, inputs)
      const wrong: string[] = []
      for (let i = 0; i < out.length; i++) {
        const args = seen.map((s) => s[i] ?? 0)
        const got = readElement(out, result, i)
        if (!agrees(op, operand, result, got, args))
          wrong.push(
            `${op}(${args.map(show)}) = ${show(got)}, not ${show(roundTo(result, evalScalar(op, operand, result, args)))}`,
          )
      }
      expect(
        wrong.slice(0, 8),
        `${op} ${operand}->${result} lanes ${lanes} ${mode} relaxed ${relaxed} (${wrong.length} wrong)`,
      ).toEqual([])
    }
}

describe('scalar operations', () => {
  for (const op of names) {
    if (op === 'cast' || op === 'bitcast' || op === 'select') continue
    const info = scalarInfo(op)
    test(op, () => {
      for (const dtype of allDTypes)
        if (info.on.includes(dtypeClass(dtype)))
          check(op, dtype, info.result === 'bool' ? 'bool' : dtype, operands(dtype, info.arity))
    })
  }

  test('select', () => {
    for (const dtype of allDTypes) {
      const [a = [], b = []] = operands(dtype, 2)
      check('select', dtype, dtype, [randoms('bool', a.length, 5), a, b])
    }
  })

  for (const from of allDTypes)
    test(`cast from ${from}`, () => {
      for (const to of allDTypes) check('cast', from, to, operands(from, 1))
    })

  for (const from of allDTypes)
    test(`bitcast from ${from}`, () => {
      for (const to of allDTypes) if (dtypeBits(to) === dtypeBits(from)) check('bitcast', from, to, operands(from, 1))
    })
})
