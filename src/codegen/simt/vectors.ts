/** Vectors of four floats: reads and writes of tiles in shared memory, and multiply-adds on running sums. */
import type { Ex, SharedArray } from './ir.ts'

export type VectorOp =
  /** An immutable vector, the one at `at` of a row of a tile (`at` counts vectors). */
  | { readonly op: 'read'; readonly name: string; readonly array: SharedArray; readonly row: Ex; readonly at: Ex }
  | {
      readonly op: 'write'
      readonly array: SharedArray
      readonly row: Ex
      readonly at: Ex
      readonly values: readonly Ex[]
    }
  /** Writes one element (`at` counts elements). */
  | { readonly op: 'put'; readonly array: SharedArray; readonly row: Ex; readonly at: Ex; readonly value: Ex }
  | { readonly op: 'var'; readonly name: string; readonly values: readonly Ex[] }
  /** Adds the product of a number and a vector. */
  | { readonly op: 'multiplyAdd'; readonly to: string; readonly a: Ex; readonly b: string }

export function operandsOfVector(o: VectorOp): readonly Ex[] {
  switch (o.op) {
    case 'read':
      return [o.row, o.at]
    case 'write':
      return [o.row, o.at, ...o.values]
    case 'put':
      return [o.row, o.at, o.value]
    case 'var':
      return o.values
    case 'multiplyAdd':
      return [o.a]
  }
}

/** The operation with other operands. */
export function mapVector(o: VectorOp, go: (e: Ex) => Ex): VectorOp {
  switch (o.op) {
    case 'read':
      return { ...o, row: go(o.row), at: go(o.at) }
    case 'write':
      return { ...o, row: go(o.row), at: go(o.at), values: o.values.map(go) }
    case 'put':
      return { ...o, row: go(o.row), at: go(o.at), value: go(o.value) }
    case 'var':
      return { ...o, values: o.values.map(go) }
    case 'multiplyAdd':
      return { ...o, a: go(o.a) }
  }
}
