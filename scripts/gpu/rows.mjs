/** The rows of the GPU benchmark: plain expressions at the sizes of published comparisons, with the bytes or flops of their floor. */
import * as api from '../../src/index.ts'

const { nn, random, where, concat, tree } = api
const bytesOf = { f32: 4, bf16: 2, i32: 4, u32: 4, i8: 1, u8: 1 }
export const size = (shape) => shape.reduce((a, b) => a * b, 1)
const f32 = (x) => x.astype('f32')
const bf16 = (x) => x.astype('bf16')
const rms = (h) => h.square().mean(-1, true).add(1e-6).rsqrt()

/**
 * Inputs: [shape, dtype, kind], kind a distribution; made on the device. Keys come from the host: as elements of one split they
 * would make every input a program of its own.
 */
export function makeInputs(specs, seed) {
  const keys = specs.map((_, i) => random.key(seed * 4096 + i))
  return specs.map(([shape, dtype = 'f32', kind = 'normal'], i) => {
    if (kind === 'key') return random.key(seed + 17)
    if (Array.isArray(kind)) return random.integers(keys[i], shape, kind[0], kind[1]).astype(dtype)
    return kind === 'uniform' ? random.uniform(keys[i], shape, dtype) : random.normal(keys[i], shape, dtype)
  })
}

export const bytes = (...specs) => specs.reduce((n, [shape, dtype = 'f32']) => n + size(shape) * bytesOf[dtype], 0)

/** Few rows times weights, of int8 with a scale for every column or of bf16: bound by the bytes of the weights. */
const fewRows = (name, m, k, n, dtype) => ({
  name,
  title: `${m} rows times ${dtype} weights${dtype === 'i8' ? ' with scales' : ''}, ${k} x ${n}`,
  specs: (small) => {
    const [rows, depth, columns] = small ? [Math.min(m, 5), 83, 61] : [m, k, n]
    return [
      [[rows, depth], 'bf16'],
      [[depth, columns], dtype, dtype === 'i8' ? [-127, 128] : 'normal'],
      ...(dtype === 'i8' ? [[[columns], 'bf16', [1, 3]]] : []),
    ]
  },
  f: (x, w, scale) => x.matmul(scale === undefined ? w : w.astype('bf16').mul(scale)),
  floor: (specs) => bytes(...specs) + 2 * specs[0][0][0] * specs[1][0][1],
  flops: ([[[rows, depth]], [[, columns]]]) => 2 * rows * depth * columns,
})

/**
 * 16 rows times `count` matrices of weights in few bits with scales, one program: no cache holds them. [k, n] of int8 with a scale a column, [n, k] of
 * int8 with a scale a row, or [n, k] of pairs of 4 bits in groups of 32.
 */
const manyWeights = (kind, count) => ({
  name: `many_${kind}`,
  title: `16 rows times ${count} matrices 4096 x 14336, ${kind}`,
  specs: (small) => {
    const [m, k, n, times] = small ? [5, 4096, 301, 2] : [16, 4096, 14336, count]
    const [weights, scales] = {
      i8_kn: [[[k, n], 'i8', [-127, 128]], [n]],
      i8_nk: [
        [[n, k], 'i8', [-127, 128]],
        [n, 1],
      ],
      i4_nk: [
        [[n, k / 2], 'u8', [0, 256]],
        [n, k / 32, 1],
      ],
    }[kind]
    return [[[m, k], 'bf16'], ...Array(times).fill(weights), ...Array(times).fill([scales, 'bf16', 'uniform'])]
  },
  f: (x, ...all) => {
    const times = all.length / 2
    const wide = (w) => {
      if (kind !== 'i4_nk') return w.astype('bf16')
      const [n, half] = w.shape
      const pairs = api.stack([api.bitwiseAnd(w, 15), api.rightShift(w, 4)], -1)
      return pairs
        .reshape([n, half / 16, 32])
        .astype('bf16')
        .sub(8)
    }
    return all.slice(0, times).map((w, i) => {
      const v = wide(w).mul(all[times + i])
      return x.matmul(kind === 'i8_kn' ? v : v.reshape([w.shape[0], x.shape[1]]).transpose())
    })
  },
  floor: (specs) =>
    bytes(...specs) + ((specs.length - 1) / 2) * 2 * specs[0][0][0] * specs[1][0][kind === 'i8_kn' ? 1 : 0],
  // Scaled weights of four bits are rounded to bf16, as plain operations round them: 0.9 at most in sums of 4096 terms, which are 170 by their root mean square.
  tolerance: kind === 'i4_nk' ? 1 : 8e-2,
})

