/**
 * The examples of doc comments run, and give what the comments behind their statements say: a value (numbers within the digits that are
 * written), `f32[2, 3]` for a type, or `throws E_SHAPE`. Words may follow a colon. And the errors that other tests know are in the comments.
 */
import ts from 'typescript'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { publicApi, statementsOf } from '../../scripts/public-api.mjs'
import * as cudaEntry from '../../src/cuda.ts'
import * as sinter from '../../src/index.ts'
import * as onnxEntry from '../../src/onnx.ts'
import * as ortEntry from '../../src/ort.ts'
import * as webgpuEntry from '../../src/webgpu.ts'
import { chooseDevice } from '../support/device.ts'
import { some } from '../support/nightly.ts'
import { statedErrors } from './statedErrors.mjs'
import { statedErrorsOfArrays } from './statedErrorsOfArrays.mjs'
import { statedErrorsOfFunctions } from './statedErrorsOfFunctions.mjs'
import { wrongFunctions } from './wrongFunctions.mjs'
import { wrongOperations } from './wrongOperations.mjs'

const { exports } = publicApi()
const scope: Readonly<Record<string, unknown>> = { ...ortEntry, ...sinter, ...onnxEntry, ...cudaEntry, ...webgpuEntry }
/** Entries whose examples need a device that may be missing. */
const ofDevices = new Set(['sinter/cuda', 'sinter/webgpu'])

const isType = /^(bool|[iuf]\d+|bf16)\[[\d, ]*\]$/

/** A comment without the words behind its value: those after a colon that stands in no brackets and no text. */
function valueIn(comment: string): string {
  let depth = 0
  let quote = ''
  for (const [i, c] of [...comment].entries()) {
    if (quote !== '') quote = c === quote ? '' : quote
    else if (c === "'" || c === '"') quote = c
    else if ('[{('.includes(c)) depth++
    else if (']})'.includes(c)) depth--
    else if (c === ':' && depth === 0) return comment.slice(0, i)
  }
  return comment
}

/** A value with the elements of its tensors. */
function plain(x: unknown): unknown {
  if (x instanceof sinter.Tensor) return x.tolist()
  if (x instanceof sinter.TensorSpec) return { shape: x.shape, dtype: x.dtype }
  if (Array.isArray(x)) return x.map(plain)
  if (ArrayBuffer.isView(x)) return [...(x as Float32Array)]
  if (typeof x === 'object' && x !== null) return Object.fromEntries(Object.entries(x).map(([k, v]) => [k, plain(v)]))
  return x
}

/** What an expression of literals says, to the digits of its numbers. */
function wanted(node: ts.Expression): unknown {
  if (ts.isParenthesizedExpression(node)) return wanted(node.expression)
  if (ts.isArrayLiteralExpression(node)) return node.elements.map(wanted)
  if (ts.isObjectLiteralExpression(node))
    return Object.fromEntries(
      node.properties.flatMap((p) => (ts.isPropertyAssignment(p) ? [[p.name.getText(), wanted(p.initializer)]] : [])),
    )
  if (ts.isStringLiteral(node)) return node.text
  if (ts.isBigIntLiteral(node)) return BigInt(node.text.slice(0, -1))
  const text = node.getText()
  const words: Readonly<Record<string, unknown>> = {
    true: true,
    false: false,
    null: null,
    undefined,
    NaN: Number.NaN,
    Infinity: Number.POSITIVE_INFINITY,
    '-Infinity': Number.NEGATIVE_INFINITY,
  }
  if (text in words) return words[text]
  const number = /^-?\d+(?:\.(\d+))?(?:e(-?\d+))?$/.exec(text)
  if (number === null) throw new Error(`an example gives "${text}", which is no value`)
  const [, decimals = '', exponent = '0'] = number
  return { number: Number(text), within: decimals === '' ? 0 : 0.51 * 10 ** (Number(exponent) - decimals.length) }
}

/** Holds a value to a wanted one. */
function expectValue(have: unknown, want: unknown, where: string): void {
  if (Array.isArray(want)) {
    expect(Array.isArray(have) ? have.length : have, where).toBe(want.length)
    for (const [i, w] of want.entries()) expectValue((have as readonly unknown[])[i], w, `${where}[${i}]`)
  } else if (typeof want === 'object' && want !== null && 'within' in want) {
    const { number, within } = want as { readonly number: number; readonly within: number }
    expect(typeof have, where).toBe('number')
    const far = Math.abs((have as number) - number)
    expect(far, `${where}: ${have}, not ${number}`).toBeLessThanOrEqual(within + 1e-6 * Math.abs(number))
  } else if (typeof want === 'object' && want !== null) {
    expect(Object.keys(have as object), where).toEqual(Object.keys(want))
    for (const [k, w] of Object.entries(want)) expectValue((have as Record<string, unknown>)[k], w, `${where}.${k}`)
  } else expect(have, where).toBe(want)
}

/** Runs a statement of an example and holds it to its comment. */
async function check(run: () => unknown, comment: string): Promise<void> {
  const value = valueIn(comment).trim()
  const code = /^throws (E_\w+)$/.exec(value)?.[1]
  if (code !== undefined) {
    await expect((async () => await run())()).rejects.toMatchObject({ code })
    return
  }
  const have = await run()
  if (isType.test(value)) {
    const { dtype, shape } = have as sinter.Tensor
    expect(`${dtype}[${shape.join(', ')}]`).toBe(value)
    return
  }
  const file = ts.createSourceFile('value.ts', `(${value})`, ts.ScriptTarget.ES2022, true)
  const [statement] = file.statements
  if (statement === undefined || !ts.isExpressionStatement(statement)) throw new Error(`"${value}" is no value`)
  expectValue(plain(have), wanted(statement.expression), 'the value')
}

