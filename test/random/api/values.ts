/** Steps of random programs that compute: elementwise functions, reductions, rows, products, random tensors. */
import { isFloat, isInteger } from '../../../src/types/dtype.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import type { Scope, Step, Var, Writer } from './writer.ts'

type Made = Var | undefined
const any = (): boolean => true

/** Functions of one float, and the bounds they are applied within. */
const smooth: readonly (readonly [text: string, lo: number, hi: number])[] = [
  ...['tanh', 'sigmoid', 'erf', 'atan', 'asinh', 'softplus', 'silu', 'gelu', 'mish', 'softsign', 'elu', 'selu'].map(
    (f) => [`s.${f}(_)`, -1e4, 1e4] as const,
  ),
  ...['relu', 'leakyRelu', 'hardSigmoid', 'hardSwish', 'abs', 'neg'].map((f) => [`s.${f}(_)`, -1e4, 1e4] as const),
  ['s.sin(_)', -50, 50],
  ['s.cos(_)', -50, 50],
  ['s.exp(_)', -50, 4],
  ['s.exp2(_)', -50, 6],
  ['s.expm1(_)', -50, 4],
  ['s.log(_)', 0.1, 1e4],
  ['s.log2(_)', 0.1, 1e4],
  ['s.log1p(_)', -0.5, 1e4],
  ['s.sqrt(_)', 0.05, 1e4],
  ['s.rsqrt(_)', 0.1, 1e4],
  ['s.square(_)', -30, 30],
  ['s.reciprocal(_)', 0.2, 1e4],
  ['s.tan(_)', -1, 1],
  ['s.asin(_)', -0.9, 0.9],
  ['s.acosh(_)', 1.2, 1e4],
  ['s.gelu(_, "tanh")', -1e4, 1e4],
  ['s.clip(_, -0.7, 1.1)', -1e4, 1e4],
  ['s.pow(_, 3)', -9, 9],
  ['s.pow(_, 0.5)', 0.05, 1e4],
]

function function1(w: Writer, scope: Scope): Made {
  const x = w.float(scope)
  if (x === undefined) return undefined
  const fits = smooth.filter(([, lo, hi]) => x.value.size === 0 || (x.lo >= lo && x.hi <= hi))
  const [text] = fits.length === 0 ? [] : w.rng.pick(fits)
  const exact = text !== undefined && /abs|neg|relu/.test(text) && !text.includes('leaky')
  return text === undefined ? undefined : w.emit(scope, text.replace('_', x.name), exact && x.exact)
}

/** Whether shapes broadcast. */
const meet = (a: readonly number[], b: readonly number[]): boolean =>
  a.toReversed().every((d, i) => {
    const e = b.at(-1 - i)
    return e === undefined || d === e || d === 1 || e === 1
  })

/** Whether shapes broadcast to one that is not too large. */
function near(w: Writer, a: readonly number[], b: readonly number[]): boolean {
  const [long, short] = a.length >= b.length ? [a, b] : [b, a]
  const shape = long.map((d, i) => Math.max(d, short[i - long.length + short.length] ?? 1))
  return meet(a, b) && shape.reduce((n, d) => n * d, 1) <= 2 * w.options.maxElements
}

function partner(w: Writer, scope: Scope, x: Var, accept: (v: Var) => boolean): Var {
  const { value } = x
  const found = w.rng.chance(0.8) ? w.find(scope, (v) => accept(v) && near(w, v.value.shape, value.shape)) : undefined
  if (found !== undefined) return found
  const shape = value.shape.slice(w.rng.int(0, value.rank)).map((d) => (w.rng.chance(0.2) ? 1 : d))
  const own = w.like(scope, w.rng.chance(0.5) ? value.shape : shape, value.dtype, accept)
  return accept(own) ? own : x
}

