/**
 * What a function of varying extents may be made of: each operation over an open extent gives what the static program gives, or is refused by the
 * names of dimension and operation, and then has a program for each shape.
 */
import { expect, test } from 'vitest'
import {
  conv,
  dim,
  dynamicSlice,
  dynamicUpdateSlice,
  einsum,
  grad,
  hessian,
  jacrev,
  jit,
  jvp,
  nonzero,
  random,
  relu,
  scatterND,
  searchsorted,
  segmentSum,
  setDevice,
  softmax,
  sort,
  spec,
  type Tensor,
  takeAlongAxis,
  tensor,
  topK,
  unique,
  vmap,
  zeros,
} from '../../src/index.ts'
import { some, turn } from '../support/nightly.ts'
import { uniform } from './numbers.ts'

setDevice('wasm', { threads: 1 })

const [n, m] = [dim('length', 1, 64), dim('width', 1, 16)]

const numbers = (shape: readonly number[], below: number): Tensor =>
  tensor(
    Int32Array.from({ length: shape.reduce((m, d) => m * d, 1) }, (_, i) => (7 * i + 3) % below),
    { shape },
  )

const place = (i: number): Tensor => tensor(Int32Array.of(i), { shape: [] })

/** A function, what is declared of its arguments, and its arguments at a length. */
type Case = readonly [
  name: string,
  f: (...args: Tensor[]) => Tensor | readonly Tensor[],
  dynamic: readonly unknown[],
  at: (k: number) => Tensor[],
]

const rows = spec([n, 4])
const matrix = (k: number): Tensor[] => [uniform(k, [k, 4])]
const vector = (k: number): Tensor[] => [uniform(k, [k])]

const open: readonly Case[] = [
  [
    'dynamicSlice',
    (x, i) => dynamicSlice(x as Tensor, [i as Tensor, 0], [1, 4]),
    [rows],
    (k) => [...matrix(k), place(5)],
  ],
  ['take', (x, i) => (x as Tensor).take(i as Tensor), [rows], (k) => [...matrix(k), numbers([9], 17)]],
  ['take beyond the end', (x, i) => (x as Tensor).take(i as Tensor), [rows], (k) => [...matrix(k), numbers([9], 90)]],
  [
    'takeAlongAxis',
    (x, i) => takeAlongAxis(x as Tensor, i as Tensor, 0),
    [rows, spec([n, 4], 'i32')],
    (k) => [...matrix(k), numbers([k, 4], k)],
  ],
  ['sort over it', (x) => sort(x as Tensor, 0), [rows], matrix],
  ['sort beside it', (x) => sort(x as Tensor, 1), [rows], matrix],
  ['topK', (x) => topK(x as Tensor, 2), [spec([n])], vector],
  ['permutation', (x) => random.permutation(random.key(3), x as Tensor), [spec([n])], vector],
  ['einsum', (x) => einsum('ij,kj->ik', x as Tensor, x as Tensor), [rows], matrix],
  [
    'conv',
    (x, w) => conv(x as Tensor, w as Tensor),
    [spec([1, 3, n])],
    (k) => [uniform(k, [1, 3, k]), uniform(1, [4, 3, 3])],
  ],
  [
    'nonzero, in room for some and for all',
    (x) => [5, x?.size ?? 0].flatMap((size) => Object.values(nonzero(relu(x as Tensor), { size })).flat()),
    [rows],
    matrix,
  ],
  ['unique', (x) => Object.values(unique(x as Tensor, { size: 7 })), [spec([n], 'i32')], (k) => [numbers([k], 12)]],
  [
    'unique in order of appearance, rows',
    (x) => Object.values(unique(x as Tensor, { size: 7, sorted: false, axis: 0 })),
    [spec([n, 2], 'i32')],
    (k) => [numbers([k, 2], 6)],
  ],
  ['pad by reflection', (x) => (x as Tensor).pad([[1, 1]], 'reflect'), [spec([n])], vector],
  ['vmap', (x) => vmap((r: Tensor) => softmax(r).cumsum(0))(x as Tensor), [rows], matrix],
  ['vmap over rows of it', (x) => vmap((r: Tensor) => relu(r).max(), { inAxes: 1 })(x as Tensor), [rows], matrix],
  ['jvp', (x) => jvp((y: Tensor) => y.tanh().sum(), [x as Tensor], [x as Tensor]), [rows], matrix],
  ['jacrev', (x) => jacrev((y: Tensor) => y.tanh())(x as Tensor), [spec([n])], vector],
  ['hessian', (x) => hessian((y: Tensor) => y.tanh().square().sum())(x as Tensor), [spec([n])], vector],
  [
    'scatterND',
    (x, i) => scatterND(zeros([9, 4]), i as Tensor, x as Tensor),
    [rows, spec([n, 1], 'i32')],
    (k) => [...matrix(k), numbers([k, 1], 9)],
  ],
  [
    'segmentSum',
    (x, i) => segmentSum(x as Tensor, i as Tensor, 7),
    [rows, spec([n], 'i32')],
    (k) => [...matrix(k), numbers([k], 7)],
  ],
  ['x.at(...).add', (x) => (x as Tensor).at([0, 2]).add(1), [rows], matrix],
  [
    'dynamicUpdateSlice',
    (x, y, i) => dynamicUpdateSlice(x as Tensor, y as Tensor, [i as Tensor, 0]),
    [rows],
    (k) => [...matrix(k), uniform(1, [1, 4]), place(3)],
  ],
  [
    'the derivative of take',
    (x, i) => grad((y: Tensor) => y.take(i as Tensor).sum())(x as Tensor),
    [rows],
    (k) => [...matrix(k), numbers([9], 17)],
  ],
]

