/** The verifier of the vector IR: a function that is right, and one for each rule that it breaks. */
import { describe, expect, test } from 'vitest'
import { Builder } from '../../src/codegen/vector/ir/builder.ts'
import * as X from '../../src/codegen/vector/ir/expr.ts'
import type { Expr, Label, Register, Statement, VectorMachine } from '../../src/codegen/vector/ir/ir.ts'
import * as T from '../../src/codegen/vector/ir/types.ts'
import { verifyFunction } from '../../src/codegen/vector/ir/verify.ts'

const machine: VectorMachine = { width: 16, hasMultiplyAdd: true }

/** Verifies what a body builds. */
const verify =
  (body: (f: Builder, p: Register) => void, on: VectorMachine = machine): (() => void) =>
  () =>
    verifyFunction(
      Builder.function('k', [T.i32], (f, [p]) => p !== undefined && body(f, p)),
      on,
    )

/** Verifies one statement. */
const statement =
  (s: Statement): (() => void) =>
  () =>
    verifyFunction({ name: 'k', params: [], body: [s], externals: [] }, machine)

/** Verifies an expression by itself. */
const value = (x: Expr): (() => void) =>
  statement({ kind: 'assign', register: { kind: 'register', type: x.type, index: 0 }, value: x })

const floats = X.constant(T.f32x4, 1)
const ints = X.constant(T.i32x4, 1)
const mask = X.compare('lt', floats, floats)

test('a loop over lanes, with a total, a branch and a scope that is left', () => {
  const body = (f: Builder, p: Register): void => {
    const total = f.keep(floats)
    const i = f.register(T.i32)
    f.for(i, 0, p, 16, () => {
      const x = f.keep(X.load(T.f32x4, i, 0, 4))
      f.assign(total, X.fma(T.f32x4, x, x, total))
      f.release(x)
      f.if(
        X.any(X.compare('ne', x, x)),
        () => f.assign(total, floats),
        () => undefined,
      )
    })
    f.scope((done) => {
      const lane = f.keep(X.extract(total, 0))
      f.leave(done, X.compare('lt', lane, lane))
      f.store(p, lane, 0, 4)
    })
    f.until(X.isZero(p), () => f.store(p, X.branch(p, X.int(1), X.int(2)), 4, 4))
  }
  expect(verify(body)).not.toThrow()
})

describe('registers', () => {
  test('are assigned before they are read, on every path', () => {
    expect(verify((f, p) => f.store(p, f.register(T.i32), 0, 4))).toThrow('not every path has assigned it')
    const once = (f: Builder, p: Register): void => {
      const r = f.register(T.i32)
      f.if(p, () => f.assign(r, 1))
      f.store(p, r, 0, 4)
    }
    expect(verify(once)).toThrow('not every path has assigned it')
    const inLoop = (f: Builder, p: Register): void => {
      const [i, r] = [f.register(T.i32), f.register(T.i32)]
      f.for(i, 0, p, 1, () => f.assign(r, i))
      f.store(p, r, 0, 4)
    }
    expect(verify(inLoop)).toThrow('not every path has assigned it')
    const beyond = (f: Builder, p: Register): void => {
      const r = f.register(T.i32)
      f.scope((done) => {
        f.leave(done, p)
        f.assign(r, 1)
      })
      f.store(p, r, 0, 4)
    }
    expect(verify(beyond)).toThrow('not every path has assigned it')
  })

  test('are not read after another took their place, in the next round neither', () => {
    const gone = (f: Builder, p: Register): void => {
      const r = f.keep(1)
      f.release(r)
      f.keep(2)
      f.store(p, r, 0, 4)
    }
    expect(verify(gone)).toThrow('after another register took its place')
    const nextRound = (f: Builder, p: Register): void => {
      const r = f.keep(1)
      const i = f.register(T.i32)
      f.for(i, 0, p, 1, () => {
        f.store(p, r, 0, 4)
        f.assign({ ...r }, 2)
      })
    }
    expect(verify(nextRound)).toThrow('not every path has assigned it')
  })

  test('of one number are of one bank', () => {
    const r = (type: T.Type): Register => ({ kind: 'register', type, index: 7 })
    const body = (f: Builder): void => {
      f.assign(r(T.i32), 1)
      f.assign(r(T.f32), X.constant(T.f32, 1))
    }
    expect(verify(body)).toThrow('%7 is of i32 and of f32')
  })

  test('take values of their type', () => {
    const register: Register = { kind: 'register', type: T.f32x4, index: 0 }
    expect(statement({ kind: 'assign', register, value: ints })).toThrow('is i32x4, not f32x4')
  })
})

test('vectors fill the machine', () => {
  expect(verify((f) => f.keep(X.constant(T.vectorOf('f32', 8), 1)))).toThrow('vectors have 16 bytes')
  expect(verify((f) => f.keep(X.constant(T.vectorOf('f32', 8), 1)), { ...machine, width: 32 })).not.toThrow()
})

test('what a machine lacks is not there', () => {
  const body = (f: Builder): unknown => f.keep(X.fma(T.f32x4, floats, floats, floats))
  expect(verify(body)).not.toThrow()
  expect(verify(body, { ...machine, hasMultiplyAdd: false })).toThrow('a machine that has none')
})

