/** Loads that wait for folds: weights that all programs share, where everything that uses them needs a fold of the row. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'

const [rows, columns] = [5, 4096]

/** Rows over their sum, times weights; `use`: what else is stored. */
const scaled = (use = '') =>
  parseKernel(`kernel scaled {
  param x: f32[${rows}, ${columns}] read
  param w: f32[${columns}] read
  param v: f32[${rows}, ${columns}] read
  param y: f32[${rows}, ${columns}] write
  param z: f32[${rows}, ${columns}] write
  axes r: ${rows}, c: ${columns}
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{c} = load w[c]
  %2 f32{r, c} = load v[r, c]
  %3 f32{c} = neg %1
  %4 f32{r} = reduce sum %0 over c
  %5 f32{r, c} = div %0, %4
  %6 f32{r, c} = mul %5, %3
  %7 f32{r, c} = add %6, %2
  store y[r, c] = %7
  ${use}
}`)

const weights = 'Weights are loaded late'

test.each(['cuda', 'wgsl'] as const)('after the fold, in %s', (dialect) => {
  const barrier = dialect === 'cuda' ? '__syncthreads()' : 'workgroupBarrier()'
  const load = (name: string): RegExp =>
    new RegExp(dialect === 'cuda' ? `\\(${name} \\+|&${name}\\[|\\*\\)${name}` : ` ${name}\\[`)
  const at = (source: string, name: string): number => {
    const body = source.indexOf(dialect === 'cuda' ? '__launch_bounds__' : 'fn scaled(')
    const found = source.slice(body).search(load(name))
    expect(found, `${name} in ${source}`).toBeGreaterThan(0)
    return body + found
  }
  const caps = dialect === 'cuda' ? cudaSimt : webgpuSimt
  const { source } = emitKernel(scaled(), caps)
  expect(source.indexOf(barrier)).toBeGreaterThan(0)
  expect(at(source, 'w'), weights).toBeGreaterThan(source.lastIndexOf(barrier))
  // What only one program reads is on its way early.
  expect(at(source, 'x')).toBeLessThan(source.indexOf(barrier))
  expect(at(source, 'v')).toBeLessThan(source.indexOf(barrier))
  // Another use needs the weights without a fold.
  const early = emitKernel(scaled('%8 f32{r, c} = add %3, %2\n store z[r, c] = %8'), caps).source
  expect(at(early, 'w')).toBeLessThan(early.indexOf(barrier))
})

test.skipIf(!hasCompiler())('and compute the same (skipped where g++ is missing)', () => {
  const x = Float32Array.from({ length: rows * columns }, (_, i) => ((i * 7919) % 1013) / 512)
  const w = Float32Array.from({ length: columns }, (_, i) => Math.cos(i))
  const v = x.map((e) => e - 1)
  const y = new Float32Array(x.length)
  const emulated = new Emulated([scaled()], cudaSimt)
  emulated.run(0, { x, w, v, y, z: new Float32Array(x.length) })
  emulated.dispose()
  for (let r = 0; r < rows; r++) {
    const sum = x.subarray(r * columns, (r + 1) * columns).reduce((a, b) => a + b, 0)
    for (let c = 0; c < columns; c += 37) {
      const i = r * columns + c
      expect(y[i]).toBeCloseTo(((x[i] ?? 0) / sum) * -(w[c] ?? 0) + (v[i] ?? 0), 5)
    }
  }
})

test.each(['cuda', 'wgsl'] as const)('not for a fold that is computed in chunks, in %s', (dialect) => {
  const kernel = parseKernel(`kernel centre {
  param x: f32[33, 701] read
  param w: f32[701] read
  param y: f32[33, 701] write
  param z: f32[701] write
  axes r: 33, c: 701
  grid 1
  %0 f32{r, c} = load x[r, c]
  %1 f32{c} = load w[c]
  %2 f32{r} = reduce sum %0 over c
  %3 f32{r, c} = mul %0, %2
  %4 f32{r, c} = mul %3, %1
  %5 f32{c} = reduce sum %0 over r
  store y[r, c] = %4
  store z[c] = %5
}`)
  expect(emitKernel(kernel, dialect === 'cuda' ? cudaSimt : webgpuSimt).source).toContain('centre')
})
