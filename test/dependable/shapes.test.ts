/**
 * Missing shapes of a model's inputs are told all at once, with a remedy that was tried: what `sinter` and `importOnnx` print works when it
 * is typed, on the published models of `test/models` too. Where nothing tried imports, the error says so, and what it met. Sites:
 * `onnx/inputs.ts` (open inputs), `onnx/open.ts` (the search), `onnx/import.ts`, `cli/load.ts` (words of the command line).
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tensorType } from '../../src/onnx/proto.ts'
import { importOnnx, type OnnxOptions } from '../../src/onnx.ts'
import { sinter, temporaryFolder } from '../cli/support.ts'
import { cases, installed, modelPath } from '../models/cases.ts'
import { encodeModel, type ModelSpec, type NodeSpec } from '../onnx/encode.ts'
import { errorOf } from '../onnx/models.ts'
import { some } from '../support/nightly.ts'

const { FLOAT, INT64 } = tensorType
const dir = temporaryFolder()
const required = process.env.SINTER_REQUIRE_MODELS === '1'

const value = (name: string, ...dims: (number | string)[]) => ({ name, type: FLOAT, dims })
const model = (inputs: NonNullable<ModelSpec['inputs']>, ...nodes: NodeSpec[]): Uint8Array =>
  encodeModel({ nodes, inputs, outputs: [{ name: 'y', type: FLOAT, dims: [] }] })
let files = 0
const saved = (bytes: Uint8Array): string => {
  const path = join(dir, `m${files++}.onnx`)
  writeFileSync(path, bytes)
  return path
}

/** The arguments that notes on inferred shapes tell, as a shell reads them. */
function typed(notes: string): string[] {
  const lines = [...notes.matchAll(/which the model leaves open: say (.*)/g)].map(([, options]) => options)
  if (lines.length === 0) throw new Error(`no options in: ${notes}`)
  return [...lines.join(' ').matchAll(/(?:'[^']*'|[^\s'])+/g)].map(([word]) => word.replaceAll("'", ''))
}

/** The options of the remedy in a message, as JavaScript reads them. */
function pasted(message: string): OnnxOptions {
  const text = /help: pass (\{.*?\} \}), with which the model imports/.exec(message)?.[1]
  if (text === undefined) throw new Error(`no remedy in: ${message}`)
  return new Function(`return ${text}`)() as OnnxOptions
}

const add: NodeSpec = { op: 'Add', in: ['a', 'b'], out: ['y'] }
const window = (size: number, ...x: (number | string)[]): Uint8Array =>
  model([value('x', ...x)], { op: 'MaxPool', in: ['x'], out: ['y'], attrs: { kernel_shape: { ints: [size] } } })

describe('open shapes are told at once', () => {
  const bytes = model([value('a', 'batch', 'steps'), value('b', 'batch', 'steps'), value('rest', 'more')], add)
  it('by the library, with options to paste', () => {
    const { message, code } = errorOf(() => importOnnx(bytes))
    expect(code).toBe('E_ONNX_INPUT')
    for (const part of ['"a" has the open shape [batch, steps]', '"b" has the open shape', '"rest" has the open shape'])
      expect(message).toContain(part)
    // A name that several inputs share is fixed by the first.
    expect(pasted(message)).toEqual({ inputShapes: { a: [1, 1], rest: [1] } })
    expect(importOnnx(bytes, pasted(message)).inputs.b?.shape).toEqual([1, 1])
  })
  it('by the command line, with options to type', async () => {
    const path = saved(bytes)
    const { err, code } = await sinter('run', path)
    expect(code).toBe(0)
    expect(typed(err)).toEqual(['--shape', 'a=1,1', '--shape', 'b=1,1', '--shape', 'rest=1'])
    const again = await sinter('run', path, ...typed(err))
    expect(again.code).toBe(0)
    expect(again.err).not.toContain('is taken as')
    expect((await sinter('run', path, '--length', 'more=3')).err).not.toContain('input rest is taken as')
  })
  it('but not those that are given, or that a given one fixes', () => {
    const { message } = errorOf(() => importOnnx(bytes, { inputShapes: { a: [4, 5] } }))
    expect(message).not.toContain('"b"')
    expect(pasted(message)).toEqual({ inputShapes: { rest: [1] } })
    const part = errorOf(() => importOnnx(bytes, { inputShapes: { rest: [4] } })).message
    expect(pasted(part)).toEqual({ inputShapes: { a: [1, 1] } })
  })
})

