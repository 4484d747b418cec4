/** Programs with open extents, and the extents at which they are sampled and run: what every device is tested on. */

import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { spec, type TensorSpec } from '../../src/api/tensor/tree.ts'
import type { Graph } from '../../src/graph/node.ts'
import {
  arange,
  averagePool,
  concat,
  conv,
  dropout,
  dynamicUpdateSlice,
  exp,
  gelu,
  grad,
  maxPool,
  relu,
  rsqrt,
  softmax,
  type Tensor,
  take,
  tanh,
  vmap,
  where,
} from '../../src/index.ts'
import type { OpenCase } from './openSupport.ts'

export const dimensions = [
  { name: 'batch', least: 3, most: 11 },
  { name: 'length', least: 5, most: 67 },
]
export const samples = [
  [7, 61],
  [11, 67],
  [3, 5],
  [11, 5],
  [3, 67],
  [5, 30],
]
/** Extents that no sample has: powers of two, and some that are equal to extents of the programs. */
export const others = [
  [8, 64],
  [3, 17],
  [4, 24],
]

type Traced = (...x: Tensor[]) => Tensor | Tensor[]
type Make = (b: number, n: number) => readonly [Traced, TensorSpec[]]

const normalised = (x: Tensor): Tensor => {
  const d = x.sub(x.mean(-1, { keepdims: true }))
  return d.mul(rsqrt(d.square().mean(-1, { keepdims: true }).add(1e-5)))
}

const made: Readonly<Record<string, Make>> = {
  'elementwise with a row that all share': (b, n) => [
    (x, w = x) => exp(x.mul(2).add(w)).sub(x),
    [spec([b, n, 24]), spec([24])],
  ],
  'the mean over an open extent': (b, n) => [(x) => x.mean(1), [spec([b, n, 24])]],
  'the variance over an open extent': (b, n) => [(x) => x.var(1), [spec([b, n, 24])]],
  'softmax over an open extent': (b, n) => [(x) => softmax(x, -1), [spec([b, 12, n])]],
  'softmax over rows of two extents joined': (b, n) => [(x) => softmax(x.reshape([b * n, 12]), -1), [spec([b, n, 12])]],
  'a product of two extents joined': (b, n) => [
    (x, w = x) =>
      x
        .reshape([b * n, 24])
        .matmul(w)
        .reshape([b, n, 36]),
    [spec([b, n, 24]), spec([24, 36])],
  ],
  'past and new along an inner axis': (b, n) => [
    (x, y = x) => concat([x, y], 2).mul(2),
    [spec([b, 6, n, 24]), spec([b, 6, 9, 24])],
  ],
  'the position of the greatest of all': (b, n) => [(x) => x.reshape([-1]).argmax(), [spec([b, n, 24])]],
  'a position of a cache': (b, n) => [
    (x, y = x, i = x) => dynamicUpdateSlice(x, y, [0, 0, i, 0]),
    [spec([b, 3, n, 8]), spec([b, 3, 1, 8]), spec([], 'i32')],
  ],
  'rows added at indices': (b, n) => [
    (x, y = x, i = x) => x.at(i).add(y).mul(2),
    [spec([n, 12]), spec([b, 12]), spec([b], 'i32')],
  ],
  'open rows added at indices': (b, n) => [
    (x, y = x, i = x) => x.at(i).add(y),
    [spec([b, n]), spec([n, n]), spec([n], 'i32')],
  ],
  'a causal mask': (b, n) => [
    (x) => where(arange(n).reshape([n, 1]).greaterEqual(arange(n)), x, -1e9),
    [spec([b, n, n])],
  ],
  'causal attention': (b, n) => [
    (q, k = q, v = q) => {
      const scores = q.matmul(k.swapaxes(-1, -2)).div(4)
      return softmax(where(arange(n).reshape([n, 1]).greaterEqual(arange(n)), scores, -1e9), -1).matmul(v)
    },
    [spec([b, 4, n, 16]), spec([b, 4, n, 16]), spec([b, 4, n, 16])],
  ],
  dropout: (b, n) => [(x, key = x) => dropout(x, key, 0.25), [spec([b, n, 24]), spec([2], 'u32')]],
  'running sums': (b, n) => [(x) => x.cumsum(1), [spec([b, n, 24])]],
  'layer normalisation between products': (b, n) => [
    (x, w = x, v = x) => x.add(gelu(normalised(x).matmul(w)).matmul(v)),
    [spec([b, n, 96]), spec([96, 192]), spec([192, 96])],
  ],
  'gradients, whose mean has both extents': (b, n) => [
    (x, w = x) =>
      grad((x: Tensor, w: Tensor) => tanh(x.matmul(w)).square().mean(), { argnums: [0, 1] })(x, w) as Tensor[],
    [spec([b, n, 24]), spec([24, 36])],
  ],
  'a function batched over an open extent': (b, n) => [
    (x) => vmap((row: Tensor) => softmax(row, 0).sum(-1))(x),
    [spec([b, n, 24])],
  ],
  'embeddings of tokens and positions': (b, n) => [
    (ids, table = ids) => take(table, ids, 0).add(take(table, arange(n), 0)),
    [spec([b, n], 'i32'), spec([600, 24])],
  ],
  'a transpose': (b, n) => [(x) => x.transpose([0, 2, 1]).mul(3), [spec([b, n, 24])]],
  'a sum that many programs share': (b, n) => [(x) => x.sum(), [spec([b, n, 2048])]],
  'sums of columns below rows': (b, n) => [(x) => softmax(x, -1).reshape([-1, 1024]).mean(0), [spec([b, n, 1024])]],
  'a product with a sum of its columns': (b, n) => [
    (x, w = x) => {
      const z = x.matmul(w)
      return [z, z.sum(0), z.max(-1)]
    },
    [spec([b * n, 64]), spec([64, 640])],
  ],
  'a product over an open depth': (b, n) => [
    (x, y = x) =>
      x
        .reshape([-1, 64])
        .swapaxes(0, 1)
        .matmul(y.reshape([-1, 48])),
    [spec([b, 16 * n, 64]), spec([b, 16 * n, 48])],
  ],
  'a convolution': (b, n) => [
    (x, w = x) => relu(conv(x, w, { padding: 1 })),
    [spec([b, 3, n, 24]), spec([8, 3, 3, 3])],
  ],
  'two extents joined, with one element behind': (b, n) => [
    (x) => {
      const flat = exp(x).sub(softmax(x, 1)).reshape([-1])
      return concat([flat, flat.slice([0, 1]).neg()])
    },
    [spec([b, n, 6])],
  ],
  'the greatest of windows': (b, n) => [(x) => maxPool(x, [2, 2]), [spec([b, 3, 2 * n, 24])]],
}

