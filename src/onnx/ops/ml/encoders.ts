/** Features made of features: encoders of labels and categories, imputation, joins and choices of columns. */

import { isFloat } from '../../../types/dtype.ts'
import { sizeOf } from '../../../types/shape.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'

const textual = (c: OpContext, ...names: string[]): void => {
  for (const name of names) if (c.has(name)) c.fail(`strings (${name})`)
}

/** Columns of the last axis by their numbers. */
const arrayFeatureExtractor: Handler = (c) => {
  const x = c.need(0)
  const index = c.need(1)
  const flat = n.reshape(index, [sizeOf(index.shape)])
  const rows = x.shape.length === 1 ? n.reshape(x, [1, x.shape[0] ?? 0]) : x
  return n.take(rows, flat, rows.shape.length - 1)
}

/** Columns of all inputs side by side, each cut or filled with zeros to its number of them. */
const featureVectorizer: Handler = (c) => {
  const widths = c.ints('inputdimensions') ?? []
  const parts = c.all().map((given, i) => {
    const x = n.cast(given, 'f32')
    const rows = x.shape.length === 1 ? n.reshape(x, [1, x.shape[0] ?? 0]) : n.reshape(x, [x.shape[0] ?? 0, -1])
    const have = rows.shape[1] ?? 0
    const want = widths[i] ?? have
    if (want <= have) return n.sliceAxis(rows, 1, 0, want)
    return n.pad(rows, [
      [0, 0],
      [0, want - have],
    ])
  })
  return n.concat(parts, 1)
}

/** Elements equal to one value (NaN to NaN) become another, of their column or of all. */
const imputer: Handler = (c) => {
  const x = c.need(0)
  const float = isFloat(x.dtype)
  const values = (float ? c.floats('imputed_value_floats') : c.ints('imputed_value_int64s')) ?? []
  const features = x.shape.at(-1) ?? 0
  if (values.length !== 1) c.requireLength('the imputed values', values, features)
  const fill = float ? n.floats(values, [values.length], x.dtype) : n.cast(n.integers(values), x.dtype)
  const replaced = float ? c.float('replaced_value_float', 0) : c.int('replaced_value_int64', 0)
  const missing = Number.isNaN(replaced) ? n.unary('isnan', x) : n.compare('eq', x, replaced)
  return n.where(missing, n.broadcastTo(fill, x.shape), x)
}

/** Keys up to which each element is compared with all of them. */
const mostKeys = 65_536

/** A number for each element by the list of keys it is in, the last of equal ones, else a default. */
const labelEncoder: Handler = (c) => {
  textual(c, 'keys_strings', 'values_strings', 'classes_strings')
  const x = c.need(0)
  const tensorOf = (name: string): n.Node | undefined => {
    const t = c.tensor(name)
    return t === undefined ? undefined : n.reshape(n.literal(t), [sizeOf(t.shape)])
  }
  const listOf = (floats: string, ints: string): n.Node | undefined => {
    const f = c.floats(floats)
    if (f !== undefined) return n.floats(f, [f.length])
    const i = c.ints(ints)
    return i === undefined ? undefined : n.integers(i)
  }
  const keys = tensorOf('keys_tensor') ?? listOf('keys_floats', 'keys_int64s') ?? c.fail('it has no keys')
  const values = tensorOf('values_tensor') ?? listOf('values_floats', 'values_int64s') ?? c.fail('it has no values')
  const count = keys.shape[0] ?? 0
  c.requireShape(values.shape[0] === count, values.shape, `the list of values of ${count} keys`)
  if (count > mostKeys) c.fail(`${count} keys (at most ${mostKeys})`)
  const given = tensorOf('default_tensor')
  const fallback =
    given !== undefined
      ? n.reshape(given, [])
      : isFloat(values.dtype)
        ? n.full([], c.float('default_float', 0), values.dtype)
        : n.full([], c.int('default_int64', -1), values.dtype)
  if (count === 0) return n.broadcastTo(fallback, x.shape)
  const pairs = [...x.shape, count]
  const mine = n.broadcastTo(n.expandDims(x, -1), pairs)
  const all = n.broadcastTo(n.cast(keys, x.dtype), pairs)
  const equal = n.compare('eq', mine, all)
  // NaN is a key like another.
  const hit = isFloat(x.dtype) ? n.logicalOr(equal, n.logicalAnd(n.unary('isnan', mine), n.unary('isnan', all))) : equal
  const place = n.iota(pairs, pairs.length - 1, 'i32')
  const last = n.reduceMax(n.where(hit, place, n.full([], -1, 'i32')), [pairs.length - 1])
  const found = n.take(values, n.max(last, 0), 0)
  return n.where(n.compare('ge', last, 0), found, fallback)
}

/** 1 at the category that an element is, on a new last axis; zeros for one that is in no category, which `zeros` 0 forbids. */
const oneHotEncoder: Handler = (c) => {
  textual(c, 'cats_strings')
  const x = c.need(0)
  const categories = c.ints('cats_int64s') ?? []
  const shape = [...x.shape, categories.length]
  const whole = n.cast(x, 'i64')
  const hit = n.compare(
    'eq',
    n.broadcastTo(n.expandDims(whole, -1), shape),
    n.broadcastTo(n.integers(categories), shape),
  )
  return n.cast(hit, 'f32')
}

export const mlEncoderHandlers: HandlerTable = {
  ArrayFeatureExtractor: arrayFeatureExtractor,
  Binarizer: (c) => n.cast(n.compare('gt', c.need(0), c.float('threshold', 0)), c.need(0).dtype),
  FeatureVectorizer: featureVectorizer,
  Imputer: imputer,
  LabelEncoder: labelEncoder,
  OneHotEncoder: oneHotEncoder,
}
