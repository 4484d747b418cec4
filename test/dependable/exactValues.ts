/** Exact values of approximated functions: special ones, then ones of 40 digits rounded to f64 (mpmath), at operands that f32 holds. */
import { readFileSync } from 'node:fs'
import type { Approximated } from '../../src/scalar/approximations.ts'

/** Operands, then the result. JSON has no infinities, no NaN and no -0: those are strings. */
export type Row = readonly number[]

const table = JSON.parse(readFileSync(new URL('./approximations.json', import.meta.url), 'utf8')) as Readonly<
  Record<Approximated, readonly (readonly (number | string)[])[]>
>

export const exactValues = (op: Approximated): readonly Row[] => table[op].map((row) => row.map(Number))