function arithmetic(w: Writer, scope: Scope): Made {
  const x = w.float(scope)
  if (x === undefined) return undefined
  const f = w.rng.pick(['add', 'add', 'sub', 'mul', 'mul', 'maximum', 'minimum', 'div', 'logaddexp', 'atan2'] as const)
  if (w.rng.chance(0.25)) {
    const c = w.rng.pick([0.5, 2, -1, 1, 0, 0.25, 3, -0.7])
    if (f === 'div' && c === 0) return undefined
    const plain = f !== 'logaddexp' && f !== 'atan2'
    return plain ? w.emit(scope, `${x.name}.${f}(${c})`, x.exact && f !== 'div') : undefined
  }
  const y = partner(w, scope, x, (v) => isFloat(v.value.dtype) || (isInteger(v.value.dtype) && f !== 'div'))
  const [a, b] = w.rng.chance(0.5) ? [x, y] : [y, x]
  if (f === 'div' && !(b.lo >= 0.2 || b.hi <= -0.2)) return undefined
  if (f === 'atan2' && !(b.lo >= 0.1)) return undefined
  return w.emit(
    scope,
    `s.${f}(${a.name}, ${b.name})`,
    a.exact && b.exact && f !== 'logaddexp' && f !== 'atan2' && f !== 'div',
  )
}

const whole = (v: Var): boolean => isInteger(v.value.dtype)

function integerArithmetic(w: Writer, scope: Scope): Made {
  const x = w.find(scope, whole)
  if (x === undefined) return undefined
  const y = partner(w, scope, x, whole)
  const f = w.rng.pick([
    'add',
    'sub',
    'mul',
    'floorDivide',
    'mod',
    'rem',
    'maximum',
    'minimum',
    'bitwiseAnd',
    'bitwiseXor',
    'leftShift',
    'rightShift',
  ] as const)
  const other = w.rng.chance(0.3) ? String(w.rng.pick([1, 2, 3, 5])) : y.name
  return w.emit(scope, `s.${f}(${x.name}, ${other})`, true)
}

const exact = (v: Var): boolean => v.exact

function comparison(w: Writer, scope: Scope): Made {
  const x = w.find(scope, exact)
  if (x === undefined) return undefined
  const y = w.rng.chance(0.4) ? '1' : partner(w, scope, x, exact).name
  const f = w.rng.pick(['less', 'lessEqual', 'greater', 'greaterEqual', 'equal', 'notEqual'] as const)
  return w.emit(scope, `s.${f}(${x.name}, ${y})`, true)
}

function logic(w: Writer, scope: Scope): Made {
  const x = w.find(scope, (v) => v.value.dtype === 'bool')
  if (x === undefined) return undefined
  if (w.rng.chance(0.3)) return w.emit(scope, `${x.name}.logicalNot()`, true)
  const y = partner(w, scope, x, (v) => v.value.dtype === 'bool')
  return w.emit(scope, `s.${w.rng.pick(['logicalAnd', 'logicalOr', 'logicalXor'])}(${x.name}, ${y.name})`, true)
}

function selection(w: Writer, scope: Scope): Made {
  const p = w.find(scope, (v) => v.value.dtype === 'bool') ?? w.like(scope, [], 'bool')
  const x = w.find(scope, (v) => near(w, v.value.shape, p.value.shape))
  if (x === undefined) return undefined
  const shape = x.value.rank >= p.value.rank ? x.value.shape : p.value.shape
  const y = w.find(
    scope,
    (v) => near(w, v.value.shape, shape) && meet(v.value.shape, p.value.shape) && meet(v.value.shape, x.value.shape),
  )
  if (y === undefined || w.rng.chance(0.2)) return w.emit(scope, `s.where(${p.name}, ${x.name}, 0)`, x.exact)
  return w.emit(scope, `s.where(${p.name}, ${x.name}, ${y.name})`, x.exact && y.exact)
}

function conversion(w: Writer, scope: Scope): Made {
  const x = w.find(scope, any)
  if (x === undefined) return undefined
  const to = w.rng.pick(x.exact ? [...w.options.floats, ...w.options.integers] : w.options.floats)
  return w.emit(scope, `${x.name}.astype('${to}')`, x.exact)
}

function rounding(w: Writer, scope: Scope): Made {
  const x = w.float(scope, exact)
  return x === undefined
    ? undefined
    : w.emit(scope, `s.${w.rng.pick(['floor', 'ceil', 'round', 'trunc', 'sign', 'isfinite'])}(${x.name})`, true)
}

/** Axes of a reduction as text: all, one, several. */
function axesText(w: Writer, rank: number): string {
  if (rank === 0 || w.rng.chance(0.3)) return 'undefined'
  if (w.rng.chance(0.7)) return String(w.rng.int(-rank, rank - 1))
  return JSON.stringify(w.rng.shuffle(Array.from({ length: rank }, (_, i) => i)).slice(0, w.rng.int(0, rank)))
}