/** Scatters whose targets, updates and indices vary: in several dimensions, of several dtypes, some of them out of range, some at one place. */
const scattered: readonly Case[] = [
  [
    'a row of a cache of open batch and room',
    (x, y, i) => dynamicUpdateSlice(x as Tensor, y as Tensor, [0, 0, i as Tensor, 0]),
    [spec([m, 3, n, 4]), spec([m, 3, 1, 4])],
    (k) => [uniform(k, [k % 9, 3, k, 4]), uniform(1, [k % 9, 3, 1, 4]), place(5)],
  ],
  [
    'columns behind an open extent',
    (x, y, i) => dynamicUpdateSlice(x as Tensor, y as Tensor, [0, i as Tensor, 0]),
    [spec([2, 9, n]), spec([2, 2, n])],
    (k) => [uniform(k, [2, 9, k]), uniform(1, [2, 2, k]), place(8)],
  ],
  [
    'open columns at indices',
    (x, y, i) => (x as Tensor).at(null, i as Tensor).set(y as Tensor),
    [spec([n, m]), spec([n, 6])],
    (k) => [uniform(k, [k, 3 + (k % 9)]), uniform(1, [k, 6]), numbers([6], 5)],
  ],
  [
    'more updates than places',
    (x, y, i) => (x as Tensor).at(i as Tensor).add(y as Tensor),
    [rows, spec([m, 4]), spec([m], 'i32')],
    (k) => [...matrix(k), uniform(1, [2 + (k % 9), 4]), numbers([2 + (k % 9)], 90)],
  ],
  [
    'indices of 64 bits',
    (x, y, i) => (x as Tensor).at((i as Tensor).astype('i64')).max(y as Tensor),
    [rows, spec([m, 4]), spec([m], 'i32')],
    (k) => [...matrix(k), uniform(1, [2 + (k % 9), 4]), numbers([2 + (k % 9)], 90)],
  ],
  [
    'places of two dimensions, in half precision',
    (x, y, i) =>
      (x as Tensor)
        .astype('f16')
        .at(i as Tensor, i as Tensor)
        .add(y as Tensor),
    [spec([n, m]), spec([n]), spec([n], 'i32')],
    (k) => [uniform(k, [k, 3 + (k % 9)]), uniform(1, [k]), numbers([k], 12)],
  ],
]

test.for(scattered.map((x, i) => [...x, i] as const))('a scatter is open: %s', ([, f, dynamic, at, i]) => {
  for (const mode of turn(['strict', 'fast'] as const, i)) {
    const [varying, closed] = [jit(f, { dynamic, mode }), jit(f, { mode })]
    for (const k of some([17, 23, 40, 64, 19], 3)) {
      const [got, want] = [listOf(varying(...at(k))), listOf(closed(...at(k)))]
      for (const [i, t] of got.entries()) expect(t.dataSync(), `at ${k}`).toEqual(want[i]?.dataSync())
    }
    expect(varying.explain(...at(23)).closed).toBeUndefined()
    varying.dispose()
    closed.dispose()
  }
})

const listOf = (x: Tensor | readonly Tensor[]): readonly Tensor[] => (Array.isArray(x) ? x : [x as Tensor])

// By day every other one.
test.for(some(open, 2))('%s is open', ([, f, dynamic, at]) => {
  const [varying, closed] = [jit(f, { dynamic, mode: 'strict' }), jit(f, { mode: 'strict' })]
  for (const k of some([17, 23, 40, 64, 18], 3)) {
    const [got, want] = [listOf(varying(...at(k))), listOf(closed(...at(k)))]
    expect(got.map((t) => t.shape)).toEqual(want.map((t) => t.shape))
    for (const [i, t] of got.entries()) expect(t.dataSync(), `at ${k}`).toEqual(want[i]?.dataSync())
  }
  expect(varying.explain(...at(23)).closed).toBeUndefined()
  expect(varying.explain(...at(23)).open?.map((d) => d.name)).toEqual(['length'])
  varying.dispose()
  closed.dispose()
})

