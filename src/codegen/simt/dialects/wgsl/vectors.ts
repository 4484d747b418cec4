/** WGSL: vectors of four floats and the tiles they stand in. */

import type { VectorOp } from '../../ir/ir.ts'
import { bin, type Ex, int, type SharedArray } from '../../ir/ir.ts'
import { quotient } from '../../scalar/quotient.ts'

/** Rows of vectors are arrays in an array: of constant indices nothing is tested, and what varies is the same in all rows. */
export const sharedType = (element: string, { length, pitch }: SharedArray): string =>
  pitch === undefined
    ? `array<${element}, ${length}>`
    : `array<array<vec4<${element}>, ${pitch / 4}>, ${length / pitch}>`

/** A statement; `ex` and `operand` print expressions, the latter with parentheses where they need them. */
export function vectorText(o: VectorOp, ex: (e: Ex) => string, operand: (e: Ex) => string): string {
  const made = (values: readonly Ex[]): string => `vec4<f32>(${values.map(ex).join(', ')})`
  switch (o.op) {
    case 'read':
      return `let ${o.name} = ${o.array.name}[${ex(o.row)}][${ex(o.at)}];`
    case 'write':
      return `${o.array.name}[${ex(o.row)}][${ex(quotient(o.at, 4))}] = ${made(o.values)};`
    case 'put':
      return `${o.array.name}[${ex(o.row)}][${ex(quotient(o.at, 4))}][${ex(bin('&', o.at, int(3)))}] = ${ex(o.value)};`
    case 'var':
      return `var ${o.name} = ${made(o.values)};`
    case 'multiplyAdd':
      return `${o.to} = ${o.to} + ${operand(o.a)} * ${o.b};`
  }
}
