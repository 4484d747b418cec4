/** Reductions and scans of the reference backend. */
import type { NodeOf } from '../graph/node.ts'
import { roundFloat } from '../scalar/cast.ts'
import { floatBinary } from '../scalar/float.ts'
import { integerBinary, wideBinary } from '../scalar/integer.ts'
import { combinerIdentity, combinerOp, isArgCombiner } from '../scalar/ops.ts'
import { foldBlocks, strictChunk, Totals } from '../scalar/summation.ts'
import { computeDType, type DType, isFloat } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { allocate, isNarrow, type RefTensor, type Rounding, rounded, roundInPlace, type Wide } from './tensor.ts'
import { permute } from './view.ts'

type PlainCombiner = keyof typeof combinerOp

/** How two partial results combine: `strict` rounds to the accumulator's dtype at every step. */
export function combineNarrow(c: PlainCombiner, dtype: DType, rounding: Rounding): (a: number, b: number) => number {
  const op = combinerOp[c]
  if (!isFloat(dtype)) return integerBinary(op, dtype === 'bool' ? 'u8' : dtype)
  const f = floatBinary[op]
  const accumulator = computeDType(dtype)
  return rounding === 'strict' && accumulator === 'f32' ? (a, b) => Math.fround(f(a, b)) : f
}

export const combineWide = (c: PlainCombiner, dtype: DType): ((a: bigint, b: bigint) => bigint) =>
  wideBinary(combinerOp[c], dtype)

/** x with the reduced axes moved behind the kept ones, both in order: [outer, inner] in row-major order. */
function regroup(x: RefTensor, axes: readonly number[]): { x: RefTensor; outer: number; inner: number } {
  const kept = x.shape.map((_, i) => i).filter((i) => !axes.includes(i))
  const reduced = [...axes].sort((p, q) => p - q)
  const extent = (list: readonly number[]): number => sizeOf(list.map((i) => x.shape[i] ?? 1))
  return { x: permute(x, [...kept, ...reduced]), outer: extent(kept), inner: extent(reduced) }
}

export function reduce(input: RefTensor, node: NodeOf<'reduce'>, rounding: Rounding): RefTensor {
  const { combiner, axes, last = false } = node.attrs
  const { dtype, shape } = node
  const out = allocate(dtype, sizeOf(shape))
  if (isArgCombiner(combiner)) {
    const { x, outer, inner } = regroup(rounding === 'f64' ? rounded(input) : input, axes)
    const sign = combiner === 'argmax' ? 1 : -1
    for (let o = 0; o < outer; o++) {
      const at = isNarrow(x.data)
        ? argNumber(x.data, o * inner, inner, sign, last)
        : argWide(x.data, o * inner, inner, sign, last)
      if (isNarrow(out)) out[o] = at
      else out[o] = BigInt(at)
    }
    return { dtype, shape, data: out }
  }
  const { x, outer, inner } = regroup(input, axes)
  const identity = combinerIdentity(combiner, dtype)
  if (isNarrow(x.data) && isNarrow(out)) {
    const f = combineNarrow(combiner, dtype, rounding)
    const step = chunkOf(combiner, inner, rounding)
    const start = Number(identity)
    for (let o = 0; o < outer; o++) out[o] = foldChunks(x.data, o * inner, inner, step, start, f)
    if (rounding !== 'f64') roundInPlace(out, dtype)
  } else if (!isNarrow(x.data) && !isNarrow(out)) {
    const f = combineWide(combiner, dtype)
    for (let o = 0; o < outer; o++) out[o] = foldWide(x.data, o * inner, inner, BigInt(identity), f)
  }
  return { dtype, shape, data: out }
}

/** Terms of a chunk (docs/numerics.md, "Modes"). */
const chunkOf = (combiner: PlainCombiner, n: number, rounding: Rounding): number =>
  rounding === 'strict' && (combiner === 'sum' || combiner === 'prod') ? strictChunk : Math.max(n, 1)

function foldChunks(
  data: Float64Array,
  at: number,
  n: number,
  step: number,
  identity: number,
  f: (a: number, b: number) => number,
): number {
  const totals = new Totals(f)
  let partial = identity
  for (let from = 0; from < n; from += step) {
    if (from > 0) totals.push(partial)
    partial = identity
    const to = at + Math.min(n, from + step)
    for (let i = at + from; i < to; i++) partial = f(partial, data[i] ?? 0)
  }
  return totals.with(partial)
}

function foldWide(data: Wide, at: number, n: number, identity: bigint, f: (a: bigint, b: bigint) => bigint): bigint {
  let total = identity
  for (let i = 0; i < n; i++) total = f(total, data[at + i] ?? 0n)
  return total
}

