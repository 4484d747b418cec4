/** `sinter inspect`: what it tells of models that import, and of those that do not. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'
import { floats, sinter, temporaryFolder } from './support.ts'

const dir = temporaryFolder()
const write = (name: string, spec: ModelSpec): string => {
  const path = join(dir, `${name}.onnx`)
  writeFileSync(path, encodeModel(spec))
  return path
}

const product: ModelSpec = {
  producer: 'a tool',
  producerVersion: '1.2',
  version: 7,
  description: 'first line\nsecond line',
  metadata: { author: 'nobody', 'a key': 'a \u001b[31mvalue' },
  opsets: { 'com.microsoft': 1 },
  nodes: [
    { op: 'MatMul', in: ['x', 'w'], out: ['a'] },
    { op: 'Gelu', domain: 'com.microsoft', in: ['a'], out: ['b'] },
    { op: 'Add', in: ['b', 'c'], out: ['d'] },
    { op: 'Add', in: ['d', 'c'], out: ['y'] },
  ],
  initializers: [
    { name: 'w', type: 1, dims: [4, 8], raw: floats(...new Array<number>(32).fill(0.5)) },
    { name: 'c', type: 1, dims: [8], raw: floats(...new Array<number>(8).fill(1)) },
    { name: 'unused', type: 22, dims: [5], raw: Uint8Array.of(1, 2, 3) },
  ],
  inputs: [{ name: 'x', type: 1, dims: ['batch', 4] }],
  outputs: [{ name: 'y', type: 1, dims: ['batch', 8] }],
}

/** Nodes at fault in every way: unknown, refused, refused for its type behind another, inside a branch. */
const faulty: ModelSpec = {
  opsets: { own: 1 },
  nodes: [
    { op: 'Strange', domain: 'own', name: 's1', in: ['x'], out: ['a'] },
    { op: 'StringConcat', name: 's2', in: ['a', 'a'], out: ['b'] },
    { op: 'RegexFullMatch', name: 's3', in: ['x'], out: ['r'] },
    { op: 'LRN', name: 's4', in: ['t'], out: ['l'], attrs: { size: { int: 3 } } },
    {
      op: 'If',
      name: 'branch',
      in: ['flag'],
      out: ['y'],
      attrs: {
        then_branch: {
          graph: {
            nodes: [{ op: 'SequenceEmpty', name: 'deep', in: [], out: ['q'] }],
            outputs: [{ name: 'q', type: 1 }],
          },
        },
        else_branch: {
          graph: { nodes: [{ op: 'Neg', in: ['x'], out: ['z'] }], outputs: [{ name: 'z', type: 1 }] },
        },
      },
    },
  ],
  inputs: [
    { name: 'x', type: 1, dims: [2] },
    { name: 't', type: 8, dims: [2] },
    { name: 'flag', type: 9, dims: [] },
  ],
  outputs: [{ name: 'y', type: 1 }],
}

describe('a model that imports', () => {
  const path = write('product', product)
  it('as data', async () => {
    const r = await sinter('inspect', path, '--length', 'batch=3', '--json')
    expect(r.code).toBe(0)
    expect(JSON.parse(r.out)).toMatchObject({
      model: 'product',
      producer: 'a tool',
      producerVersion: '1.2',
      modelVersion: '7',
      metadata: { author: 'nobody' },
      opsets: [
        { domain: '', version: 21 },
        { domain: 'com.microsoft', version: 1 },
      ],
      inputs: [{ name: 'x', type: 'f32', shape: ['batch', 4] }],
      outputs: [{ name: 'y', type: 'f32', shape: ['batch', 8] }],
      symbols: ['batch'],
      nodes: 4,
      operators: [
        { domain: '', name: 'Add', count: 2, local: false },
        { domain: '', name: 'MatMul', count: 1, local: false },
        { domain: 'com.microsoft', name: 'Gelu', count: 1, local: false },
      ],
      parameters: [
        { type: 'f32', tensors: 2, elements: 40, bytes: 160 },
        { type: 'INT4', tensors: 1, elements: 5, bytes: 3 },
      ],
      refused: [],
      imports: true,
      cost: { inputs: [{ name: 'x', shape: [3, 4] }], inferred: [], kernels: 1 },
    })
    // Of the product alone: 2 * 3 * 4 * 8.
    expect(JSON.parse(r.out).cost.flops).toBeGreaterThanOrEqual(192)
  })

  it('as text, with a shape that it infers', async () => {
    const { out, code } = await sinter('inspect', path)
    expect(code).toBe(0)
    for (const text of [
      'product: IR 10, by a tool 1.2, model version 7',
      'operator sets ai.onnx 21, com.microsoft 1',
      'first line',
      'x  f32[batch, 4]',
      '--length batch=...',
      'operators: 4 nodes of 3 kinds',
      '    2  Add',
      'com.microsoft.Gelu',
      'parameters: 45 in 3 tensors, 163 B',
      'unsupported: nothing found',
      'cost of a run at x [1, 4]',
      'leaves x open',
    ])
      expect(out).toContain(text)
    expect(out).not.toContain('\u001b')
    expect(out).not.toContain('second line')
  })
})

