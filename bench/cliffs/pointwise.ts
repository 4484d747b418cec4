/** Steps that compute element by element: functions, arithmetic with other inputs and with broadcasts, choices, conversions. */
import { type DType, isFloat } from '../../src/types/dtype.ts'
import type { Var, Writer } from './writer.ts'

/** Functions of one float: text, least and greatest operand, and bounds of the result. */
const functions: readonly (readonly [
  text: string,
  lo: number,
  hi: number,
  bounds: (lo: number, hi: number) => readonly [number, number],
])[] = [
  ['s.tanh(_)', -1e4, 1e4, () => [-1, 1]],
  ['s.sigmoid(_)', -1e4, 1e4, () => [0, 1]],
  ['s.erf(_)', -1e4, 1e4, () => [-1, 1]],
  ['s.exp(_)', -30, 3, (lo, hi) => [Math.exp(lo), Math.exp(hi)]],
  ['s.log(_)', 0.05, 1e4, (lo, hi) => [Math.log(lo), Math.log(hi)]],
  ['s.log1p(_)', -0.5, 1e4, (lo, hi) => [Math.log1p(lo), Math.log1p(hi)]],
  ['s.sin(_)', -30, 30, () => [-1, 1]],
  ['s.cos(_)', -30, 30, () => [-1, 1]],
  ['s.sqrt(_)', 0.05, 1e4, (lo, hi) => [Math.sqrt(lo), Math.sqrt(hi)]],
  ['s.rsqrt(_)', 0.05, 1e4, (lo, hi) => [1 / Math.sqrt(hi), 1 / Math.sqrt(lo)]],
  ['s.reciprocal(_)', 0.1, 1e4, (lo, hi) => [1 / hi, 1 / lo]],
  ['s.square(_)', -30, 30, (lo, hi) => [lo > 0 ? lo * lo : 0, Math.max(lo * lo, hi * hi)]],
  ['s.abs(_)', -1e4, 1e4, (lo, hi) => [lo > 0 ? lo : 0, Math.max(-lo, hi)]],
  ['s.neg(_)', -1e4, 1e4, (lo, hi) => [-hi, -lo]],
  ['s.relu(_)', -1e4, 1e4, (lo, hi) => [Math.max(0, lo), Math.max(0, hi)]],
  ['s.gelu(_)', -1e4, 1e4, (_, hi) => [-0.2, Math.max(0, hi)]],
  ['s.silu(_)', -1e4, 1e4, (_, hi) => [-0.3, Math.max(0, hi)]],
  ['s.clip(_, -0.7, 0.9)', -1e4, 1e4, () => [-0.7, 0.9]],
  ['_.mul(0.75).add(0.1)', -1e4, 1e4, (lo, hi) => [0.75 * lo + 0.1, 0.75 * hi + 0.1]],
  ['_.sub(0.3)', -1e4, 1e4, (lo, hi) => [lo - 0.3, hi - 0.3]],
  ['_.mul(1.25)', -1e3, 1e3, (lo, hi) => [1.25 * lo, 1.25 * hi]],
]

/** A function of a float. */
export function apply(w: Writer, x: Var): Var {
  const [text, , , bounds] = w.rng.pick(functions.filter(([, lo, hi]) => x.lo >= lo && x.hi <= hi))
  return w.emit(text.replace('_', x.name), ...bounds(x.lo, x.hi))
}

/** An operand for a value: another input of its shape, or one that is repeated along some of its axes. */
function operand(w: Writer, x: Var): Var {
  const { shape } = x.t
  const repeated = w.rng.chance(0.45)
  const own = repeated ? shape.slice(w.rng.int(0, shape.length)).map((d) => (w.rng.chance(0.3) ? 1 : d)) : shape
  return w.input(own, x.t.dtype)
}

const cornersOf = (f: (a: number, b: number) => number, x: Var, y: Var): readonly [number, number] => {
  const all = [f(x.lo, y.lo), f(x.lo, y.hi), f(x.hi, y.lo), f(x.hi, y.hi)]
  return [Math.min(...all), Math.max(...all)]
}

