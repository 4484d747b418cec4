/**
 * Recurrent layers whose operands do not fit each other are coded errors that name the node and the operand; models with weights in other
 * files get a shape that was tried, as others do.
 *
 * Sites looked at: ops/recurrent.ts (W, R, B, sequence_lens, initial_h, initial_c, P; layout, direction, activations), ops/attention.ts
 * (its own checks), open.ts and import.ts (tries, weights read once), cli/load.ts (the loader of a file), onnx.ts (the option).
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tensorType } from '../../src/onnx/proto.ts'
import { sinter, temporaryFolder } from '../cli/support.ts'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'
import { errorOf, load } from '../onnx/models.ts'

const { FLOAT, INT32, INT64 } = tensorType
const gatesOf = { RNN: 1, GRU: 3, LSTM: 4 } as const
type Op = keyof typeof gatesOf
type Shapes = Record<string, readonly number[]>

const [steps, batch, features, hidden] = [5, 3, 4, 2]
const names = ['X', 'W', 'R', 'B', 'L', 'H', 'C', 'P'] as const

/** The operands of a layer that fit. */
function fitting(op: Op, batchFirst: boolean, directions: number): Shapes {
  const g = gatesOf[op] * hidden
  const state = batchFirst ? [batch, directions, hidden] : [directions, batch, hidden]
  return {
    X: batchFirst ? [batch, steps, features] : [steps, batch, features],
    W: [directions, g, features],
    R: [directions, g, hidden],
    B: [directions, 2 * g],
    L: [batch],
    H: state,
    ...(op === 'LSTM' ? { C: state, P: [directions, 3 * hidden] } : {}),
  }
}

function layer(
  op: Op,
  shapes: Shapes,
  attrs: Record<string, { int?: number; string?: string; strings?: string[] }>,
): ModelSpec {
  const used = names.filter((n) => n in shapes)
  const type = (n: string): number => (n === 'L' ? INT32 : FLOAT)
  return {
    nodes: [
      {
        op,
        name: 'the layer',
        in: names.slice(0, op === 'LSTM' ? 8 : 6).map((n) => (n in shapes ? n : '')),
        out: ['Y'],
        attrs,
      },
    ],
    inputs: used.map((n) => ({ name: n, type: type(n), dims: [...(shapes[n] ?? [])] })),
    outputs: [{ name: 'Y', type: FLOAT, dims: [] }],
  }
}

const called: Record<string, string> = {
  B: 'B',
  L: 'sequence_lens',
  H: 'initial_h',
  C: 'initial_c',
  P: 'P',
  W: 'W',
  R: 'R',
}

