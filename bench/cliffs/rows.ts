/** Recipes around reductions: over any axes, normalisations written out, running sums. Each gives the results of a program. */
import { apply, integers, pointwise, tame } from './pointwise.ts'
import { elements, rankOf, shapeOf } from './shapes.ts'
import { shown, type Var, type Writer } from './writer.ts'

/** A main input of any shape. */
export function mainInput(w: Writer, rank = rankOf(w.rng), bounds = w.bounds()): Var {
  const { most } = w.options
  return w.input(shapeOf(w.rng, elements(w.rng, most), rank, most), w.float(), bounds)
}

/** Elementwise chains. */
export function elementwise(w: Writer): Var[] {
  if (w.rng.chance(0.2)) {
    const { most } = w.options
    return [integers(w, shapeOf(w.rng, elements(w.rng, most), rankOf(w.rng), most), w.rng.int(1, 6))]
  }
  const x = mainInput(w)
  const y = pointwise(w, x, w.rng.int(1, 10))
  return w.rng.chance(0.25) ? [y, pointwise(w, y, w.rng.int(1, 3))] : [y === x ? apply(w, x) : y]
}

/** Some of the axes of a value, in order; those longer than one first. */
export function someAxes(w: Writer, x: Var): number[] {
  const rank = x.t.shape.length
  const long = x.t.shape.flatMap((d, i) => (d > 1 ? [i] : []))
  const from = long.length > 0 ? long : Array.from({ length: rank }, (_, i) => i)
  if (w.rng.chance(0.15)) return Array.from({ length: rank }, (_, i) => i)
  if (w.rng.chance(0.35)) return [from.at(-1) ?? 0]
  return w.rng
    .shuffle(from)
    .slice(0, w.rng.int(1, Math.max(1, from.length - 1)))
    .sort((a, b) => a - b)
}

const countOf = (x: Var, axes: readonly number[]): number => axes.reduce((n, a) => n * (x.t.shape[a] ?? 1), 1)

/** One reduction; sums that would leave the range of half precision are means. */
function reduce(w: Writer, x: Var, axes: readonly number[], keep: boolean): Var {
  const n = countOf(x, axes)
  const most = Math.max(-x.lo, x.hi)
  const kinds = ['mean', 'max', 'min', 'mean', ...(n * most < 2e4 || x.t.dtype === 'f32' ? ['sum', 'sum'] : [])]
  const kind = w.rng.pick(kinds)
  const bounds: readonly [number, number] = kind === 'sum' ? [n * x.lo, n * x.hi] : [x.lo, x.hi]
  return w.emit(`${x.name}.${kind}(${shown(axes)}${keep ? ', true' : ''})`, ...bounds)
}

/** Reductions with what is before and after them. */
export function reduction(w: Writer): Var[] {
  const { most } = w.options
  if (w.rng.chance(0.12)) {
    const x = integers(w, shapeOf(w.rng, elements(w.rng, most), rankOf(w.rng), most), w.rng.int(0, 2))
    const axes = shown(someAxes(w, x))
    if (x.t.dtype === 'bool') return [w.emit(`s.${w.rng.pick(['any', 'all'])}(${x.name}, ${axes})`, 0, 1)]
    return [w.emit(`${x.name}.${w.rng.pick(['sum', 'max', 'min'])}(${axes})`, 0, 1e9)]
  }
  const x = pointwise(w, mainInput(w), w.rng.int(0, 4))
  if (w.rng.chance(0.1))
    return [w.emit(`${x.name}.${w.rng.pick(['argmax', 'argmin'])}(${someAxes(w, x)[0] ?? 0})`, 0, 1e9)]
  const axes = someAxes(w, x)
  const results = Array.from({ length: w.rng.pick([1, 1, 1, 2]) }, () =>
    reduce(w, x, w.rng.chance(0.7) ? axes : someAxes(w, x), false),
  )
  const ends = results.map((r) => (w.rng.chance(0.5) ? pointwise(w, tame(w, r), w.rng.int(1, 3)) : r))
  return w.rng.chance(0.2) ? [...ends, x] : ends
}