const two = { kind: 'binary', type: T.f32x4, a: floats, b: floats } as const
const wrong: readonly (readonly [string, Expr, string])[] = [
  ['operands of two types', { ...two, op: 'add', b: ints }, 'is i32x4, not f32x4'],
  ['an integer operation of floats', { ...two, op: 'max_s' }, 'max_s of f32x4'],
  ['a float operation of integers', { ...two, op: 'pmin', type: T.i32x4, a: ints, b: ints }, 'pmin of i32x4'],
  ['arithmetic of masks', { ...two, op: 'add', type: T.m32x4, a: mask, b: mask }, 'add of m32x4'],
  ['a root of integers', { kind: 'unary', type: T.i32x4, op: 'sqrt', a: ints }, 'sqrt of i32x4'],
  ['a test of a float', { kind: 'isZero', type: T.i32, a: X.constant(T.f32, 1) }, 'isZero of f32'],
  [
    'a signed comparison of floats',
    { kind: 'compare', type: T.m32x4, op: 'lt_s', a: floats, b: floats },
    'lt_s of f32x4',
  ],
  ['a comparison that gives lanes', { kind: 'compare', type: T.i32x4, op: 'lt', a: floats, b: floats }, 'not m32x4'],
  ['a comparison of masks', { kind: 'compare', type: T.m32x4, op: 'eq', a: mask, b: mask }, 'eq of masks'],
  ['a shift of floats', { kind: 'shift', type: T.f32x4, op: 'shl', a: floats, count: X.int(1) }, 'shl of f32x4'],
  ['a choice by lanes', { kind: 'select', type: T.f32x4, condition: ints, a: floats, b: floats }, 'not m32x4'],
  [
    'a scalar multiply-add',
    X.fma(T.f32, X.constant(T.f32, 1), X.constant(T.f32, 1), X.constant(T.f32, 1)),
    'fma of f32',
  ],
  ['an address that is no i32', X.load(T.i32, X.long(0n), 0, 4), 'is i64, not i32'],
  ['a negative offset', X.load(T.i32, 0, -4, 4), 'offset -4'],
  ['an odd alignment', X.load(T.i32, 0, 0, 3), 'alignment 3'],
  ['a mask in memory', X.load(T.m32x4, 0, 0, 4), 'a load of m32x4'],
  ['a scalar in all lanes', X.load(T.f32, 0, 0, 4, 'splat'), 'a load of f32, splat'],
  ['a lane beyond the last', X.extract(ints, 4), 'lane 4 of i32x4'],
  ['a lane of another type', X.replace(ints, 0, X.constant(T.f32, 1)), 'f32 as a lane of i32x4'],
  ['a lane of a mask', { kind: 'extract', type: T.i32, a: mask, lane: 0 }, 'm32x4 has no lanes'],
  ['an f64 in lanes of f32', X.splat(T.f32x4, X.constant(T.f64, 1)), 'f32x4 of f64'],
  ['too many lanes', { kind: 'shuffle', type: T.i32x4, a: ints, b: ints, lanes: [0, 1] }, '2 lanes of i32x4'],
  ['lanes of a third vector', X.shuffle(T.i32x4, ints, ints, [0, 1, 2, 8]), 'lanes 0,1,2,8'],
  ['a lookup in words', { kind: 'lookup', type: T.i32x4, a: ints, indices: ints }, 'lookup in i32x4'],
  ['a conversion to the same elements', X.convert(T.i32x4, ints), 'i32x4 from i32x4'],
  ['high lanes that all fit', X.convert(T.f32x4, ints, true, true), 'the high lanes'],
  ['a mask packed to its own width', { kind: 'pack', type: T.m32x4, a: mask, b: mask }, 'packed to m32x4'],
  ['pairs of words', X.dotPairs(ints, ints), 'i32x4'],
  [
    'sums of pairs in 16 bits',
    { kind: 'dotPairs', type: T.i16x8, a: X.constant(T.i16x8, 1), b: X.constant(T.i16x8, 1) },
    'products of pairs as i16x8',
  ],
  ['bits of what is no mask', { kind: 'bits', type: T.i32, a: ints }, 'which is no mask'],
  ['bits seen in another width', { kind: 'view', type: T.i64, a: X.int(1) }, 'i32 seen as i64'],
  ['a call of what is not declared', X.call({ name: 'g', params: [], result: T.f64 }, []), 'not among the externals'],
  ['branches of two types', X.branch(1, X.int(1), X.long(1n)), 'is i64, not i32'],
  ['a constant of two lanes in four', X.constant(T.i32x4, [1, 2]), 'has not a value a lane'],
  ['a constant of 64 bits in 32', X.constant(T.i32, 1n), 'of 64 bits in i32'],
]

test.each(wrong)('%s', (_, x, message) => {
  expect(value(x)).toThrow(message)
})

const label: Label = { id: 0 }
const wrongStatements: readonly (readonly [string, Statement, string])[] = [
  ['a condition that is a mask', { kind: 'if', condition: mask, body: [], otherwise: undefined }, 'is m32x4, not i32'],
  ['a scope left from outside', { kind: 'leave', label, condition: X.int(1) }, 'left outside it'],
  [
    'low bits of a float stored',
    { kind: 'store', form: '8', address: X.int(0), value: X.constant(T.f32, 1), offset: 0, align: 1 },
    'which is f32',
  ],
  [
    'a lane of a scalar stored',
    { kind: 'storeLane', address: X.int(0), value: X.int(1), lane: 0, offset: 0, align: 4 },
    'i32 has no lanes',
  ],
  [
    'a loop that does not go on',
    {
      kind: 'for',
      counter: { kind: 'register', type: T.i32, index: 0 },
      from: X.int(0),
      to: X.int(1),
      step: 0,
      body: [],
    },
    'goes on by 0',
  ],
  ['a copy of i64 bytes', { kind: 'copy', to: X.int(0), from: X.int(0), bytes: X.long(1n) }, 'is i64, not i32'],
  [
    'a function without its operand',
    { kind: 'run', callee: Builder.function('g', [T.i32], () => undefined), args: [] },
    'g takes 1 operands, not 0',
  ],
]

test.each(wrongStatements)('%s', (_, s, message) => {
  expect(statement(s)).toThrow(message)
})
