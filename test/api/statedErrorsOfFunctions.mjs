/**
 * Transforms, control flow, optimisers and programs.
 * For each function and each code that its comment says it throws, a call that throws it, as users of JavaScript write it: nothing checks
 * types. `examples.test.ts` makes the calls, adds those that many functions share, and asks for each that a comment says.
 */
import { cuda } from '../../src/cuda.ts'
import {
  associativeScan,
  cond,
  customJvp,
  customVjp,
  dim,
  evaluate,
  foriLoop,
  grad,
  hessian,
  inspect,
  jacfwd,
  jacrev,
  jit,
  jvp,
  linearize,
  ones,
  opaque,
  optim,
  program,
  scan,
  setDevice,
  spec,
  stopGradient,
  tensor,
  tidy,
  tree,
  trigamma,
  valueAndGrad,
  vjp,
  vmap,
  whileLoop,
  zeros,
} from '../../src/index.ts'
import { importOnnx } from '../../src/onnx.ts'
import { webgpu } from '../../src/webgpu.ts'

const same = (x) => x
const seen = (x) => inspect(x, () => {})
const kept = (x) => [x, null]
const backwardOnly = customVjp(same, kept, (_, g) => [g])
const kernel = (type) => ({ name: 'kernel', shapeRule: () => type, run: () => {} })
const gone = () => {
  const x = tensor([1])
  x.dispose()
  return x
}

