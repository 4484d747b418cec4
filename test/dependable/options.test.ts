/**
 * Unknown options are refused with the nearest known name, in every options object of the public interface.
 *
 * Sites: src/api/{jit,session,control,associativeScan,derivatives,jacobians,batching,literal,linalg,nn,reductions,program}.ts,
 * src/api/optim/{adam,sgd,schedules}.ts, src/cuda.ts, src/webgpu.ts, src/onnx.ts. The type checker lists them
 * (publicApi.ts), so that one more needs its line here.
 */
import { describe, expect, it } from 'vitest'
import { cuda } from '../../src/cuda.ts'
import { nearestName } from '../../src/diagnostics/nearest.ts'
import * as s from '../../src/index.ts'
import { importOnnx } from '../../src/onnx.ts'
import { webgpu } from '../../src/webgpu.ts'
import { encodeModel } from '../onnx/encode.ts'
import { readPublicApi } from './publicApi.ts'

const x = s.ones([2, 3])
const image = s.ones([1, 2, 4, 4])
const weights = s.ones([2, 2, 3, 3])
const labels = s.tensor([0, 1], { dtype: 'i32' })
const channels = s.ones([2])
const square = (y: s.Tensor): s.Tensor => y.mul(y).sum()
const model = encodeModel({
  nodes: [{ op: 'Relu', in: ['x'], out: ['y'] }],
  inputs: [{ name: 'x', type: 1, dims: [2] }],
  outputs: [{ name: 'y', type: 1, dims: [2] }],
})

type Call = (options: never) => unknown

/** The functions of a namespace that the main entry has too. */
const both = (name: string, call: Call): Record<string, Call> => ({
  [`${name}(options)`]: call,
  [`nn.${name}(options)`]: call,
})

type Reduction = (x: s.Tensor, axis: number, options: never) => unknown

/** Reductions, as methods and as functions. */
const names = ['sum', 'prod', 'max', 'min', 'mean', 'any', 'all', 'logsumexp', 'argmax', 'argmin'] as const
const functions = new Map(Object.entries(s))
const reductions = names.map((name) => ({
  name,
  asFunction: functions.get(name) as Reduction,
  asMethod: (y: s.Tensor, axis: number, o: never) => y[name](axis, o),
}))

