/** Scans of every kind: their graphs, numbers that show what goes wrong, and how results compare with the reference. */

import * as c from '../../src/compose/index.ts'
import { makeNode, param, withContext } from '../../src/graph/build.ts'
import type { Graph } from '../../src/graph/node.ts'
import type { NumericsMode } from '../../src/kernel/ir.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement, writeElement } from '../../src/scalar/host.ts'
import { type DType, isFloat, isWide } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { difference } from '../random/execute.ts'

export interface Case {
  readonly shape: readonly number[]
  readonly axis: number
  readonly combiner: 'sum' | 'prod' | 'max' | 'min'
  readonly dtype: DType
  readonly reverse?: boolean
  readonly exclusive?: boolean
  /** Computed on the way in, and of the result. */
  readonly fused?: boolean
}

export const nameOf = (k: Case): string =>
  `${k.combiner} of ${k.dtype}[${k.shape}] along ${k.axis}${k.reverse === true ? ' reverse' : ''}${k.exclusive === true ? ' exclusive' : ''}`

export const graphOf = ({
  shape,
  axis,
  combiner,
  dtype,
  reverse = false,
  exclusive = false,
  fused = false,
}: Case): Graph =>
  withContext(() => {
    const x = param(0, shape, dtype)
    const scanned = makeNode('scan', [fused ? c.neg(x) : x], { combiner, axis, reverse, exclusive })
    return { params: [x], outputs: [fused ? c.max(scanned, x) : scanned], effects: [] }
  })

/** Numbers whose sums need every bit, products near one, and now and then what is no number. */
export function valuesOf({ shape, combiner, dtype }: Case): HostArray {
  let state = 2025
  const next = (): number => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
  const out = hostArray(dtype, sizeOf(shape))
  for (let i = 0; i < out.length; i++) {
    const r = next()
    const v = !isFloat(dtype)
      ? Math.floor(r * 200)
      : combiner === 'prod'
        ? 1 + (r - 0.5) / 64
        : combiner === 'sum'
          ? r - (dtype === 'f16' ? 0.5 : 0.3)
          : i % 997 === 996
            ? Number.NaN
            : i % 501 === 500
              ? Number.NEGATIVE_INFINITY
              : 100 * r
    writeElement(out, dtype, i, isWide(dtype) ? BigInt(v) : v)
  }
  return out
}

/** What is wrong with a result: a bit in strict mode, or where no rounding shows; else an error above the bound. */
export function faultOf(k: Case, mode: NumericsMode, x: HostArray, got: HostArray): string | undefined {
  const graph = graphOf(k)
  // The reference adds in double precision, in order, which is too little for doubles: theirs are summed in chunks, as in strict mode.
  const rounding = mode === 'strict' || k.dtype === 'f64' ? 'strict' : 'dtype'
  const [expected] = evaluateGraph(graph, [x], { rounding }).map(toHostArray)
  if (expected === undefined) return 'no result'
  const n = k.shape[k.axis] ?? 1
  const exact = mode === 'strict' || !isFloat(k.dtype) || k.combiner === 'max' || k.combiner === 'min'
  let most = 0
  if (!exact)
    for (let i = 0; i < expected.length; i++) most = Math.max(most, Math.abs(Number(readElement(expected, k.dtype, i))))
  // What the terms' magnitudes sum to is less than their number. Chunks of 1024 terms round as often, all one way at worst.
  const unit = k.dtype === 'f64' ? 2 ** -50 : 2 ** -24
  const sum = k.combiner === 'sum' ? 4 * Math.log2(n) * unit * 0.5 * n : n * unit * most
  const stored = k.dtype === 'f16' ? 2 ** -10 * most : k.dtype === 'bf16' ? 2 ** -7 * most : 0
  const why = difference(got, expected, k.dtype, exact ? undefined : sum + stored)
  return why === undefined ? undefined : `${nameOf(k)}, ${mode}: ${why}`
}
