/** Steps of random programs that move elements: views, joins, indexing. */
import { isInteger } from '../../../src/types/dtype.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import type { Scope, Step, Var, Writer } from './writer.ts'

type Made = Var | undefined
const show = (x: unknown): string => JSON.stringify(x)
const someAxis = (w: Writer, x: Var): number => w.rng.int(0, x.value.rank - 1)
const tensor = (w: Writer, scope: Scope, rank = 1): Var | undefined => w.find(scope, (v) => v.value.rank >= rank)

/** The same number of elements in other extents. */
function regrouped(w: Writer, shape: readonly number[]): number[] {
  const factors: number[] = []
  let rest = sizeOf(shape)
  for (const p of [2, 3, 5, 7]) for (; rest > 1 && rest % p === 0; rest /= p) factors.push(p)
  if (rest !== 1) factors.push(rest)
  const groups = Array.from({ length: w.rng.int(1, 4) }, () => 1)
  for (const f of w.rng.shuffle(factors)) {
    const at = w.rng.int(0, groups.length - 1)
    groups[at] = (groups[at] ?? 1) * f
  }
  return groups
}

function view(w: Writer, scope: Scope): Made {
  const x = w.find(scope, () => true)
  if (x === undefined) return undefined
  const { shape, rank } = x.value
  const to = (text: string): Made => w.emit(scope, `${x.name}.${text}`, x.exact)
  const kind = w.rng.int(0, 8)
  if (kind <= 1) return to(`reshape(${show(regrouped(w, shape))})`)
  if (kind === 2) return to(`expandDims(${w.rng.int(0, rank)})`)
  if (rank === 0) return to(`broadcastTo(${show(w.rng.pick([[3], [2, 1], [1]]))})`)
  if (kind <= 4) return to(`transpose(${show(w.rng.shuffle(shape.map((_, i) => i)))})`)
  if (kind === 5) return to(`flip(${someAxis(w, x)})`)
  if (kind === 6) return to(`roll(${w.rng.int(-2, 3)}, ${someAxis(w, x)})`)
  if (kind === 7) return to('flatten()')
  return to(`broadcastTo(${show([w.rng.int(1, 3), ...shape.map((d) => (d === 1 ? w.rng.int(1, 4) : d))])})`)
}

function slicing(w: Writer, scope: Scope): Made {
  const x = tensor(w, scope)
  if (x === undefined) return undefined
  const specs = x.value.shape.slice(0, w.rng.int(1, x.value.rank)).map((n): unknown => {
    const kind = w.rng.int(0, 5)
    if (kind === 0 && n > 0) return w.rng.int(-n, n - 1)
    if (kind === 1) return null
    if (kind === 2) return [null, null, w.rng.pick([-1, 2, -2, 3])]
    const start = w.rng.int(0, Math.max(0, n - 1))
    return w.rng.chance(0.1) ? [start, start] : [start, w.rng.chance(0.5) ? null : w.rng.int(start, n)]
  })
  return w.emit(scope, `${x.name}.slice(${specs.map(show).join(', ')})`, x.exact)
}

function padding(w: Writer, scope: Scope): Made {
  const x = tensor(w, scope)
  if (x === undefined || x.value.size === 0) return undefined
  const mode = w.rng.pick(['constant', 'constant', 'edge', 'reflect', 'wrap'] as const)
  const widths = x.value.shape.map((n) => {
    const most = mode === 'constant' || mode === 'edge' ? 3 : mode === 'reflect' ? n - 1 : n
    const least = mode === 'constant' && n > 2 ? -1 : 0
    return [w.rng.int(least, Math.min(3, most)), w.rng.int(least, Math.min(2, most))]
  })
  return w.emit(scope, `${x.name}.pad(${show(widths)}, '${mode}')`, x.exact)
}

function joining(w: Writer, scope: Scope): Made {
  const x = tensor(w, scope)
  if (x === undefined) return undefined
  const { shape, dtype } = x.value
  const axis = someAxis(w, x)
  if (w.rng.chance(0.3)) {
    const y = w.like(scope, shape, dtype)
    return w.emit(scope, `s.stack([${x.name}, ${y.name}], ${w.rng.int(0, x.value.rank)})`, x.exact && y.exact)
  }
  const parts = [x]
  for (let i = w.rng.int(1, 2); i > 0; i--) {
    const fits = (v: Var): boolean =>
      v.value.rank === shape.length &&
      v.value.dtype === dtype &&
      v.value.shape.every((d, j) => j === axis || d === shape[j])
    const own = shape.map((d, j) => (j === axis ? w.rng.int(0, 4) : d))
    parts.push((w.rng.chance(0.7) ? w.find(scope, fits) : undefined) ?? w.input(own, dtype))
  }
  const all = parts.every((p) => p.exact)
  return w.emit(scope, `s.concat([${w.rng.shuffle(parts.map((p) => p.name)).join(', ')}], ${axis})`, all)
}

function parting(w: Writer, scope: Scope): Made {
  const x = tensor(w, scope)
  if (x === undefined) return undefined
  const axis = someAxis(w, x)
  const n = x.value.shape[axis] ?? 1
  const first = w.rng.int(0, n)
  return w.emitList(scope, `${x.name}.split(${show([first, n - first])}, ${axis})`)
}

