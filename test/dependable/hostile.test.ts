/**
 * Every public function and method, misused once in each argument: a coded error with a remedy that names the user's line, or a result;
 * never an error from inside the library. What may pass in silence is listed by kind.
 *
 * Sites: src/api/{options,slicing,creation,linalg,math,nn,random,control,program,warnings}.ts, src/api/optim/schedules.ts,
 * src/types/shape.ts (axes), and the compositions they call.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import * as s from '../../src/index.ts'
import { nightly } from '../support/nightly.ts'
import { readPublicApi } from './publicApi.ts'
import { validCall } from './validCalls.ts'

const before = s.getDevice()
beforeAll(() => s.setDevice('reference'))
afterAll(() => s.setDevice(before))

const wrongs: Readonly<Record<string, () => unknown>> = {
  nothing: () => undefined,
  null: () => null,
  text: () => 'text',
  'an object': () => ({}),
  'a fraction': () => 1.5,
  'a huge number': () => 1e300,
  'a promise': () => Promise.resolve(s.ones([2])),
  'a symbol': () => Symbol('x'),
  'a bigint': () => 3n,
  'a tensor of rank 3': () => s.ones([2, 3, 4]),
  'a tensor of bools': () => s.ones([2, 3], 'bool'),
  'a tensor spec': () => s.spec([2, 3]),
  'a DataView': () => new DataView(new ArrayBuffer(8)),
  'options there are not': () => ({ zzzz: 1 }),
  'an object without a prototype': () => Object.create(null),
  'options without a prototype': () => Object.assign(Object.create(null), { zzzz: 1 }),
  'a revoked object': () => revoked({}),
  'a revoked list': () => revoked([]),
  'a revoked function': () => revoked(() => 1),
  'a revoked tensor': () => revoked(s.ones([2, 3])),
  'a list of something revoked': () => [revoked({})],
  'an entry that throws': () => throwing({}, 'zzzz'),
  'a shape and a dtype that throw': () => throwing({}, 'shape', 'dtype', 'constructor'),
  'a list that throws': () => throwing([1, 2], '0', 'length'),
}

/** A proxy that throws whatever is asked of it. */
function revoked<T extends object>(of: T): T {
  const { proxy, revoke } = Proxy.revocable(of, {})
  revoke()
  return proxy
}

/** An object some of whose entries throw when they are read. */
function throwing<T extends object>(of: T, ...names: readonly string[]): T {
  return new Proxy(
    Object.defineProperties(
      of,
      Object.fromEntries(
        names.filter((n) => n !== 'length' && n !== '0').map((n) => [n, { get: () => mine(), enumerable: true }]),
      ),
    ),
    {
      get: (at, name) => (names.includes(String(name)) ? mine() : Reflect.get(at, name)),
    },
  )
}

function mine(): never {
  throw new RangeError('an error of a getter')
}

/** Members of what functions give, which other tests call: there is no object of theirs before. */
const given = new Set([
  ...['OpaqueKernel.shapeRule', 'OpaqueKernel.run', 'JitFunction.explain', 'JitFunction.compile'],
  ...['get', 'set', 'add', 'multiply', 'min', 'max'].map((name) => `TensorPart.${name}`),
  // Ends the function, whatever it is given; lifetime.test.ts tells of it.
  'JitFunction.dispose',
  ...['optim.Optimizer.init', 'optim.Optimizer.update', 'ProgramModule.fn', 'ProgramModule.trace'],
])

const paths = readPublicApi()
  .calls.map((c) => c.path)
  .filter((path) => !path.startsWith('nn.') && !path.includes(':') && !given.has(path))

/** Runs a call and says what is wrong with how it fails, if it is. */
function fault(call: () => unknown): string | undefined {
  try {
    const result = call()
    // Nobody waits for a promise that fails.
    if (result instanceof Promise) result.catch(() => {})
    return undefined
  } catch (error) {
    // Functions of this test and its helpers get what was passed, and throw what they throw.
    const stack = error instanceof Error ? (error.stack ?? '') : ''
    if (!(error instanceof s.UserError))
      return /^\s+at .*\/(?:hostile\.test|validCalls)\.ts/m.exec(stack.split('\n')[1] ?? '') !== null
        ? undefined
        : String(error)
    if (error.help === undefined && error.code !== 'E_DISPOSED') return `no remedy: ${error.summary}`
    return error.where === undefined ? `no place: ${error.summary}` : undefined
  } finally {
    s.setDevice('reference')
    s.onWarning(null)
  }
}

