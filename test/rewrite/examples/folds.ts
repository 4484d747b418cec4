/** Programs in which the rules on reductions, contractions and scaled weights fire. */
import { makeNode } from '../../../src/graph/build.ts'
import type { Node } from '../../../src/graph/node.ts'
import { type Combiner, isArgCombiner } from '../../../src/scalar/ops.ts'
import type { DType } from '../../../src/types/dtype.ts'
import type { Draw, Example } from '../support.ts'
import { broadcast, permute, reshape, someBroadcast, withUnits } from './views.ts'

const make = makeNode

const combiners: readonly Combiner[] = ['sum', 'prod', 'max', 'min', 'argmax', 'argmin']

/** A reduction over one axis or several. */
function reduce(d: Draw, x: Node, combiner: Combiner = d.rng.pick(combiners), among?: readonly number[]): Node {
  const axes = among ?? d.perm(x.shape.length)
  const count = isArgCombiner(combiner) ? 1 : d.rng.int(1, axes.length)
  const taken = axes.slice(0, count)
  if (isArgCombiner(combiner))
    return make('reduce', [x], {
      combiner,
      axes: taken,
      dtype: d.rng.pick(['i32', 'i64'] as const),
      last: d.rng.chance(0.5),
    })
  const arithmetic = combiner === 'sum' || combiner === 'prod'
  return make('reduce', [x], { combiner: arithmetic && x.dtype === 'bool' ? 'max' : combiner, axes: taken })
}

const ascending = (v: readonly number[]): number[] => [...v].sort((a, b) => a - b)

export const reductionExamples: Readonly<Record<string, Example>> = {
  'reduce-empty': (d) => {
    const dtype = d.any()
    const combiner = dtype === 'bool' ? 'max' : d.rng.pick(['sum', 'prod', 'max', 'min'] as const)
    return d.graph(make('reduce', [d.param([2, 0, 3], dtype)], { combiner, axes: [1] }))
  },
  'reduce-units': (d) => {
    const x = d.param([3, 1, 2, 1], d.any())
    const combiner = d.rng.pick(combiners)
    if (isArgCombiner(combiner)) return d.graph(reduce(d, x, combiner, [1]))
    const axes = ascending(d.rng.pick([[1], [1, 3], [0, 1], [1, 2, 3], []]))
    return d.graph(make('reduce', [x], { combiner: x.dtype === 'bool' ? 'min' : combiner, axes }))
  },
  'reduce-axes-ascending': (d) =>
    d.graph(make('reduce', [d.param([2, 3, 4], d.number())], { combiner: 'sum', axes: [2, 0] })),
  'extreme-of-full': (d) =>
    d.graph(make('reduce', [d.full([3, 2], d.any())], { combiner: d.rng.pick(['max', 'min'] as const), axes: [0] })),
  'sum-of-full': (d) => d.graph(make('reduce', [d.full([30, 20], d.integer())], { combiner: 'sum', axes: [0, 1] })),
  'sum-of-full-float': (d) => d.graph(make('reduce', [d.full([30, 2], 'f32', 0.3)], { combiner: 'sum', axes: [0] })),
  'reduce-of-broadcast': (d) => {
    const x = someBroadcast(d, { least: 2 })
    return d.graph(reduce(d, x))
  },
  'sum-of-broadcast': (d) => {
    const x = broadcast(d.param([2, 3], 'f32'), [2, 5, 3, 4], [0, 2])
    return d.graph(make('reduce', [x], { combiner: 'sum', axes: d.rng.pick([[1], [1, 2], [0, 1, 2, 3], [3]]) }))
  },
  'reduce-of-permute': (d) => d.graph(reduce(d, permute(d.param([2, 3, 4], d.any()), d.perm(3)))),
  'reduce-of-permute-reordered': (d) =>
    d.graph(make('reduce', [permute(d.param([2, 3, 4], 'f32'), [2, 1, 0])], { combiner: 'sum', axes: [0, 1] })),
  'reduce-of-unit-reshape': (d) => {
    const shape = [d.rng.int(2, 4), d.rng.int(2, 4), d.rng.int(2, 3)]
    const wide = withUnits(d, shape)
    const [from, to] = d.rng.chance(0.5) ? [shape, wide] : [wide, shape]
    const x = reshape(d.param(from, d.any()), to)
    return d.graph(reduce(d, x, undefined, d.rng.shuffle(to.flatMap((n, i) => (n === 1 ? [] : [i])))))
  },
  'reduce-of-reduce': (d) => {
    const dtype = d.number()
    const combiner =
      dtype.startsWith('f') || dtype === 'bf16'
        ? d.rng.pick(['max', 'min'] as const)
        : d.rng.pick(['max', 'sum', 'prod'] as const)
    const x = make('reduce', [d.param([2, 3, 4], dtype)], { combiner, axes: [d.axis(3)] })
    return d.graph(make('reduce', [x], { combiner, axes: d.rng.pick([[0], [1], [0, 1]]) }))
  },
  'reduce-of-reduce-float': (d) => {
    const combiner = d.rng.pick(['sum', 'prod'] as const)
    const x = make('reduce', [d.param([2, 3, 4], 'f32')], { combiner, axes: [d.axis(3)] })
    return d.graph(make('reduce', [x], { combiner, axes: [d.axis(2)] }))
  },
}

const contract = (lhs: string, a: Node, rhs: string, b: Node, out: string): Node =>
  make('contract', [a, b], { lhs, rhs, out })
const numeric = (d: Draw): DType => (d.rng.chance(0.7) ? d.float() : d.integer())