const calls: Readonly<Record<string, Call>> = {
  'associativeScan(options)': (o) => s.associativeScan((a: s.Tensor, b: s.Tensor) => a.add(b), x, o),
  'vmap(options)': (o) => s.vmap(square, o),
  'scan(options)': (o) => s.scan((c: s.Tensor, y: s.Tensor) => [c.add(y), null], s.zeros([3]), x, o),
  'grad(options)': (o) => s.grad(square, o),
  'valueAndGrad(options)': (o) => s.valueAndGrad(square, o),
  'hessian(options)': (o) => s.hessian(square, o),
  'jacfwd(options)': (o) => s.jacfwd(square, o),
  'jacrev(options)': (o) => s.jacrev(square, o),
  'jit(options)': (o) => s.jit(square, o),
  ...both('layerNorm', (o) => s.layerNorm(x, o)),
  ...both('rmsNorm', (o) => s.rmsNorm(x, o)),
  ...both('batchNorm', (o) => s.batchNorm(image, channels, channels, o)),
  ...both('batchNormTraining', (o) => s.batchNormTraining(image, o)),
  ...both('groupNorm', (o) => s.groupNorm(image, 2, o)),
  ...both('attention', (o) => s.attention(x, x, x, o)),
  ...both('rotary', (o) => s.rotary(s.ones([3, 4]), o)),
  'optim.adam(options)': s.optim.adam,
  'optim.adamw(options)': s.optim.adamw,
  'optim.sgd(options)': s.optim.sgd,
  'optim.linear(options)': s.optim.linear,
  'optim.cosineDecay(options)': s.optim.cosineDecay,
  'optim.exponentialDecay(options)': s.optim.exponentialDecay,
  'optim.stepDecay(options)': s.optim.stepDecay,
  'setDevice(options)': (o) => s.setDevice('wasm', o),
  'tensor(options)': (o) => s.tensor([1, 2], o),
  'oneHot(options)': (o) => s.oneHot(labels, 3, o),
  'conv(options)': (o) => s.conv(image, weights, o),
  'conv2d(options)': (o) => s.conv2d(image, weights, o),
  'convTranspose(options)': (o) => s.convTranspose(image, weights, o),
  'maxPool(options)': (o) => s.maxPool(image, [2, 2], o),
  'averagePool(options)': (o) => s.averagePool(image, [2, 2], o),
  'searchsorted(options)': (o) => s.searchsorted(channels, x, o),
  'bincount(options)': (o) => s.bincount(labels, o),
  'nonzero(options)': (o) => s.nonzero(x, o),
  'unique(options)': (o) => s.unique(x, o),
  'histogram(options)': (o) => s.histogram(x, o),
  'interp(options)': (o) => s.interp(x, channels, channels, o),
  'sort(options)': (o) => s.sort(x, 0, o),
  'argsort(options)': (o) => s.argsort(x, 0, o),
  'topK(options)': (o) => s.topK(x, 1, o),
  'median(keepdims)': (o) => s.median(x, 0, o),
  'quantile(options)': (o) => s.quantile(x, 0.5, 0, o),
  'random.categorical(options)': (o) => s.random.categorical(s.random.key(0), x, o),
  'random.choice(options)': (o) => s.random.choice(s.random.key(0), x, [2], o),
  'isclose(options)': (o) => s.isclose(x, x, o),
  'allclose(options)': (o) => s.allclose(x, x, o),
  'nanToNum(options)': (o) => s.nanToNum(x, o),
  'meshgrid(options)': (o) => s.meshgrid([channels, channels], o),
  'cov(options)': (o) => s.cov(x, o),
  'cummax(options)': (o) => s.cummax(x, 0, o),
  'cummin(options)': (o) => s.cummin(x, 0, o),
  'logcumsumexp(options)': (o) => s.logcumsumexp(x, 0, o),
  'countNonzero(keepdims)': (o) => s.countNonzero(x, 0, o),
  'nansum(keepdims)': (o) => s.nansum(x, 0, o),
  'cumsum(options)': (o) => s.cumsum(x, 0, o),
  'cumprod(options)': (o) => s.cumprod(x, 0, o),
  'Tensor.cumsum(options)': (o) => x.cumsum(0, o),
  'Tensor.cumprod(options)': (o) => x.cumprod(0, o),
  ...Object.fromEntries(
    reductions.flatMap(({ name, asFunction, asMethod }): [string, Call][] => [
      [`${name}(keepdims)`, (o) => asFunction(x, 0, o)],
      [`Tensor.${name}(keepdims)`, (o) => asMethod(x, 0, o)],
    ]),
  ),
  'variance(keepdims)': (o) => s.variance(x, 0, o),
  'Tensor.var(keepdims)': (o) => x.var(0, o),
  'std(keepdims)': (o) => s.std(x, 0, o),
  'Tensor.std(keepdims)': (o) => x.std(0, o),
  'norm(keepdims)': (o) => s.norm(x, 2, 0, o),
  'Tensor.norm(keepdims)': (o) => x.norm(2, 0, o),
  'sinter/onnx:importOnnx(options)': (o) => importOnnx(model, o),
  'sinter/cuda:cuda(options)': cuda,
  'sinter/webgpu:webgpu(options)': webgpu,
}

/** Objects that no user writes: what the library asks of a device. */
const notOptions = /^sinter\/\w+:Device\.compile(Open)?\(request\)$/

const found = readPublicApi().options.filter((o) => !notOptions.test(o.path))

