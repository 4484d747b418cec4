/** Rounding to bf16 in both dialects, stored alone, in groups, and inside a kernel: every upper half with the lower halves that decide. */
import { expect } from 'vitest'
import { parseKernel } from '../../src/kernel/parse.ts'
import { bf16ToNumber, numberToBf16 } from '../../src/scalar/half.ts'
import { inBothDialects } from './dialects.ts'

const lows = [0, 1, 0x7fff, 0x8000, 0x8001, 0xc000, 0xffff]
const n = lows.length * 65536

const kernel = parseKernel(`kernel rounding {
  param x: f32[${n}] read
  param groups: bf16[${n}] write
  param alone: bf16[${n}, 3] write
  param inside: f32[${n}] write
  axes i: ${n}
  grid i/2048
  %0 f32{i} = load x[i]
  %1 bf16{i} = cast %0
  store groups[i] = %1
  store alone[i, 1] = %1
  %2 f32{i} = cast %1
  store inside[i] = %2
}`)

function buffers() {
  const bits = new Uint32Array(n)
  lows.forEach((low, k) => {
    for (let high = 0; high < 65536; high++) bits[high * lows.length + k] = (high * 65536 + low) >>> 0
  })
  return {
    x: new Float32Array(bits.buffer),
    groups: new Uint16Array(n),
    alone: new Uint16Array(3 * n).fill(7),
    inside: new Float32Array(n),
  }
}

/** Below this WGSL may cut instead of round: what is added to round is subnormal. */
const leastRounded = 2 ** -109

inBothDialects('bf16', { ...kernel, mode: 'strict' }, buffers, (b, dialect) => {
  const bits = new Uint32Array(b.x.buffer)
  let wrong = ''
  for (let i = 0; i < n && wrong === ''; i++) {
    const x = b.x[i] ?? 0
    const want = bf16ToNumber(numberToBf16(x))
    const isSmall = dialect === 'wgsl' && Math.abs(x) < leastRounded
    const cut = bf16ToNumber((bits[i] ?? 0) >>> 16)
    const got = [bf16ToNumber(b.groups[i] ?? 0), bf16ToNumber(b.alone[3 * i + 1] ?? 0), b.inside[i] ?? 0]
    const isRight = (g: number): boolean =>
      Object.is(g, want) || (isSmall && (g === cut || (g === 0 && Math.abs(x) < 2 ** -126)))
    if (!got.every(isRight) || b.alone[3 * i] !== 7 || b.alone[3 * i + 2] !== 7)
      wrong = `${(bits[i] ?? 0).toString(16)} gives ${got}, not ${want}`
  }
  expect(wrong).toBe('')
})