/** Programs some of whose extents are quotients: by 2 and by 4. */
const strided: Readonly<Record<string, Make>> = {
  'strided convolutions, joined into a sequence': (b, n) => [
    (x, w = x, v = x, u = x) => {
      const y = relu(conv(relu(conv(x, w, { stride: 2, padding: 1 })), v, { stride: 2, padding: 'same' }))
      const [, c = 1, h = 1, q = 1] = y.shape
      return softmax(
        y
          .reshape([b, c * h, q])
          .swapaxes(1, 2)
          .matmul(u),
        -1,
      )
    },
    [spec([b, 3, 8, n]), spec([4, 3, 3, 3]), spec([6, 4, 3, 3]), spec([12, 10])],
  ],
  'windows that leave a rest': (b, n) => [
    (x) => [maxPool(x, [2, 2]), averagePool(x, [2, 3], { stride: 2 })],
    [spec([b, 3, 6, n])],
  ],
}

/** Samples that leave each remainder on division by 4. */
const ofQuotients = [...samples, [5, 32], [8, 58], [9, 23]]

export const openCases: readonly (OpenCase & { readonly name: string })[] = [
  ...Object.entries(made).map((c) => [...c, samples] as const),
  ...Object.entries(strided).map((c) => [...c, ofQuotients] as const),
].map(([name, make, samples]) => ({
  name,
  dimensions,
  samples,
  trace: ([b = 1, n = 1]): Graph => {
    const [f, specs] = make(b, n)
    return traceFunction(f, specs).graph
  },
}))
