/** Second operands of products, in place or copied: rows that begin anywhere in a line stay in place while a block of columns of them stays near. */
import { expect, test } from 'vitest'
import { wasmTarget } from '../../src/target/wasm.ts'
import { linesOf } from './scheduled.ts'

const product = (columns: number, depth: number, rows = 64): string => `kernel t {
 param x: f32[${rows}, ${depth}] read
 param w: f32[${depth}, ${columns}] read
 param y: f32[${rows}, ${columns}] write
 axes m: ${rows}, n: ${columns}, k: ${depth}
 grid 1
 %0 f32{m, k} = load x[m, k]
 %1 f32{k, n} = load w[k, n]
 %2 f32{m, n} = dot %0, %1 over k
 store y[m, n] = %2
}`

const isInPlace = (text: string, machine = wasmTarget): boolean => {
  const lines = linesOf(text, machine)
  expect(lines).toContain('product %2')
  return lines.includes('%1 from w in place')
}

test('of a deep block they are copied where rows begin anywhere in a line', () => {
  expect([48, 49, 50, 51, 52].map((n) => isInPlace(product(n, 256)))).toEqual([true, false, false, false, true])
})

test('they stay where two lines of each row are near from one block of columns to the next, and for few rows', () => {
  expect([64, 128, 192, 224].map((k) => isInPlace(product(49, k)))).toEqual([true, true, true, false])
  expect(isInPlace(product(49, 256, 8))).toBe(true)
  const { loops } = wasmTarget
  if (loops === undefined) throw new Error('no loops')
  const machine = { ...wasmTarget, loops: { ...loops, nearest: 4 * loops.nearest } }
  expect(isInPlace(product(49, 224), machine)).toBe(true)
})
