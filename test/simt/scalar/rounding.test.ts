/** Rounding to bf16 in both dialects, stored alone, in groups, and inside a kernel: every upper half with the lower halves that decide. */
import { describe, expect, it } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Node } from '../../../src/graph/node.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { bf16ToNumber, numberToBf16 } from '../../../src/scalar/half.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { webgpuSimt } from '../../../src/target/simt.ts'
import { at, trace } from '../../compile/support.ts'
import { inBothDialects } from '../dialects/dialects.ts'

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

const coarse = parseKernel(`kernel coarse {
  param x: f32[${n}] read
  param y: f32[1] read
  param groups: bf16[${n}] write
  axes i: ${n}
  grid i/2048
  %0 f32{i} = load x[i]
  %1 f32 = load y[0]
  %2 f32 = sigmoid %1
  %3 f32{i} = mul %0, %2
  %4 bf16{i} = cast %3
  store groups[i] = %4
}`)

// sigmoid(100) is 1, so that what is rounded is known: to the nearest, where two are as near to either.
inBothDialects(
  'bf16 of what a coarse function leads to',
  { ...coarse, mode: 'fast' },
  () => {
    const { x, groups } = buffers()
    return { x, y: Float32Array.of(100), groups }
  },
  (b, dialect) => {
    const bits = new Uint32Array(b.x.buffer)
    let wrong = ''
    for (let i = 0; i < n && wrong === ''; i++) {
      const x = b.x[i] ?? 0
      const isTie = ((bits[i] ?? 0) & 0xffff) === 0x8000
      const [want, cut] = [bf16ToNumber(numberToBf16(x)), bf16ToNumber((bits[i] ?? 0) >>> 16)]
      const away = bf16ToNumber(((bits[i] ?? 0) >>> 16) + 1)
      const got = bf16ToNumber(b.groups[i] ?? 0)
      const isSmall = dialect === 'wgsl' && Math.abs(x) < leastRounded
      const isRight =
        Object.is(got, want) ||
        (dialect === 'wgsl' && isTie && Number.isFinite(x) && Object.is(got, away)) ||
        (isSmall && (got === cut || (got === 0 && Math.abs(x) < 2 ** -126)))
      if (!isRight) wrong = `${(bits[i] ?? 0).toString(16)} gives ${got}, not ${want}`
    }
    expect(wrong).toBe('')
  },
)

describe('ties go either way', () => {
  const source = (build: (x: Node, y: Node, mask: Node) => Node, mode: 'fast' | 'strict' = 'fast'): string => {
    const graph = trace(
      [
        { shape: [8, 64], dtype: 'bf16' },
        { shape: [8, 64], dtype: 'bf16' },
        { shape: [8, 64], dtype: 'bool' },
      ],
      (p) => [build(at(p, 0), at(p, 1), at(p, 2))],
    )
    const kernels = compileGraph(graph, { mode, target: cudaTarget }).program.steps.flatMap((s) =>
      s.kind === 'kernel' ? [s.kernel] : [],
    )
    return kernels.map((k) => emitKernel(k, { ...webgpuSimt, laneBits: 5 }).source).join('\n')
  }
  it.each<[string, (x: Node, y: Node, mask: Node) => Node]>([
    ['a coarse function', (x) => c.gelu(x)],
    ['a product with one', (x, y) => c.mul(c.silu(x), y)],
    ['a choice between one and a literal', (x, _, mask) => c.where(mask, c.gelu(x), 0)],
    ['a choice between one and what is exact', (x, y, mask) => c.where(mask, c.gelu(x), y)],
  ])('of %s', (_, build) => {
    expect(source(build)).toMatch(/bf16_coarse_pair\(/)
    expect(source(build, 'strict')).not.toMatch(/bf16_coarse/)
  })
  it.each<[string, (x: Node, y: Node, mask: Node) => Node]>([
    ['sums', (x, y) => c.add(x, y)],
    ['a choice between a coarse function and a sum', (x, y, mask) => c.where(mask, c.gelu(x), c.add(x, y))],
    ['what a coarse function only decides', (x, y) => c.where(c.compare('lt', c.gelu(x), y), c.add(x, y), 0)],
  ])('but not of %s', (_, build) => {
    expect(source(build)).not.toMatch(/bf16_coarse/)
  })
})
