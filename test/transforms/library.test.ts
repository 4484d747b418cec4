/** Derivatives and batches of the library's functions of arrays: by differences in both modes, and against a loop over the batch. */
import { describe, expect, it } from 'vitest'
import * as c from '../../src/compose/index.ts'
import { vjpGraph } from '../../src/transforms/index.ts'
import { nightly, some } from '../support/nightly.ts'
import {
  batchVariants,
  checkBatch,
  checkProgram,
  countOps,
  evaluate,
  graphOf,
  numbersOf,
  type Program,
} from './support.ts'

const rows = { shape: [3, 5], distinct: true }
const square = { shape: [4, 4] }

/** Programs with derivatives of the second order. */
const smooth: Readonly<Record<string, Program>> = {
  nanToNum: { inputs: [rows], build: (x) => c.nanToNum(x) },
  nansum: { inputs: [rows], build: (x) => c.nansum(x, 1) },
  trace: { inputs: [{ shape: [2, 4, 5] }], build: (x) => [c.trace(x), c.trace(x, -2)] },
  'diagonal of odd shapes': {
    inputs: [{ shape: [5, 3] }],
    build: (x) => [c.diagonal(x), c.diagonal(x, 2), c.diagonal(x, -3), c.diagonal(x, 3)],
  },
  diag: { inputs: [{ shape: [3] }, square], build: (x, y) => [c.diag(x, -2), c.diag(x, 1), c.diag(y, 1)] },
  diff: { inputs: [rows], build: (x) => [c.diff(x), c.diff(x, 2, 0), c.diff(x, 4)] },
  inner: { inputs: [{ shape: [2, 3] }, { shape: [4, 3] }], build: (x, y) => c.inner(x, y) },
  cross: { inputs: [{ shape: [2, 3] }, { shape: [3] }], build: (x, y) => c.cross(x, y) },
  kron: { inputs: [{ shape: [2, 3] }, { shape: [2] }], build: (x, y) => c.kron(x, y) },
  cov: { inputs: [rows], build: (x) => [c.cov(x), c.cov(x, { rowvar: false, correction: 0 })] },
  meshgrid: { inputs: [{ shape: [2] }, { shape: [3] }], build: (x, y) => c.meshgrid([x, y]) },
  cummax: { inputs: [rows], build: (x) => [c.cummax(x, 1), c.cummin(x, 0, { reverse: true })] },
  logCumSumExp: {
    inputs: [{ shape: [2, 7] }],
    build: (x) => [c.logCumSumExp(x, 1), c.logCumSumExp(x, 0, { reverse: true })],
  },
  dynamicSlice: {
    inputs: [{ shape: [4, 5] }, { shape: [], dtype: 'i32', lo: 0, hi: 4 }],
    build: (x, i) => [c.dynamicSlice(x, [i, 1], [2, 3]), c.dynamicSlice(x, [1, i], [3, 5])],
  },
  dynamicUpdateSlice: {
    inputs: [{ shape: [4, 5] }, { shape: [2, 3] }, { shape: [], dtype: 'i32', lo: 0, hi: 4 }],
    build: (x, u, i) => c.dynamicUpdateSlice(x, u, [i, i]),
  },
  'parts that are updated': {
    inputs: [{ shape: [4, 5] }, { shape: [3] }, { shape: [3], dtype: 'i32', lo: -5, hi: 5 }],
    build: (x, u, i) => [
      c.updatePart(x, ['whole', { at: i }], u, 'sum'),
      c.updatePart(x, [{ from: 3, count: 2, step: -2 }, { at: i }], u, 'set'),
      c.gatherPart(x, [{ at: i }, { from: 1, count: 2, step: 2 }]),
    ],
  },
  segmentSum: {
    inputs: [{ shape: [6, 2] }, { shape: [6], dtype: 'i32', lo: -1, hi: 4 }],
    build: (x, i) => c.segmentSum(x, i, 3),
  },
  'counts by weights': {
    inputs: [{ shape: [6] }, { shape: [6], dtype: 'i32', lo: -1, hi: 4 }],
    build: (w, i) => [c.binCount(i, 3, w), c.binCount(i, 40, w), c.histogram(i, 3, { range: [0, 3], weights: w })[0]],
  },
  interp: {
    inputs: [{ shape: [2, 3], lo: -0.9, hi: 3.9, distinct: true }, { shape: [5] }],
    build: (x, f) => c.interp(x, c.cast(c.floats([-1, 0.4, 1.5, 2.1, 4]), 'f64'), f),
  },
  sort: {
    inputs: [{ shape: [3, 7], distinct: true }],
    build: (x) => [c.sort(x), c.sort(x, { axis: 0, descending: true })],
  },
  'sort of long rows': {
    inputs: [{ shape: [nightly ? 2 : 1, 131], distinct: true }],
    build: (x) => [c.sort(x), c.sort(x, { descending: true })],
  },
  topK: {
    inputs: [{ shape: [2, 140], distinct: true }],
    build: (x) => [
      c.topK(x, 3)[0],
      c.topK(x, 2, { largest: false })[0],
      c.topK(x, 20)[0],
      c.topK(x, 1, { axis: 0 })[0],
    ],
  },
  quantile: {
    inputs: [{ shape: [4, 6], distinct: true }],
    build: (x) => [c.median(x), c.quantile(x, 0.3, 1), c.quantile(x, c.floats([0.1, 0.77]), 0, true, 'midpoint')],
  },
  'einsum with diagonals and ellipses': {
    inputs: [{ shape: [2, 3, 3] }, { shape: [3, 4] }],
    build: (x, y) => [
      c.einsum('...ii->...i', [x]),
      c.einsum('...ij,jk->...ik', [x, y]),
      c.einsum('aii,ij->aj', [x, y]),
    ],
  },
  activations: {
    inputs: [{ shape: [3, 4], distinct: true, lo: -4, hi: 8.1 }],
    build: (x) => [c.logSigmoid(x), c.relu6(x), c.celu(x, 1.5), c.glu(x), c.glu(c.transpose(x), 0)],
  },
}

describe('derivatives', () => {
  it.each(Object.entries(smooth))('%s', (_, p) => checkProgram(p, 1, 2))

  it('of a running log of sums where all is -Infinity', () => {
    const graph = graphOf({ inputs: [{ shape: [4] }], build: (x) => c.logCumSumExp(x, 0) })
    const x = Float64Array.of(-Infinity, -Infinity, 0, 1)
    const [, gradient] = evaluate(vjpGraph(graph, [0]), [x, Float64Array.of(0, 0, 0, 1)])
    const [p, q] = [1 / (1 + Math.E), Math.E / (1 + Math.E)]
    const have = gradient === undefined ? [] : numbersOf(gradient, 'f64')
    expect(have).toEqual([0, 0, expect.closeTo(p, 12), expect.closeTo(q, 12)])
  })

  it('of diagonals are views: nothing is scattered', () => {
    for (const name of ['trace', 'diagonal of odd shapes', 'diag']) {
      const p = smooth[name]
      if (p === undefined) throw new Error(name)
      const counts = countOps(vjpGraph(graphOf(p), [0]))
      expect([counts.get('scatter'), counts.get('gather')]).toEqual([undefined, undefined])
    }
  })
})

describe('batches against a loop', () => {
  it.each(Object.entries(smooth))('%s', (_, p) => {
    for (const axes of some(batchVariants(p), 3)) checkBatch(p, axes)
  })
})
