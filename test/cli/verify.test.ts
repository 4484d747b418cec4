/** `sinter verify`: what passes, what fails with which cause, what is skipped; processes; specialised inputs. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { shapeFixingValues } from '../../src/cli/verify/operands.ts'
import { decodeModel } from '../../src/onnx/index.ts'
import { encodeModel, type ModelSpec } from '../onnx/encode.ts'
import { longs, sinter, temporaryFolder, vector, writeCase } from './support.ts'

const root = temporaryFolder()
const value = (name: string, ...dims: number[]) => ({ name, type: 1, dims })
const longValue = (name: string, ...dims: number[]) => ({ name, type: 7, dims })

const unary = (op: string): ModelSpec => ({
  nodes: [{ op, name: 'the_node', in: ['x'], out: ['y'] }],
  inputs: [value('x', 2)],
  outputs: [value('y', 2)],
})
const right = writeCase(root, 'right', {
  model: unary('Neg'),
  inputs: [vector('x', 1, -2)],
  outputs: [vector('y', -1, 2)],
})
writeCase(root, 'wrong', { model: unary('Neg'), inputs: [vector('x', 1, -2)], outputs: [vector('y', -1, 3)] })
const unsupported = writeCase(root, 'unsupported', {
  model: unary('Frobnicate'),
  inputs: [vector('x', 1, 2)],
  outputs: [vector('y', 1, 2)],
})
const reshaped = writeCase(root, 'reshaped', {
  model: {
    nodes: [{ op: 'Reshape', in: ['x', 's'], out: ['y'] }],
    inputs: [value('x', 4), longValue('s', 2)],
    outputs: [value('y', 2, 2)],
  },
  inputs: [vector('x', 1, 2, 3, 4), { name: 's', type: 7, dims: [2], raw: longs(2, 2) }],
  outputs: [{ ...vector('y', 1, 2, 3, 4), dims: [2, 2] }],
})

describe('verify', () => {
  it('a folder of cases: a line for each failure, and the closing line last', async () => {
    const r = await sinter('verify', root, '--jobs', '1')
    expect(r.code).toBe(1)
    const lines = r.out.split('\n')
    expect(lines.at(-1)).toBe('2 passed, 2 failed, 0 skipped')
    expect(lines).toHaveLength(3)
    expect(r.out).toContain('FAIL  wrong: [MISMATCH] output 0 (y): 1 of 2 elements differ: element 1 is 2 where 3')
    expect(r.out).toMatch(/FAIL {2}unsupported: \[E_ONNX_UNSUPPORTED\] .*Frobnicate "the_node"/)
  })

  it('passing cases end with exit code 0', async () => {
    expect(await sinter('verify', right, reshaped)).toMatchObject({ code: 0, out: '2 passed, 0 failed, 0 skipped' })
  })

  it('unsupported models are skipped only when told', async () => {
    expect(await sinter('verify', unsupported, '--skip-unsupported')).toMatchObject({
      code: 0,
      out: '0 passed, 0 failed, 1 skipped',
    })
  })

  it('tolerances', async () => {
    expect((await sinter('verify', join(root, 'wrong'), '--atol', '1.5')).code).toBe(0)
  })

  it('tolerances that cases bring along, beside them or inside', async () => {
    const folder = join(root, 'tolerant')
    const model = unary('Neg')
    const off = { model, inputs: [vector('x', 1, -2)], outputs: [vector('y', -1, 3)] }
    const outside = writeCase(folder, 'outside', off)
    const inside = writeCase(folder, 'inside', off)
    const strict = writeCase(folder, 'strict', off)
    const few = writeCase(folder, 'few', { model, inputs: [vector('x', 1, -2)], outputs: [vector('y', -1.5, 2)] })
    const write = (dir: string, data: unknown): void => writeFileSync(join(dir, 'tolerance.json'), JSON.stringify(data))
    write(folder, { outside: { atol: 1.5 }, inside: { atol: 0 }, few: { atol: 1, maxDifferentFraction: 0.4 } })
    write(inside, { atol: 1.5 })
    expect((await sinter('verify', outside, inside)).code).toBe(0)
    expect((await sinter('verify', strict)).code).toBe(1)
    expect((await sinter('verify', few)).out).toContain('1 of 2 elements differ, where at most 0.4 of them may')
    write(folder, { outside: { atol: -1 } })
    expect((await sinter('verify', outside)).out).toContain('atol -1, which is no number of 0 or more')
  })

  it('as data, naming specialised inputs and kernels', async () => {
    const r = await sinter('verify', reshaped, right, '--json')
    const data = JSON.parse(r.out)
    expect(data).toMatchObject({ device: 'wasm', passed: 2, failed: 0, skipped: 0, rtol: 1e-3, atol: 1e-4 })
    expect(data.cases[0]).toMatchObject({ name: 'reshaped', status: 'passed', specialised: ['s'] })
    expect(data.cases[1]).toMatchObject({ name: 'right', status: 'passed', specialised: [], kernels: 1 })
    expect(r.err).toBe('2 passed, 0 failed, 0 skipped')
  })

  it('processes give the same results, in the order of the cases', async () => {
    const alone = JSON.parse((await sinter('verify', root, '--jobs', '1', '--json')).out)
    const together = JSON.parse((await sinter('verify', root, '--jobs', '2', '--json')).out)
    const core = (d: { cases: Record<string, unknown>[] }) => d.cases.map(({ ms, ...rest }) => rest)
    expect(core(together)).toEqual(core(alone))
  })

  it('a case that takes too long is a failure, and the others go on', async () => {
    const r = await sinter('verify', right, reshaped, '--jobs', '2', '--timeout', '0.001')
    expect(r.code).toBe(1)
    expect(r.out).toContain('[E_WORKER_LOST] no result within 0.001 s')
    expect(r.out.split('\n').at(-1)).toBe('0 passed, 2 failed, 0 skipped')
  })

  it('the reference device', async () => {
    expect((await sinter('verify', right, reshaped, '--device', 'reference')).code).toBe(0)
  })

  it('broken cases', async () => {
    const torn = join(root, '..', `${root.split('/').at(-1)}`, 'torn')
    mkdirSync(join(torn, 'test_data_set_0'), { recursive: true })
    writeFileSync(join(torn, 'model.onnx'), encodeModel(unary('Neg')).subarray(0, 20))
    expect((await sinter('verify', torn)).out).toContain('FAIL  torn: [E_ONNX_MALFORMED]')
    const bare = writeCase(root, 'bare', { model: unary('Neg'), inputs: [vector('x', 1, 2)], outputs: [] })
    expect((await sinter('verify', bare)).out).toContain('has no expected output')
    const empty = join(root, 'empty')
    mkdirSync(empty)
    const nothing = await sinter('verify', empty)
    expect(nothing.code).toBe(1)
    expect(nothing.err).toContain('is no case and holds none')
  })
})

describe('inputs that may be specialised', () => {
  const fixing = (model: ModelSpec, ...names: string[]): string[] => {
    const found = shapeFixingValues(decodeModel(encodeModel(model)))
    return names.filter((n) => found.has(n))
  }

  it('those that reach a shape operand, through arithmetic', () => {
    const model: ModelSpec = {
      nodes: [
        { op: 'Add', in: ['a', 'b'], out: ['s'] },
        { op: 'Reshape', in: ['x', 's'], out: ['y'] },
        { op: 'Mul', in: ['y', 'a'], out: ['z'] },
      ],
      inputs: [value('x', 4), longValue('a', 2), longValue('b', 2)],
      outputs: [value('z', 2, 2)],
    }
    expect(fixing(model, 'x', 'a', 'b')).toEqual(['a', 'b'])
  })

  it('not those of which only the shape is asked', () => {
    const model: ModelSpec = {
      nodes: [
        { op: 'Shape', in: ['like'], out: ['s'] },
        { op: 'Expand', in: ['x', 's'], out: ['y'] },
      ],
      inputs: [value('x', 1), value('like', 4)],
      outputs: [value('y', 4)],
    }
    expect(fixing(model, 'x', 'like')).toEqual([])
  })

  it('the value that pads, and the data of a reduction, never', () => {
    const model: ModelSpec = {
      nodes: [
        { op: 'Pad', in: ['x', 'pads', 'v'], out: ['p'] },
        { op: 'ReduceSum', in: ['p', 'axes'], out: ['y'] },
      ],
      inputs: [value('x', 1), longValue('pads', 2), value('v'), longValue('axes', 1)],
      outputs: [value('y')],
    }
    expect(fixing(model, 'x', 'pads', 'v', 'axes')).toEqual(['pads', 'axes'])
  })

  it('through local functions and branches', () => {
    const model: ModelSpec = {
      nodes: [
        { op: 'Twice', domain: 'local', in: ['n'], out: ['m'] },
        { op: 'Fill', domain: 'local', in: ['m', 'x'], out: ['y'] },
      ],
      inputs: [longValue('n', 1), value('x')],
      outputs: [value('y', 4)],
      opsets: { local: 1 },
      functions: [
        {
          name: 'Twice',
          domain: 'local',
          inputs: ['a'],
          outputs: ['b'],
          nodes: [{ op: 'Add', in: ['a', 'a'], out: ['b'] }],
        },
        {
          name: 'Fill',
          domain: 'local',
          inputs: ['s', 'v'],
          outputs: ['r'],
          nodes: [{ op: 'Expand', in: ['v', 's'], out: ['r'] }],
        },
      ],
    }
    expect(fixing(model, 'n', 'x')).toEqual(['n'])
  })
})
