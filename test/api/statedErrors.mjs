/**
 * Operations.
 * For each function and each code that its comment says it throws, a call that throws it, as users of JavaScript write it: nothing checks
 * types. `examples.test.ts` makes the calls, adds those that many functions share, and asks for each that a comment says.
 */
import {
  arange,
  argmax,
  argmin,
  astype,
  attention,
  averagePool,
  batchNorm,
  batchNormTraining,
  bitcast,
  broadcastTo,
  clip,
  concat,
  conv,
  conv2d,
  convTranspose,
  crossEntropy,
  cumprod,
  cumsum,
  diagonal,
  dot,
  einsum,
  embedding,
  expandDims,
  eye,
  flip,
  full,
  fullLike,
  gatherND,
  groupNorm,
  iota,
  layerNorm,
  linear,
  linspace,
  matmul,
  maxPool,
  moveaxis,
  oneHot,
  ones,
  pad,
  prod,
  random,
  repeat,
  reshape,
  rmsNorm,
  roll,
  rotary,
  scatterAlongAxis,
  scatterND,
  slidingWindow,
  softmax,
  split,
  squeeze,
  stack,
  sum,
  swapaxes,
  take,
  takeAlongAxis,
  tensor,
  tensordot,
  tile,
  transpose,
  tril,
  triu,
  where,
  zeros,
} from '../../src/index.ts'