it('each has a valid call', () => {
  expect(paths.filter((path) => validCall(path) === undefined)).toEqual([])
  for (const path of paths) {
    const { call, args } = validCall(path) ?? { call: () => {}, args: () => [] }
    if (path !== 'Tensor.item')
      expect(
        fault(() => call(...args())),
        path,
      ).toBeUndefined()
  }
})

it('no misuse is an error from inside the library', () => {
  const faults: string[] = []
  // By day of each argument every third misuse, in turn.
  for (const [turned, path] of paths.entries()) {
    const { call, args } = validCall(path) ?? { call: () => {}, args: () => [] }
    for (let i = 0; i < args().length; i++)
      for (const [name, wrong] of Object.entries(wrongs).filter((_, k) => nightly || (k + turned) % 3 === 0)) {
        const said = fault(() => call(...args().with(i, wrong())))
        if (said !== undefined) faults.push(`${path}, argument ${i} is ${name}: ${said}`)
      }
  }
  expect(faults).toEqual([])
})

describe('proxies that were revoked', () => {
  const x = s.ones([2, 3])
  const cases: readonly (readonly [message: string, call: () => unknown])[] = [
    ['add: an argument is, or holds, a revoked proxy', () => x.add(revoked(x))],
    ['the options of jit are a revoked proxy', () => s.jit((v: s.Tensor) => v, revoked({}))],
    ['jit takes a function, and got a revoked proxy', () => s.jit(revoked((v: s.Tensor) => v))],
    ['reshape: an argument is, or holds, a revoked proxy', () => x.reshape(revoked([6]))],
  ]
  it.each(cases)('%s', (message, call) => {
    expect(call).toThrow(`[E_ARGUMENT] ${message}`)
  })
  it('errors of functions of users stay theirs', () => {
    const error = new TypeError('my token was revoked')
    const call = (): unknown =>
      s.grad((v: s.Tensor) => {
        if (v.shape.length === 2) throw error
        return v
      })(x)
    expect(call).toThrow(error)
  })
})

describe('arguments that passed in silence', () => {
  const x = s.ones([2, 3])
  const k = s.random.key(1)
  const odd = 'text' as never
  const cases: readonly (readonly [message: string, call: () => unknown])[] = [
    ['std: the correction is "text"', () => x.std(0, false, odd)],
    ['roll: the shift is 1.5', () => x.roll(1.5, 0)],
    [
      'pad: the value is an object',
      () =>
        x.pad(
          [
            [1, 1],
            [0, 0],
          ],
          'constant',
          {} as never,
        ),
    ],
    ['fullLike: the value is "text"', () => s.fullLike(x, odd)],
    ['leakyRelu: the slope is "text"', () => s.leakyRelu(x, odd)],
    ['elu: alpha is a function', () => s.elu(x, (() => 3) as never)],
    ['tril: the diagonal is NaN', () => s.tril(x, Number.NaN)],
    ['triu: the diagonal is null', () => s.triu(x, null as never)],
    ['eye: the diagonal is 0.5', () => s.eye(2, 2, 0.5)],
    ['diagonal: the offset is null', () => s.diagonal(x, null as never)],
    ['slidingWindow: the stride is 1.5', () => s.slidingWindow(x, 1, 2, 1.5)],
    ['tensordot: the axes is NaN'.replace('is', 'are'), () => s.tensordot(x, x, Number.NaN)],
    ['dropout: the rate is an array', () => s.dropout(x, k, [] as never)],
    ['random.bernoulli: the probability is "text"', () => s.random.bernoulli(k, odd, [2])],
    ['random.bernoulli: the probability is undefined', () => s.random.bernoulli(k, undefined as never, [2])],
    ['gatherND: the number of batch axes is true', () => s.gatherND(x, s.zeros([1, 1], 'i32'), true as never)],
    ['program takes a function, and got null', () => s.program(null as never, {}, 'name')],
    ['the name of a program is an object', () => s.program((v) => v, {}, {} as never)],
    ['onWarning takes a function, and got undefined', () => s.onWarning(undefined as never)],
    ['foriLoop: a bound of 1e+300', () => s.foriLoop(0, 1e300, (_, c) => c, x)],
  ]
  it.each(cases)('%s', (message, call) => {
    expect(call).toThrow(s.UserError)
    expect(call).toThrow(`[E_ARGUMENT] ${message}`)
  })
})
