/** A product whose rows are taken from a table: where they stand is not known before the block is reached. */
import { expect, test } from 'vitest'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { readElement, writeElement } from '../../../src/scalar/host.ts'
import { hostArray } from '../../../src/types/host.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'

const tableRows = 128

test.skipIf(!hasCompiler()).each([
  [64, 192, 64],
  [72, 200, 72],
])('%i x %i x %i', { timeout: 60_000 }, (m, k, n) => {
  const kernel = parseKernel(`kernel gathered {
  param table: bf16[${tableRows}, ${k}] read
  param w: bf16[${k}, ${n}] read
  param row: i32[${m}] read
  param y: f32[${m}, ${n}] write
  axes i: ${m}, j: ${n}, k: ${k}
  grid i/64, j/64
  %0 f32{i, j} = const 0
  %1 i32{i} = load row[i]
  %2 = loop k/64 {
    carry %3 f32{i, j} = %0
    %4 bf16{i, k} = load table[%1:${tableRows}, k]
    %5 bf16{i, k} = stage %4
    %6 bf16{k, j} = load w[k, j]
    %7 bf16{k, j} = stage %6
    %8 f32{i, j} = dot %5, %7 over k acc %3
    next %8
  }
  store y[i, j] = %2
}`)
  const filled = (length: number, by: number, modulus: number) => {
    const out = hostArray('bf16', length)
    for (let i = 0; i < length; i++) writeElement(out, 'bf16', i, ((i * by) % modulus) - modulus / 2)
    return out
  }
  const [table, w] = [filled(tableRows * k, 37, 14), filled(k * n, 29, 12)]
  const row = Int32Array.from({ length: m }, (_, i) => (i * 7) % tableRows)
  const y = new Float32Array(m * n)
  const emulated = new Emulated([kernel])
  emulated.run(0, { table, w, row, y })
  emulated.dispose()
  const at = (a: typeof w, i: number): number => Number(readElement(a, 'bf16', i))
  const want = y.map((_, p) => {
    const [i, j] = [Math.floor(p / n), p % n]
    let sum = 0
    for (let d = 0; d < k; d++) sum += at(table, (row[i] ?? 0) * k + d) * at(w, d * n + j)
    return sum
  })
  expect(y).toEqual(want)
})