async function failure(call: () => unknown): Promise<s.UserError> {
  try {
    await call()
  } catch (error) {
    if (error instanceof s.UserError) return error
    throw error
  }
  throw new Error('it passes in silence')
}

it('the public interface has these options objects', () => {
  expect(found.map((o) => o.path).toSorted()).toEqual(Object.keys(calls).toSorted())
})

describe.each(found)('$path', ({ path, names }) => {
  const call = calls[path] as (options: unknown) => unknown
  it('refuses a name it does not have, and lists those it has', async () => {
    const error = await failure(() => call({ zzzz: 1 }))
    expect(error.code).toBe('E_ARGUMENT')
    expect(error.summary).toContain('has no option "zzzz"')
    expect(error.help?.replace('the options are ', '').split(', ').toSorted()).toEqual([...names].toSorted())
  })
  it.each(names)('says %s for a name near it', async (name) => {
    const error = await failure(() => call({ [`${name}x`]: 1 }))
    expect(error.summary).toContain(`has no option "${name}x"`)
    expect(error.help).toMatch(new RegExp(`^write ${name}; `))
  })
  it.each([
    ['null', null],
    ['a list', []],
    ['text', 'same'],
    ['a tensor', x],
    ['a Map', new Map([['a', 1]])],
  ])('refuses %s', async (_, odd) => {
    const error = await failure(() => call(odd))
    expect(error.code).toBe('E_ARGUMENT')
  })
  it('refuses a promise', async () => {
    expect((await failure(() => call(Promise.resolve({})))).code).toBe('E_ARGUMENT')
  })
})

describe('names that users of other libraries write', () => {
  const cases: readonly (readonly [wrote: string, meant: string, call: () => unknown])[] = [
    ['donated', 'donate', () => s.jit(square, { donated: [0] } as never)],
    ['strides', 'stride', () => s.conv2d(image, weights, { strides: 2 } as never)],
    ['eps', 'epsilon', () => s.layerNorm(x, { eps: 1e-6 } as never)],
    ['keepDims', 'keepdims', () => x.sum(1, { keepDims: true } as never)],
    ['keep_dims', 'keepdims', () => s.mean(x, 1, { keep_dims: true } as never)],
    ['learning_rate', 'learningRate', () => s.optim.sgd({ learning_rate: 0.1 } as never)],
    ['thread', 'threads', () => s.setDevice('wasm', { thread: 2 } as never)],
    ['dilations', 'dilation', () => s.maxPool(image, [2, 2], { dilations: 2 } as never)],
    ['type', 'dtype', () => s.tensor([1], { type: 'i32' } as never)],
    ['isCausal', 'causal', () => s.attention(x, x, x, { isCausal: true } as never)],
  ]
  it.each(cases)('%s: %s', async (wrote, meant, call) => {
    const error = await failure(call)
    expect(`${error.code} ${error.summary}`).toContain(`has no option "${wrote}"`)
    expect(error.help).toMatch(new RegExp(`^write ${meant}; `))
  })
  it('a name from nowhere has no suggestion', () => {
    expect(nearestName('colour', ['stride', 'padding'])).toBeUndefined()
    expect(nearestName('x'.repeat(1e6), ['stride'])).toBeUndefined()
  })
  it('names that objects inherit are no options', async () => {
    for (const name of ['toString', '__proto__', 'constructor', 'hasOwnProperty']) {
      const options = Object.defineProperty({}, name, { value: 1, enumerable: true })
      expect((await failure(() => s.jit(square, options))).summary).toBe(`jit has no option "${name}"`)
    }
  })
})