describe('a remedy is tried before it is shown', () => {
  it.each([
    ['a window of one of the extents tried', window(60, 'n', 3, 'width'), [1, 3, 64]],
    ['a window beyond them, which the error names', window(700, 'n', 3, 'width'), [1, 3, 700]],
    [
      'an extent that another tensor has',
      encodeModel({
        nodes: [{ op: 'MatMul', in: ['x', 'w'], out: ['y'] }],
        inputs: [value('x', 'n', 'k')],
        outputs: [value('y')],
        initializers: [{ name: 'w', type: FLOAT, dims: [37, 2], floats: new Array<number>(74).fill(1) }],
      }),
      [1, 37],
    ],
  ])('%s', (_, bytes, shape) => {
    const { message } = errorOf(() => importOnnx(bytes))
    expect(pasted(message)).toEqual({ inputShapes: { x: shape } })
    expect(importOnnx(bytes, pasted(message)).inputs.x?.shape).toEqual(shape)
  })
  it('names that a shell or a record would read otherwise', async () => {
    const bytes = model([value('a b', 'n'), value('__proto__', 'm')], {
      op: 'Add',
      in: ['a b', '__proto__'],
      out: ['y'],
    })
    const { message } = errorOf(() => importOnnx(bytes))
    expect(Object.keys(importOnnx(bytes, pasted(message)).inputs)).toEqual(['a b', '__proto__'])
    const path = saved(bytes)
    const { err } = await sinter('run', path)
    expect(typed(err)).toContain('a b=1')
    expect((await sinter('run', path, ...typed(err))).code).toBe(0)
  })
  it('where none imports, the extents that are open and what the last one met', async () => {
    const never = model([value('a', 'n', 3), value('b', 'm', 4)], add)
    const { message } = errorOf(() => importOnnx(never))
    expect(message).toContain('inputShapes: { a: [n, 3], b: [m, 4] }')
    expect(message).toContain('none of the extents tried imports (the last: ')
    expect(message).toContain('do not broadcast')
    const { err } = await sinter('run', saved(never))
    expect(err).toContain('--shape a=n,3 --shape b=m,4')
  })
  it('where a value is missing too, that', () => {
    const bytes = model([value('a', 'n', 3), { name: 's', type: INT64, dims: ['rank'] }], {
      op: 'Reshape',
      in: ['a', 's'],
      out: ['y'],
    })
    expect(errorOf(() => importOnnx(bytes)).message).toContain('the value of input "s" fixes shapes')
  })
  it('a model of many nodes is not tried: one of them would be too many', () => {
    const chain = Array.from({ length: 20_001 }, (_, i): NodeSpec => ({ op: 'Neg', in: [`x${i}`], out: [`x${i + 1}`] }))
    const { message } = errorOf(() => importOnnx(model([value('x0', 'n')], ...chain)))
    expect(message).toContain('inputShapes: { x0: [n] }')
    expect(message).not.toContain('imports')
  })
})

describe.skipIf(!installed && !required)('published models', () => {
  const paths = [...new Map(cases.map((c) => [c.file, modelPath(c)]))]
  it.each(some(paths, 4))('%s: what it says works when it is typed', async (_, path) => {
    const first = await sinter('explain', path)
    expect(first.code).toBe(0)
    if (first.err === '') return
    const again = await sinter('explain', path, ...typed(first.err))
    expect(again.err).toBe('')
    expect(again.code).toBe(0)
    const bytes = readFileSync(path)
    const options = pasted(errorOf(() => importOnnx(bytes)).message)
    expect(importOnnx(bytes, options).outputs.length).toBeGreaterThan(0)
  })
  it('an extent of a state is not taken for that of the samples', async () => {
    const path = paths.find(([file]) => file.endsWith('silero_vad_v5.onnx'))?.[1] ?? ''
    const remedy = typed((await sinter('run', path)).err)
    expect(remedy).toEqual(['--shape', 'input=1,224', '--shape', 'state=2,1,128'])
    expect((await sinter('run', path, ...remedy)).code).toBe(0)
  })
  it('eight of them are open', () => {
    const open = paths.filter(([, path]) => {
      try {
        importOnnx(readFileSync(path))
        return false
      } catch {
        return true
      }
    })
    expect(open.length).toBe(8)
  })
})