function repeating(w: Writer, scope: Scope): Made {
  const x = tensor(w, scope)
  if (x === undefined) return undefined
  return w.rng.chance(0.5)
    ? w.emit(scope, `${x.name}.repeat(${w.rng.int(1, 3)}, ${someAxis(w, x)})`, x.exact)
    : w.emit(scope, `${x.name}.tile(${show(x.value.shape.map(() => w.rng.int(1, 2)))})`, x.exact)
}

function triangle(w: Writer, scope: Scope): Made {
  const x = tensor(w, scope, 2)
  if (x === undefined) return undefined
  const f = w.rng.pick(['tril', 'triu', 'diagonal'])
  const [rows = 1, columns = 1] = x.value.shape.slice(-2)
  const offset = f === 'diagonal' ? w.rng.int(0, columns - 1) : w.rng.int(-rows, columns)
  return columns === 0 ? undefined : w.emit(scope, `s.${f}(${x.name}, ${offset})`, x.exact)
}

const indexed = (w: Writer, scope: Scope): Var | undefined => w.find(scope, (v) => v.value.rank > 0 && v.value.size > 0)

/** Indices of a shape: computed ones of the program, or an input. */
function indices(w: Writer, scope: Scope, shape: readonly number[], extent: number): Var {
  const known = w.rng.chance(0.3)
    ? w.find(scope, (v) => isInteger(v.value.dtype) && v.value.shape.join() === shape.join())
    : undefined
  return known ?? w.indices(shape, extent)
}

function gathering(w: Writer, scope: Scope): Made {
  const x = indexed(w, scope)
  if (x === undefined) return undefined
  const { shape, rank } = x.value
  const axis = someAxis(w, x)
  const extent = shape[axis] ?? 1
  const kind = w.rng.int(0, 3)
  if (kind === 0) {
    const at = indices(
      w,
      scope,
      shape.map((d, i) => (i === axis ? w.rng.int(0, 5) : d)),
      extent,
    )
    return w.emit(scope, `${x.name}.takeAlongAxis(${at.name}, ${axis})`, x.exact)
  }
  if (kind === 1) {
    const k = w.rng.int(1, rank)
    const at = indices(w, scope, [w.rng.int(1, 5), k], extent)
    return w.emit(scope, `s.gatherND(${x.name}, ${at.name})`, x.exact)
  }
  const at = indices(w, scope, w.rng.pick([[], [1], [3], [2, 3], [5], [0]]), extent)
  return kind === 2 && axis === 0 && rank === 2
    ? w.emit(scope, `s.embedding(${x.name}, ${at.name})`, x.exact)
    : w.emit(scope, `${x.name}.take(${at.name}, ${axis})`, x.exact)
}

function scattering(w: Writer, scope: Scope): Made {
  const x = indexed(w, scope)
  if (x === undefined || x.value.dtype === 'bool') return undefined
  const { shape, rank, dtype } = x.value
  const axis = someAxis(w, x)
  const combiner = w.rng.pick(['set', 'sum', 'sum', 'max', 'min', 'prod'] as const)
  const moves = combiner !== 'sum' && combiner !== 'prod'
  if (w.rng.chance(0.5)) {
    const some = shape.map((d, i) => (i === axis ? w.rng.int(0, 4) : d))
    const [at, updates] = [indices(w, scope, some, shape[axis] ?? 1), w.like(scope, some, dtype)]
    return w.emit(
      scope,
      `s.scatterAlongAxis(${x.name}, ${at.name}, ${updates.name}, ${axis}, '${combiner}')`,
      moves && x.exact && updates.exact,
    )
  }
  const [k, n] = [w.rng.int(1, rank), w.rng.int(1, 5)]
  const at = indices(w, scope, [n, k], Math.max(...shape))
  const updates = w.like(scope, [n, ...shape.slice(k)], dtype)
  return w.emit(
    scope,
    `s.scatterND(${x.name}, ${at.name}, ${updates.name}, '${combiner}')`,
    moves && x.exact && updates.exact,
  )
}

function oneHot(w: Writer, scope: Scope): Made {
  const x = w.find(scope, (v) => isInteger(v.value.dtype) && v.value.rank < 3)
  if (x === undefined) return undefined
  return w.emit(scope, `s.oneHot(${x.name}, ${w.rng.int(1, 7)}, { dtype: '${w.rng.pick(w.options.floats)}' })`, true)
}

function making(w: Writer, scope: Scope): Made {
  const x = w.find(scope, () => true)
  const kind = w.rng.int(0, 3)
  if (kind === 0) return w.emit(scope, `s.arange(${w.rng.int(0, 9)}).astype('${w.rng.pick(w.options.floats)}')`, true)
  if (kind === 1) return w.emit(scope, `s.eye(${w.rng.int(1, 5)}, ${w.rng.int(1, 5)}, ${w.rng.int(-1, 1)})`, true)
  if (kind === 2) return w.emit(scope, `s.tensor([[1, -2, 0.5], [3, 0, -1]])`, true)
  return x === undefined ? undefined : w.emit(scope, `s.${w.rng.pick(['zerosLike', 'onesLike'])}(${x.name})`, true)
}

export const structureSteps: readonly Step[] = [
  [5, 'view', view],
  [3, 'slicing', slicing],
  [2, 'padding', padding],
  [3, 'joining', joining],
  [1, 'parting', parting],
  [1, 'repeating', repeating],
  [1, 'triangle', triangle],
  [3, 'gathering', gathering],
  [3, 'scattering', scattering],
  [1, 'oneHot', oneHot],
  [1, 'making', making],
]