describe('an object where the value itself is wanted', () => {
  const k = s.random.key(1)
  const cases: readonly (readonly [message: string, call: (odd: never) => unknown, odd: object])[] = [
    ['E_AXIS softmax: the axes are an object with axes', (o) => s.softmax(x, o), { axes: 1 }],
    ['E_AXIS sum: the axes are an object with axis, keepdims', (o) => x.sum(o), { axis: 1, keepdims: true }],
    ['E_AXIS concat: axis is an object with axis', (o) => s.concat([x, x], o), { axis: 1 }],
    ['E_ARGUMENT dropout: the rate is an object with p', (o) => s.dropout(x, k, o), { p: 0.5 }],
    ['E_ARGUMENT dropout: an operand is an object with p, not a tensor', (o) => s.dropout(x, o, 0.5), { p: 0.5 }],
    ['E_ARGUMENT maxPool: the window: an object with pad, not a list', (o) => s.maxPool(image, o), { pad: 1 }],
    ['E_DTYPE random.normal: random values of an object with seed', (o) => s.random.normal(k, [2], o), { seed: 1 }],
    ['E_ARGUMENT random.key: the seed is an object with seed', (o) => s.random.key(o), { seed: 1 }],
    ['E_DTYPE zeros: a dtype is an object with dtype', (o) => s.zeros([2], o), { dtype: 'i32' }],
    ['E_SHAPE reshape: the shape is an object with shape, not a list of extents', (o) => x.reshape(o), { shape: [6] }],
    ['E_ARGUMENT leakyRelu: the slope is an object', (o) => s.leakyRelu(x, o), { a: 1, b: 1, c: 1, d: 1 }],
  ]
  it.each(cases)('%s', async (message, call, odd) => {
    for (const given of [odd, Object.assign(Object.create(null), odd)]) {
      const error = await failure(() => call(given as never))
      expect(`${error.code} ${error.summary}`).toBe(message)
      expect(error.help).toBeDefined()
    }
  })
})

describe('values of options', () => {
  const cases: readonly (readonly [message: string, call: () => unknown])[] = [
    ['threads is 1.5', () => s.setDevice('wasm', { threads: 1.5 })],
    ['threads is 0', () => s.setDevice('wasm', { threads: 0 })],
    ['threads is "4"', () => s.setDevice('wasm', { threads: '4' as never })],
    ['conv2d: stride is 0', () => s.conv2d(image, weights, { stride: 0 })],
    ['conv2d: stride is an array', () => s.conv2d(image, weights, { stride: [1, 0.5] })],
    ['conv: groups is 1.5', () => s.conv(image, weights, { groups: 1.5 })],
    ['sum: keepdims is "yes"', () => x.sum(0, { keepdims: 'yes' as never })],
    ['sum: keepdims is 1', () => x.sum(0, 1 as never)],
    ['attention: causal is "no"', () => s.attention(x, x, x, { causal: 'no' as never })],
    ['layerNorm: epsilon is a Tensor', () => s.layerNorm(x, { epsilon: s.tensor(1) as never })],
    ['cumsum: reverse is 1', () => x.cumsum(0, { reverse: 1 as never })],
    ['hasAux is 1', () => s.grad(square, { hasAux: 1 as never })],
  ]
  it.each(cases)('%s', async (message, call) => {
    const error = await failure(call)
    expect(`${error.code} ${error.summary}`).toBe(`E_ARGUMENT ${message}`)
    expect(error.help).toMatch(/^give /)
  })
  it('options that a device takes when it is opened are not passed in silence', async () => {
    const before = s.getDevice()
    const error = await failure(() => s.setDevice('cuda', { threads: 2 }))
    expect(error.code).toBe('E_DEVICE')
    const device = (await import('../../src/api/device/session.ts')).deviceOr(undefined)
    expect((await failure(() => s.setDevice(device, { threads: 2 }))).code).toBe('E_ARGUMENT')
    expect(s.getDevice()).toBe(before)
  })
})

it('{ keepdims } is what true is', () => {
  expect(x.sum(1, { keepdims: true }).shape).toEqual([2, 1])
  expect(s.argmax(x, 1, { keepdims: true }).shape).toEqual([2, 1])
  expect(x.var(0, { keepdims: true }, 1).shape).toEqual([1, 3])
  expect(x.norm(1, 0, { keepdims: false }).shape).toEqual([3])
})