const outerProduct = (d: Draw, dtype: DType): Node =>
  d.rng.chance(0.5)
    ? contract('ab', d.param([2, 3], dtype), 'cb', d.param([4, 3], dtype), d.rng.pick(['abc', 'cba', 'bac']))
    : contract('ka', d.param([1, 3], dtype), 'kb', d.param([1, 2], dtype), 'ab')

export const contractionExamples: Readonly<Record<string, Example>> = {
  'contract-empty': (d) => {
    const dtype = numeric(d)
    return d.graph(contract('ab', d.param([3, 0], dtype), 'bc', d.param([0, 2], dtype), 'ac'))
  },
  'contract-units': (d) => {
    const dtype = numeric(d)
    const [m, k, n] = [d.rng.int(1, 2), d.rng.int(1, 2), d.rng.int(1, 2)]
    return d.graph(contract('pab', d.param([1, m, k], dtype), 'pbc', d.param([1, k, n], dtype), 'pac'))
  },
  'contract-of-short-integers': (d) => {
    const wide = (x: Node): Node => make('cast', [x], { dtype: 'i32' })
    const bytes = (shape: number[]): Node => wide(d.param(shape, d.rng.pick(['u8', 'i8'] as const)))
    const less = (x: Node): Node => {
      const zero = make('broadcast', [wide(d.param([], 'u8'))], { shape: x.shape, dims: [] })
      return d.rng.chance(0.5) ? make('sub', [x, zero], {}) : make('neg', [x], {})
    }
    const seen = d.rng.chance(0.5)
    const x = less(bytes(seen ? [2, 6] : [3, 4]))
    const a = seen ? make('reshape', [x], { shape: [3, 4] }) : x
    const b = bytes([4, 5])
    return d.graph(contract('ab', a, 'bc', d.rng.chance(0.5) ? less(b) : b, 'ac'))
  },
  'contract-of-permute': (d) => {
    const dtype = numeric(d)
    const a = permute(d.param([2, 3, 4], dtype), [2, 0, 1])
    const b = permute(d.param([5, 4], dtype), [1, 0])
    return d.graph(contract('kpm', a, 'kn', b, d.rng.pick(['pmn', 'npm', 'np'])))
  },
  'contract-of-permute-reordered': (d) => {
    const a = permute(d.param([2, 3, 4], 'f32'), [2, 1, 0])
    return d.graph(contract('kqm', a, 'kqn', d.param([4, 3, 5], 'f32'), 'mn'))
  },
  'permute-of-contract': (d) => {
    const dtype = numeric(d)
    return d.graph(permute(contract('mk', d.param([2, 3], dtype), 'kn', d.param([3, 4], dtype), 'mn'), [1, 0]))
  },
  'contract-of-broadcast': (d) => {
    const dtype = numeric(d)
    const b = d.param([3, 4], dtype)
    return d.graph(
      contract('pmk', broadcast(d.param([2, 3], dtype), [5, 2, 3], [1, 2]), 'kn', b, 'pmn'),
      contract('mk', broadcast(d.param([2], dtype), [2, 3], [0]), 'kn', b, 'mn'),
      contract('kn', b, 'mk', d.full([2, 3], dtype), 'mn'),
    )
  },
  'contract-nothing-summed': (d) => d.graph(outerProduct(d, d.integer())),
  'contract-nothing-summed-float': (d) => d.graph(outerProduct(d, d.float())),
  'contract-lone-sum': (d) => {
    const dtype = d.integer()
    return d.graph(contract('aqb', d.param([2, 3, 4], dtype), 'bcr', d.param([4, 3, 2], dtype), 'ac'))
  },
  'contract-lone-sum-float': (d) =>
    d.graph(contract('aqb', d.param([2, 3, 4], 'f32'), 'bc', d.param([4, 3], 'f32'), 'ac')),
  'contract-labels': (d) => {
    const dtype = numeric(d)
    return d.graph(contract('xz', d.param([2, 3], dtype), 'zy', d.param([3, 4], dtype), 'xy'))
  },
}

/** A product with constant weights: a matrix product, or grouped so that the result is reshaped. */
function weighted(d: Draw): { readonly y: Node; readonly channels: number; readonly axis: number } {
  const kind = d.rng.int(0, 2)
  if (kind === 0)
    return {
      y: contract('mk', d.param([2, 3], 'f32'), 'kn', d.constant([3, 4], 'f32', true), 'mn'),
      channels: 4,
      axis: 1,
    }
  if (kind === 1)
    return {
      y: contract('ok', d.constant([4, 3], 'f32', true), 'nks', d.param([2, 3, 5], 'f32'), 'nos'),
      channels: 4,
      axis: 1,
    }
  const y = contract('ngks', d.param([1, 2, 3, 5], 'f32'), 'gok', d.constant([2, 3, 3], 'f32', true), 'ngos')
  return { y: reshape(y, [1, 6, 5]), channels: 6, axis: 1 }
}

export const convolutionExamples: Readonly<Record<string, Example>> = {
  'scale-into-weights': (d) => {
    const { y, channels, axis } = weighted(d)
    return d.graph(make('mul', [y, broadcast(d.constant([channels], 'f32', true), y.shape, [axis])], {}))
  },
  'scale-past-shift': (d) => {
    const { y, channels, axis } = weighted(d)
    const vector = (): Node => broadcast(d.constant([channels], 'f32', true), y.shape, [axis])
    return d.graph(make('mul', [make('add', [y, vector()], {}), vector()], {}))
  },
}