/** Position of the greatest (sign 1) or least (-1) of n numbers; NaN is beyond all. */
function argNumber(data: Float64Array, at: number, n: number, sign: number, last: boolean): number {
  let best = data[at] ?? 0
  let where = 0
  for (let i = 1; i < n; i++) {
    const v = data[at + i] ?? 0
    const ties = v === best || (Number.isNaN(v) && Number.isNaN(best))
    const beyond = !Number.isNaN(best) && (Number.isNaN(v) || (sign > 0 ? v > best : v < best))
    if (beyond || (ties && last)) {
      best = v
      where = i
    }
  }
  return where
}

function argWide(data: Wide, at: number, n: number, sign: number, last: boolean): number {
  let best = data[at] ?? 0n
  let where = 0
  for (let i = 1; i < n; i++) {
    const v = data[at + i] ?? 0n
    if ((sign > 0 ? v > best : v < best) || (last && v === best)) {
      best = v
      where = i
    }
  }
  return where
}

export function scan(x: RefTensor, node: NodeOf<'scan'>, rounding: Rounding): RefTensor {
  const { combiner, axis, reverse } = node.attrs
  const { dtype, shape } = node
  const n = shape[axis] ?? 0
  const inner = sizeOf(shape.slice(axis + 1))
  const outer = sizeOf(shape.slice(0, axis))
  const out = allocate(dtype, sizeOf(shape))
  const length = node.attrs.chunk ?? Math.max(n, 1)
  for (let o = 0; o < outer; o++)
    for (let i = 0; i < inner; i++)
      for (let from = 0; from < n; from += length) {
        const count = Math.min(length, n - from)
        const first = (o * n + (reverse ? from + count - 1 : from)) * inner + i
        const line: Line = { at: first, step: reverse ? -inner : inner, n: count }
        if (isNarrow(x.data) && isNarrow(out))
          scanLine(x.data, out, line, node, combineNarrow(combiner, dtype, rounding), rounding)
        else if (!isNarrow(x.data) && !isNarrow(out)) scanWide(x.data, out, line, node, combineWide(combiner, dtype))
      }
  if (rounding !== 'f64') roundInPlace(out, dtype)
  return { dtype, shape, data: out }
}

/** Elements that a scan runs over, in its order. */
interface Line {
  readonly at: number
  readonly step: number
  readonly n: number
}

/** Every element of a line becomes the fold of a block of totals that ends with it. */
function treeLine<T>(
  data: ArrayLike<T>,
  out: { [at: number]: T },
  { at, step, n }: Line,
  zero: T,
  f: (a: T, b: T) => T,
): void {
  const values = Array.from({ length: n }, (_, k) => data[at + k * step] ?? zero)
  foldBlocks(values, f).forEach((v, k) => {
    out[at + k * step] = v
  })
}

function scanLine(
  data: Float64Array,
  out: Float64Array,
  line: Line,
  { attrs: { combiner, exclusive, tree }, dtype }: NodeOf<'scan'>,
  f: (a: number, b: number) => number,
  rounding: Rounding,
): void {
  if (tree === true) {
    treeLine(data, out, line, 0, f)
    return
  }
  const identity = Number(combinerIdentity(combiner, dtype))
  const chunk = chunkOf(combiner, line.n, rounding)
  const totals = new Totals(f)
  let [before, carry] = [identity, identity]
  for (let k = 0, { at } = line; k < line.n; k++, at += line.step) {
    if (k > 0 && k % chunk === 0) {
      totals.push(carry)
      carry = identity
      before = totals.with(carry)
    }
    const next = f(carry, data[at] ?? 0)
    out[at] = f(before, exclusive ? carry : next)
    carry = next
  }
}

function scanWide(
  data: Wide,
  out: Wide,
  line: Line,
  { attrs: { combiner, exclusive, tree }, dtype }: NodeOf<'scan'>,
  f: (a: bigint, b: bigint) => bigint,
): void {
  if (tree === true) {
    treeLine<bigint>(data, out, line, 0n, f)
    return
  }
  let carry = BigInt(combinerIdentity(combiner, dtype))
  for (let k = 0, { at } = line; k < line.n; k++, at += line.step) {
    const next = f(carry, data[at] ?? 0n)
    out[at] = exclusive ? carry : next
    carry = next
  }
}

/** Rounds one number as a result of the dtype does, where the mode rounds results. */
export const roundedResult = (dtype: DType, x: number, rounding: Rounding): number =>
  rounding !== 'f64' && isFloat(dtype) ? roundFloat(dtype, x) : x
