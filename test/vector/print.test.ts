/** Text of the vector IR: a kernel's function, and every kind of expression and statement. */
import { expect, test } from 'vitest'
import { Builder } from '../../src/codegen/vector/ir/builder.ts'
import * as X from '../../src/codegen/vector/ir/expr.ts'
import { printFunctionText } from '../../src/codegen/vector/ir/print.ts'
import * as T from '../../src/codegen/vector/ir/types.ts'
import { emitVectorKernel } from '../../src/codegen/vector/kernel.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

const text = (source: string): string =>
  emitVectorKernel(
    { kernel: parseKernel(source), name: 'k', mayAlias: () => true },
    { machine: wasmTarget, hasMultiplyAdd: true },
  )
    .functions.map(printFunctionText)
    .join('\n')

test('a row scaled and added, four lanes at a time', () => {
  const source = `kernel k {
  param x0: f32[8] read
  param y0: f32[8] write
  axes i: 8
  grid i/8
  %0 f32{i} = load x0[i]
  %1 f32{i} = mul %0, %0
  store y0[i] = %1
}`
  expect(text(source)).toMatchInlineSnapshot(`
    "function k(%0: i32, %1: i32, %2: i32, %3: i32) {
      %7: i32 = sub(%1, 0)
      %4: i32 = select(gt_s(%7, 0), %7, 0)
      %7: i32 = sub(%2, 0)
      %5: i32 = select(lt_s(%7, 1), %7, 1)
      %7: i32 = load.i32 [%0]
      %14: i32 = load.i32 [%0 + 4]
      for %6 from %4 to %5 by 1 {
        for %8 from 0 to 8 by 8 {
          %9: i32 = shr_u(%8, 3)
          %10: i32 = shl(%8, 2)
          %11: i32 = add(%7, %10)
          %12: f32x4 = load.f32x4 [%11]
          %13: f32x4 = mul(%12, %12)
          %15: i32 = add(%14, %10)
          store [%15] = %13
          %16: f32x4 = load.f32x4 [%11 + 16]
          %17: f32x4 = mul(%16, %16)
          store [%15 + 16] = %17
        }
      }
    }"
  `)
})

test('statements and expressions', () => {
  const fn = Builder.function('all', [T.i32], (f, [p]) => {
    if (p === undefined) return
    const floats = f.keep(X.splat(T.f32x4, X.load(T.f32, p, 4, 4)))
    const mask = X.compare('lt', floats, X.constant(T.f32x4, -0))
    f.assign(floats, X.select(mask, X.unary('neg', floats), X.fma(T.f32x4, floats, floats, floats, true)))
    const ints = f.keep(X.convert(T.i32x4, floats, false))
    f.assign(ints, X.shrS(X.shuffle(T.i32x4, ints, ints, [3, 2, 1, 0]), 2))
    f.assign(ints, X.loadLane(ints, 1, p, 8, 4))
    f.assign(ints, X.replace(ints, 2, X.branch(X.isZero(p), X.int(1), X.binary('div_s', 7, p))))
    f.storeLane(p, X.view(T.i16x8, ints), 3, 2, 2)
    f.store(p, X.bits(X.pack(mask, mask)), 0, 1, '8')
    const callee = f.external('sin', [T.f64], T.f64)
    f.store(
      p,
      X.convert(
        T.f32,
        f.inline(() => {
          const wide = f.keep(X.convert(T.f64, X.extract(floats, 0)))
          return X.call(callee, [wide])
        }),
      ),
      16,
      4,
    )
    const i = f.register(T.i32)
    f.for(i, 0, p, 4, () =>
      f.scope((done) => {
        f.leave(done, X.any(mask))
        f.copy(p, X.add(p, i), 4)
      }),
    )
    f.if(
      p,
      () => f.until(X.isZero(p), () => f.assign(i, X.undefinedOf(T.i32))),
      () =>
        f.repeat(() => {
          f.run(
            Builder.function('other', [T.i32], () => undefined),
            [p],
          )
          return X.compare('ne', i, 3)
        }),
    )
    f.keep(X.lookup(floats, X.constant(T.i32x4, [0, 1, 2, 3])))
  })
  expect(printFunctionText(fn)).toMatchInlineSnapshot(`
    "function all(%0: i32) {
      %1: f32x4 = f32x4(load.f32 [%0 + 4])
      %1: f32x4 = select(lt(%1, f32x4(-0)), neg(%1), fnma(%1, %1, %1))
      %2: i32x4 = i32x4.from.u(%1)
      %2: i32x4 = shr_s(shuffle(%2, %2; 3 2 1 0), 2)
      %2: i32x4 = replace(%2.1, load [%0 + 8])
      %2: i32x4 = replace(%2.2, (if isZero(%0) then 1 else div_s(7, %0)))
      store [%0 + 2] = as.i16x8(%2).3
      store.8 [%0] = bits(pack(lt(%1, f32x4(-0)), lt(%1, f32x4(-0))))
      store [%0 + 16] = f32.from({ %3: f64 = f64.from(%1.0); sin(%3) })
      for %4 from 0 to %0 by 4 {
        scope 0 {
          leave 0 if any(lt(%1, f32x4(-0)))
          copy [%0] = [add(%0, %4)] of 4 bytes
        }
      }
      if %0 {
        until isZero(%0) {
          %4: i32 = undefined
        }
      } else {
        repeat {
          run other(%0)
        } while ne(%4, 3)
      }
      %5: i8x16 = lookup(as.i8x16(%1), as.i8x16(i32x4(0, 1, 2, 3)))
    }"
  `)
})
