/** Rows of programs to come: which kernels ask for them early, and that what they ask for is there. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { cudaSimt, webgpuSimt } from '../../../src/target/simt.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'

const [rows, columns] = [37, 8192]

const kernel = parseKernel(`kernel centre {
  param x: f32[${rows}, ${columns}] read
  param y: f32[${rows}, ${columns}] write
  axes r: ${rows}, c: ${columns}
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{r} = reduce max %0 over c
  %2 f32{r, c} = sub %0, %1
  store y[r, c] = %2
}`)

const few = { ...cudaSimt, multiprocessors: 3, clusters: 1 }

test('programs ask for the row of the one that takes their place', () => {
  const { source, threads } = emitKernel(kernel, few)
  const ahead = (3 * 2048) / threads
  expect(source).toContain(`if (program < ${rows - ahead}) {`)
  expect(source).toContain(`+ ${ahead * columns}`)
})

test('none where nothing says how many run at once', () => {
  const { multiprocessors: _, ...unknown } = few
  expect(emitKernel(kernel, unknown).source).not.toContain('prefetch')
  expect(emitKernel(kernel, { ...webgpuSimt, maxThreads: 1024 }).source).not.toContain('prefetch')
})

test.skipIf(!hasCompiler())('what they ask for lies in the buffer', () => {
  const x = Float32Array.from({ length: rows * columns }, (_, i) => (i * 7919) % 1013)
  const y = new Float32Array(x.length)
  const emulated = new Emulated([kernel], few)
  emulated.run(0, { x, y })
  emulated.dispose()
  for (let r = 0; r < rows; r++) {
    const row = x.subarray(r * columns, (r + 1) * columns)
    const most = row.reduce((a, b) => Math.max(a, b))
    expect(y.subarray(r * columns, (r + 1) * columns)).toEqual(row.map((v) => v - most))
  }
})
