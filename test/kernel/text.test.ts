/** The text form of kernels: what it looks like, that it reads back, and what the parser says of mistakes. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { add, axis, constant, div, type Expr, mod, mul, value } from '../../src/affine/expr.ts'
import type { Bound } from '../../src/affine/predicate.ts'
import type { Kernel, KernelPart, LetStmt, LoopStmt, Stmt, StoreStmt, TileOp } from '../../src/kernel/ir.ts'
import { parseKernel, parseKernels } from '../../src/kernel/parse.ts'
import { printKernel, showExpr } from '../../src/kernel/print.ts'
import { type Scalar, type ScalarOp, scalarInfo, scalarOps } from '../../src/scalar/ops.ts'
import { allDTypes, type DType, isFloat, isWide } from '../../src/types/dtype.ts'

const axes = [
  { name: 'r', extent: 12 },
  { name: 'c', extent: 37 },
  { name: 'start', extent: 4 },
  { name: 'one', extent: 1 },
]

const ids = fc.nat({ max: 40 })
const names = fc.constantFrom('x', 'y_1', 'load', 'kernel')
const axisNames = fc.constantFrom(...axes.map((a) => a.name))
const someAxes = fc.subarray(axes.map((a) => a.name))
const atomArb: fc.Arbitrary<Expr> = fc.oneof(
  fc.integer({ min: -50, max: 50 }).map(constant),
  fc.constantFrom(...axes).map((a) => axis(a.name, a.extent)),
  fc.constantFrom(...axes).map((a) => axis(`${a.name}.start`, a.extent)),
  fc.tuple(ids, fc.integer({ min: 1, max: 90 })).map(([id, extent]) => value(id, extent)),
)
const exprArb: fc.Arbitrary<Expr> = fc.letrec<{ expr: Expr }>((tie) => ({
  expr: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    atomArb,
    fc.tuple(tie('expr'), tie('expr')).map(([a, b]) => add(a, b)),
    fc.tuple(tie('expr'), fc.integer({ min: -9, max: 9 })).map(([a, c]) => mul(a, c)),
    fc.tuple(tie('expr'), fc.integer({ min: 1, max: 24 })).map(([a, by]) => div(a, by)),
    fc.tuple(tie('expr'), fc.integer({ min: 1, max: 24 })).map(([a, by]) => mod(a, by)),
  ),
})).expr
const indexArb = fc.array(exprArb, { maxLength: 3 })
const boundArb: fc.Arbitrary<Bound> = fc.record({
  expr: exprArb,
  lo: fc.integer({ min: -9, max: 9 }),
  hi: fc.integer({ min: -9, max: 99 }),
})
const predicateArb = fc.array(boundArb, { maxLength: 3 })

const scalarArb = (dtype: DType): fc.Arbitrary<Scalar> =>
  dtype === 'bool'
    ? fc.boolean()
    : isWide(dtype)
      ? fc.bigInt({ min: dtype === 'i64' ? -(1n << 63n) : 0n, max: (1n << 63n) - 1n })
      : isFloat(dtype)
        ? fc.double()
        : fc.integer({ min: 0, max: 127 })

const optional = <K extends string, T>(key: K, arb: fc.Arbitrary<T>): fc.Arbitrary<{ [P in K]?: T }> =>
  fc.option(arb, { nil: undefined }).map((v) => (v === undefined ? {} : ({ [key]: v } as { [P in K]?: T })))

const merged = <A extends object, B extends object>(a: fc.Arbitrary<A>, b: fc.Arbitrary<B>): fc.Arbitrary<A & B> =>
  fc.tuple(a, b).map(([x, y]) => ({ ...x, ...y }))

const names4 = fc.constantFrom<'sum' | 'prod' | 'max' | 'min'>('sum', 'prod', 'max', 'min')
const scalarNames = Object.keys(scalarOps) as ScalarOp[]

const opArb = (dtype: DType): fc.Arbitrary<TileOp> =>
  fc.oneof<fc.Arbitrary<TileOp>[]>(
    fc.record({ kind: fc.constant('const' as const), value: scalarArb(dtype) }),
    fc.record({ kind: fc.constant('index' as const), expr: exprArb }),
    fc.record({ kind: fc.constant('predicate' as const), predicate: predicateArb }),
    merged(
      fc.record({
        kind: fc.constant('load' as const),
        param: names,
        index: indexArb,
        mask: predicateArb,
        other: scalarArb(dtype),
      }),
      optional('maskValue', ids),
    ),
    fc.constantFrom(...scalarNames).chain((op) =>
      fc
        .array(ids, { minLength: scalarInfo(op).arity, maxLength: scalarInfo(op).arity })
        .chain((args) => fc.boolean().map((is) => ({ args, ...(is && op === 'cast' ? { loose: true as const } : {}) })))
        .map((made) => ({ kind: 'scalar' as const, op, ...made })),
    ),
    fc.record({
      kind: fc.constant('random' as const),
      k0: ids,
      k1: ids,
      index: exprArb,
      rounds: fc.constantFrom(13 as const, 20 as const),
    }),
    merged(
      fc.record({
        kind: fc.constant('reduce' as const),
        combiner: fc.constantFrom('sum' as const, 'prod' as const, 'max' as const, 'argmin' as const),
        arg: ids,
        axes: fc.subarray(['r', 'c'], { minLength: 1 }),
      }),
      merged(optional('position', exprArb), optional('last', fc.boolean())),
    ),
    fc.record({
      kind: fc.constant('scan' as const),
      combiner: names4,
      arg: ids,
      axis: axisNames,
      reverse: fc.boolean(),
      exclusive: fc.boolean(),
    }),
    merged(
      fc.record({ kind: fc.constant('dot' as const), a: ids, b: ids, axes: fc.subarray(['r', 'c'], { minLength: 1 }) }),
      optional('acc', ids),
    ),
    fc.record({ kind: fc.constant('stage' as const), of: ids }),
    fc.record({
      kind: fc.constant('at' as const),
      of: ids,
      index: fc.dictionary(axisNames, exprArb, { maxKeys: 3, noNullPrototype: true }),
    }),
  )

const letArb: fc.Arbitrary<LetStmt> = fc.constantFrom(...allDTypes).chain((dtype) =>
  fc.record({
    kind: fc.constant('let' as const),
    id: ids,
    dtype: fc.constant(dtype),
    axes: someAxes,
    op: opArb(dtype),
  }),
)
const storeArb: fc.Arbitrary<StoreStmt> = merged(
  fc.record({ kind: fc.constant('store' as const), param: names, index: indexArb, mask: predicateArb, value: ids }),
  merged(
    merged(optional('maskValue', ids), optional('combiner', names4)),
    optional('distinct', fc.constant(true as const)),
  ),
)
const carryArb = fc.record({
  init: ids,
  param: ids,
  next: ids,
  result: ids,
  dtype: fc.constantFrom(...allDTypes),
  axes: someAxes,
})
const stmtArb: fc.Arbitrary<Stmt> = fc.letrec<{ stmt: Stmt; loop: LoopStmt }>((tie) => ({
  stmt: fc.oneof({ maxDepth: 2 }, letArb, storeArb, tie('loop')),
  loop: merged(
    fc.record({
      kind: fc.constant('loop' as const),
      axis: axisNames,
      block: fc.integer({ min: 1, max: 64 }),
      carries: fc.array(carryArb, { maxLength: 3 }),
      body: fc.array(tie('stmt'), { maxLength: 4 }),
    }),
    merged(optional('from', ids), optional('to', ids)),
  ),
})).stmt
const partArb: fc.Arbitrary<KernelPart> = fc.record({
  axes: fc.constant(axes),
  grid: fc.array(fc.record({ axis: axisNames, block: fc.integer({ min: 1, max: 64 }) }), { maxLength: 2 }),
  body: fc.array(stmtArb, { maxLength: 6 }),
})
const kernelArb: fc.Arbitrary<Kernel> = fc.record({
  name: fc.constantFrom('softmax', 'tanh(a*x + "b")', 'a\nb', ''),
  params: fc.array(
    fc.record({
      name: names,
      dtype: fc.constantFrom(...allDTypes),
      shape: fc.array(fc.nat({ max: 4096 }), { maxLength: 3 }),
      access: fc.constantFrom('read' as const, 'write' as const, 'update' as const),
      format: fc.constantFrom('plain' as const, 'bits' as const, 'int4' as const),
    }),
    { maxLength: 3 },
  ),
  mode: fc.constantFrom('fast' as const, 'strict' as const),
  parts: fc.array(partArb, { maxLength: 3 }),
})

describe('printed kernels read back', () => {
  test('index expressions', () => {
    const read = (text: string): Expr | undefined => {
      const declared = axes.map((a) => `${a.name}: ${a.extent}`).join(', ')
      const kernel = parseKernel(`kernel k {\naxes ${declared}\ngrid 1\n%0 i32 = index ${text}\n}`)
      const [s] = kernel.parts[0]?.body ?? []
      return s?.kind === 'let' && s.op.kind === 'index' ? s.op.expr : undefined
    }
    fc.assert(
      fc.property(exprArb, (e) => {
        expect(read(showExpr(e))).toEqual(e)
      }),
      { numRuns: 2000 },
    )
  })
  test('whole kernels', () => {
    fc.assert(
      fc.property(kernelArb, (k) => {
        const text = printKernel(k)
        expect(parseKernel(text)).toEqual(k)
        expect(printKernel(parseKernel(text))).toBe(text)
      }),
      { numRuns: 300 },
    )
  })
})

test('the printed form', () => {
  const text = `
    kernel "a * b" strict { # a comment
      param x: f32[30, 7] read; param m: bool[] read bits
      param y: f32[4] update
      axes i: 32, j: 7, k: 9
      grid i/8, k
      %0 f32{i, j} = load x[-1 + i, j*1] where 0 <= i-1 < 30 and %9 else -inf
      %1 i64{i} = const -5
      %2 f32{i} = load x[(4*k + j) / 6 % 3, 7*((j + 1)/2) - 2*i.start,
        %1:7]
      %3, %4 = loop j/4 from %1 {
        carry %5 f32 = %0
        carry %6 bool{i} = %0
        store y[2] max= %5 where %1
        next %5, %6
      }
      %7 i32{i} = reduce argmin %0 over j position 3 - i last
      %8 f32{i, j} = scan prod %0 along j reverse exclusive
      %10 f32{} = at %8[i: 5 - i, j: 0]
    }`
  expect(printKernel(parseKernel(text))).toMatchInlineSnapshot(`
    "kernel "a * b" strict {
      param x: f32[30, 7] read
      param m: bool[] read bits
      param y: f32[4] update
      axes i: 32, j: 7, k: 9
      grid i/8, k
      %0 f32{i, j} = load x[i - 1, j] where 0 <= i - 1 < 30 and %9 else -inf
      %1 i64{i} = const -5
      %2 f32{i} = load x[((j + 4*k)/6) % 3, 7*((j + 1)/2) - 2*i.start, %1:7]
      %3, %4 = loop j/4 from %1 {
        carry %5 f32 = %0
        carry %6 bool{i} = %0
        store y[2] max= %5 where %1
        next %5, %6
      }
      %7 i32{i} = reduce argmin %0 over j position 3 - i last
      %8 f32{i, j} = scan prod %0 along j reverse exclusive
      %10 f32 = at %8[i: 5 - i, j: 0]
    }
    "
  `)
})

test('several kernels in one text', () => {
  const text = 'kernel a {\n  grid 1\n}\n\nkernel b {\n  grid 1\n}\n'
  expect(parseKernels(text).map((k) => k.name)).toEqual(['a', 'b'])
  expect(parseKernels('\n# nothing\n')).toEqual([])
})

describe('syntax errors', () => {
  const stmt = (s: string) => () => parseKernel(`kernel k {\n  axes i: 5, j: 3\n  grid i\n  ${s}\n}`)
  test('a character of no token', () => {
    expect(stmt('%0 f32 = const $')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] unexpected character "$"
        at 4:18]
    `)
  })
  test('not a kernel', () => {
    expect(() => parseKernel('softmax {}')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] expected "kernel", found "softmax"
        at 1:1]
    `)
  })
  test('text behind the kernel', () => {
    expect(() => parseKernel('kernel a {\n}\nkernel b {\n}')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] expected the end of the text, found "kernel"
        at 3:1]
    `)
  })
  test('an unfinished kernel', () => {
    expect(() => parseKernel('kernel k {\n  grid 1\n')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] expected a statement, found the end of the text
        at 3:1]
    `)
  })
  test('an unknown dtype', () => {
    expect(() => parseKernel('kernel k {\n param x: float[3] read\n}')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] expected a dtype, found "float"
        at 2:11]
    `)
  })
  test('an unknown operation', () => {
    expect(stmt('%0 f32 = frob %1')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] frob is not an operation
        at 4:12]
    `)
  })
  test('too few operands', () => {
    expect(stmt('%0 f32 = add %1')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] add takes 2 operands, found 1
        at 4:12]
    `)
  })
  test('an axis that is not declared', () => {
    expect(stmt('%0 i32 = index i + q')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] axis q is not declared (declared: i, j)
        at 4:22]
    `)
  })
  test('a product of axes', () => {
    expect(stmt('%0 i32 = index i*j')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] a product of two indices is not quasi-affine: one factor must be a number or a launch scalar
        at 4:19]
    `)
  })
  test('division by nothing', () => {
    expect(stmt('%0 i32 = index i/0')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] an index is divided by 0
        at 4:20]
    `)
  })
  test('a fraction in 64 bits', () => {
    expect(stmt('%0 i64 = const 1.5')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] 1.5 is not a whole number
        at 4:18]
    `)
  })
  test('two statements on a line', () => {
    expect(stmt('%0 f32 = const 0 %1 f32 = const 1')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] expected the end of the statement, found "%"
        at 4:20]
    `)
  })
  test('a grid of two programs without axes', () => {
    expect(() => parseKernel('kernel k {\n  grid 2\n}')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] a grid without axes has 1 program
        at 2:8]
    `)
  })
  test('results and carries that do not match', () => {
    expect(stmt('%0, %1 = loop j {\n carry %2 f32 = %3\n next %2\n }')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] the loop carries 1 tiles, gives 2 results and passes on 1
        at 4:19]
    `)
  })
  test('a carry behind statements', () => {
    expect(stmt('%0 = loop j {\n store x[] = %1\n carry %2 f32 = %3\n }')).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] expected carries before the statements of the loop, found "%"
        at 6:8]
    `)
  })
  test('a statement behind next', () => {
    expect(
      stmt('%0 = loop j {\n carry %2 f32 = %3\n next %2\n store x[] = %2\n }'),
    ).toThrowErrorMatchingInlineSnapshot(`
      [UserError: [E_KERNEL_SYNTAX] expected the end of the loop after next, found "store"
        at 7:2]
    `)
  })
})
