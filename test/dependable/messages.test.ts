/**
 * Messages that name the mistake and the remedy: JavaScript's operators on tensors, numbers where a list is wanted, one-hot labels,
 * shapes for specs, seeds, padding by its names in the field, names of dtypes elsewhere.
 *
 * Sites: src/api/{elements,tensor,linalg,creation,random,literal,slicing,traceFunction,derivatives,program}.ts,
 * src/compose/{nn,window}.ts, src/types/{shape,dtype}.ts; padding in src/onnx/ops/window.ts.
 */
import { inspect } from 'node:util'
import { describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'

const x = s.ones([3, 4])
const key = s.random.key(1)
const image = s.tensor(
  Float32Array.from({ length: 50 }, (_, i) => Math.sin(i)),
  { shape: [1, 2, 5, 5] },
)
const wrong = (v: unknown): never => v as never

function failure(call: () => unknown): s.UserError {
  try {
    call()
  } catch (error) {
    if (error instanceof s.UserError) return error
    throw error
  }
  throw new Error('it passes in silence')
}

type Case = readonly [code: string, summary: string, help: string, call: () => unknown]

const cases: Readonly<Record<string, readonly Case[]>> = {
  'operators of JavaScript': (
    [
      ['x + 1', () => (x as unknown as number) + 1],
      ["'' + x", () => ['a'].reduce((text, y) => text + y + wrong(x), '')],
      ['1 + x', () => 1 + (x as unknown as number)],
      // biome-ignore lint/suspicious/noDoubleEquals: the operator in question
      ['x == 1', () => wrong(x) == 1],
      ['x * 2', () => (x as unknown as number) * 2],
      ['x > 0', () => (x as unknown as number) > 0],
      ['-x', () => -(x as unknown as number)],
    ] as const
  ).map(
    ([, call]): Case => [
      'E_ARGUMENT',
      'an operator of JavaScript on a tensor f32[3, 4]',
      'compute with methods (x.add(1), x.greater(0)), or take the number of a scalar with item(); in text write String(x)',
      call,
    ],
  ),
  'numbers one by one': [
    ['E_SHAPE', 'reshape: the shape is 2, not a list of extents', 'write [2, 6]', () => x.reshape(wrong(2), wrong(6))],
    ['E_SHAPE', 'reshape: the shape is 12, not a list of extents', 'write [12]', () => s.reshape(x, wrong(12))],
    [
      'E_SHAPE',
      'reshape: the shape is 2, not a list of extents',
      'write [2, 2, 3]',
      () => s.reshape(x, wrong(2), wrong(2), wrong(3)),
    ],
    [
      'E_SHAPE',
      'broadcastTo: the shape is 3, not a list of extents',
      'write [3, 4]',
      () => x.broadcastTo(wrong(3), wrong(4)),
    ],
    ['E_SHAPE', 'zeros: the shape is 2, not a list of extents', 'write [2, 3]', () => s.zeros(wrong(2), wrong(3))],
    [
      'E_SHAPE',
      'ones: the shape is 2, not a list of extents',
      'write [2, 3, 4]',
      () => s.ones(wrong(2), wrong(3), wrong(4)),
    ],
    [
      'E_SHAPE',
      'random.normal: the shape is 2, not a list of extents',
      'write [2, 3]',
      () => s.random.normal(key, wrong(2), wrong(3)),
    ],
    [
      'E_ARGUMENT',
      'transpose: the axes: a number, not a list',
      'give a list such as [1, 0]',
      () => x.transpose(wrong(1), wrong(0)),
    ],
    [
      'E_ARGUMENT',
      'tile: the repetitions: a number, not a list',
      'give a list such as [2, 3]',
      () => x.tile(wrong(2), wrong(3)),
    ],
    ['E_ARGUMENT', 'flip: axes are given one by one', 'give a list such as [0, 1]', () => x.flip(0, wrong(1))],
    [
      'E_ARGUMENT',
      'squeeze: axes are given one by one',
      'give a list such as [0, 1]',
      () => s.ones([1, 1]).squeeze(0, wrong(1)),
    ],
    [
      'E_ARGUMENT',
      'expandDims: axes are given one by one',
      'give a list such as [0, 2]',
      () => s.expandDims(x, 0, wrong(2)),
    ],
    [
      'E_ARGUMENT',
      'sum: keepdims is 1',
      'give true or false, or { keepdims: true }; several axes are a list: sum([0, 1])',
      () => x.sum(0, wrong(1)),
    ],
  ],
  'labels of a loss': [
    [
      'E_SHAPE',
      'crossEntropy: labels [2, 3] have the class axis, as one-hot labels do',
      "pass the number of each row's class: argmax(labels, -1); for probabilities use logSoftmax(logits, -1).mul(labels).sum(-1).neg()",
      () =>
        s.crossEntropy(
          s.ones([2, 3]),
          s.tensor([
            [1, 0, 0],
            [0, 1, 0],
          ]),
        ),
    ],
    [
      'E_SHAPE',
      'crossEntropy: labels [1] for logits [2, 3]',
      'labels have the shape of the logits without the class axis: [2]',
      () => s.crossEntropy(s.ones([2, 3]), s.zeros([1], 'i32')),
    ],
    [
      'E_DTYPE',
      'crossEntropy: the labels are f32',
      "labels are the numbers of classes: cast them with astype('i32')",
      () => s.crossEntropy(s.ones([2, 3]), s.zeros([2])),
    ],
  ],
  'arguments without tensors': [
    [
      'E_ARGUMENT',
      'a function given to jit got a list of numbers and no tensor, and threw: y.add is not a function',
      'pass tensors, such as tensor([1, 2]); in explain and compile spec([3]) stands for one of that shape',
      () => s.jit((y: s.Tensor) => y.add(1)).explain(wrong([3])),
    ],
    [
      'E_ARGUMENT',
      'a function given to jit got an object with shape and no tensor, and threw: y.add is not a function',
      'pass tensors, such as tensor([1, 2]); in explain and compile spec([2, 3]) stands for one of that shape',
      () => s.jit((y: s.Tensor) => y.add(1)).explain(wrong({ shape: [3] })),
    ],
    [
      'E_ARGUMENT',
      "a function given to jit got no argument and no tensor, and threw: Cannot read properties of undefined (reading 'add')",
      'pass tensors, such as tensor([1, 2]); in explain and compile spec([2, 3]) stands for one of that shape',
      () => (s.jit((y: s.Tensor) => y.add(1)).compile as () => void)(),
    ],
    [
      'E_ARGUMENT',
      'a function given to jit got nothing but a number and a string and no tensor, and threw: y.add is not a function',
      'pass tensors, such as tensor([1, 2]); in explain and compile spec([2, 3]) stands for one of that shape',
      () => s.jit((y: s.Tensor, z: s.Tensor) => y.add(z))(wrong(3), wrong('a')),
    ],
    [
      'E_ARGUMENT',
      'grad takes a function, and got a Tensor',
      'write grad((x) => ...), or give the function itself and not its result',
      () => s.grad(wrong(x)),
    ],
    ...['valueAndGrad', 'jacfwd', 'jacrev', 'hessian', 'vmap', 'jit', 'checkpoint'].map((name): Case => {
      const f = Object.entries(s).find(([n]) => n === name)?.[1] as (f: s.Tensor) => unknown
      return [
        'E_ARGUMENT',
        `${name} takes a function, and got a Tensor`,
        `write ${name}((x) => ...), or give the function itself and not its result`,
        () => f(x),
      ]
    }),
  ],
  'inputs of a program': [
    [
      'E_ARGUMENT',
      'the inputs of program are undefined',
      'give the shape of each input by its name: { x: { shape: [8, 4] } }',
      () => s.program((v) => v, wrong(undefined)),
    ],
    [
      'E_ARGUMENT',
      'the inputs of f are an array',
      'give the shape of each input by its name: { x: { shape: [8, 4] } }',
      () =>
        s.program(
          function f(v) {
            return v
          },
          wrong([[2]]),
        ),
    ],
    [
      'E_ARGUMENT',
      'the input x of program is an array',
      'give the shape of each input by its name: { x: { shape: [8, 4] } }',
      () => s.program((v) => v, { x: wrong([2]) }),
    ],
    [
      'E_ARGUMENT',
      'the input x of program has no "shapes"',
      'write shape; an input has shape, dtype',
      () => s.program((v) => v, { x: wrong({ shapes: [2] }) }),
    ],
    [
      'E_ARGUMENT',
      'the input x of program has no shape',
      'give the shape of each input by its name: { x: { shape: [8, 4] } }',
      () => s.program((v) => v, { x: wrong({ dtype: 'f32' }) }),
    ],
    [
      'E_SHAPE',
      'the shape is 8, not a list of extents',
      'write [8]',
      () => s.program((v) => v, { x: wrong({ shape: 8 }) }),
    ],
    [
      'E_DTYPE',
      'there is no dtype "float32"',
      "write 'f32'",
      () => s.program((v) => v, { x: wrong({ shape: [8], dtype: 'float32' }) }),
    ],
  ],
  seeds: [
    ['E_ARGUMENT', 'random.key: the seed is 1.5', 'give a whole number', () => s.random.key(1.5)],
    ['E_ARGUMENT', 'random.key: the seed is NaN', 'give a whole number', () => s.random.key(Number.NaN)],
    ['E_ARGUMENT', 'random.key: the seed is a string', 'give a whole number', () => s.random.key(wrong('7'))],
    ['E_ARGUMENT', 'random.key: the seed is a Tensor', 'give a whole number', () => s.random.key(wrong(x))],
    [
      'E_ARGUMENT',
      'random.key: the seed is 9007199254740992, which stands for several whole numbers',
      'give a number of at most 2 ** 53 - 1 in magnitude, or a bigint: 123n',
      () => s.random.key(2 ** 53),
    ],
    [
      'E_ARGUMENT',
      'random.foldIn: the number is -1e+300, which stands for several whole numbers',
      'give a number of at most 2 ** 53 - 1 in magnitude, or a bigint: 123n',
      () => s.random.foldIn(key, -1e300),
    ],
    [
      'E_ARGUMENT',
      'random.key: the seed has more than 64 bits',
      'give a bigint from -(2n ** 63n) to 2n ** 64n - 1n: BigInt.asUintN(64, n) has the low bits of one',
      () => s.random.key(2n ** 64n),
    ],
    [
      'E_ARGUMENT',
      'random.key: the seed has more than 64 bits',
      'give a bigint from -(2n ** 63n) to 2n ** 64n - 1n: BigInt.asUintN(64, n) has the low bits of one',
      () => s.random.key(-(2n ** 63n) - 1n),
    ],
  ],
  'values for tensors': [
    [
      'E_ARGUMENT',
      'tensor: the data is a Tensor',
      'it is a tensor already; astype converts one, reshape gives it another shape',
      () => s.tensor(wrong(x)),
    ],
    [
      'E_ARGUMENT',
      'tensor: an element is a Tensor',
      'stack([a, b]) and concat([a, b]) join tensors',
      () => s.tensor(wrong([x, x])),
    ],
    ['E_ARGUMENT', 'tensor: the data is a Promise', 'await it first', () => s.tensor(wrong(Promise.resolve(1)))],
    ['E_DTYPE', 'astype: there is no dtype "float32"', "write 'f32'", () => x.astype(wrong('float32'))],
    ['E_DTYPE', 'astype: there is no dtype "int64"', "write 'i64'", () => x.astype(wrong('int64'))],
    ['E_DTYPE', 'zeros: there is no dtype "uint8"', "write 'u8'", () => s.zeros([2], wrong('uint8'))],
    ['E_DTYPE', 'zeros: there is no dtype "bfloat16"', "write 'bf16'", () => s.zeros([2], wrong('bfloat16'))],
    ['E_DTYPE', 'zeros: there is no dtype "boolean"', "write 'bool'", () => s.zeros([2], wrong('boolean'))],
    [
      'E_DTYPE',
      'zeros: there is no dtype "toString"',
      'use one of f32, f64, f16, bf16, i8, i16, i32, i64, u8, u16, u32, u64, bool',
      () => s.zeros([2], wrong('toString')),
    ],
  ],
  padding: [
    [
      'E_ARGUMENT',
      'conv2d: there is no padding "full"',
      "use 'SAME', 'VALID', a whole number, or a pair [before, after] for each spatial axis",
      () => s.conv2d(image, s.ones([1, 2, 3, 3]), { padding: wrong('full') }),
    ],
    [
      'E_ARGUMENT',
      'maxPool: the padding of one axis is 1',
      'give a pair [before, after] for each spatial axis, such as [[1, 1], [0, 1]]',
      () => s.maxPool(image, [2, 2], { padding: wrong([1, 1]) }),
    ],
    [
      'E_ARGUMENT',
      'convTranspose: the padding is 0.5',
      "use 'SAME', 'VALID', a whole number, or a pair [before, after] for each spatial axis",
      () => s.convTranspose(image, s.ones([2, 1, 3, 3]), { padding: 0.5 }),
    ],
    [
      'E_SHAPE',
      'conv2d: data of shape [2, 5, 5]',
      'data is [batch, channels, height, width], weights are [out, channels / groups, height, width]; conv takes any number of spatial axes',
      () => s.conv2d(s.ones([2, 5, 5]), s.ones([1, 2, 3])),
    ],
  ],
}

describe.each(Object.entries(cases))('%s', (_, list) => {
  it.each(list)('%s %s', (code, summary, help, call) => {
    const error = failure(call)
    expect({ code: error.code, summary: error.summary, help: error.help }).toEqual({ code, summary, help })
    expect(error.where).toMatch(/messages\.test\.ts:\d+:\d+$/)
  })
})

describe('tensors as text', () => {
  const text = 'Tensor(f32[2])\n[1.0, 1.0]'
  const v = s.ones([2])
  it('templates, String, join, inspect and JSON work', () => {
    expect(`${v}`).toBe(text)
    expect(String(v)).toBe(text)
    expect([v, 1].join(' ')).toBe(`${text} 1`)
    expect(inspect(v)).toBe(text)
    expect(inspect({ v })).toContain('Tensor(f32[2])')
    expect({ [String(v)]: 1 }).toEqual({ [text]: 1 })
    expect(JSON.parse(JSON.stringify(v))).toEqual({ shape: [2], dtype: 'f32' })
  })
  it('comparing for identity works', () => {
    const same: unknown = v
    expect(v === same).toBe(true)
    expect([v].includes(v)).toBe(true)
  })
})

it('an error in code that was given tensors is its own', () => {
  const f = s.jit((_y: s.Tensor) => (undefined as unknown as { size: number }).size)
  expect(() => f(x)).toThrow(TypeError)
  expect(() => s.jit(() => (undefined as unknown as { size: number }).size)()).toThrow(TypeError)
  expect(() =>
    s.jit((n: number) => {
      throw new RangeError(`no ${n}`)
    })(3),
  ).toThrow(RangeError)
})

it('seeds of 64 bits', () => {
  const words = (seed: number | bigint): number[] => [...s.random.key(seed).dataSync()].map(Number)
  expect(words(-1)).toEqual(words(2n ** 64n - 1n))
  expect(words(2 ** 53 - 1)).toEqual([0x1fffff, 0xffffffff])
  expect(words(-(2n ** 63n))).toEqual([0x80000000, 0])
  expect(words(-5n)).toEqual(words(-5))
})

describe('padding by its names in the field', () => {
  /** TensorFlow's formula, one axis: extent of the result and padding before. */
  const same = (n: number, k: number, stride: number, dilation: number): readonly [number, number, number] => {
    const out = Math.ceil(n / stride)
    const total = Math.max(0, (out - 1) * stride + (k - 1) * dilation + 1 - n)
    return [out, Math.floor(total / 2), total - Math.floor(total / 2)]
  }
  const grid = [5, 6, 7].flatMap((n) =>
    [1, 2, 3, 4].flatMap((k) => [1, 2, 3].flatMap((stride) => [1, 2].map((dilation) => ({ n, k, stride, dilation })))),
  )
  const data = (n: number): s.Tensor =>
    s
      .arange(1, n + 1)
      .astype('f32')
      .reshape([1, 1, n])

  it('SAME is the pairs of the formula, for convolutions and poolings', () => {
    for (const { n, k, stride, dilation } of grid) {
      const [out, before, after] = same(n, k, stride, dilation)
      const w = s
        .arange(1, k + 1)
        .astype('f32')
        .reshape([1, 1, k])
      const options = { stride, dilation }
      for (const name of ['SAME', 'same'] as const) {
        const pairs = { ...options, padding: [[before, after]] as const }
        const named = { ...options, padding: name }
        const y = s.conv(data(n), w, named)
        expect(y.shape).toEqual([1, 1, out])
        expect(y.tolist()).toEqual(s.conv(data(n), w, pairs).tolist())
        expect(s.maxPool(data(n), [k], named).tolist()).toEqual(s.maxPool(data(n), [k], pairs).tolist())
        expect(s.averagePool(data(n), [k], named).tolist()).toEqual(s.averagePool(data(n), [k], pairs).tolist())
      }
    }
  })

  it('a transposed convolution with SAME has n * stride elements, and is the transpose of the convolution with SAME', () => {
    for (const { n, k, stride, dilation } of grid) {
      if (dilation > 1 && (k - 1) * dilation + 1 < stride) continue
      const w = s
        .arange(1, k + 1)
        .astype('f32')
        .reshape([1, 1, k])
      for (const padding of ['SAME', 'same'] as const) {
        const options = { stride, dilation, padding }
        const y = s.convTranspose(data(n), w, options)
        expect(y.shape).toEqual([1, 1, n * stride])
        const [, pullback] = s.vjp((v: s.Tensor) => s.conv(v, w, options), s.zeros([1, 1, n * stride]))
        expect(y.tolist()).toEqual(pullback(data(n))[0].tolist())
      }
    }
  })

  it('VALID pads nothing, SAME_LOWER has the odd element before', () => {
    const w = s.ones([1, 1, 2])
    expect(s.conv(data(5), w, { padding: 'VALID' }).tolist()).toEqual(s.conv(data(5), w).tolist())
    expect(s.convTranspose(data(5), w, { padding: 'VALID' }).shape).toEqual([1, 1, 6])
    expect(s.maxPool(data(5), [2], { padding: 'VALID' }).shape).toEqual([1, 1, 2])
    expect(s.conv(data(5), w, { padding: 'SAME' }).tolist()).toEqual([[[3, 5, 7, 9, 5]]])
    expect(s.conv(data(5), w, { padding: 'SAME_LOWER' }).tolist()).toEqual([[[1, 3, 5, 7, 9]]])
  })
})
