/**
 * Issue: messages name the mistake. What has no text (symbols, objects without a prototype, lists of them) is named by its kind: printing it threw
 * an error of JavaScript's, without a code. Sites: `showShape` (every extent that is none), `arange`, `linspace`, dtypes of random values.
 */
import { expect, test } from 'vitest'
import * as s from '../../src/index.ts'
import { errorOf } from '../onnx/models.ts'

const bare: unknown = Object.create(null)
const any = (x: unknown): never => x as never
const x = s.ones([2, 3])
const key = s.random.key(1)

const calls: Readonly<Record<string, (odd: unknown) => unknown>> = {
  'start of arange': (odd) => s.arange(any(odd)),
  'stop of arange': (odd) => s.arange(0, any(odd)),
  'step of arange': (odd) => s.arange(0, 1, any(odd)),
  'start of linspace': (odd) => s.linspace(any(odd), 1, 3),
  'stop of linspace': (odd) => s.linspace(0, any(odd), 3),
  'extent of full': (odd) => s.full([any(odd)], 1),
  'extent of reshape': (odd) => x.reshape([any(odd)]),
  'extent of a tensor': (odd) => s.tensor([1], { shape: [any(odd)] }),
  'extent of a spec': (odd) => s.spec([any(odd)]),
  'extent of broadcastTo': (odd) => s.broadcastTo(x, [any(odd)]),
  'repetition of tile': (odd) => s.tile(x, [any(odd)]),
  'part of split': (odd) => s.split(x, [any(odd)], 0),
  'extent of random numbers': (odd) => s.random.normal(key, [any(odd)]),
  'dtype of normal': (odd) => s.random.normal(key, [2], any(odd)),
  'dtype of uniform': (odd) => s.random.uniform(key, [2], any(odd)),
  'dtype of bits': (odd) => s.random.bits(key, [2], any(odd)),
}

test.each(Object.entries(calls))('%s', (_, call) => {
  for (const odd of [bare, Symbol('a'), [bare], [Symbol('a')], {}, new Map(), () => 1, { toString: () => 1n }]) {
    const error = errorOf(() => call(odd))
    expect(error.code).toMatch(/^E_(ARGUMENT|SHAPE|DTYPE)$/)
    expect(error.summary).not.toMatch(/\[object|=>/)
  }
})
