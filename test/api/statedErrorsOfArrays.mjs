/**
 * NumPy's functions of arrays.
 * For each function and each code that its comment says it throws, a call that throws it, as users of JavaScript write it: nothing checks
 * types. `examples.test.ts` makes the calls, adds those that many functions share, and asks for each that a comment says.
 */
import { cov, cross, diag, diff, glu, inner, meshgrid, nansum, ones, trace, zeros } from '../../src/index.ts'

/** By name and code. */
export const statedErrorsOfArrays = {
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