/** Arithmetic of two floats. */
export function combine(w: Writer, x: Var, y: Var): Var {
  const kinds = y.lo > 0.05 ? ['add', 'sub', 'mul', 'maximum', 'div'] : ['add', 'sub', 'mul', 'mul', 'minimum']
  const kind = w.rng.pick(kinds)
  const text = `${x.name}.${kind}(${y.name})`
  const functions: Readonly<Record<string, (a: number, b: number) => number>> = {
    add: (a, b) => a + b,
    sub: (a, b) => a - b,
    mul: (a, b) => a * b,
    div: (a, b) => a / b,
    maximum: Math.max,
    minimum: Math.min,
  }
  return w.emit(text, ...cornersOf(functions[kind] ?? Math.max, x, y))
}

/** Keeps magnitudes within what half precision and further functions bear. */
export const tame = (w: Writer, x: Var): Var =>
  Math.max(-x.lo, x.hi) > 40 ? w.emit(`s.tanh(${x.name}.mul(${(1 / Math.max(-x.lo, x.hi)).toPrecision(3)}))`, -1, 1) : x

/** So many random steps on a float value; earlier values may be used again. */
export function pointwise(w: Writer, start: Var, steps: number, mayAdd = true): Var {
  const seen: Var[] = [start]
  let x = start
  for (let i = 0; i < steps; i++) {
    const kind = w.rng.unit()
    const earlier = seen.filter((v) => v !== x && v.t.dtype === x.t.dtype && v.t.shape.join() === x.t.shape.join())
    if (kind < 0.5) x = apply(w, x)
    else if (kind < 0.65 && earlier.length > 0) x = combine(w, x, w.rng.pick(earlier))
    else if (kind < 0.9 && mayAdd) x = combine(w, x, operand(w, x))
    else if (kind < 0.95) {
      const other = earlier.length > 0 ? w.rng.pick(earlier) : x
      const test = w.rng.pick([`${start.name}.greater(0.2)`, `${x.name}.less(0.25)`])
      if (start.t.shape.join() !== x.t.shape.join()) continue
      x = w.emit(
        `s.where(${test}, ${x.name}, ${other.name}.mul(0.5))`,
        Math.min(x.lo, other.lo),
        Math.max(x.hi, other.hi),
      )
    } else if (w.options.floats.length > 1) {
      const to = w.float()
      x = w.emit(`${x.name}.astype('${to}')`, x.lo, x.hi)
    } else x = apply(w, x)
    x = tame(w, x)
    seen.push(x)
  }
  return x
}

/** Steps on integers and bools. */
export function integers(w: Writer, shape: readonly number[], steps: number): Var {
  const dtype: DType = w.rng.pick(['i32', 'i32', 'u8', 'i8', 'u32', 'i16'] as const)
  let x = w.input(shape, dtype, [0, 100])
  for (let i = 0; i < steps; i++) {
    const y = w.rng.chance(0.5) ? undefined : w.input(shape, dtype, [1, 100])
    const other = y?.name ?? String(w.rng.int(1, 7))
    const kind = w.rng.pick(['add', 'mul', 'maximum', 'bitwiseAnd', 'bitwiseXor', 'where'] as const)
    const text =
      kind === 'where'
        ? `s.where(s.greater(${x.name}, ${other}), ${x.name}, ${other})`
        : `s.${kind}(${x.name}, ${other})`
    x = w.emit(text, 0, 100)
  }
  const end = w.rng.unit()
  if (end < 0.25) return w.emit(`${x.name}.greater(${w.rng.int(2, 60)})`, 0, 1)
  return end < 0.5 ? w.emit(`${x.name}.astype('f32').mul(0.01)`, -2e7, 2e7) : x
}

export const isFloatVar = (v: Var): boolean => isFloat(v.t.dtype)