/** A convolution with bias and ReLU: data [n, channels, ...spatial], `options` of it, weights [out, channels / groups, ...kernel]. */
const convolution = (name, dtype, data, weights, options) => {
  const [n, channels, ...spatial] = data
  const [out, perGroup, ...kernel] = weights
  const per = (k, i) => (Array.isArray(options[k]) ? options[k][i] : options[k])
  const at = (size, i) => Math.floor((size + 2 * (per('padding', i) ?? 0) - kernel[i]) / (per('stride', i) ?? 1)) + 1
  const result = (x) => [x[0], out, ...x.slice(2).map(at)]
  return {
    name: `conv_${name}`,
    title: `convolution ${dtype} [${data}] * [${weights}] ${JSON.stringify(options)} + bias, ReLU`,
    specs: (small) => [
      [small ? [Math.min(n, 2), channels, ...spatial.map((e) => Math.min(e, 9))] : data, dtype],
      [weights, dtype],
      [[out], dtype],
    ],
    f: (x, w, b) =>
      api
        .conv2d(x, w, options)
        .add(b.reshape([out, ...spatial.map(() => 1)]))
        .relu(),
    floor: ([x, w]) => bytes(x, w, [result(x[0]), dtype]),
    flops: ([x]) => 2 * size(result(x[0])) * perGroup * size(kernel),
    tolerance: dtype === 'f32' ? 1e-2 : 8e-2,
    ...(dtype === 'f32' ? { precision: 'tf32' } : {}),
  }
}

/** The gradient of a convolution in its data, given the cotangent of its result. */
const dataGradient = (name, dtype, data, weights, options) => {
  const forward = convolution(name, dtype, data, weights, options)
  const [, , ...kernel] = weights
  const result = (x) => [
    x[0],
    weights[0],
    ...x.slice(2).map((e, i) => Math.floor((e + 2 * (options.padding ?? 0) - kernel[i]) / (options.stride ?? 1)) + 1),
  ]
  return {
    ...forward,
    name: `grad_${forward.name}`,
    title: `gradient in the data of a convolution ${dtype} [${data}] * [${weights}] ${JSON.stringify(options)}`,
    specs: (small) => {
      const [x, w] = forward.specs(small)
      return [x, w, [result(x[0]), dtype]]
    },
    f: (x, w, ct) => api.grad((y) => api.conv2d(y, w, options).mul(ct).sum())(x),
    floor: ([x, w, ct]) => bytes(x, w, ct),
  }
}

/**
 * A row: `specs(scale)` gives inputs at the size measured (`scale` undefined) or small ones for the comparison with the
 * reference; `f` is the program; `floor(specs)` the bytes any implementation moves; `tolerance` of the comparison.
 */
