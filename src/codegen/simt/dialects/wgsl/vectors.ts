/** WGSL: vectors of four floats, matrices of subgroups, and the tiles they stand in. */

import type { MatrixOp, VectorOp } from '../../ir/ir.ts'
import { bin, type Ex, int, type SharedArray } from '../../ir/ir.ts'
import { quotient } from '../../scalar/quotient.ts'
import { halfOfWord } from './halves.ts'

/** Rows of vectors are arrays in an array: of constant indices nothing is tested, and what varies is the same in all rows. */
export const sharedType = (element: string, { length, pitch, half }: SharedArray): string =>
  half
    ? `array<f16, ${length}>`
    : pitch === undefined
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

/** The half whose bits an expression has below. */
function halfText(bits: Ex, ex: (e: Ex) => string): string {
  const { word, upper } = halfOfWord(bits)
  return `bitcast<vec2<f16>>(${ex(word)}).${upper ? 'y' : 'x'}`
}

const size = '16, 16'

/** A statement of subgroups on matrices ("Subgroup matrices", proposal of the WebGPU working group). */
export function matrixText(o: MatrixOp, ex: (e: Ex) => string): string {
  switch (o.op) {
    case 'zeros':
      return `var ${o.name}: subgroup_matrix_result<f32, ${size}>;`
    case 'load': {
      const order = o.byRows ? 'row_major' : 'col_major'
      return `let ${o.name} = subgroupMatrixLoad<subgroup_matrix_${o.side}<f16, ${size}>, ${order}>(&${o.array.name}, u32(${ex(o.at)}), ${o.pitch}u);`
    }
    case 'multiplyAdd':
      return `${o.to} = subgroupMatrixMultiplyAccumulate(${o.a}, ${o.b}, ${o.to});`
    case 'store':
      return `subgroupMatrixStore<row_major>(&${o.array.name}, u32(${ex(o.at)}), ${o.name}, ${o.pitch}u);`
    case 'put':
      return `${o.array.name}[${ex(o.at)}] = ${o.value.type === 'u32' ? halfText(o.value, ex) : `f16(${ex(o.value)})`};`
  }
}
