/**
 * Names and types in models that are not as they should be: one name for two values, names that objects inherit, text that is not
 * UTF-8, extents beyond all bounds. Sites: `arrange.ts` (names once), `inputs.ts`, `pass.ts`, `onnx.ts` and `api/tensor/tree.ts` (records by
 * name), `messages.ts` (text, numbers), `decode.ts` and `tensors.ts` (extents), `ops/index.ts` (operators by name).
 */
import { describe, expect, it } from 'vitest'
import { grad, jit, spec, type Tensor, tensor } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { importOnnx } from '../../src/onnx.ts'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'
import { errorOf, load } from '../onnx/models.ts'

const { FLOAT, INT64 } = tensorType
const value = (name: string, ...dims: (number | string)[]) => ({ name, type: FLOAT, dims })
const weights = (name: string, ...values: number[]) => ({ name, type: FLOAT, dims: [values.length], floats: values })
const neg = (from: string, to: string, name = '') => ({ op: 'Neg', name, in: [from], out: [to] })

const plain: ModelSpec = { nodes: [neg('x', 'y')], inputs: [value('x', 2)], outputs: [value('y', 2)] }

describe('one name for two values', () => {
  const twice: Readonly<Record<string, ModelSpec>> = {
    'two inputs named "x"': { ...plain, inputs: [value('x', 2), value('x', 3)] },
    'two outputs named "y"': { ...plain, outputs: [value('y', 2), value('y', 2)] },
    'two initialisers named "w"': { ...plain, initializers: [weights('w', 1), weights('w', 2)] },
    'defines "y" twice': { ...plain, nodes: [neg('x', 'y', 'first'), neg('x', 'y', 'second')] },
    'defines "x" twice': { ...plain, nodes: [neg('x', 'y'), neg('y', 'x')] },
    'defines "w" twice': { ...plain, nodes: [neg('x', 'y'), neg('y', 'w')], initializers: [weights('w', 1)] },
    'two local functions named "local.f"': {
      ...plain,
      functions: [1, 2].map(() => ({
        name: 'f',
        domain: 'local',
        inputs: ['p'],
        outputs: ['q'],
        nodes: [neg('p', 'q')],
      })),
    },
    'local function "f" has two inputs named "p"': {
      ...plain,
      functions: [{ name: 'f', domain: 'local', inputs: ['p', 'p'], outputs: ['q'], nodes: [neg('p', 'q')] }],
    },
    'a graph inside': {
      ...plain,
      nodes: [
        neg('x', 'y'),
        {
          op: 'If',
          in: ['c'],
          out: ['z'],
          attrs: {
            then_branch: { graph: { nodes: [neg('x', 'a'), neg('y', 'a')], outputs: [value('a', 2)] } },
            else_branch: { graph: { nodes: [neg('x', 'b')], outputs: [value('b', 2)] } },
          },
        },
      ],
      inputs: [value('x', 2), { name: 'c', type: tensorType.BOOL, dims: [] }],
    },
  }
  for (const [what, model] of Object.entries(twice))
    it(`is E_ONNX_MALFORMED: ${what}`, () => {
      const error = errorOf(() => load(model))
      expect(error.code).toBe('E_ONNX_MALFORMED')
      expect(error.summary).toContain(what === 'a graph inside' ? 'defines "a" twice' : what)
    })
  it('is no fault where results are told by their places', () => {
    const model = load({
      nodes: [{ op: 'both', domain: 'local', in: ['x'], out: ['y', 'z'] }],
      inputs: [value('x', 2)],
      outputs: [value('y', 2), value('z', 2)],
      opsets: { local: 1 },
      functions: [{ name: 'both', domain: 'local', inputs: ['p'], outputs: ['q', 'q'], nodes: [neg('p', 'q')] }],
    })
    expect(model.outputNames).toEqual(['y', 'z'])
  })
  it('an input without a name cannot be given', () => {
    expect(errorOf(() => load({ ...plain, inputs: [value('x', 2), value('', 2)] })).code).toBe('E_ONNX_MALFORMED')
  })
})

/** What objects inherit. */
const inherited = ['__proto__', 'constructor', 'toString', 'hasOwnProperty', 'valueOf']
const own = <T>(name: string, x: T): Record<string, T> => Object.fromEntries([[name, x]])

