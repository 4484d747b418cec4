/**
 * Nodes with what is known of their values: bounds, how far a float result may be off (in absolute terms, whatever order and
 * precision it was computed in), and whether it is the same in every execution. Random programs are built from these, so that
 * their results stay finite and comparable.
 */
import { makeNode } from '../../src/graph/build.ts'
import type { AttrsByOp, Node, OpName } from '../../src/graph/node.ts'
import { extreme } from '../../src/scalar/ops.ts'
import { type DType, isFloat } from '../../src/types/dtype.ts'

export interface Tracked {
  readonly node: Node
  /** Bounds of every element. */
  readonly lo: number
  readonly hi: number
  /** Bound on the absolute error of every element; 0 for values that every execution gives bit for bit. */
  readonly error: number
}

/** Unit roundoff, with room for approximations of a few ulp. */
export const roundoff: Readonly<Record<DType, number>> = {
  f64: 2 ** -50,
  f32: 2 ** -21,
  f16: 2 ** -9,
  bf16: 2 ** -6,
  i8: 0,
  i16: 0,
  i32: 0,
  i64: 0,
  u8: 0,
  u16: 0,
  u32: 0,
  u64: 0,
  bool: 0,
}

export const magnitude = (t: Tracked): number => Math.max(Math.abs(t.lo), Math.abs(t.hi))
export const isExact = (t: Tracked): boolean => t.error === 0

/** Largest magnitude and largest relative error that results may reach; beyond them a program is not worth comparing. */
const limits: Readonly<Partial<Record<DType, number>>> = { f64: 1e6, f32: 1e4, f16: 500, bf16: 1e4 }
const worstError: Readonly<Partial<Record<DType, number>>> = { f64: 1e-6, f32: 2e-2, f16: 4, bf16: 16 }

const make = (op: OpName, inputs: readonly Node[], attrs: AttrsByOp[OpName]): Node =>
  makeNode<OpName>(op, inputs, attrs) as Node

/** A node whose bounds and error were worked out; undefined when they are beyond use. */
export function tracked(node: Node, lo: number, hi: number, error: number): Tracked | undefined {
  const { dtype } = node
  if (!isFloat(dtype)) {
    if (dtype === 'bool') return { node, lo: 0, hi: 1, error: 0 }
    const least = Number(extreme(dtype, 'least'))
    const greatest = Number(extreme(dtype, 'greatest'))
    const fits = lo >= least && hi <= greatest
    return { node, lo: fits ? lo : least, hi: fits ? hi : greatest, error: 0 }
  }
  const m = Math.max(Math.abs(lo), Math.abs(hi))
  if (!(m <= (limits[dtype] ?? 0)) || !(error <= (worstError[dtype] ?? 0))) return undefined
  return { node, lo, hi, error }
}

/** An operation that rounds its result: `error` is what its operands' errors do to it. */
export function rounding(
  op: OpName,
  inputs: readonly Tracked[],
  attrs: AttrsByOp[OpName],
  lo: number,
  hi: number,
  error: number,
): Tracked | undefined {
  const node = make(
    op,
    inputs.map((t) => t.node),
    attrs,
  )
  const m = Math.max(Math.abs(lo), Math.abs(hi))
  return tracked(node, lo, hi, error + roundoff[node.dtype] * m + (isFloat(node.dtype) ? 1e-30 : 0))
}

/** A view or selection: elements are elements of its operands (and perhaps one literal value). */
export function moving(
  op: OpName,
  inputs: readonly Tracked[],
  attrs: AttrsByOp[OpName],
  values: readonly Tracked[],
  literal?: number,
): Tracked | undefined {
  const node = make(
    op,
    inputs.map((t) => t.node),
    attrs,
  )
  const lo = Math.min(...values.map((t) => t.lo), literal ?? Number.POSITIVE_INFINITY)
  const hi = Math.max(...values.map((t) => t.hi), literal ?? Number.NEGATIVE_INFINITY)
  return tracked(node, lo, hi, Math.max(...values.map((t) => t.error)))
}

const over = (lo: number, hi: number, f: (x: number) => number): readonly [number, number] => [
  Math.min(f(lo), f(hi)),
  Math.max(f(lo), f(hi)),
]

/** For a float function of one operand: where it may be applied, bounds of the result, and the most its slope can be there. */
interface Unary {
  readonly when: (lo: number, hi: number) => boolean
  readonly bounds: (lo: number, hi: number) => readonly [number, number]
  readonly slope: (lo: number, hi: number) => number
}

const anywhere = (): boolean => true
const within =
  (a: number, b: number) =>
  (lo: number, hi: number): boolean =>
    lo >= a && hi <= b
const monotone =
  (f: (x: number) => number) =>
  (lo: number, hi: number): readonly [number, number] =>
    over(lo, hi, f)
