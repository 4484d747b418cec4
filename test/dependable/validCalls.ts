/** One valid call of every public function and method, as its arguments: what tests of misuse change. */
import * as s from '../../src/index.ts'
import { type ScalarOp, scalarInfo, scalarOps } from '../../src/scalar/ops.ts'

const f32 = (...shape: number[]): s.Tensor => s.ones(shape).mul(0.5)
const i32 = (...values: number[]): s.Tensor => s.tensor(values, { dtype: 'i32' })

const reductions = ['sum', 'prod', 'max', 'min', 'mean', 'any', 'all', 'logsumexp', 'argmax', 'argmin']

/** Operations of floats that are functions of the same name. */
const ofTable = (arity: number): string[] =>
  (Object.keys(scalarOps) as ScalarOp[]).filter(
    (op) =>
      scalarInfo(op).arity === arity &&
      scalarInfo(op).on.includes('float') &&
      Object.hasOwn(s, op) &&
      !reductions.includes(op),
  )

/** Functions of one tensor or number. */
const elementwise = [
  ...ofTable(1),
  ...['isfinite', 'square', 'reciprocal', 'exp2', 'log2', 'log10', 'logicalNot', 'relu', 'selu', 'silu', 'softplus'],
  ...['softsign', 'hardSigmoid', 'hardSwish', 'mish', 'zerosLike', 'onesLike', 'logSigmoid', 'relu6', 'ravel'],
]
const pairs = [
  ...ofTable(2),
  ...['floorDivide', 'mod', 'maximum', 'minimum', 'logaddexp', 'logicalAnd', 'logicalOr', 'logicalXor'],
  ...['equal', 'notEqual', 'less', 'lessEqual', 'greater', 'greaterEqual'],
]
const integerPairs = ['bitwiseAnd', 'bitwiseOr', 'bitwiseXor', 'leftShift', 'rightShift']

/** Arguments after the tensor, by method; functions of the same name take the tensor first. */
const afterTensor: Readonly<Record<string, () => unknown[]>> = {
  ...Object.fromEntries(reductions.map((name) => [name, () => [1, true]])),
  var: () => [0, false, 1],
  variance: () => [0, false, 1],
  std: () => [0, false, 1],
  norm: () => [2, 0, false],
  cumsum: () => [1, { reverse: true }],
  cumprod: () => [0, {}],
  cummax: () => [1, { reverse: true }],
  cummin: () => [0, {}],
  logcumsumexp: () => [1, {}],
  countNonzero: () => [1, true],
  nansum: () => [1, true],
  diff: () => [1, 0],
  sort: () => [0, { descending: true }],
  argsort: () => [-1, {}],
  topK: () => [2, { largest: false }],
  median: () => [1, true],
  quantile: () => [0.5, 1, { method: 'linear' }],
  isclose: () => [f32(3), {}],
  allclose: () => [f32(3), {}],
  nanToNum: () => [{ nan: 1 }],
  celu: () => [1],
  glu: () => [0],
  trace: () => [0],
  diag: () => [0],
  inner: () => [f32(4, 3)],
  cross: () => [f32(3), -1],
  kron: () => [f32(2, 2)],
  cov: () => [{}],
  clip: () => [0, 1],
  astype: () => ['i32'],
  bitcast: () => ['u32'],
  reshape: () => [[3, 2]],
  transpose: () => [[1, 0]],
  swapaxes: () => [0, 1],
  moveaxis: () => [0, 1],
  broadcastTo: () => [[4, 2, 3]],
  expandDims: () => [0],
  squeeze: () => [[]],
  flatten: () => [0, 1],
  slice: () => [[0, 1], null],
  pad: () => [
    [
      [1, 1],
      [0, 0],
    ],
    'constant',
    0,
  ],
  flip: () => [0],
  tile: () => [[2, 1]],
  repeat: () => [2, 0],
  roll: () => [1, 0],
  split: () => [3, 1],
  at: () => [i32(0, 1), [0, 2]],
  take: () => [i32(0, 1), 1],
  takeAlongAxis: () => [s.zeros([2, 1], 'i32'), 1],
  matmul: () => [f32(3, 2)],
  dot: () => [f32(3, 2)],
  softmax: () => [-1],
  logSoftmax: () => [-1],
  leakyRelu: () => [0.1],
  elu: () => [1],
  gelu: () => ['none'],
  fullLike: () => [3],
  tril: () => [0],
  triu: () => [0],
  diagonal: () => [0],
  gatherND: () => [s.zeros([1, 1], 'i32'), 0],
  scatterND: () => [s.zeros([1, 1], 'i32'), f32(1, 3), 'sum'],
  scatterAlongAxis: () => [s.zeros([1, 3], 'i32'), f32(1, 3), 0, 'set'],
  outer: () => [f32(2)],
  tensordot: () => [f32(3, 2), 1],
  slidingWindow: () => [1, 2, 1, 1],
  layerNorm: () => [{ epsilon: 1e-5 }],
  rmsNorm: () => [{}],
  linear: () => [f32(3, 4), f32(4)],
  inspect: () => [() => {}],
}

