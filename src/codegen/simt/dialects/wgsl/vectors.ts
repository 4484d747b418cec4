/** WGSL: vectors of four floats, matrices of subgroups, and the tiles they stand in. */

import { halvesOfGroup, resultsOfGroup } from '../../../../schedule/simt/part/subgroupMatrices.ts'
import { bin, type Ex, int, type MatrixOp, type SharedArray, uint, type VectorOp } from '../../ir/ir.ts'
import { quotient } from '../../scalar/quotient.ts'
import { halfOfWord } from './halves.ts'

/** Rows of vectors are arrays in an array: of constant indices nothing is tested, and what varies is the same in all rows. */
export const sharedType = (element: string, { length, pitch, inGroups }: SharedArray): string =>
  inGroups
    ? `array<vec4<${element}>, ${length / 4}>`
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

/** A word of two halves. */
function pairText(a: Ex, b: Ex, { ex, call }: Printing): string {
  if (a.type === 'f32' && b.type === 'f32') return call('f16_pair', [a, b])
  const [low, high] = [halfOfWord(a), halfOfWord(b)]
  const [first, second] = [ex(low.word), ex(high.word)]
  if (first === second && !low.upper && high.upper) return first
  return ex(bin('|', bin('&', a, uint(0xffff)), bin('<<', b, uint(16))))
}

/** What prints expressions, and calls of the library. */
interface Printing {
  readonly ex: (e: Ex) => string
  readonly call: (fn: string, args: readonly Ex[]) => string
}

const size = '16, 16'

/** A statement of subgroups on matrices ("Subgroup matrices", proposal of the WebGPU working group). */
export function matrixText(o: MatrixOp, printing: Printing): string {
  const { ex } = printing
  const group = (at: Ex, elements: number): string => ex(quotient(at, elements))
  switch (o.op) {
    case 'zeros':
      return `var ${o.name}: subgroup_matrix_result<f32, ${size}>;`
    case 'load': {
      const order = o.byRows ? 'row_major' : 'col_major'
      return `let ${o.name} = subgroupMatrixLoad<subgroup_matrix_${o.side}<f16, ${size}>, ${order}>(&${o.array.name}, u32(${group(o.at, halvesOfGroup)}), ${o.pitch / halvesOfGroup}u);`
    }
    case 'multiplyAdd':
      return `${o.to} = subgroupMatrixMultiplyAccumulate(${o.a}, ${o.b}, ${o.to});`
    case 'store':
      return `subgroupMatrixStore<row_major>(&${o.array.name}, u32(${group(o.at, resultsOfGroup)}), ${o.name}, ${o.pitch / resultsOfGroup}u);`
    case 'put': {
      const words = o.values.flatMap((a, i) => {
        const b = o.values[i + 1]
        return i % 2 === 0 && b !== undefined ? [pairText(a, b, printing)] : []
      })
      return `${o.array.name}[${group(o.at, halvesOfGroup)}] = vec4<u32>(${words.join(', ')});`
    }
    case 'take':
      return `let ${o.name} = bitcast<vec4<f32>>(${o.array.name}[${group(o.at, resultsOfGroup)}]);`
  }
}