/** By name and code. */
export const statedErrorsOfFunctions = {
  customJvp: {
    E_STRUCTURE: () => grad((x) => customJvp(same, () => 3)(x).sum())(zeros([2])),
    E_SHAPE: () => grad((x) => customJvp(same, ([y], [d]) => [y, d.reshape([2, 1])])(x).sum())(zeros([2])),
    E_DTYPE: () => grad((x) => customJvp(same, ([y], [d]) => [y, d.astype('f64')])(x).sum())(zeros([2])),
    E_UNSUPPORTED: () => grad((x) => customJvp(same, ([y], [d]) => [seen(y), d])(x).sum())(zeros([2])),
  },
  customVjp: {
    E_STRUCTURE: () => grad((x) => customVjp(same, kept, (_, g) => [g, g])(x).sum())(zeros([2])),
    E_SHAPE: () => grad((x) => customVjp(same, kept, (_, g) => [g.reshape([2, 1])])(x).sum())(zeros([2])),
    E_DTYPE: () => grad((x) => customVjp(same, kept, (_, g) => [g.astype('f64')])(x).sum())(zeros([2])),
    E_UNSUPPORTED: () => jvp(backwardOnly, [zeros([2])], [zeros([2])])[1].tolist(),
  },
  associativeScan: {
    E_STRUCTURE: () => associativeScan((a, _b) => [a], zeros([2])),
    E_SHAPE: () => associativeScan((a, b) => a.add(b), [zeros([2]), zeros([3])]),
    E_DTYPE: () => associativeScan((a) => a.astype('i32'), zeros([2])),
    E_AXIS: () => associativeScan((a) => a, zeros([2]), { axis: 4 }),
  },
  vmap: {
    E_SHAPE: () => vmap((x, _y) => x)(zeros([2]), zeros([3])),
    E_AXIS: () => vmap((x) => x, { inAxes: 5 })(zeros([2])),
    E_STRUCTURE: () => vmap((x) => x, { inAxes: [0, 0] })(zeros([2])),
  },
  cond: {
    E_DTYPE: () =>
      cond(
        zeros([2]),
        (y) => y,
        (y) => y,
        zeros([1]),
      ),
    E_STRUCTURE: () =>
      cond(
        tensor(true),
        (y) => y,
        (y) => [y],
        zeros([1]),
      ),
    E_SHAPE: () =>
      cond(
        tensor(true),
        (y) => y,
        (y) => y.reshape([1, 1]),
        zeros([1]),
      ),
    E_UNSUPPORTED: () =>
      cond(
        tensor(true),
        (y) => inspect(y, () => {}),
        (y) => y,
        zeros([1]),
      ),
  },
  foriLoop: {
    E_STRUCTURE: () => foriLoop(0, 2, (_i, c) => [c], tensor(0)),
    E_SHAPE: () => foriLoop(zeros([1], 'i32'), 2, (_i, c) => c, tensor(0)),
    E_DTYPE: () => foriLoop(tensor(1), 2, (_i, c) => c, tensor(0)),
    E_UNSUPPORTED: () => foriLoop(0, 2, (_i, c) => inspect(c, () => {}), tensor(0)),
  },
  scan: {
    E_STRUCTURE: () => scan((a) => a, tensor(0), tensor([1])),
    E_SHAPE: () => scan((a, x) => [a, x], tensor(0), [tensor([1]), tensor([1, 2])]),
    E_DTYPE: () => scan((a, x) => [a.astype('i32'), x], tensor(0), zeros([2])),
    E_UNSUPPORTED: () => scan((a, x) => [inspect(a, () => {}), x], tensor(0), zeros([2])),
  },
  whileLoop: {
    E_DTYPE: () =>
      whileLoop(
        (x) => x,
        (x) => x,
        tensor(0),
      ),
    E_STRUCTURE: () =>
      whileLoop(
        (x) => x.less(3),
        (x) => [x],
        tensor(0),
      ),
    E_SHAPE: () =>
      whileLoop(
        (x) => x.less(3).all(),
        (x) => x.reshape([1]),
        tensor(0),
      ),
    E_UNSUPPORTED: () =>
      whileLoop(
        (x) => x.less(3),
        (x) => inspect(x.add(1), () => {}),
        tensor(0),
      ),
  },
  grad: {
    E_SHAPE: () => grad((x) => x)(zeros([2])),
    E_STRUCTURE: () => grad((x) => [x])(zeros([])),
    E_DTYPE: () => grad((x) => x.sum())(zeros([2], 'i32')),
    E_UNSUPPORTED: () => grad((x) => trigamma(x).sum())(ones([2])),
  },
  jvp: {
    E_STRUCTURE: () => jvp((x) => x, [zeros([2])], [[3]]),
    E_SHAPE: () => jvp((x) => x, [zeros([2])], [zeros([3])]),
    E_DTYPE: () => jvp((x) => x, [zeros([2])], [zeros([2], 'f64')]),
    E_UNSUPPORTED: () => jvp(backwardOnly, [zeros([2])], [zeros([2])])[1].tolist(),
  },
  linearize: {
    E_UNSUPPORTED: () => linearize((x) => trigamma(x), ones([2])),
    E_STRUCTURE: () => linearize((x) => x, zeros([2]))[1]([3]),
    E_SHAPE: () => linearize((x) => x, zeros([2]))[1](zeros([3])),
    E_DTYPE: () => linearize((x) => x, zeros([2]))[1](zeros([2], 'f64')),
  },
  stopGradient: {
    E_STRUCTURE: () => stopGradient(new Map()),
  },
  valueAndGrad: {
    E_SHAPE: () => valueAndGrad((x) => x)(zeros([2])),
    E_STRUCTURE: () => valueAndGrad((x) => [x])(zeros([])),
    E_DTYPE: () => valueAndGrad((x) => x.sum())(zeros([2], 'i32')),
    E_UNSUPPORTED: () => valueAndGrad((x) => trigamma(x).sum())(ones([2])),
  },
  vjp: {
    E_UNSUPPORTED: () => vjp((x) => trigamma(x), ones([2])),
    E_STRUCTURE: () => vjp((x) => x, zeros([2]))[1]([3]),
    E_SHAPE: () => vjp((x) => x, zeros([2]))[1](zeros([3])),
    E_DTYPE: () => vjp((x) => x, zeros([2]))[1](zeros([2], 'f64')),
  },
  hessian: {
    E_DTYPE: () => hessian((x) => x.astype('i32'))(ones([2])),
    E_UNSUPPORTED: () => hessian((x) => trigamma(x))(ones([2])),
  },
  jacfwd: {
    E_DTYPE: () => jacfwd((x) => x.astype('i32'))(zeros([2])),
    E_UNSUPPORTED: () => jacfwd((x) => trigamma(x))(ones([2])),
  },
  jacrev: {
    E_DTYPE: () => jacrev((x) => x.astype('i32'))(ones([2])),
    E_UNSUPPORTED: () => jacrev((x) => trigamma(x))(ones([2])),
  },
  jit: {
    E_NOT_CONCRETE: () => jit((x) => x.item())(zeros([1])),
    E_DISPOSED: () => {
      const f = jit(same)
      f.dispose()
      return f(zeros([1]))
    },
    E_STRUCTURE: () => jit((x) => x)(new Map()),
  },
  program: {
    E_SHAPE: () => program(() => 3, { x: { shape: 3 } }),
    E_DTYPE: () => program(() => 3, { x: { shape: [3], dtype: 'q' } }),
  },
  setDevice: {
    E_DEVICE: () => setDevice('q'),
  },
  dim: {
    E_ARGUMENT: () => dim('batch', 3, 2),
  },
  'Dim.plus': {
    E_ARGUMENT: () => dim('past').plus(-1),
  },
  spec: {
    E_SHAPE: () => spec([-1]),
    E_OVERFLOW: () => spec([1e9, 1e9]),
    E_DTYPE: () => spec([2], 'q'),
  },
  opaque: {
    E_SHAPE: () => opaque(kernel({ shape: [-1], dtype: 'f32' }), zeros([2])),
    E_DTYPE: () => opaque(kernel({ shape: [1], dtype: 'q' }), zeros([2])),
    E_CALLBACK: () =>
      opaque(
        {
          name: 'a',
          shapeRule: () => ({ shape: [1], dtype: 'f32' }),
          run() {
            throw 3
          },
        },
        zeros([2]),
      ).tolist(),
  },
  evaluate: {
    E_STRUCTURE: () => evaluate(new Map()),
  },
  tidy: {
    E_STRUCTURE: () => tidy(() => new Map()),
  },
  'optim.clipByGlobalNorm': {
    E_STRUCTURE: () => optim.clipByGlobalNorm(new Map(), 1),
    E_DTYPE: () => optim.clipByGlobalNorm(zeros([1], 'i32'), 1),
  },
  'optim.globalNorm': {
    E_STRUCTURE: () => optim.globalNorm(new Map()),
    E_DTYPE: () => optim.globalNorm(zeros([1], 'i32')),
  },
  'tree.map': {
    E_STRUCTURE: () => tree.map((a) => a, [zeros([1])], []),
  },
  'tree.leaves': {
    E_STRUCTURE: () => tree.leaves(new Map()),
  },
  inspect: {
    E_CALLBACK: () =>
      inspect(zeros([2]), () => {
        throw new Error('mine')
      }),
    E_UNSUPPORTED: () => cond(tensor(true), seen, same, zeros([1])),
  },
  'Tensor.data': {
    E_DISPOSED: () => gone().data(),
    E_NOT_CONCRETE: () => jit((x) => x.dataSync())(zeros([1])),
    E_LEAKED_TRACER: () => {
      const kept = []
      jit((x) => kept.push(x))(zeros([1]))
      return kept[0].data()
    },
  },
  importOnnx: {
    E_ONNX_MALFORMED: () => importOnnx(new Uint8Array([1, 2, 3])),
    E_ARGUMENT: () => importOnnx('model.onnx'),
    E_FILE: () => importOnnx(new Uint8Array(0), { compiled: new Uint8Array(3) }),
  },
  cuda: { E_ARGUMENT: () => cuda({ odd: 1 }) },
  webgpu: { E_ARGUMENT: () => webgpu({ odd: 1 }) },
}