const image = (): s.Tensor => f32(1, 2, 4, 4)
const square = (x: s.Tensor): s.Tensor => x.mul(x).sum()
const key = (): s.Tensor => s.random.key(1)
const kernel = {
  name: 'twice',
  shapeRule: ([x]: readonly { shape: s.Shape }[]) => ({ shape: x?.shape ?? [], dtype: 'f32' as const }),
  run: () => {},
}

/** Arguments of functions that take no tensor first, or one of another shape. */
const own: Readonly<Record<string, () => unknown[]>> = {
  ...Object.fromEntries(elementwise.map((name) => [name, () => [f32(2, 3)]])),
  ...Object.fromEntries(pairs.map((name) => [name, () => [f32(2, 3), f32(3)]])),
  ...Object.fromEntries(integerPairs.map((name) => [name, () => [i32(1, 2), i32(1, 1)]])),
  bitwiseNot: () => [i32(1, 2)],
  where: () => [s.tensor([true, false]), f32(2), 0],
  associativeScan: () => [(a: s.Tensor, b: s.Tensor) => a.add(b), f32(4), { axis: 0 }],
  vmap: () => [square, { inAxes: 0 }],
  checkpoint: () => [square],
  cond: () => [s.tensor(true), (x: s.Tensor) => x, (x: s.Tensor) => x.neg(), f32(2)],
  foriLoop: () => [0, 3, (_: s.Tensor, c: s.Tensor) => c.add(1), f32(2)],
  scan: () => [(c: s.Tensor, x: s.Tensor) => [c.add(x), c], s.tensor(0), f32(3), {}],
  whileLoop: () => [(c: s.Tensor) => c.less(3), (c: s.Tensor) => c.add(1), s.tensor(0)],
  customJvp: () => [square, (x: s.Tensor[], t: s.Tensor[]) => [x, t]],
  customVjp: () => [square, (x: s.Tensor) => [square(x), x], (x: s.Tensor, ct: s.Tensor) => [x.mul(ct)]],
  grad: () => [square, {}],
  valueAndGrad: () => [square, {}],
  hessian: () => [square, {}],
  jacfwd: () => [square, {}],
  jacrev: () => [square, {}],
  jvp: () => [square, [f32(2)], [f32(2)]],
  linearize: () => [square, f32(2)],
  vjp: () => [square, f32(2)],
  stopGradient: () => [f32(2)],
  jit: () => [square, {}],
  batchNorm: () => [image(), f32(2), f32(2), {}],
  batchNormTraining: () => [image(), {}],
  groupNorm: () => [image(), 2, {}],
  attention: () => [f32(2, 4), f32(3, 4), f32(3, 4), {}],
  rotary: () => [f32(3, 4), {}],
  dropout: () => [f32(3), key(), 0.5],
  embedding: () => [f32(4, 2), i32(0, 3)],
  crossEntropy: () => [f32(2, 3), i32(0, 2), -1],
  'optim.adam': () => [{ learningRate: 0.1 }],
  'optim.adamw': () => [{ learningRate: 0.1 }],
  'optim.sgd': () => [{ learningRate: 0.1 }],
  'optim.clipByGlobalNorm': () => [[f32(2)], 1],
  'optim.globalNorm': () => [[f32(2)]],
  'optim.constant': () => [1],
  'optim.cosineDecay': () => [{ from: 1, steps: 10 }],
  'optim.exponentialDecay': () => [{ from: 1, rate: 0.5, steps: 10 }],
  'optim.linear': () => [{ from: 1, to: 0, steps: 10 }],
  'optim.linearWarmup': () => [10, 1],
  'optim.piecewise': () => [[10], [1, 0.1]],
  'optim.stepDecay': () => [{ from: 1, rate: 0.5, every: 10 }],
  isProgram: () => [{}],
  program: () => [({ x }: { x: s.Tensor }) => x, { x: { shape: [2] } }, 'name'],
  'random.key': () => [1],
  'random.split': () => [key(), 2],
  'random.foldIn': () => [key(), 1],
  'random.bits': () => [key(), [3], 'u8'],
  'random.uniform': () => [key(), [3], 'f32'],
  'random.normal': () => [key(), [3], 'f32'],
  'random.bernoulli': () => [key(), 0.5, [3]],
  'random.exponential': () => [key(), [3], 'f32'],
  'random.gumbel': () => [key(), [3], 'f32'],
  'random.categorical': () => [key(), f32(2, 3), { axis: -1 }],
  'random.permutation': () => [key(), f32(2, 3), 1],
  'random.choice': () => [key(), f32(4), [3], { replace: true }],
  'random.gamma': () => [key(), f32(3), [3], 'f32'],
  'random.beta': () => [key(), f32(3), 2, [3], 'f32'],
  'random.truncatedNormal': () => [key(), -1, 1, [3], 'f32'],
  'random.integers': () => [key(), [3], 0, 10],
  getDevice: () => [],
  memory: () => [],
  setDevice: () => ['reference', {}],
  onWarning: () => [null],
  spec: () => [[2], 'f32'],
  dim: () => ['batch', 1, 8],
  'tree.map': () => [(x: s.Tensor) => x, [f32(2)]],
  'tree.leaves': () => [[f32(2)]],
  tensor: () => [[1, 2], { dtype: 'f32' }],
  full: () => [[2], 1, 'f32'],
  arange: () => [0, 4, 1, 'i32'],
  zeros: () => [[2], 'f32'],
  ones: () => [[2], 'f32'],
  linspace: () => [0, 1, 5],
  iota: () => [[2, 3], 1, 'i32'],
  eye: () => [2, 3, 0, 'f32'],
  searchsorted: () => [f32(4), f32(2, 3), { side: 'left' }],
  bincount: () => [i32(0, 1, 1), { length: 3 }],
  nonzero: () => [f32(4), { size: 2 }],
  unique: () => [f32(4), { size: 2 }],
  histogram: () => [f32(4), { bins: 2 }],
  segmentSum: () => [f32(2, 3), i32(0, 1), 2],
  interp: () => [f32(2), f32(3), f32(3), {}],
  dynamicSlice: () => [f32(4, 3), [1, s.tensor(0, { dtype: 'i32' })], [2, 2]],
  dynamicUpdateSlice: () => [f32(4, 3), f32(2, 2), [1, s.tensor(0, { dtype: 'i32' })]],
  concat: () => [[f32(2), f32(3)], 0],
  meshgrid: () => [[f32(2), f32(3)], {}],
  stack: () => [[f32(2), f32(2)], 0],
  opaque: () => [kernel, f32(2)],
  convTranspose: () => [image(), f32(2, 1, 3, 3), {}],
  oneHot: () => [i32(0, 1), 3, {}],
  einsum: () => ['ij,jk->ik', f32(2, 3), f32(3, 2)],
  conv: () => [image(), f32(2, 2, 3, 3), {}],
  conv2d: () => [image(), f32(2, 2, 3, 3), {}],
  maxPool: () => [image(), [2, 2], {}],
  averagePool: () => [image(), [2, 2], {}],
  globalAveragePool: () => [image()],
  globalMaxPool: () => [image()],
  evaluate: () => [[f32(2)]],
  tidy: () => [() => f32(2)],
}