describe('a model that does not import', () => {
  const path = write('faulty', faulty)
  it('tells every node at fault, with its reason', async () => {
    const r = await sinter('inspect', path, '--json')
    expect(r.code).toBe(0)
    const { imports, refused, error, cost } = JSON.parse(r.out)
    expect(imports).toBe(false)
    expect(cost).toBeUndefined()
    expect(error.code).toBe('E_ONNX_UNSUPPORTED')
    expect(refused).toEqual(
      expect.arrayContaining([
        { op: 'own.Strange', name: 's1', reason: 'there is no such operator here', inside: false },
        { op: 'StringConcat', name: 's2', reason: 'strings are not imported', inside: false },
        { op: 'RegexFullMatch', name: 's3', reason: 'strings are not imported', inside: false },
        { op: 'input', name: 't', reason: 'its elements are of type STRING', inside: false },
        { op: 'SequenceEmpty', name: 'deep', reason: 'sequences are not imported', inside: true },
      ]),
    )
    const text = await sinter('inspect', path)
    expect(text.out).toContain('own.Strange x1: there is no such operator here')
    expect(text.out).toContain('it counts only if that runs')
  })

  it('tells what else stands in the way', async () => {
    const missing = write('missing', {
      ...product,
      initializers: [
        { name: 'w', type: 1, dims: [4, 8], external: { location: 'nowhere.bin' } },
        { name: 'c', type: 1, dims: [8], raw: floats(...new Array<number>(8).fill(1)) },
      ],
    })
    const r = await sinter('inspect', missing, '--length', 'batch=3')
    expect(r.code).toBe(0)
    expect(r.out).toContain('in nowhere.bin')
    expect(r.out).toContain('does not import: [E_FILE]')
    const twice = write('twice', { ...product, nodes: [...product.nodes, { op: 'Neg', in: ['x'], out: ['y'] }] })
    expect((await sinter('inspect', twice)).out).toContain('does not import: [E_ONNX_MALFORMED]')
  })

  it('refuses what is no model', async () => {
    const bad = join(dir, 'bad.onnx')
    writeFileSync(bad, Uint8Array.of(9, 9, 9))
    expect((await sinter('inspect', bad)).err).toContain('error [E_ONNX_MALFORMED]')
    expect((await sinter('inspect', join(dir, 'x.ts'))).err).toContain('error [E_FILE]')
  })
})

it('functions of the model are operators of it, and what stands in them is told apart', async () => {
  const path = write('functions', {
    opsets: { own: 1 },
    nodes: [
      {
        op: 'Constant',
        in: [],
        out: ['k'],
        attrs: { value: { tensor: { name: '', type: 1, dims: [2], floats: [1, 2] } } },
      },
      { op: 'Add', in: ['x', 'k'], out: ['z'] },
      { op: 'f', domain: 'own', in: ['z'], out: ['y'] },
    ],
    functions: [
      { name: 'f', domain: 'own', inputs: ['a'], outputs: ['b'], nodes: [{ op: 'Neg', in: ['a'], out: ['b'] }] },
    ],
    inputs: [{ name: 'x', type: 1, dims: [2] }],
    outputs: [{ name: 'y', type: 1 }],
  })
  const { operators, imports, parameters } = JSON.parse((await sinter('inspect', path, '--json')).out)
  expect(imports).toBe(true)
  expect(parameters).toEqual([{ type: 'f32', tensors: 1, elements: 2, bytes: 8 }])
  expect(operators).toEqual([
    { domain: '', name: 'Constant', count: 1, local: false },
    { domain: '', name: 'Add', count: 1, local: false },
    { domain: 'own', name: 'f', count: 1, local: true },
    { domain: '', name: 'Neg', count: 1, local: false },
  ])
})