/** By name and code. */
export const statedErrors = {
  'Tensor.var': {
    E_AXIS: () => zeros([2]).var(3),
    E_ARGUMENT: () => zeros([2]).var(0, 3),
  },
  'Tensor.flatten': {
    E_AXIS: () => zeros([2, 3]).flatten(0, 5),
    E_ARGUMENT: () => zeros([2, 3]).flatten(0.5),
  },
  'Tensor.slice': {
    E_INDEX: () => tensor([1, 2, 3]).slice(5),
    E_ARGUMENT: () => tensor([1, 2, 3]).slice([0, 2, 0]),
  },
  'Tensor.item': {
    E_SHAPE: () => zeros([2]).item(),
  },
  clip: {
    E_SHAPE: () => clip(zeros([2]), zeros([3])),
    E_OVERFLOW: () => clip(zeros([2], 'u8'), 1e9),
  },
  where: {
    E_DTYPE: () => where(zeros([2]), 1, 2),
    E_SHAPE: () => where(true, zeros([2]), zeros([3])),
  },
  astype: {
    E_DTYPE: () => astype(zeros([2]), 'q'),
  },
  bitcast: {
    E_DTYPE: () => bitcast(zeros([2]), 'u8'),
  },
  tensor: {
    E_STRUCTURE: () => {
      const list = []
      list.push(list)
      return tensor(list)
    },
    E_SHAPE: () => tensor([[1, 2], [3]]),
    E_DTYPE: () => tensor([1, 2], { dtype: 'q' }),
  },
  full: {
    E_SHAPE: () => full([-1], 1),
    E_OVERFLOW: () => full([2], 300, 'u8'),
    E_DTYPE: () => full([2], 1, 'q'),
  },
  arange: {
    E_OVERFLOW: () => arange(0, 300, 1, 'u8'),
    E_DTYPE: () => arange(0, 3, 1, 'bool'),
  },
  zeros: {
    E_SHAPE: () => zeros([2, -1]),
    E_OVERFLOW: () => zeros([1e9, 1e9]),
    E_DTYPE: () => zeros([2], 'q'),
  },
  ones: {
    E_SHAPE: () => ones([-1]),
    E_OVERFLOW: () => ones([1e9, 1e9]),
    E_DTYPE: () => ones([2], 'q'),
  },
  fullLike: {
    E_OVERFLOW: () => fullLike(zeros([2], 'u8'), 300),
  },
  linspace: {
    E_SHAPE: () => linspace(0, 1, -1),
  },
  iota: {
    E_AXIS: () => iota([2, 3], 4),
    E_SHAPE: () => iota([-1], 0),
    E_OVERFLOW: () => iota([300], 0, 'u8'),
    E_DTYPE: () => iota([3], 0, 'bool'),
  },
  eye: {
    E_SHAPE: () => eye(-2),
    E_DTYPE: () => eye(2, 2, 0, 'q'),
  },
  concat: {
    E_SHAPE: () => concat([zeros([1, 2]), zeros([2, 3])]),
    E_AXIS: () => concat([tensor([1])], 4),
  },
  stack: {
    E_SHAPE: () => stack([tensor([1]), tensor([2, 3])]),
    E_AXIS: () => stack([tensor([1])], 4),
  },
  take: {
    E_DTYPE: () => take(tensor([1, 2, 3]), tensor([0.5])),
    E_AXIS: () => take(tensor([1, 2, 3]), tensor([2], { dtype: 'i32' }), 3),
  },
  takeAlongAxis: {
    E_DTYPE: () => takeAlongAxis(zeros([2]), zeros([2]), 0),
    E_SHAPE: () => takeAlongAxis(zeros([2, 2]), zeros([1], 'i32'), 1),
    E_AXIS: () => takeAlongAxis(zeros([2]), zeros([2], 'i32'), 4),
  },
  gatherND: {
    E_DTYPE: () => gatherND(zeros([2, 2]), tensor([[1.5]])),
    E_SHAPE: () => gatherND(zeros([2, 2]), zeros([2, 3], 'i32')),
  },
  scatterND: {
    E_DTYPE: () => scatterND(zeros([3]), zeros([2, 1]), tensor([5, 6])),
    E_SHAPE: () => scatterND(zeros([3]), zeros([2, 1], 'i32'), zeros([3, 4])),
  },
  scatterAlongAxis: {
    E_DTYPE: () => scatterAlongAxis(zeros([2, 2]), zeros([2, 1]), zeros([2, 1]), 1),
    E_SHAPE: () => scatterAlongAxis(zeros([2, 2]), zeros([2, 1], 'i32'), tensor([5]), 1),
    E_AXIS: () => scatterAlongAxis(zeros([2, 2]), zeros([2, 1], 'i32'), zeros([2, 1]), 4),
  },
  oneHot: {
    E_AXIS: () => oneHot(zeros([1], 'i32'), 3, { axis: 5 }),
    E_SHAPE: () => oneHot(zeros([1], 'i32'), -3),
    E_DTYPE: () => oneHot(zeros([1], 'i32'), 3, { dtype: 'q' }),
  },
  tril: {
    E_SHAPE: () => tril(zeros([3])),
  },
  triu: {
    E_SHAPE: () => triu(zeros([3])),
  },
  diagonal: {
    E_SHAPE: () => diagonal(zeros([3])),
  },
  matmul: {
    E_SHAPE: () => matmul(zeros([2, 3]), zeros([2, 3])),
  },
  dot: {
    E_SHAPE: () => dot(zeros([2, 3]), zeros([2, 3])),
  },
  tensordot: {
    E_SHAPE: () => tensordot(zeros([2, 3]), zeros([2, 3]), [[0], [1]]),
    E_AXIS: () => tensordot(zeros([2, 3]), zeros([2, 3]), [[0], [7]]),
  },
  einsum: {
    E_SHAPE: () => einsum('ij,jk->ik', zeros([2, 3]), zeros([2, 3])),
  },
  layerNorm: {
    E_AXIS: () => layerNorm(zeros([2, 2]), { axes: 4 }),
    E_SHAPE: () => layerNorm(zeros([2, 2]), { scale: ones([3]) }),
  },
  rmsNorm: {
    E_AXIS: () => rmsNorm(zeros([2]), { axes: 4 }),
    E_SHAPE: () => rmsNorm(zeros([2]), { scale: zeros([3]) }),
  },
  batchNorm: {
    E_SHAPE: () => batchNorm(zeros([1, 2]), tensor([1, 1, 1]), tensor([1, 4]), { epsilon: 0 }),
  },
  batchNormTraining: {
    E_SHAPE: () => batchNormTraining(zeros([2, 2]), { scale: zeros([3]) }),
  },
  groupNorm: {
    E_SHAPE: () => groupNorm(zeros([1, 4]), 3),
  },
  attention: {
    E_SHAPE: () => attention(ones([1, 2, 4]), ones([1, 3, 5]), ones([1, 3, 4])),
  },
  rotary: {
    E_SHAPE: () => rotary(ones([2, 3])),
  },
  linear: {
    E_SHAPE: () => linear(zeros([1, 2]), tensor([[1]])),
  },
  embedding: {
    E_DTYPE: () => embedding(zeros([2, 2]), tensor([1])),
  },
  crossEntropy: {
    E_DTYPE: () => crossEntropy(zeros([1, 2]), tensor([1])),
    E_SHAPE: () => crossEntropy(zeros([1, 2]), tensor([1, 1], { dtype: 'i32' })),
    E_AXIS: () => crossEntropy(zeros([1, 2]), zeros([1], 'i32'), 4),
  },
  softmax: {
    E_AXIS: () => softmax(tensor([0, 0]), 3),
  },
  sum: {
    E_AXIS: () => sum(tensor([1]), [0, 0]),
    E_DTYPE: () => sum(tensor([1]), 0, { dtype: 'q' }),
  },
  prod: {
    E_DTYPE: () => prod(zeros([2]), 0, { dtype: 'q' }),
  },
  argmax: {
    E_AXIS: () => argmax(zeros([2]), 2),
    E_SHAPE: () => argmax(zeros([0]), 0),
  },
  argmin: {
    E_AXIS: () => argmin(zeros([0]), 4),
    E_SHAPE: () => argmin(zeros([0]), 0),
  },
  cumsum: {
    E_AXIS: () => cumsum(zeros([2]), 2),
    E_DTYPE: () => cumsum(zeros([2]), 0, { dtype: 'q' }),
  },
  cumprod: {
    E_AXIS: () => cumprod(zeros([2]), 4),
    E_DTYPE: () => cumprod(zeros([2]), 0, { dtype: 'q' }),
  },
  reshape: {
    E_SHAPE: () => reshape(zeros([4]), [3]),
  },
  transpose: {
    E_AXIS: () => transpose(zeros([2, 3]), [0]),
  },
  swapaxes: {
    E_AXIS: () => swapaxes(zeros([2, 3]), 0, 5),
  },
  moveaxis: {
    E_AXIS: () => moveaxis(zeros([2, 3]), 0, 5),
  },
  broadcastTo: {
    E_SHAPE: () => broadcastTo(zeros([2]), [3]),
  },
  expandDims: {
    E_AXIS: () => expandDims(zeros([2]), 5),
  },
  squeeze: {
    E_SHAPE: () => squeeze(zeros([2, 1]), 0),
    E_AXIS: () => squeeze(zeros([2, 1]), 4),
  },
  pad: {
    E_OVERFLOW: () => pad(tensor([1, 2, 3], { dtype: 'u8' }), [[1, 1]], 'constant', 1e9),
  },
  flip: {
    E_AXIS: () => flip(zeros([2]), 3),
  },
  tile: {
    E_SHAPE: () => tile(zeros([2]), [-1]),
    E_OVERFLOW: () => tile(zeros([2]), [1e9, 1e9, 1e9]),
  },
  repeat: {
    E_AXIS: () => repeat(tensor([1, 2]), 1, 4),
    E_SHAPE: () => repeat(tensor([1, 2]), -1, 0),
  },
  roll: {
    E_AXIS: () => roll(tensor([1, 2, 3]), 1, 2),
  },
  split: {
    E_SHAPE: () => split(tensor([1, 2, 3]), 2),
    E_AXIS: () => split(tensor([1, 2, 3]), 3, 2),
  },
  conv2d: {
    E_SHAPE: () => conv2d(ones([1, 1, 3]), ones([1, 1, 2, 2])),
  },
  convTranspose: {
    E_SHAPE: () => convTranspose(ones([1, 1, 2]), ones([2, 1, 2])),
  },
  conv: {
    E_SHAPE: () => conv(ones([1, 1, 5]), ones([1, 1, 7])),
  },
  maxPool: {
    E_SHAPE: () => maxPool(tensor([1, 2]), [2, 2]),
  },
  averagePool: {
    E_DTYPE: () => averagePool(ones([1, 1, 4], 'i32'), [2]),
    E_SHAPE: () => averagePool(ones([3]), [2, 2]),
  },
  slidingWindow: {
    E_SHAPE: () => slidingWindow(tensor([1, 2, 3, 4]), 0, 6),
    E_AXIS: () => slidingWindow(tensor([1, 2, 3, 4]), 2, 2),
  },
  'random.split': {
    E_SHAPE: () => random.split(random.key(0), -1),
  },
  'random.bits': {
    E_SHAPE: () => random.bits(random.key(0), [-2]),
    E_DTYPE: () => random.bits(random.key(0), [2], 'f32'),
  },
  'random.uniform': {
    E_SHAPE: () => random.uniform(random.key(0), [-2]),
    E_DTYPE: () => random.uniform(random.key(0), [2], 'i32'),
  },
  'random.normal': {
    E_SHAPE: () => random.normal(random.key(0), [-2]),
    E_DTYPE: () => random.normal(random.key(0), [2], 'i32'),
  },
  'random.bernoulli': {
    E_SHAPE: () => random.bernoulli(random.key(0), 0.5, [-2]),
  },
  'random.integers': {
    E_SHAPE: () => random.integers(random.key(0), [-2], 0, 4),
  },
}
