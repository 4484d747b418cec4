/** Which reads under masks go without asking: those that stay near what the parameter holds, and whose masks mostly hold. */
import { expect, test } from 'vitest'
import { addConst, axis, type Expr, mul } from '../../src/affine/expr.ts'
import type { Predicate } from '../../src/affine/predicate.ts'
import type { KernelParam } from '../../src/kernel/ir.ts'
import { readsFreely } from '../../src/schedule/loop/nest/position.ts'

const image = (rows: number, columns: number): KernelParam => ({
  name: 'x',
  dtype: 'f32',
  shape: [rows, columns],
  access: 'read',
  format: 'plain',
})

/** A read at an index whose mask holds in a range of rows. */
const reads = (p: KernelParam, index: readonly Expr[], lo: number, hi: number): boolean => {
  const [row] = index
  const mask: Predicate = row === undefined ? [] : [{ expr: row, lo, hi }]
  return readsFreely(p, { index, mask })
}

test('a border around an image is read, far places are not', () => {
  const p = image(30, 20)
  const [i, j] = [axis('i', 32), axis('j', 20)]
  expect(reads(p, [addConst(i, -1), j], 0, 30)).toBe(true)
  // As many rows before the image as it has.
  expect(reads(p, [addConst(axis('i', 60), -30), j], 0, 30)).toBe(false)
  // A row is longer than the memory that lies around every buffer.
  expect(reads(image(30, 70000), [addConst(i, -1), axis('j', 70000)], 0, 30)).toBe(false)
})

test('rows that a mask mostly leaves out are not read', () => {
  const [i, j] = [axis('i', 1000), axis('j', 20)]
  expect(reads(image(1000, 20), [i, j], 0, 10)).toBe(false)
  expect(reads(image(1000, 20), [i, j], 0, 500)).toBe(true)
})

test('values as masks are asked, and so is what stands in several elements a byte', () => {
  const index = [mul(axis('i', 15), 2), axis('j', 20)]
  const mask: Predicate = [{ expr: axis('i', 15), lo: 0, hi: 14 }]
  expect(readsFreely(image(30, 20), { index, mask })).toBe(true)
  expect(readsFreely(image(30, 20), { index, mask, maskValue: 3 })).toBe(false)
  expect(readsFreely({ ...image(30, 20), format: 'bits' }, { index, mask })).toBe(false)
})