const unit = (): readonly [number, number] => [-1, 1]
const one = (): number => 1
const farthest = (lo: number, hi: number): number => Math.max(Math.abs(lo), Math.abs(hi))

/** Float functions that are continuous where they are applied. */
export const smooth: Readonly<Record<string, Unary>> = {
  tanh: { when: anywhere, bounds: unit, slope: one },
  sin: { when: within(-50, 50), bounds: unit, slope: one },
  cos: { when: within(-50, 50), bounds: unit, slope: one },
  tan: { when: within(-1, 1), bounds: monotone(Math.tan), slope: () => 4 },
  exp: { when: within(-50, 5), bounds: monotone(Math.exp), slope: (_, hi) => Math.exp(hi) },
  expm1: { when: within(-50, 5), bounds: monotone(Math.expm1), slope: (_, hi) => Math.exp(hi) },
  log: { when: (lo) => lo >= 0.1, bounds: monotone(Math.log), slope: (lo) => 1 / lo },
  log1p: { when: (lo) => lo >= -0.5, bounds: monotone(Math.log1p), slope: (lo) => 1 / (1 + lo) },
  sqrt: { when: (lo) => lo >= 0.05, bounds: monotone(Math.sqrt), slope: (lo) => 0.5 / Math.sqrt(lo) },
  rsqrt: { when: (lo) => lo >= 0.1, bounds: monotone((x) => 1 / Math.sqrt(x)), slope: (lo) => 0.5 * lo ** -1.5 },
  sigmoid: { when: anywhere, bounds: () => [0, 1], slope: one },
  erf: { when: anywhere, bounds: unit, slope: () => 1.13 },
  atan: { when: anywhere, bounds: monotone(Math.atan), slope: one },
  asinh: { when: anywhere, bounds: monotone(Math.asinh), slope: one },
  sinh: { when: within(-4, 4), bounds: monotone(Math.sinh), slope: (lo, hi) => Math.cosh(farthest(lo, hi)) },
  cosh: {
    when: within(-4, 4),
    bounds: (lo, hi) => [1, Math.cosh(farthest(lo, hi))],
    slope: (lo, hi) => Math.cosh(farthest(lo, hi)),
  },
  asin: { when: within(-0.9, 0.9), bounds: monotone(Math.asin), slope: () => 2.3 },
  acos: { when: within(-0.9, 0.9), bounds: monotone(Math.acos), slope: () => 2.3 },
  atanh: { when: within(-0.9, 0.9), bounds: monotone(Math.atanh), slope: () => 5.3 },
  acosh: { when: (lo) => lo >= 1.2, bounds: monotone(Math.acosh), slope: () => 1.6 },
}

/** A smooth function of x, where it may be applied. */
export function applySmooth(name: keyof typeof smooth & string, x: Tracked): Tracked | undefined {
  const f = smooth[name]
  if (f === undefined || !f.when(x.lo - x.error, x.hi + x.error)) return undefined
  const [lo, hi] = f.bounds(x.lo, x.hi)
  return rounding(name as OpName, [x], {}, lo, hi, x.error * f.slope(x.lo - x.error, x.hi + x.error))
}

/** Arithmetic on two operands of one shape and dtype, with interval bounds. */
export function arithmetic(
  op: 'add' | 'sub' | 'mul' | 'div' | 'max' | 'min',
  a: Tracked,
  b: Tracked,
): Tracked | undefined {
  const error = a.error + b.error
  switch (op) {
    case 'add':
      return rounding(op, [a, b], {}, a.lo + b.lo, a.hi + b.hi, error)
    case 'sub':
      return rounding(op, [a, b], {}, a.lo - b.hi, a.hi - b.lo, error)
    case 'mul': {
      const ends = [a.lo * b.lo, a.lo * b.hi, a.hi * b.lo, a.hi * b.hi]
      const e = a.error * magnitude(b) + b.error * magnitude(a) + a.error * b.error
      return rounding(op, [a, b], {}, Math.min(...ends), Math.max(...ends), e)
    }
    case 'div': {
      const least = (b.lo > 0 ? b.lo : -b.hi) - b.error
      if (!(least >= 0.2)) return undefined
      const m = magnitude(a) / least
      return rounding(op, [a, b], {}, -m, m, a.error / least + (b.error * m) / least)
    }
    case 'max':
    case 'min': {
      const pick = op === 'max' ? Math.max : Math.min
      const node = makeNode(op, [a.node, b.node], {})
      return tracked(node, pick(a.lo, b.lo), pick(a.hi, b.hi), Math.max(a.error, b.error))
    }
  }
}

/** A float result of known bounds whose operands' errors count `slope` times. */
export const composite = (
  node: Node,
  lo: number,
  hi: number,
  x: Tracked,
  slope: number,
  steps: number,
): Tracked | undefined =>
  tracked(node, lo, hi, x.error * slope + roundoff[node.dtype] * steps * Math.max(1, Math.abs(lo), Math.abs(hi)))