describe.each(['RNN', 'GRU', 'LSTM'] as const)('%s', (op) => {
  for (const [batchFirst, direction] of [
    [false, 'forward'],
    [false, 'bidirectional'],
    [true, 'reverse'],
    [true, 'bidirectional'],
  ] as const) {
    const directions = direction === 'bidirectional' ? 2 : 1
    const attrs = { layout: { int: batchFirst ? 1 : 0 }, direction: { string: direction } }
    const shapes = fitting(op, batchFirst, directions)

    it(`${direction}, layout ${batchFirst ? 1 : 0}: what fits`, () => {
      const y = load(layer(op, shapes, attrs)).graph.outputs[0]
      expect(y?.shape).toEqual(batchFirst ? [batch, steps, directions, hidden] : [steps, directions, batch, hidden])
      const { B, L, H, C, P, ...least } = shapes
      expect([B, L, H, C, P].length).toBe(5)
      expect(load(layer(op, least, attrs)).graph.outputs.length).toBe(1)
    })

    it(`${direction}, layout ${batchFirst ? 1 : 0}: each extent that does not`, () => {
      for (const [name, shape] of Object.entries(shapes)) {
        if (name === 'X') continue
        const more = [...shape, 1]
        for (const axis of shape.keys())
          for (const by of [-1, 1, 7]) {
            const wrong = shape.map((d, i) => (i === axis ? d + by : d))
            const error = errorOf(() => load(layer(op, { ...shapes, [name]: wrong }, attrs)))
            expect(error.code).toBe('E_SHAPE')
            // The hidden size is that of R: what is wrong with R may show in W.
            if (name !== 'R')
              expect(error.summary).toContain(`${op}: ${called[name]} has the shape [${wrong.join(', ')}]`)
            expect(error.where).toContain('the layer')
          }
        const flat = errorOf(() => load(layer(op, { ...shapes, [name]: more }, attrs)))
        expect(flat.code).toBe('E_SHAPE')
      }
    }, 20_000)
  }

  it('attributes that there are not, dtypes, ranks', () => {
    const shapes = fitting(op, false, 1)
    const codeOf = (attrs: Parameters<typeof layer>[2], of: Shapes = shapes): string =>
      errorOf(() => load(layer(op, of, attrs))).code
    expect(codeOf({ direction: { string: 'sideways' } })).toBe('E_ONNX_MALFORMED')
    expect(codeOf({ layout: { int: 2 } })).toBe('E_ONNX_MALFORMED')
    expect(codeOf({ activations: { strings: ['Tanh', 'Tanh', 'Tanh', 'Tanh'] } })).toBe('E_ONNX_MALFORMED')
    expect(codeOf({ hidden_size: { int: 3 } })).toBe('E_SHAPE')
    expect(codeOf({}, { ...shapes, X: [steps, batch] })).toBe('E_SHAPE')
    expect(codeOf({}, { ...shapes, R: [4, 2] })).toBe('E_SHAPE')
    const typed = layer(op, shapes, {})
    const inputs = typed.inputs?.map((i) => (i.name === 'H' ? { ...i, type: INT64 } : i)) ?? []
    expect(errorOf(() => load({ ...typed, inputs })).code).toBe('E_DTYPE')
    const lengths = typed.inputs?.map((i) => (i.name === 'L' ? { ...i, type: FLOAT } : i)) ?? []
    expect(errorOf(() => load({ ...typed, inputs: lengths })).code).toBe('E_DTYPE')
  })

  it('no steps', () => {
    const shapes = { ...fitting(op, false, 1), X: [0, batch, features] }
    expect(load(layer(op, shapes, {})).graph.outputs[0]?.shape).toEqual([0, 1, batch, hidden])
  })
})

describe('weights in another file', () => {
  const folder = temporaryFolder()
  const spec: ModelSpec = {
    nodes: [
      { op: 'MatMul', in: ['x', 'w'], out: ['h'] },
      { op: 'Softmax', in: ['h'], out: ['y'] },
    ],
    inputs: [{ name: 'x', type: FLOAT, dims: ['batch', 'width'] }],
    outputs: [{ name: 'y', type: FLOAT, dims: [] }],
    initializers: [{ name: 'w', type: FLOAT, dims: [12, 3], external: { location: 'w.bin' } }],
  }
  const model = join(folder, 'model.onnx')
  writeFileSync(model, encodeModel(spec))
  writeFileSync(join(folder, 'w.bin'), new Uint8Array(Float32Array.from({ length: 36 }, (_, i) => i).buffer))

  it('the command infers a shape that was tried and says so, and it works when typed', async () => {
    const { code, err } = await sinter('run', model)
    expect(code).toBe(0)
    expect(err).toContain('input x is taken as [1, 12], which the model leaves open')
    const shape = /--shape ([^\s,]+(?:,\d+)*)/.exec(err)?.[1] ?? ''
    expect(shape).toBe('x=1,12')
    expect((await sinter('run', model, '--shape', shape)).code).toBe(0)
  })

  it('they are read once, however many shapes are tried', () => {
    let read = 0
    const external = (): Uint8Array => {
      read++
      return new Uint8Array(144)
    }
    expect(errorOf(() => load(spec, { external })).help).toContain('{ x: [1, 12] }')
    expect(read).toBe(1)
    // Without a loader nothing can be tried.
    expect(errorOf(() => load(spec)).help).toContain('the model says no more about them')
  })
})