/** An example as a function that checks itself. */
function runnable(code: string): () => Promise<void> {
  const checked = statementsOf(code).map(({ text, value }) =>
    value === undefined ? text : `await $check(async () => (${text}), ${JSON.stringify(value)})`,
  )
  const source = `async function example($check, $scope, $import) {\nconst { ${Object.keys(scope).join(', ')} } = $scope\n{\n${checked.join('\n;')}\n}\n}`
  // A function made of text cannot import by itself.
  const { outputText } = ts.transpileModule(source.replaceAll('import(', '$import('), {
    compilerOptions: { target: ts.ScriptTarget.ES2022 },
  })
  const example: (...args: readonly unknown[]) => Promise<void> = new Function(`${outputText}\nreturn example`)()
  return () => example(check, scope, (name: string) => import(name))
}

beforeEach(() => chooseDevice('wasm', { threads: 1 }))
afterAll(() => sinter.setDevice('reference'))

describe.each(['sinter', 'sinter/onnx'])('examples of %s', (entry) => {
  // By day those of every third name.
  for (const { name, examples } of some(
    exports.filter((e) => e.entry === entry),
    3,
  ))
    for (const code of examples) it(name, runnable(code))
})

describe('examples of devices, or what is missing for them', () => {
  for (const { name, examples } of exports.filter((e) => ofDevices.has(e.entry)))
    for (const code of examples)
      it(name, async () => {
        const error: unknown = await runnable(code)().catch((thrown: unknown) => thrown)
        if (error !== undefined) expect(error).toMatchObject({ code: 'E_DEVICE' })
      })
})

describe('what examples say is held', () => {
  it.each([
    ['a number', 'add(1, 2) // 4'],
    ['a digit', 'exp(1) // 2.719'],
    ['a shape', 'zeros([2]) // f32[3]'],
    ['an element more', 'ones([2]) // [1, 1, 1]'],
    ['an error that is none', 'add(1, 2) // throws E_SHAPE'],
    ['another error', 'add(ones([2]), ones([3])) // throws E_DTYPE'],
    ['words', 'add(1, 2) // about three'],
  ])('%s', async (_, code) => {
    await expect(runnable(code)()).rejects.toThrow()
  })
})

it('says the errors that tests of wrong calls know', () => {
  const comments = new Map(exports.map((e) => [e.name, [e.description, ...e.throws].join(' ')]))
  const cases: readonly (readonly unknown[])[] = [
    ...Object.values(wrongOperations).flat(),
    ...Object.values(wrongFunctions).flat(),
  ]
  const known = cases.flatMap(([, error]) => {
    const [, code, name] = /^(E_\w+) ([\w.]+): /.exec(String(error)) ?? []
    return code !== undefined && name !== undefined && comments.has(name) ? [{ code, name }] : []
  })
  expect(known.length).toBeGreaterThan(0)
  for (const { code, name } of known) expect(comments.get(name), name).toContain(code)
})

/** Codes that need a device to run out of memory, or one that cannot be waited for, or a model: other suites have them. */
const shownElsewhere = new Set([
  'jit E_OUT_OF_MEMORY',
  'evaluate E_OUT_OF_MEMORY',
  'evaluate E_DEVICE',
  'tensor E_OVERFLOW',
  'Tensor.data E_OUT_OF_MEMORY',
  'Tensor.data E_DEVICE',
  'Tensor.dataSync E_DEVICE',
  'Tensor.tolist E_DEVICE',
  'importOnnx E_ONNX_UNSUPPORTED',
  'importOnnx E_ONNX_INPUT',
  'importOnnx E_SHAPE',
  'importOnnx E_DTYPE',
  'cuda E_DEVICE',
  'webgpu E_DEVICE',
])

type Call = (...args: readonly unknown[]) => unknown

/** Calls that throw a code in each function of a kind. */
const shared: Readonly<Record<string, (f: Call) => unknown>> = {
  E_ARGUMENT: (f) => f({ odd: 1 }),
  E_SHAPE: (f) => f(sinter.ones([2]), sinter.ones([3])),
  E_OVERFLOW: (f) => f(sinter.ones([2], 'u8'), 1e9),
  E_DTYPE: (f) => f(sinter.ones([2]), sinter.ones([2])),
  E_AXIS: (f) => (f === sinter.norm ? f(sinter.ones([2]), 2, 3) : f(sinter.ones([2]), 3)),
}

describe('errors that comments say', () => {
  const stated: Readonly<Record<string, Readonly<Record<string, () => unknown>>>> = {
    ...statedErrors,
    ...statedErrorsOfArrays,
    ...statedErrorsOfFunctions,
  }
  const said = exports.flatMap(({ name, throws }) =>
    [...new Set(throws.join(' ').match(/\bE_[A-Z_]+/g))].map((code) => ({ name, code })),
  )
  it.each(
    some(
      said.filter(({ name, code }) => !shownElsewhere.has(`${name} ${code}`)),
      3,
    ),
  )('$name throws $code', async ({ name, code }) => {
    const f = name.split('.').reduce<unknown>((o, key) => (o as Record<string, unknown> | undefined)?.[key], scope)
    const call = stated[name]?.[code] ?? (() => shared[code]?.(f as Call))
    await expect((async () => await call())()).rejects.toMatchObject({ code })
  })
  it('are those that calls are kept for', () => {
    const kept = Object.entries(stated).flatMap(([name, calls]) => Object.keys(calls).map((code) => `${name} ${code}`))
    const all = new Set(said.map(({ name, code }) => `${name} ${code}`))
    expect([...kept, ...shownElsewhere].filter((pair) => !all.has(pair))).toEqual([])
  })
})
