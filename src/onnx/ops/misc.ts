/** Single operators of no family: optionals of tensors, n-gram counts. */
import { UserError } from '../../diagnostics/errors.ts'
import type { Handler, HandlerTable } from '../context.ts'
import * as n from '../nodes.ts'

/** A tensor stands for an optional that has an element; an absent input for one that has none. */
const optionalHasElement: Handler = (c) => n.full([], c.opt(0) !== undefined, 'bool')

/** Runs of `length` items of the last axis with `skip` items between them, where all match. */
function matches(x: n.Node, gram: readonly number[], skip: number): n.Node | undefined {
  const last = x.shape.length - 1
  const extent = x.shape[last] ?? 0
  const count = extent - (gram.length - 1) * (skip + 1)
  if (count <= 0) return undefined
  return gram
    .map((item, i) => {
      const from = i * (skip + 1)
      return n.compare('eq', n.sliceAxis(x, last, from, from + count), item)
    })
    .reduce((a, b) => n.logicalAnd(a, b))
}

/** n-grams up to which a pool is counted. */
const maxColumns = 65536

/** Counts (or presence, or weights) of the n-grams of a pool of whole numbers. */
const tfIdf: Handler = (c) => {
  const pool = c.ints('pool_int64s')
  if (pool === undefined) return c.fail('n-grams of strings are not imported')
  const x = n.cast(c.need(0), 'i64')
  const starts = c.ints('ngram_counts') ?? []
  const places = c.ints('ngram_indexes') ?? []
  const weights = c.floats('weights')
  const [least, most, maxSkip] = [c.int('min_gram_length', 1), c.int('max_gram_length', 1), c.int('max_skip_count', 0)]
  const mode = c.string('mode', 'TF')
  const lead = x.shape.slice(0, -1)
  const last = x.shape.length - 1
  if (places.some((p) => p < 0 || p > maxColumns)) c.fail(`more than ${maxColumns} n-grams`)
  if (starts.some((s, k) => s < (starts[k - 1] ?? 0) || s > pool.length))
    throw new UserError('E_ONNX_MALFORMED', `the ngram_counts do not divide a pool of ${pool.length} items`)
  // More items between two than the axis has match nothing.
  const widest = Math.min(maxSkip, x.shape[last] ?? 0)
  if (pool.length * (widest + 1) > maxColumns)
    c.fail(`n-grams of ${pool.length} items with up to ${widest} between them`)
  const columns: n.Node[] = Array.from({ length: Math.max(-1, ...places) + 1 }, () => n.full(lead, 0, 'f32'))
  let index = 0
  starts.forEach((start, k) => {
    const length = k + 1
    const end = starts[k + 1] ?? pool.length
    for (let at = start; at < end; at += length, index++) {
      if (length < least || length > most) continue
      const gram = pool.slice(at, at + length)
      // One item has no gaps to skip.
      const skips = length === 1 ? 0 : widest
      let count: n.Node = n.full(lead, 0, 'f32')
      for (let skip = 0; skip <= skips; skip++) {
        const found = matches(x, gram, skip)
        if (found !== undefined) count = n.add(count, n.sum(n.cast(found, 'f32'), [last]))
      }
      const weight = weights?.[index] ?? 1
      const present = n.cast(n.compare('gt', count, 0), 'f32')
      columns[places[index] ?? 0] = mode === 'TF' ? count : n.mul(mode === 'IDF' ? present : count, weight)
    }
  })
  return n.stack(columns, last)
}

export const miscHandlers: HandlerTable = {
  OptionalGetElement: (c) => c.need(0),
  OptionalHasElement: optionalHasElement,
  TfIdfVectorizer: tfIdf,
}