/** A row statistic used on the row again: softmax, normalisations, and others made of the same parts. */
export function normalise(w: Writer): Var[] {
  const start = mainInput(w, w.rng.pick([1, 2, 2, 2, 3, 4]))
  const x = pointwise(w, start, w.rng.int(0, 3))
  const axes = someAxes(w, x)
  const [at, width] = [shown(axes), x.t.shape.length]
  const weight = (): string => {
    const shape = x.t.shape.map((d, i) => (axes.includes(i) ? d : 1))
    return w.input(shape.slice(axes[0] ?? width), x.t.dtype, [0.5, 1.5]).name
  }
  const kind = w.rng.pick([
    'softmax',
    'softmax',
    'logSoftmax',
    'layerNorm',
    'layerNorm',
    'rmsNorm',
    'rmsNorm',
    'centre',
    'scale',
  ] as const)
  const emit = (text: string, lo: number, hi: number): Var => w.emit(text, lo, hi)
  const rows = (): Var => {
    switch (kind) {
      case 'softmax': {
        const m = emit(`${x.name}.max(${at}, true)`, x.lo, x.hi)
        const e = emit(`${x.name}.sub(${m.name}).exp()`, 0, 1)
        const total = emit(`${e.name}.sum(${at}, true)`, 1, countOf(x, axes))
        return emit(`${e.name}.div(${total.name})`, 0, 1)
      }
      case 'logSoftmax': {
        const m = emit(`${x.name}.sub(${x.name}.max(${at}, true))`, x.lo - x.hi, 0)
        return emit(`${m.name}.sub(${m.name}.exp().sum(${at}, true).log())`, x.lo - x.hi - 16, 0)
      }
      case 'layerNorm': {
        const c = emit(`${x.name}.sub(${x.name}.mean(${at}, true))`, x.lo - x.hi, x.hi - x.lo)
        const v = emit(`${c.name}.square().mean(${at}, true)`, 0, (x.hi - x.lo) ** 2)
        const y = emit(`${c.name}.mul(s.rsqrt(${v.name}.add(0.01)))`, -30, 30)
        return w.rng.chance(0.6) ? emit(`${y.name}.mul(${weight()}).add(${weight()})`, -45, 45) : y
      }
      case 'rmsNorm': {
        const y = emit(`${x.name}.mul(s.rsqrt(${x.name}.square().mean(${at}, true).add(0.01)))`, -30, 30)
        return w.rng.chance(0.6) ? emit(`${y.name}.mul(${weight()})`, -45, 45) : y
      }
      case 'centre':
        return emit(`${x.name}.sub(${x.name}.mean(${at}, true))`, x.lo - x.hi, x.hi - x.lo)
      case 'scale':
        return emit(`${x.name}.div(${x.name}.abs().max(${at}, true).add(0.1))`, -1, 1)
    }
  }
  const y = pointwise(w, tame(w, rows()), w.rng.int(0, 3))
  // A residual stream: what is normalised is a result too.
  return x !== start && w.rng.chance(0.25) ? [y, x] : [y]
}

/** Running sums, products and maxima. */
export function scan(w: Writer): Var[] {
  const x = pointwise(w, mainInput(w, w.rng.pick([1, 1, 2, 2, 3])), w.rng.int(0, 2))
  const axis = w.rng.int(0, x.t.shape.length - 1)
  const n = x.t.shape[axis] ?? 1
  const options = w.rng.pick(['', '', ', { reverse: true }', ', { exclusive: true }'])
  const scaled = w.emit(`${x.name}.mul(${(1 / n).toPrecision(3)})`, x.lo / n, x.hi / n)
  const y = w.emit(`${scaled.name}.cumsum(${axis}${options})`, Math.min(0, x.lo), Math.max(0, x.hi))
  return [pointwise(w, y, w.rng.int(0, 3))]
}