const measured = [
  {
    name: 'log_exp',
    title: 'log(exp(x)+1), 128M f32',
    specs: (small) => [[[small ? 10007 : 1 << 27]]],
    f: (x) => x.exp().add(1).log(),
    floor: ([x]) => 2 * bytes(x),
  },
  {
    name: 'silu_mul',
    title: 'SiLU(a) * b, 16k x 11008 bf16',
    specs: (small) => [[small ? [37, 2 * 203] : [16384, 22016], 'bf16']],
    f: (x) => {
      const half = x.shape[1] / 2
      return nn.silu(x.slice(null, [0, half])).mul(x.slice(null, [half, 2 * half]))
    },
    floor: ([x]) => 1.5 * bytes(x),
  },
  {
    name: 'sum_exp',
    title: 'sum(exp(x)), 128M f32',
    specs: (small) => [[[small ? 70001 : 1 << 27]]],
    f: (x) => x.exp().sum(),
    floor: ([x]) => bytes(x),
    tolerance: 1e-4,
  },
  {
    name: 'add_rmsnorm',
    title: 'residual add + RMSNorm, both outputs, 16k x 4k bf16',
    specs: (small) => {
      const shape = small ? [35, 517] : [16384, 4096]
      return [
        [shape, 'bf16'],
        [shape, 'bf16'],
        [[shape[1]], 'bf16'],
      ]
    },
    f: (x, r, w) => {
      const s = x.add(r)
      const h = f32(s)
      return [bf16(h.mul(rms(h))).mul(w), s]
    },
    floor: ([x]) => 4 * bytes(x),
  },
  {
    name: 'softmax',
    title: 'softmax 16k x 4k bf16',
    specs: (small) => [[small ? [33, 701] : [16384, 4096], 'bf16']],
    f: (x) => x.softmax(-1),
    floor: ([x]) => 2 * bytes(x),
  },
  {
    name: 'layernorm',
    title: 'layernorm 16k x 4k bf16',
    specs: (small) => {
      const shape = small ? [33, 701] : [16384, 4096]
      return [
        [shape, 'bf16'],
        [[shape[1]], 'bf16'],
        [[shape[1]], 'bf16'],
      ]
    },
    f: (x, scale, bias) => nn.layerNorm(x, { scale, bias }),
    floor: ([x]) => 2 * bytes(x),
  },
  {
    name: 'layernorm_backward',
    title: 'layernorm forward + backward, 16k x 4k bf16',
    specs: (small) => {
      const shape = small ? [33, 701] : [16384, 4096]
      return [
        [shape, 'bf16'],
        [[shape[1]], 'bf16'],
        [[shape[1]], 'bf16'],
        [shape, 'bf16'],
      ]
    },
    f: (x, scale, bias, g) => {
      const [y, pull] = api.vjp((a, s, b) => nn.layerNorm(a, { scale: s, bias: b }), x, scale, bias)
      return [y, ...pull(g)]
    },
    floor: ([x]) => 5 * bytes(x),
    tolerance: 6e-2,
  },
  {
    name: 'rmsnorm_rope',
    title: 'per-head RMSNorm + RoPE, 16k x 40 x 128 bf16',
    specs: (small) => {
      const t = small ? 19 : 16384
      return [
        [[t, small ? 3 : 40, 128], 'bf16'],
        [[128], 'bf16'],
        [[t, 1, 64], 'f32'],
        [[t, 1, 64], 'f32'],
      ]
    },
    f: (qk, w, cos, sin) => {
      const x = f32(qk)
      const h = x.mul(rms(x)).mul(f32(w))
      const [a, b] = h.split(2, -1)
      return bf16(concat([a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))], -1))
    },
    floor: ([x, , c, s]) => 2 * bytes(x) + bytes(c, s),
  },
  {
    name: 'gelu_dropout',
    title: 'bias + GELU + dropout, 16k x 4k bf16',
    specs: (small) => {
      const shape = small ? [31, 523] : [16384, 4096]
      return [
        [shape, 'bf16'],
        [[shape[1]], 'bf16'],
        [[2], 'u32', 'key'],
      ]
    },
    f: (x, b, key) => nn.dropout(nn.gelu(x.add(b)), key, 0.1),
    floor: ([x]) => 2 * bytes(x),
  },
  {
    name: 'cross_entropy',
    title: 'cross-entropy forward + backward, 4k x 128256 bf16',
    specs: (small) => [
      [small ? [13, 1283] : [4096, 128256], 'bf16'],
      [[small ? 13 : 4096], 'i32', [0, small ? 1283 : 128256]],
    ],
    f: (x, t) => api.valueAndGrad((l) => nn.crossEntropy(f32(l), t).mean())(x),
    floor: ([x]) => 3 * bytes(x),
  },
  {
    name: 'relu_bias_backward',
    title: 'ReLU backward with the bias gradient, 16k x 4k bf16',
    specs: (small) => {
      const shape = small ? [131, 257] : [16384, 4096]
      return [
        [shape, 'bf16'],
        [shape, 'bf16'],
      ]
    },
    f: (y, g) => {
      const d = where(y.greater(0), g, 0)
      return [d, f32(d).sum(0)]
    },
    floor: ([x]) => 3 * bytes(x),
  },
  {
    name: 'adamw',
    title: 'AdamW, 200 tensors of 1M f32',
    specs: (small) => {
      const n = small ? 5 : 200
      return Array.from({ length: 4 * n }, (_, i) => [
        [small ? 1000 + 37 * (i % n) : 1 << 20],
        'f32',
        i >= 3 * n ? 'uniform' : 'normal',
      ])
    },
    /** Parameters, gradients, first and second moments. */
    f: (...all) => {
      const n = all.length / 4
      const part = (k) => all.slice(k * n, (k + 1) * n)
      const state = { step: api.tensor(3, { dtype: 'i32' }), first: part(2), second: part(3) }
      const next = api.optim.adamw({ learningRate: 1e-3 }).update(part(1), state, part(0))
      return [...next.params, ...next.state.first, ...next.state.second]
    },
    donates: (n) => Array.from({ length: n }, (_, i) => i).filter((i) => i < n / 4 || i >= n / 2),
    /** The arguments of the next step: what came out, and the gradients again. */
    next: (args, out) => {
      const n = args.length / 4
      return [...out.slice(0, n), ...args.slice(n, 2 * n), ...out.slice(n)]
    },
    floor: (specs) => (7 / 4) * bytes(...specs),
    tolerance: 1e-4,
  },
  {
    name: 'matmul_gelu',
    title: 'gelu(x @ w + b), 8k x 4k x 4k bf16',
    specs: (small) => {
      const [m, k, n] = small ? [200, 328, 264] : [8192, 4096, 4096]
      return [
        [[m, k], 'bf16'],
        [[k, n], 'bf16'],
        [[n], 'bf16'],
      ]
    },
    f: (x, w, b) => nn.gelu(x.matmul(w).add(b), 'tanh'),
    floor: ([x, w, b]) => 2 * bytes(x) + bytes(w, b),
    flops: ([[[m, k]], [[, n]]]) => 2 * m * k * n,
    tolerance: 8e-2,
  },
  fewRows('int8_matmul', 16, 8192, 8192, 'i8'),
  fewRows('int8_matmul_wide', 16, 4096, 14336, 'i8'),
  fewRows('bf16_matmul_few', 16, 8192, 8192, 'bf16'),
  manyWeights('i8_kn', 32),
  manyWeights('i8_nk', 32),
  manyWeights('i4_nk', 32),
  {
    name: 'matmul',
    title: 'x @ w, 8k x 8k x 8k bf16: the ceiling of matrix products',
    specs: (small) => {
      const [m, k, n] = small ? [65, 47, 83] : [8192, 8192, 8192]
      return [
        [[m, k], 'bf16'],
        [[k, n], 'bf16'],
      ]
    },
    f: (x, w) => x.matmul(w),
    floor: ([x, w]) => 2 * bytes(x) + bytes(w),
    flops: ([[[m, k]], [[, n]]]) => 2 * m * k * n,
    tolerance: 8e-2,
  },
  convolution('3x3', 'bf16', [64, 256, 56, 56], [256, 256, 3, 3], { padding: 1 }),
  convolution('odd', 'bf16', [32, 131, 27, 29], [77, 131, 3, 3], { padding: 1 }),
  convolution('stem', 'bf16', [64, 3, 224, 224], [64, 3, 7, 7], { padding: 3, stride: 2 }),
  convolution('1x1', 'bf16', [64, 256, 56, 56], [64, 256, 1, 1], {}),
  convolution('7x7_late', 'bf16', [64, 512, 7, 7], [512, 512, 3, 3], { padding: 1 }),
  convolution('3x3_f32', 'f32', [64, 256, 56, 56], [256, 256, 3, 3], { padding: 1 }),
  convolution('stem_f32', 'f32', [64, 3, 224, 224], [64, 3, 7, 7], { padding: 3, stride: 2 }),
  convolution('late_f32', 'f32', [64, 512, 7, 7], [512, 512, 3, 3], { padding: 1 }),
  dataGradient('3x3', 'bf16', [64, 128, 56, 56], [256, 128, 3, 3], { padding: 1, stride: 2 }),
  dataGradient('3x3_f32', 'f32', [64, 128, 57, 57], [256, 128, 3, 3], { padding: 1, stride: 2 }),
  dataGradient('stem_f32', 'f32', [64, 3, 224, 224], [64, 3, 7, 7], { padding: 3, stride: 2 }),
  {
    name: 'chain100',
    title: '100 dependent elementwise operations on 1024 elements',
    specs: () => [[[1024]]],
    f: (x) => {
      let y = x
      for (let i = 0; i < 50; i++) y = y.mul(0.99).add(0.01)
      return y
    },
    floor: ([x]) => 2 * bytes(x),
    latency: true,
  },
  {
    name: 'tanh_means',
    title: '50 steps of tanh and of subtracting the mean along alternating axes, 1024 x 32',
    specs: () => [[[1024, 32]]],
    f: (x) => {
      let y = x
      for (let i = 0; i < 50; i++) {
        y = y.tanh()
        y = y.sub(y.mean(i % 2, true))
      }
      return y
    },
    floor: ([x]) => 2 * bytes(x),
    latency: true,
    tolerance: 1e-4,
  },
]

/** A row of a transformer's activations at four times the tokens. */
const fourTimes = (row) => ({
  ...row,
  name: `${row.name}_4x`,
  title: `${row.title}, four times the rows`,
  specs: (small) =>
    small
      ? row.specs(true)
      : row.specs(false).map(([[n, ...rest], ...more]) => [[n === 16384 ? 4 * n : n, ...rest], ...more]),
})

export const rows = [
  ...measured,
  ...measured
    .filter((r) => ['add_rmsnorm', 'softmax', 'layernorm', 'layernorm_backward', 'rmsnorm_rope'].includes(r.name))
    .map(fourTimes),
]

/** The tensors of a result, whatever its structure. */
export const leaves = (result) => tree.leaves(result)
