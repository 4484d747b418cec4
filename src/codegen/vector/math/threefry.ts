/** Threefry-2x32 on u32 registers: the same words as `src/scalar/threefry.ts` (Salmon et al., SC 2011). */
import type { Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Expr } from '../ir/ir.ts'
import * as T from '../ir/types.ts'
import { type Reg, read } from '../value/reg.ts'

const rotations = [13, 15, 26, 6, 17, 29, 16, 24] as const
const parity = 0x1bd11bda

/** The words for key (k0, k1) and counter (0, low); all of one lane count, dtype u32 (or i32). */
export function emitThreefry(f: Builder, k0: Reg, k1: Reg, counter: Reg, rounds: number): readonly [Reg, Reg] {
  const { lanes } = k0
  const vector = lanes === 4
  const type = vector ? T.i32x4 : T.i32
  const constant = (n: number): Expr => X.constant(type, n)
  const rotated = (a: Expr, r: number): Expr => (vector ? X.or(X.shl(a, r), X.shrU(a, 32 - r)) : X.binary('rotl', a, r))
  const [a, b, low] = [read(k0), read(k1), read(counter)]
  const x = f.register(type)
  const y = f.register(type)
  const k2 = f.register(type)
  const keys = [a, b, k2] as const
  const key = (i: number): Expr => keys[(i % 3) as 0 | 1 | 2]

  f.assign(k2, X.xor(X.xor(constant(parity), a), b))
  f.assign(x, a)
  f.assign(y, X.add(low, b))
  for (let round = 0; round < rounds; round++) {
    const r = rotations[(round % 8) as 0] ?? 0
    f.assign(x, X.add(x, y))
    f.assign(y, X.xor(rotated(y, r), x))
    if (round % 4 !== 3) continue
    const s = (round + 1) / 4
    f.assign(x, X.add(x, key(s)))
    f.assign(y, X.add(X.add(y, key(s + 1)), constant(s)))
  }
  f.release(k2)
  return [
    { dtype: 'u32', lanes, parts: [x] },
    { dtype: 'u32', lanes, parts: [y] },
  ]
}