describe('names that objects inherit', () => {
  for (const name of inherited) {
    it(`${name} names an input and an output`, () => {
      const bytes = encodeModel({ nodes: [neg(name, 'r')], inputs: [value(name, 'n')], outputs: [value('r', 'n')] })
      expect(errorOf(() => importOnnx(bytes)).code).toBe('E_ONNX_INPUT')
      const model = importOnnx(bytes, { inputShapes: own(name, [2]) })
      expect(Object.keys(model.inputs)).toEqual([name])
      const missing = errorOf(() => model.apply(model.parameters, {}))
      expect(missing.summary).toContain(`the input "${name}" is missing`)
      const y = model.apply({}, own(name, tensor([1, 2]))).r
      expect(y?.tolist()).toEqual([-1, -2])
      const out = importOnnx(
        encodeModel({ nodes: [neg('x', name)], inputs: [value('x', 2)], outputs: [value(name, 2)] }),
      )
      const made = jit((x: Tensor) => out.apply({}, { x }))(tensor([1, 2]))
      expect(Object.keys(made)).toEqual([name])
      expect(Object.entries(made)[0]?.[1].tolist()).toEqual([-1, -2])
    })
    it(`${name} names an initialiser, which differentiates`, () => {
      const bytes = encodeModel({
        nodes: [{ op: 'Mul', in: ['x', name], out: ['y'] }],
        inputs: [value('x', 2)],
        outputs: [value('y', 2)],
        initializers: [weights(name, 3, 4)],
      })
      const model = importOnnx(bytes)
      expect(Object.keys(model.parameters)).toEqual([name])
      const loss = (p: typeof model.parameters) => model.apply(p, { x: tensor([5, 6]) }).y?.sum() ?? tensor(0)
      const gradient = jit(grad(loss))(model.parameters)
      expect(Object.keys(gradient)).toEqual([name])
      expect(Object.getPrototypeOf(gradient)).toBe(Object.prototype)
      expect(Object.entries(gradient)[0]?.[1].tolist()).toEqual([5, 6])
    })
    it(`${name} names a function, an attribute, a symbol and an operator`, () => {
      const fn = { name, domain: name, inputs: [name], outputs: ['q'], attributes: [name] }
      const body = [{ op: 'LeakyRelu', in: [name], out: ['q'], attrs: { alpha: { ref: name, refType: 1 } } }]
      const model = importOnnx(
        encodeModel({
          nodes: [{ op: name, domain: name, in: ['x'], out: ['y'], attrs: own(name, { float: 0.5 }) as never }],
          inputs: [value('x', name), value('z', name)],
          outputs: [value('y', name)],
          opsets: own(name, 1),
          functions: [{ ...fn, nodes: body }],
        }),
        { inputShapes: { x: [2] } },
      )
      expect(model.inputs.z).toEqual(spec([2]))
      const { y } = model.apply({}, { x: tensor([-1, 2]), z: tensor([0, 0]) })
      expect(y?.tolist()).toEqual([-0.5, 2])
      const unknown = errorOf(() => load({ ...plain, nodes: [{ op: name, in: ['x'], out: ['y'] }] }))
      expect(unknown.code).toBe('E_ONNX_UNSUPPORTED')
    })
  }
})

describe('text and numbers of the file', () => {
  const swapped = (bytes: Uint8Array, from: readonly number[], to: readonly number[]): Uint8Array => {
    const at = bytes.findIndex((_, i) => from.every((b, k) => bytes[i + k] === b))
    expect(at).toBeGreaterThan(0)
    const copy = bytes.slice()
    copy.set(to, at)
    return copy
  }
  it('that is no UTF-8 is E_ONNX_MALFORMED: two names do not become one', () => {
    const bytes = encodeModel({ ...plain, nodes: [neg('x', 'name?')], outputs: [value('name?', 2)] })
    const name = [...new TextEncoder().encode('name?')]
    for (const last of [0xff, 0xc3, 0xed]) {
      const error = errorOf(() => importOnnx(swapped(bytes, name, [...name.slice(0, 4), last])))
      expect(error.code).toBe('E_ONNX_MALFORMED')
      expect(error.summary).toContain('UTF-8')
    }
  })
  it('keeps every character of a name', () => {
    const name = '\ufeffx'
    const model = importOnnx(
      encodeModel({ ...plain, nodes: [neg(name, 'y')], inputs: [value(name, 2), value('x', 2)] }),
    )
    expect(Object.keys(model.inputs)).toEqual([name, 'x'])
  })

  /** The model with an extent, written as a varint, of one input or initialiser. */
  const huge: readonly number[] = [2 ** 31, 2 ** 32, 2 ** 40, 2 ** 52, 2 ** 53 - 1, 2 ** 62]
  it('extents beyond all bounds are errors with codes, wherever they stand', () => {
    const codes = new Set<string>()
    const note = (body: () => unknown): void => {
      codes.add(errorOf(body).code)
    }
    for (const d of huge) {
      note(() =>
        load({
          ...plain,
          initializers: [{ name: 'w', type: FLOAT, dims: [d], floats: [1] }],
          outputs: [value('w', 1)],
        }),
      )
      note(() =>
        load({
          ...plain,
          initializers: [{ name: 'w', type: FLOAT, dims: [d, d], raw: new Uint8Array(4) }],
          outputs: [value('w', 1)],
        }),
      )
      note(() =>
        load(
          {
            ...plain,
            initializers: [{ name: 'w', type: FLOAT, dims: [d, d], external: { location: 'w.bin' } }],
            outputs: [value('w', 1)],
          },
          { external: () => new Uint8Array(8) },
        ),
      )
      if (d < 2 ** 53 - 1) continue
      for (const op of ['Reshape', 'Expand', 'ConstantOfShape'])
        note(() =>
          load({
            ...plain,
            nodes: [{ op, in: op === 'ConstantOfShape' ? ['s'] : ['x', 's'], out: ['y'] }],
            inputs: [value('x', 1)],
            initializers: [{ name: 's', type: INT64, dims: [2], int64s: [d, 3] }],
          }),
        )
    }
    expect([...codes].sort()).toEqual(['E_ONNX_MALFORMED', 'E_OVERFLOW'])
  })
})