/** Extents that are quotients of the length: half of an odd one is no multiple of what half of an even one is. */
const strided: readonly Case[] = [
  [
    'every other row, as joined rows',
    (x) => (x as Tensor).slice([null, null, 2]).mul(2).cumsum(1).reshape([-1]),
    [spec([n, 6])],
    (k) => [uniform(k, [k, 6])],
  ],
  [
    'a convolution with a stride',
    (x, w) => relu(conv(x as Tensor, w as Tensor, { stride: 2, padding: 1 })).sum(1),
    [spec([2, 4, n])],
    (k) => [uniform(k, [2, 4, k]), uniform(1, [8, 4, 3])],
  ],
  [
    'every third of two axes',
    (x) => relu((x as Tensor).slice([null, null, 3], [1, null, 4])).cumsum(0),
    [spec([n, n, 12])],
    (k) => [uniform(k, [k, k, 12])],
  ],
]

test.for(strided)('%s gives what the static program gives at even and odd lengths', ([, f, dynamic, at]) => {
  const [varying, closed] = [jit(f, { dynamic, mode: 'strict' }), jit(f, { mode: 'strict' })]
  for (const k of some([17, 40, 23, 64, 18, 21, 60, 59], 4)) {
    const [got, want] = [listOf(varying(...at(k))), listOf(closed(...at(k)))]
    for (const [i, t] of got.entries()) expect(t.dataSync(), `at ${k}`).toEqual(want[i]?.dataSync())
    expect(varying.explain(...at(k)).closed, `at ${k}`).toBeUndefined()
  }
  varying.dispose()
  closed.dispose()
})

/** Sorted numbers, each of which comes twice, with NaN at the end, and what is looked for among them: some of them, and some between. */
const searched = (k: number): [Tensor, Tensor] => {
  const sorted = Float32Array.from({ length: k }, (_, i) => (i === k - 1 && k > 3 ? Number.NaN : Math.floor(i / 2)))
  const values = [-1, 0, 0.5, 1, k / 4, Math.floor(k / 4), (k - 1) / 2, k, Number.POSITIVE_INFINITY, Number.NaN]
  return [tensor(sorted, { shape: [k] }), tensor(Float32Array.from(values))]
}

test('a search in a sorted vector of open length is one program, that of the static one at each', () => {
  const long = dim('length', 0, 4096)
  for (const side of turn(['left', 'right'] as const, 0)) {
    const f = (x: Tensor, y: Tensor): Tensor => searchsorted(x, y, { side })
    const [varying, closed] = [jit(f, { dynamic: [spec([long])] }), jit(f)]
    for (const k of some([17, 0, 1, 2, 3, 4, 5, 31, 32, 33, 64, 127, 128, 255, 256, 257, 1000, 2048, 4095, 4096], 3)) {
      const [x, y] = searched(k)
      expect(varying(x, y).dataSync(), `${side} of ${k}`).toEqual(closed(x, y).dataSync())
      if (k > 1) expect(varying.explain(x, y).closed, `at ${k}`).toBeUndefined()
    }
    expect(varying.explain(...searched(4096)).open?.map((d) => d.name)).toEqual(['length'])
    varying.dispose()
    closed.dispose()
  }
})

const refused: readonly (readonly [...Case, says: RegExp])[] = [
  [
    'a length that decides',
    (x) => ((x as Tensor).size % 2 === 0 ? (x as Tensor).exp() : (x as Tensor).sin()),
    [spec([n])],
    (k) => [uniform(k, [k])],
    /exp|sin/,
  ],
]

test.for(refused)('%s is refused by the names of dimension and operation', ([, f, dynamic, at, says]) => {
  const [varying, closed] = [jit(f, { dynamic, mode: 'strict' }), jit(f, { mode: 'strict' })]
  for (const k of [17, 23]) {
    const [got, want] = [listOf(varying(...at(k))), listOf(closed(...at(k)))]
    for (const [i, t] of got.entries()) expect(t.dataSync(), `at ${k}`).toEqual(want[i]?.dataSync())
  }
  const { closed: why } = varying.explain(...at(23))
  expect(why).toMatch(/^length cannot be open here: /)
  expect(why).toMatch(says)
  expect(why).toMatch(/dynamicRefused\.test\.ts:\d+/)
  varying.dispose()
  closed.dispose()
})

test('a scatter of fixed extents beside an open one is open', () => {
  const f = (x: Tensor, h: Tensor, i: Tensor): Tensor => x.add(segmentSum(h, i, 4).sum(1))
  const [varying, closed] = [jit(f, { dynamic: [rows], mode: 'strict' }), jit(f, { mode: 'strict' })]
  const at = (k: number): [Tensor, Tensor, Tensor] => [uniform(k, [k, 4]), uniform(1, [9, 4]), numbers([9], 4)]
  for (const k of [17, 23, 40]) expect(varying(...at(k)).dataSync(), `at ${k}`).toEqual(closed(...at(k)).dataSync())
  expect(varying.explain(...at(23)).closed).toBeUndefined()
  varying.dispose()
  closed.dispose()
})
