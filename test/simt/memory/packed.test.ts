/** Stores of values that are bf16 already: bits go through as they are, without rounding. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'
import { inBothDialects } from '../dialects/dialects.ts'

const n = 1000

const kernelOf = (body: string): Kernel =>
  parseKernel(`kernel uses {
  param x: bf16[${n}] read
  param w: bf16[${n}] read
  param y: bf16[${n}] write
  axes i: ${n}
  grid i/256
  %0 bf16{i} = load x[i]
  %1 f32{i} = cast %0
  %2 bf16{i} = load w[i]
  %3 f32{i} = cast %2
${body}
}`)

/** -x where w > 0, 1.5 elsewhere. */
const choice = kernelOf(`  %4 f32 = const 0
  %5 bool{i} = gt %3, %4
  %6 f32{i} = neg %1
  %7 f32 = const 1.5
  %8 f32{i} = select %5, %6, %7
  %9 bf16{i} = cast %8
  store y[i] = %9`)

/** Every bit pattern's neighbourhood, with infinities, NaN of several payloads, subnormals. */
function buffers(): { x: Uint16Array; w: Uint16Array; y: Uint16Array } {
  const x = Uint16Array.from({ length: n }, (_, i) => (i * 65537) / 1000 + i * 64)
  x.set([0x7f80, 0xff80, 0x7fc0, 0x7f81, 0xffff, 0x0000, 0x8000, 0x3f80], 500)
  const w = Uint16Array.from({ length: n }, (_, i) => (i % 3 === 0 ? 0xbf80 : 0x3f80))
  return { x, w, y: new Uint16Array(n) }
}

function check({ x, w, y }: { x: Uint16Array; w: Uint16Array; y: Uint16Array }, flushes: boolean): void {
  x.forEach((bits, i) => {
    const want = w[i] === 0x3f80 ? bits ^ 0x8000 : 0x3fc0
    const magnitude = want & 0x7fff
    if (magnitude > 0x7f80) expect((y[i] ?? 0) & 0x7fff, `at ${i}`).toBeGreaterThan(0x7f80)
    else if (flushes && magnitude < 0x80) expect([want, want & 0x8000]).toContain(y[i])
    else expect(y[i], `at ${i}`).toBe(want)
  })
}

inBothDialects('', choice, buffers, (b, dialect) => check(b, dialect === 'wgsl'))

test('where values are known to be bf16', () => {
  const rounds = (k: Kernel): boolean[] =>
    [emitKernel(k, cudaSimt).source, emitKernel(k, webgpuSimt).source].map((s) =>
      /(bf16_(pair|eight)|round_bf16)\(/.test(s),
    )
  const never = [false, false]
  const always = [true, true]
  expect(rounds(choice)).toEqual(never)
  expect(rounds({ ...choice, mode: 'strict' })).toEqual(never)
  expect(rounds(kernelOf('  store y[i] = %0'))).toEqual(never)
  expect(rounds(kernelOf('  store y[i] = %1'))).toEqual(never)
  expect(rounds(kernelOf('  %4 f32{i} = max %1, %3\n  %5 bf16{i} = cast %4\n  store y[i] = %5'))).toEqual(never)
  // Arithmetic, and literals of more digits.
  expect(rounds(kernelOf('  %4 f32{i} = add %1, %3\n  %5 bf16{i} = cast %4\n  store y[i] = %5'))).toEqual(always)
  expect(
    rounds(kernelOf('  %4 f32 = const 0.1\n  %5 f32{i} = max %1, %4\n  %6 bf16{i} = cast %5\n  store y[i] = %6')),
  ).toEqual(always)
})
