/**
 * NumPy's functions of arrays.
 * For each function and each code that its comment says it throws, a call that throws it, as users of JavaScript write it: nothing checks
 * types. `examples.test.ts` makes the calls, adds those that many functions share, and asks for each that a comment says.
 */
import {
  bincount,
  cov,
  cross,
  diag,
  diff,
  dynamicSlice,
  dynamicUpdateSlice,
  glu,
  histogram,
  inner,
  interp,
  meshgrid,
  nansum,
  ones,
  quantile,
  random,
  searchsorted,
  segmentSum,
  topK,
  trace,
  unique,
  zeros,
} from '../../src/index.ts'

/** By name and code. */
export const statedErrorsOfArrays = {
  'Tensor.at': {
    E_ARGUMENT: () => zeros([2]).at(0, 0),
  },
  'TensorPart.get': {
    E_DTYPE: () =>
      zeros([2])
        .at(zeros([2]))
        .get(),
    E_SHAPE: () =>
      zeros([2, 2])
        .at(zeros([2], 'i32'), zeros([3], 'i32'))
        .get(),
  },
  ...Object.fromEntries(
    ['set', 'add', 'multiply', 'min', 'max'].map((name) => [
      `TensorPart.${name}`,
      {
        E_DTYPE: () =>
          zeros([2])
            .at(zeros([2]))
            [name](1),
        E_SHAPE: () =>
          zeros([2])
            .at([0, 2])
            [name](ones([3])),
        E_ARGUMENT: () => zeros([2]).at(0)[name]('x'),
      },
    ]),
  ),
  dynamicSlice: {
    E_SHAPE: () => dynamicSlice(zeros([2]), [0], [3]),
    E_DTYPE: () => dynamicSlice(zeros([2]), [zeros([])], [1]),
  },
  dynamicUpdateSlice: {
    E_SHAPE: () => dynamicUpdateSlice(zeros([2]), zeros([3]), [0]),
    E_DTYPE: () => dynamicUpdateSlice(zeros([2]), zeros([1]), [zeros([])]),
  },
  topK: {
    E_SHAPE: () => topK(zeros([2]), 3),
    E_AXIS: () => topK(zeros([2]), 1, { axis: 2 }),
  },
  unique: {
    E_AXIS: () => unique(zeros([2]), { size: 1, axis: 2 }),
  },
  quantile: {
    E_AXIS: () => quantile(zeros([2]), 0.5, 2),
  },
  ...Object.fromEntries(
    ['exponential', 'gumbel'].map((name) => [
      `random.${name}`,
      {
        E_SHAPE: () => random[name](random.key(0), [-2]),
        E_DTYPE: () => random[name](random.key(0), [2], 'i32'),
      },
    ]),
  ),
  'random.categorical': {
    E_SHAPE: () => random.categorical(random.key(0), zeros([2, 3]), { shape: [3] }),
    E_AXIS: () => random.categorical(random.key(0), zeros([2]), { axis: 3 }),
  },
  'random.permutation': {
    E_AXIS: () => random.permutation(random.key(0), zeros([2]), 3),
  },
  'random.choice': {
    E_SHAPE: () => random.choice(random.key(0), 3, [4], { replace: false }),
    E_AXIS: () => random.choice(random.key(0), zeros([2]), [1], { axis: 2 }),
  },
  'random.gamma': {
    E_SHAPE: () => random.gamma(random.key(0), zeros([2]), [3]),
    E_DTYPE: () => random.gamma(random.key(0), 1, [2], 'i32'),
  },
  'random.beta': {
    E_SHAPE: () => random.beta(random.key(0), zeros([2]), 1, [3]),
    E_DTYPE: () => random.beta(random.key(0), 1, 1, [2], 'i32'),
  },
  'random.truncatedNormal': {
    E_SHAPE: () => random.truncatedNormal(random.key(0), zeros([2]), 1, [3]),
    E_DTYPE: () => random.truncatedNormal(random.key(0), 0, 1, [2], 'i32'),
  },
  searchsorted: {
    E_SHAPE: () => searchsorted(zeros([2, 2]), zeros([2])),
  },
  bincount: {
    E_DTYPE: () => bincount(zeros([2]), { length: 2 }),
    E_SHAPE: () => bincount(zeros([2], 'i32'), { length: 2, weights: zeros([3]) }),
  },
  histogram: {
    E_SHAPE: () => histogram(zeros([2]), { bins: zeros([1]) }),
  },
  segmentSum: {
    E_SHAPE: () => segmentSum(zeros([2]), zeros([3], 'i32'), 2),
    E_DTYPE: () => segmentSum(zeros([2]), zeros([2]), 2),
  },
  interp: {
    E_SHAPE: () => interp(zeros([2]), zeros([3]), zeros([2])),
  },
  nansum: {
    E_DTYPE: () => nansum(zeros([2]), 0, { dtype: 'q' }),
  },
  diff: {
    E_AXIS: () => diff(zeros([2]), 1, 3),
  },
  meshgrid: {
    E_SHAPE: () => meshgrid([ones([2]), ones([2, 2])]),
  },
  trace: {
    E_SHAPE: () => trace(zeros([3])),
  },
  diag: {
    E_SHAPE: () => diag(zeros([2, 2, 2])),
  },
  glu: {
    E_SHAPE: () => glu(zeros([3])),
    E_AXIS: () => glu(zeros([4]), 2),
  },
  inner: {
    E_SHAPE: () => inner(zeros([2]), zeros([3])),
  },
  cross: {
    E_SHAPE: () => cross(zeros([2]), zeros([2])),
    E_AXIS: () => cross(zeros([3]), zeros([3]), 1),
  },
  cov: {
    E_SHAPE: () => cov(zeros([2, 2, 2])),
  },
}