function reduction(w: Writer, scope: Scope): Made {
  const x = w.find(scope, any)
  if (x === undefined) return undefined
  const { rank, dtype, size } = x.value
  const keep = w.rng.chance(0.3) ? ', true' : ''
  const all = isFloat(dtype)
    ? ['sum', 'sum', 'mean', 'max', 'min', ...(size > 0 ? ['logsumexp', 'norm', 'var'] : [])]
    : dtype === 'bool'
      ? ['sum', 'any', 'all']
      : ['sum', 'max', 'min', 'prod', 'any']
  const f = w.rng.pick(all)
  if (f === 'norm') {
    if (!(x.lo > 0.05 || x.hi < -0.05)) return undefined
    return w.emit(scope, `${x.name}.norm(${w.rng.pick(['1', '2', 'Infinity'])}, ${axesText(w, rank)}${keep})`)
  }
  return w.emit(scope, `${x.name}.${f}(${axesText(w, rank)}${keep})`, x.exact && ['max', 'min'].includes(f))
}

function place(w: Writer, scope: Scope): Made {
  const x = w.find(scope, (v) => v.exact && v.value.rank > 0 && v.value.size > 0)
  return x === undefined
    ? undefined
    : w.emit(scope, `${x.name}.${w.rng.pick(['argmax', 'argmin'])}(${w.rng.int(0, x.value.rank - 1)})`, true)
}

function running(w: Writer, scope: Scope): Made {
  const x = w.find(scope, (v) => v.value.rank > 0 && v.value.dtype !== 'bool')
  if (x === undefined) return undefined
  const options = w.rng.pick(['', ', { reverse: true }', ', { exclusive: true }'])
  const f = w.rng.chance(0.8) ? 'cumsum' : 'cumprod'
  return w.emit(scope, `${x.name}.${f}(${w.rng.int(0, x.value.rank - 1)}${options})`)
}

function rows(w: Writer, scope: Scope): Made {
  const x = w.float(scope, (v) => v.value.rank > 0 && v.value.size > 0)
  if (x === undefined) return undefined
  const { shape, dtype, rank } = x.value
  const last = shape.at(-1) ?? 1
  const scale = (): string => w.like(scope, [last], dtype).name
  const axis = w.rng.chance(0.7) ? -1 : w.rng.int(0, rank - 1)
  const kind = w.rng.int(0, 7)
  if (kind <= 1) return w.emit(scope, `s.softmax(${x.name}, ${axis})`)
  if (kind === 2) return w.emit(scope, `s.logSoftmax(${x.name}, ${axis})`)
  if (kind === 3)
    return w.emit(
      scope,
      `s.layerNorm(${x.name}, ${w.rng.pick(['{}', `{ scale: ${scale()}, bias: ${scale()} }`, `{ epsilon: 0.01 }`])})`,
    )
  if (kind === 4) return w.emit(scope, `s.rmsNorm(${x.name}, { scale: ${scale()} })`)
  if (kind <= 6) {
    const labels = w.indices(shape.slice(0, -1), last)
    return w.emit(scope, `s.crossEntropy(${x.name}, ${labels.name})`)
  }
  if (rank < 2) return undefined
  const channels = shape[1] ?? 1
  return w.rng.chance(0.5)
    ? w.emitList(
        scope,
        `Object.values(s.batchNormTraining(${x.name}, { scale: ${w.like(scope, [channels], dtype).name}, epsilon: 0.1 }))`,
      )
    : w.emit(scope, `s.groupNorm(${x.name}, ${channels % 2 === 0 ? 2 : 1}, { epsilon: 0.1 })`)
}

