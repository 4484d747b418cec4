/** Recipes that move elements: gathers and scatters by random indices, joins, paddings, slices, transposes. */
import type { DType } from '../../src/types/dtype.ts'
import { apply, pointwise } from './pointwise.ts'
import { mainInput } from './rows.ts'
import { elements, extentNear, logUniform, shapeOf } from './shapes.ts'
import { shown, type Var, type Writer } from './writer.ts'

const sizeOf = (v: Var): number => v.t.shape.reduce((n, d) => n * d, 1)

/** Reading at indices. */
export function gather(w: Writer): Var[] {
  const { most } = w.options
  const total = elements(w.rng, most)
  const index: DType = w.rng.pick(['i32', 'i32', 'i64'] as const)
  if (w.rng.chance(0.3)) {
    const [rows = 1, columns = 1] = shapeOf(w.rng, total, 2, most)
    const x = w.input([rows, columns])
    const axis = w.rng.int(0, 1)
    const n = extentNear(w.rng, logUniform(w.rng, 1, Math.max(1, most / (axis === 0 ? columns : rows) / 2)))
    const at = w.parameter(axis === 0 ? [n, columns] : [rows, n], index, 0, (axis === 0 ? rows : columns) - 1)
    return [pointwise(w, w.emit(`${x.name}.takeAlongAxis(${at.name}, ${axis})`, x.lo, x.hi), w.rng.int(0, 2))]
  }
  // A table of rows, as embeddings are.
  const width = w.rng.pick([1, 7, 64, 128, 513])
  const rows = Math.max(2, extentNear(w.rng, Math.min(total, most / 2) / width))
  const table = w.input([rows, width])
  const n = extentNear(w.rng, logUniform(w.rng, 1, Math.max(1, most / width / 2)))
  const at = w.parameter([n], index, 0, rows - 1)
  const x = w.rng.chance(0.25) ? apply(w, table) : table
  const y = w.emit(`${x.name}.take(${at.name}, 0)`, x.lo, x.hi)
  if (w.rng.chance(0.3)) return [w.emit(`${y.name}.mean(0)`, y.lo, y.hi)]
  return [pointwise(w, y, w.rng.int(0, 3))]
}

/** Writing at indices. */
export function scatter(w: Writer): Var[] {
  const { most } = w.options
  const total = elements(w.rng, Math.min(most, 1 << 22))
  const width = w.rng.pick([1, 16, 100])
  const rows = Math.max(2, extentNear(w.rng, total / width))
  const n = extentNear(w.rng, logUniform(w.rng, 1, Math.max(1, Math.min(most, 1 << 21) / width / 2)))
  const dtype = w.rng.chance(0.8) ? 'f32' : w.float()
  const x = w.input([rows, width], dtype, [-0.5, 1])
  const updates = pointwise(w, w.input([n, width], dtype, [-0.5, 1]), w.rng.int(0, 2), false)
  const at = w.parameter([n, 1], 'i32', 0, rows - 1)
  const y = w.emit(
    `s.scatterND(${x.name}, ${at.name}, ${updates.name}.astype('${dtype}'), '${w.rng.pick(['sum', 'sum', 'max'])}')`,
    -5,
    30,
  )
  return [w.rng.chance(0.4) ? apply(w, y) : y]
}

/** One view of a value. */
function moved(w: Writer, x: Var): Var {
  const { shape } = x.t
  const { lo, hi } = x
  const axis = w.rng.int(0, shape.length - 1)
  const n = shape[axis] ?? 1
  const kind = w.rng.pick([
    'transpose',
    'transpose',
    'reshape',
    'slice',
    'strided',
    'flip',
    'roll',
    'pad',
    'concat',
    'tile',
    'halves',
  ] as const)
  const specs = (own: unknown): string =>
    shape
      .slice(0, axis + 1)
      .map((_, i) => shown(i === axis ? own : null))
      .join(', ')
  switch (kind) {
    case 'transpose':
      return w.emit(`${x.name}.transpose(${shown(w.rng.shuffle(shape.map((_, i) => i)))})`, lo, hi)
    case 'reshape':
      return w.emit(
        `${x.name}.reshape(${shown([...shape.slice(0, -2), shape.slice(-2).reduce((a, b) => a * b, 1)])})`,
        lo,
        hi,
      )
    case 'slice':
      return n < 3 ? x : w.emit(`${x.name}.slice(${specs([1, n - 1])})`, lo, hi)
    case 'strided':
      return n < 4 ? x : w.emit(`${x.name}.slice(${specs([null, null, w.rng.pick([2, 3])])})`, lo, hi)
    case 'flip':
      return w.emit(`${x.name}.flip(${axis})`, lo, hi)
    case 'roll':
      return w.emit(`${x.name}.roll(${w.rng.int(1, Math.max(1, n - 1))}, ${axis})`, lo, hi)
    case 'pad': {
      const widths = shape.map((_, i) => (i === axis ? [w.rng.int(0, 3), w.rng.int(1, 5)] : [0, 0]))
      return w.emit(`${x.name}.pad(${shown(widths)})`, Math.min(0, lo), Math.max(0, hi))
    }
    case 'concat': {
      if (2 * sizeOf(x) > w.options.most) return x
      const y = w.input(shape.toSpliced(axis, 1, Math.max(1, Math.ceil(n / w.rng.pick([1, 2, 7])))), x.t.dtype)
      return w.emit(`s.concat([${x.name}, ${y.name}], ${axis})`, Math.min(lo, y.lo), Math.max(hi, y.hi))
    }
    case 'tile':
      if (2 * sizeOf(x) > w.options.most) return x
      return w.emit(`${x.name}.tile(${shown(shape.map((_, i) => (i === axis ? 2 : 1)))})`, lo, hi)
    case 'halves': {
      // Rotary embedding: halves change places.
      if (n < 2 || n % 2 !== 0) return x
      const [a, b] = [specs([null, n / 2]), specs([n / 2, null])]
      return w.emit(`s.concat([${x.name}.slice(${b}).neg(), ${x.name}.slice(${a})], ${axis})`, -hi, Math.max(hi, -lo))
    }
  }
}

/** Views and joins among a few elementwise steps. */
export function layout(w: Writer): Var[] {
  const x = mainInput(w)
  let y = x
  for (let i = w.rng.int(1, 4); i > 0; i--) y = w.rng.chance(0.7) ? moved(w, y) : pointwise(w, y, w.rng.int(1, 2))
  return [y.t.shape.join() === x.t.shape.join() || w.rng.chance(0.5) ? apply(w, y) : y === x ? apply(w, x) : y]
}
