/** Loops over one axis by different blocks: each has tiles of its own size. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { verifyKernel } from '../../../src/kernel/verify.ts'
import { separateLoops } from '../../../src/schedule/simt/part/loopAxes.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'
import { type Buffers, Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'

/** A sum over whole rows beside a product over their blocks, with a guard that mentions the block's start. */
const kernel = parseKernel(`kernel beside {
  param x: f32[20, 70] read
  param w: f32[70, 9] read
  param y: f32[20, 9] write
  param s: f32[20] write
  axes i: 20, j: 9, k: 70
  grid i/8, j/16
  %0 f32{i} = const 0
  %1 = loop k/64 {
    carry %2 f32{i} = %0
    %3 f32{i, k} = load x[i, k]
    %4 f32{i} = reduce sum %3 over k
    %5 f32{i} = add %2, %4
    next %5
  }
  %6 f32{i, j} = const 0
  %7 = loop k/4 {
    carry %8 f32{i, j} = %6
    %9 f32{i, k} = load x[i, k] where 0 <= k - k.start < 3 else 0
    %10 f32{k, j} = load w[k, j]
    %11 f32{i, k} = stage %9
    %12 f32{k, j} = stage %10
    %13 f32{i, j} = dot %11, %12 over k acc %8
    next %13
  }
  store y[i, j] = %7
  store s[i] = %1
}`)

describe('loops over one axis by different blocks', () => {
  test('get axes of their own, the first one keeps its name', () => {
    const [part] = kernel.parts
    if (part === undefined) throw new Error('no part')
    const made = separateLoops(part)
    expect(made.axes.map((a) => [a.name, a.extent])).toEqual([
      ['i', 20],
      ['j', 9],
      ['k', 70],
      ['k_2', 70],
    ])
    verifyKernel({ ...kernel, parts: [made] })
    expect(separateLoops(made)).toBe(made)
  })

  test('share no more memory than their own blocks need', () => {
    for (const machine of [cudaSimt, webgpuSimt]) {
      const { sharedBytes } = emitKernel(kernel, machine)
      expect(sharedBytes).toBeLessThanOrEqual(4 * (8 * 4 + 4 * 16 + 2 * 256))
    }
  })

  test.skipIf(!hasCompiler())('compute what the interpreter does (skipped where g++ is missing)', () => {
    const fill = (n: number): Float32Array => Float32Array.from({ length: n }, (_, i) => ((i * 37) % 64) / 32 - 1)
    const make = (): Buffers => ({
      x: fill(1400),
      w: fill(630),
      y: new Float32Array(180).fill(7),
      s: new Float32Array(20).fill(7),
    })
    const [want, got] = [make(), make()]
    interpretKernel(kernel, want)
    const emulated = new Emulated([kernel])
    emulated.run(0, got)
    emulated.dispose()
    expect(got).toEqual(want)
  })
})
