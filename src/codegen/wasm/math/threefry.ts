/** Threefry-2x32 on u32 registers: the same words as `src/scalar/threefry.ts` (Salmon et al., SC 2011). */
import type { FunctionBuilder, WasmOp } from '../binary/builder.ts'
import { part, type Reg } from '../value/reg.ts'

const rotations = [13, 15, 26, 6, 17, 29, 16, 24] as const
const parity = 0x1bd11bda

/** The words for key (k0, k1) and counter (0, low); all of one lane count, dtype u32 (or i32). */
export function emitThreefry(f: FunctionBuilder, k0: Reg, k1: Reg, counter: Reg, rounds: number): readonly [Reg, Reg] {
  const { lanes } = k0
  const vector = lanes === 4
  const type = vector ? 'v128' : 'i32'
  const add: WasmOp = vector ? 'i32x4.add' : 'i32.add'
  const xor: WasmOp = vector ? 'v128.xor' : 'i32.xor'
  const constant = (n: number): void => (vector ? f.i32x4Const(n) : f.i32Const(n))
  const [a, b, low] = [part(k0, 0), part(k1, 0), part(counter, 0)]
  const x = f.local(type)
  const y = f.local(type)
  const k2 = f.local(type)
  const keys = [a, b, k2] as const
  const key = (i: number): void => f.get(keys[(i % 3) as 0 | 1 | 2])

  constant(parity)
  f.get(a)
  f.op(xor)
  f.get(b)
  f.op(xor)
  f.set(k2)
  f.get(a)
  f.set(x)
  f.get(low)
  f.get(b)
  f.op(add)
  f.set(y)
  for (let round = 0; round < rounds; round++) {
    const r = rotations[(round % 8) as 0] ?? 0
    f.get(x)
    f.get(y)
    f.op(add)
    f.set(x)
    f.get(y)
    f.i32Const(r)
    if (vector) {
      f.op('i32x4.shl')
      f.get(y)
      f.i32Const(32 - r)
      f.ops('i32x4.shr_u', 'v128.or')
    } else f.op('i32.rotl')
    f.get(x)
    f.op(xor)
    f.set(y)
    if (round % 4 !== 3) continue
    const s = (round + 1) / 4
    f.get(x)
    key(s)
    f.op(add)
    f.set(x)
    f.get(y)
    key(s + 1)
    f.op(add)
    constant(s)
    f.op(add)
    f.set(y)
  }
  f.release(k2)
  return [
    { dtype: 'u32', lanes, locals: [x] },
    { dtype: 'u32', lanes, locals: [y] },
  ]
}
