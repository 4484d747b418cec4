/**
 * One table of coefficients (`scalar/polynomials.ts`): the constants that stand in WGSL's texts are values of the table as f32, and no code generator
 * keeps a polynomial of its own.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { expect, it } from 'vitest'
import { wgslMath } from '../../../src/codegen/simt/dialects/wgsl/math.ts'
import * as table from '../../../src/scalar/polynomials.ts'

const { erfTerms } = table

const leaves = (x: unknown): number[] => {
  if (typeof x === 'number') return [x]
  return typeof x === 'object' && x !== null ? Object.values(x).flatMap(leaves) : []
}
const known = new Set(
  [
    ...Object.values(table).flatMap(leaves),
    ...table.halfPiParts(4, 8),
    Math.LN2,
    Math.LOG2E,
    2 / Math.PI,
    // Bounds of what is computed by a term of its series, and below which numbers are subnormal.
    2.4e-4,
    0.2928,
    0.4142,
  ].map((x) => Math.fround(Math.abs(x))),
)

/** Of the logarithm in two floats (pow), and of the exponential on the hardware's power of two: no other generator has these. */
const own: Readonly<Record<string, readonly string[]>> = {
  f32_exp: ['0.00572498025', '0.496031746'],
  f32_pow: ['0.2222222', '0.28571430', '0.4', '0.6666667', '1.925963e-8', '1.17549435e-38'],
}

/** Of so few significant digits a number is no coefficient. */
const isPlain = (text: string): boolean => text.replace(/e.*$/, '').replace(/^[0.]+|\./g, '').length < 4

it.each(
  Object.entries(wgslMath).filter(([name]) => !/_(?:erfc|erfinv|lgamma|digamma|trigamma|cbrt|hypot)$/.test(name)),
)('constants of %s', (name, { code }) => {
  const literals = [...code.replace(/\/\/.*/g, '').matchAll(/(?<![\w.])\d+\.\d+(?:e-?\d+)?/g)].map(([text]) => text)
  const odd = literals.filter(
    (text) => !isPlain(text) && !Number.isInteger(2 * Number(text)) && !known.has(Math.fround(Number(text))),
  )
  expect(odd.filter((text) => !(own[name] ?? []).includes(text))).toEqual([])
})

it('every table serves WGSL or its coarse forms', () => {
  const text = Object.values(wgslMath)
    .map(({ code }) => code)
    .join('\n')
  for (const [name, terms] of Object.entries(table).filter(([name]) => /Terms$/.test(name)))
    for (const term of leaves(Array.isArray(terms) ? terms : [erfTerms.above, erfTerms.below]))
      if (!isPlain(String(Math.fround(term)))) expect(text, name).toContain(String(Math.abs(Math.fround(term))))
})

it('no polynomial stands in the code generators, but those of f64 beside pow', () => {
  const folders = ['src/codegen/vector/math', 'src/codegen/simt']
  const files = folders.flatMap((folder) =>
    readdirSync(new URL(`../../../${folder}`, import.meta.url), { recursive: true, encoding: 'utf8' })
      .filter((file) => file.endsWith('.ts'))
      .map((file) => `${folder}/${file.replaceAll('\\', '/')}`),
  )
  expect(files.length).toBeGreaterThan(50)
  const list = /\[\s*(?:-?\d+\.\d{5,}(?:e-?\d+)?,\s*){2,}/
  expect(list.test('[0.123456, -1.2345678e-5, 1]')).toBe(true)
  expect(files.filter((file) => list.test(readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8')))).toEqual(
    ['src/codegen/vector/math/pow.ts'],
  )
})