/** A valid call. */
export interface ValidCall {
  readonly call: (...args: readonly unknown[]) => unknown
  readonly args: () => unknown[]
}

const tensor = (): s.Tensor => f32(2, 3)

function functionAt(path: string): (...args: readonly unknown[]) => unknown {
  const found = path.split('.').reduce<unknown>((at, name) => new Map(Object.entries(at as object)).get(name), s)
  return found as (...args: readonly unknown[]) => unknown
}

const given = <T>(table: Readonly<Record<string, T>>, name: string): T | undefined =>
  Object.hasOwn(table, name) ? table[name] : undefined

/** The valid call of a path of the public interface; undefined where there is none (interfaces, other entries). */
export function validCall(path: string): ValidCall | undefined {
  const method = /^Tensor\.(\w+)$/.exec(path)?.[1]
  if (method !== undefined) {
    const rest = given(afterTensor, method) ?? (pairs.includes(method) ? () => [f32(3)] : () => [])
    return {
      call: (...args) =>
        (tensor() as unknown as Record<string, (...a: readonly unknown[]) => unknown>)[method]?.(...args),
      args: rest,
    }
  }
  if (path === 'Dim.plus') {
    const past = s.dim('past', 0, 64)
    return { call: (other) => past.plus(other as s.Dim), args: () => [s.dim('new', 1, 8)] }
  }
  const mine = given(own, path)
  if (mine !== undefined) return { call: functionAt(path), args: mine }
  const rest = given(afterTensor, path)
  return rest === undefined ? undefined : { call: functionAt(path), args: () => [tensor(), ...rest()] }
}
