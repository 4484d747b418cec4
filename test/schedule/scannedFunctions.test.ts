/** Functions of running folds along lanes get loops of their own, where groups of lanes compute them in turn. */
import { expect, test } from 'vitest'
import { compare } from '../wasm/compare.ts'
import { linesOf } from './scheduled.ts'

const scanned = (n: number, op: string, axis: string, dtype = 'f32'): string => `kernel t {
 param x: ${dtype}[6, ${n}] read
 param y: ${dtype}[6, ${n}] write
 axes i: 6, j: ${n}
 grid 1
 %0 ${dtype}{i, j} = load x[i, j]
 %1 ${dtype}{i, j} = ${op} %0
 %2 ${dtype}{i, j} = neg %1
 %3 ${dtype}{i, j} = scan sum %2 along ${axis}
 store y[i, j] = %3
}`

test.each([40, 1001, 20000])('%i a row: the function is kept in turn, what follows it is not', (n) => {
  const lines = linesOf(scanned(n, 'tanh', 'j'))
  expect(lines).toMatch(/: %1 in turn.*\n\s+keep %1 in tile/)
  expect(lines).not.toContain('keep %2')
})

test('cheap operations, and functions whose lanes go down other lines, stay in the fold', () => {
  for (const text of [scanned(1001, 'abs', 'j'), scanned(1001, 'tanh', 'i')])
    expect(linesOf(text)).not.toContain('keep')
})

test('as the interpreter has it', () => {
  for (const n of [31, 1001]) compare(scanned(n, 'tanh', 'j'), { tolerance: 1e-4 })
  for (const dtype of ['f16', 'bf16']) compare(scanned(31, 'tanh', 'j', dtype), { tolerance: 2e-2 })
})
