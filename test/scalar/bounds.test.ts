/** The error-bound table: what it accepts, and that docs/numerics.md says the same. */
import { readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { approximated } from '../../src/scalar/approximations.ts'
import { boundOf, errorBounds, ulpBound, ulpOf, withinBound } from '../../src/scalar/bounds.ts'
import type { ErrorBound } from '../../src/scalar/formula.ts'
import { isScalarOp } from '../../src/scalar/ops.ts'

it('the documentation mirrors the table', () => {
  const page = readFileSync(new URL('../../docs/numerics.md', import.meta.url), 'utf8')
  const [, section = ''] = page.split('## Error bounds')
  const documented = new Map<string, ErrorBound>()
  for (const line of section.split('\n')) {
    const [, names = '', bound = ''] = line.split('|').map((s) => s.trim())
    const ulp = Number.parseFloat(bound)
    const [, absolute] = /2\^(-\d+) absolute/.exec(bound) ?? []
    const [, within] = /operands up to (\S+)/.exec(bound) ?? []
    if (Number.isNaN(ulp)) continue
    for (const name of names.split(', '))
      documented.set(name, {
        ulp,
        ...(absolute === undefined ? {} : { absolute: 2 ** Number(absolute) }),
        ...(within === undefined ? {} : { within: Number(within) }),
      })
  }
  const table = [...Object.keys(errorBounds), ...approximated].map(
    (name) => [name, isScalarOp(name) ? boundOf(name) : { ulp: Number.NaN }] as const,
  )
  expect(documented).toEqual(new Map(table))
})

it('measures units in the last place', () => {
  expect(ulpOf('f32', 1)).toBe(2 ** -23)
  expect(ulpOf('f32', 1 - 2 ** -30)).toBe(2 ** -24)
  expect(ulpOf('f32', 0)).toBe(2 ** -149)
  expect(ulpOf('f64', 1)).toBe(Number.EPSILON)
  expect(ulpOf('f64', 0)).toBe(5e-324)
  expect(ulpOf('f16', 65504)).toBe(32)
  expect(ulpOf('f32', Number.POSITIVE_INFINITY)).toBe(2 ** 104)
  for (let e = -126; e < 128; e++) expect(ulpOf('f32', 2 ** e)).toBe(2 ** (e - 23))
})

it('accepts what is within the bound and nothing else', () => {
  const third = 1 / 3
  expect(withinBound('div', 'f32', Math.fround(third), third)).toBe(true)
  expect(withinBound('div', 'f32', Math.fround(third) + 2 ** -25, third)).toBe(false)
  expect(withinBound('exp', 'f32', Math.E + 3.9 * 2 ** -22, Math.E)).toBe(true)
  expect(withinBound('exp', 'f32', Math.E + 4.1 * 2 ** -22, Math.E)).toBe(false)
  expect(withinBound('exp', 'f32', 0, 1e-39)).toBe(true)
  expect(withinBound('mul', 'f32', 0, 1e-39)).toBe(false)
  expect(withinBound('exp', 'f32', Number.POSITIVE_INFINITY, 1e39)).toBe(true)
  expect(withinBound('exp', 'f32', Number.POSITIVE_INFINITY, 1e38)).toBe(false)
  expect(withinBound('exp', 'f32', 1e38, Number.POSITIVE_INFINITY)).toBe(false)
  expect(withinBound('exp', 'f32', Number.NaN, 1)).toBe(false)
  expect(withinBound('log', 'f32', Number.NaN, Number.NaN)).toBe(true)
  expect(withinBound('sin', 'f32', 1e-7, 0)).toBe(true)
  expect(withinBound('floor', 'f32', 1, 2)).toBe(false)
  expect(ulpBound('exp', 'f16')).toBe(1)
  expect(ulpBound('add', 'bf16')).toBe(0.5)
})