function product(w: Writer, scope: Scope): Made {
  const x = w.float(scope, (v) => v.value.rank > 0)
  if (x === undefined) return undefined
  const { shape, dtype, rank } = x.value
  const depth = shape.at(-1) ?? 1
  const n = w.rng.pick([1, 2, 3, 5, 7, 9, 17])
  const kind = w.rng.int(0, 6)
  if (kind <= 1) {
    const batch = rank > 2 && w.rng.chance(0.5) ? shape.slice(0, -2) : []
    return w.emit(scope, `${x.name}.matmul(${w.like(scope, [...batch, depth, n], dtype).name})`)
  }
  if (kind === 2)
    return w.emit(
      scope,
      `s.linear(${x.name}, ${w.like(scope, [depth, n], dtype).name}, ${w.like(scope, [n], dtype).name})`,
    )
  if (kind === 3 && rank === 2) {
    const y = w.like(scope, [shape[0] ?? 1, n], dtype)
    return w.emit(
      scope,
      `s.einsum('${w.rng.pick(['ij,ik->jk', 'ij,ik->kj', 'ij,ik->ijk', 'ij,ik->i'])}', ${x.name}, ${y.name})`,
    )
  }
  if (kind === 4 && rank === 2 && (shape[0] ?? 0) < 300) return w.emit(scope, `${x.name}.matmul(${x.name}.T)`)
  if (kind === 5 && rank === 3) {
    const [, channels = 1, length = 1] = shape
    const [out, size] = [w.rng.int(1, 4), w.rng.int(1, 3)]
    const weight = w.like(scope, [out, channels, size], dtype)
    const options = w.rng.pick([`{ padding: 'same' }`, '{ stride: 2, padding: 1 }', `{ padding: 2, dilation: 2 }`])
    if (length < 5) return undefined
    return w.emit(scope, `s.conv(${x.name}, ${weight.name}, ${options})`)
  }
  if (kind === 6 && rank === 3 && sizeOf(shape) > 0) {
    const k = w.like(scope, [shape[0] ?? 1, w.rng.int(1, 6), depth], dtype)
    const v = w.like(scope, [...k.value.shape.slice(0, 2), w.rng.int(1, 4)], dtype)
    return w.emit(
      scope,
      `s.attention(${x.name}, ${k.name}, ${v.name}${w.rng.pick(['', ', { causal: true, causalOffset: 0 }'])})`,
    )
  }
  return undefined
}

function pooling(w: Writer, scope: Scope): Made {
  const x = w.float(scope, (v) => v.value.rank >= 2 && (v.value.shape.at(-1) ?? 0) >= 3)
  if (x === undefined) return undefined
  const options = w.rng.pick(['', ', { stride: 1 }', ', { stride: 2, padding: 1 }'])
  return w.emit(scope, `s.${w.rng.pick(['maxPool', 'averagePool'])}(${x.name}, [${w.rng.int(2, 3)}]${options})`)
}

function randomness(w: Writer, scope: Scope): Made {
  const key = w.key(scope)
  const x = w.float(scope)
  const shape = JSON.stringify(x?.value.shape ?? [3])
  const kind = w.rng.int(0, 7)
  const dtype = w.rng.pick(w.options.floats)
  if (kind <= 1 && x !== undefined)
    return w.emit(scope, `s.dropout(${x.name}, ${key.name}, ${w.rng.pick([0, 0.1, 0.5, 0.75])})`)
  if (kind === 3) return w.emitList(scope, `s.random.split(${key.name}, ${w.rng.int(1, 3)})`)
  if (kind === 2) return w.emit(scope, `s.stack(s.random.split(${key.name}, ${w.rng.int(1, 4)}))`, true)
  if (kind === 4) return w.emit(scope, `s.random.foldIn(${key.name}, ${w.rng.int(0, 9)})`, true)
  if (kind === 5) return w.emit(scope, `s.random.uniform(${key.name}, ${shape}, '${dtype}')`)
  if (kind === 6)
    return w.rng.chance(0.5)
      ? w.emit(scope, `s.random.integers(${key.name}, ${shape}, -3, 9)`, true)
      : w.emit(scope, `s.random.bernoulli(${key.name}, 0.3, ${shape})`, true)
  return w.emit(scope, `s.random.normal(${key.name}, ${shape}, '${dtype}')`)
}

export const valueSteps: readonly Step[] = [
  [6, 'function', function1],
  [9, 'arithmetic', arithmetic],
  [2, 'integers', integerArithmetic],
  [2, 'comparison', comparison],
  [1, 'logic', logic],
  [2, 'selection', selection],
  [3, 'conversion', conversion],
  [1, 'rounding', rounding],
  [5, 'reduction', reduction],
  [1, 'place', place],
  [1, 'running', running],
  [4, 'rows', rows],
  [4, 'product', product],
  [1, 'pooling', pooling],
  [2, 'random', randomness],
]
