/**
 * What an import does is bounded: functions that call functions, loops in loops, values computed for ever, files without an end; and
 * lists that hold themselves. Sites: `work.ts` (nodes written out, work of evaluating), `pass.ts` (calls, graphs inside, folding),
 * `values.ts` (values asked for), `cli/files.ts` (models, external data, values of inputs), `api/tensor/literal.ts` (lists).
 */
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { loadModel } from '../../src/cli/load.ts'
import type { UserError } from '../../src/diagnostics/errors.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import { tensor } from '../../src/index.ts'
import { tensorType } from '../../src/onnx/proto.ts'
import { encodeModel, type FunctionSpec, type GraphSpec, type ModelSpec, type NodeSpec } from '../onnx/encode.ts'
import { errorOf, load } from '../onnx/models.ts'

const { FLOAT, INT64, BOOL } = tensorType
const value = (name: string, type: number, ...dims: (number | string)[]) => ({ name, type, dims })
const integer = (name: string, v: number) => ({ name, type: INT64, dims: [], int64s: [v] })

/** x through `depth` functions, each of which calls the one below `calls` times. */
function nested(depth: number, calls: number): ModelSpec {
  const functions = Array.from({ length: depth }, (_, k): FunctionSpec => {
    const op = k === 0 ? { op: 'Neg' } : { op: `f${k - 1}`, domain: 'local' }
    const nodes = Array.from(
      { length: calls },
      (_, i): NodeSpec => ({ ...op, in: [`v${i}`], out: [i === calls - 1 ? 'r' : `v${i + 1}`] }),
    )
    return { name: `f${k}`, domain: 'local', inputs: ['v0'], outputs: ['r'], nodes }
  })
  return {
    nodes: [{ op: `f${depth - 1}`, domain: 'local', in: ['x'], out: ['y'] }],
    inputs: [value('x', FLOAT, 2)],
    outputs: [value('y', FLOAT, 2)],
    opsets: { local: 1 },
    functions,
  }
}

/** A loop of so many steps around a body, which carries v on to w. */
const loop = (steps: string, go: string, from: string, to: string, body: readonly NodeSpec[]): NodeSpec => ({
  op: 'Loop',
  in: [steps, go, from],
  out: [to],
  attrs: {
    body: {
      graph: {
        nodes: [...body, { op: 'Identity', in: ['go'], out: ['again'] }],
        inputs: [value('i', INT64), value('go', BOOL), value('v', FLOAT, 'n')],
        outputs: [value('again', BOOL), value('w', FLOAT, 'n')],
      } satisfies GraphSpec,
    },
  },
})

describe('what a model writes out', () => {
  it('functions may call functions, to a depth and a count', () => {
    expect(topologicalOrder(load(nested(10, 2)).graph.outputs).length).toBeGreaterThan(0)
    const deep = errorOf(() => load(nested(40, 2)))
    expect(deep.code).toBe('E_OVERFLOW')
    expect(deep.summary).toContain('write out to more than 100000 nodes')
    expect(errorOf(() => load(nested(3, 60))).code).toBe('E_OVERFLOW')
    const circle = nested(2, 1)
    const itself = {
      ...circle,
      functions:
        circle.functions?.map((f) => ({ ...f, nodes: circle.nodes.map((n) => ({ ...n, in: ['v0'], out: ['r'] })) })) ??
        [],
    }
    expect(errorOf(() => load(itself)).summary).toContain('nest without end')
  })
  it('loops in loops are unrolled to a count', () => {
    // Each step doubles the length: no loop of the program.
    const grow: NodeSpec = { op: 'Concat', in: ['v', 'e'], out: ['w'], attrs: { axis: { int: 0 } } }
    const model: ModelSpec = {
      nodes: [
        loop('n', '', 'x', 'y', [
          loop('n', '', 'v', 'a', [loop('n', '', 'v', 'b', [grow]), { op: 'Identity', in: ['b'], out: ['w'] }]),
          { op: 'Identity', in: ['a'], out: ['w'] },
        ]),
      ],
      inputs: [value('x', FLOAT, 2)],
      outputs: [value('y', FLOAT, 'm')],
      initializers: [integer('n', 500), { name: 'e', type: FLOAT, dims: [1], floats: [5] }],
    }
    expect(errorOf(() => load(model)).code).toBe('E_OVERFLOW')
  })
})

describe('values computed during an import', () => {
  const constants = { name: 'x', type: FLOAT, dims: [2], floats: [1, 2] }
  const double: NodeSpec = { op: 'Add', in: ['v', 'v'], out: ['w'] }
  it('are not those of a loop that may have no end: it stays in the program', () => {
    const model = load({
      nodes: [loop('', '', 'x', 'y', [double])],
      outputs: [value('y', FLOAT, 2)],
      initializers: [constants],
    })
    expect(topologicalOrder(model.graph.outputs).map((n) => n.op)).toContain('while')
    const error = errorOf(() =>
      load({
        nodes: [
          loop('', '', 'x', 'y', [double]),
          { op: 'Cast', in: ['y'], out: ['s'], attrs: { to: { int: INT64 } } },
          { op: 'ConstantOfShape', in: ['s'], out: ['z'] },
        ],
        outputs: [value('z', FLOAT, 'a', 'b')],
        initializers: [constants],
      }),
    )
    expect(error.code).toBe('E_ONNX_UNSUPPORTED')
    expect(error.summary).toContain('takes too long to compute during the import')
  })
  it('are not those of very many steps, or of very large tensors', () => {
    const model = load({
      nodes: [loop('n', '', 'x', 'y', [double])],
      outputs: [value('y', FLOAT, 2)],
      initializers: [constants, integer('n', 2 ** 31)],
    })
    expect(topologicalOrder(model.graph.outputs).map((n) => n.op)).toContain('loop')
    const error = errorOf(() =>
      load({
        nodes: [
          { op: 'ConstantOfShape', in: ['s'], out: ['big'] },
          { op: 'ReduceSum', in: ['big'], out: ['sum'], attrs: { keepdims: { int: 0 } } },
          { op: 'Cast', in: ['sum'], out: ['n'], attrs: { to: { int: INT64 } } },
          { op: 'Range', in: ['zero', 'n', 'one'], out: ['y'] },
        ],
        outputs: [value('y', INT64, 'm')],
        initializers: [
          { name: 's', type: INT64, dims: [2], int64s: [30000, 30000] },
          integer('zero', 0),
          integer('one', 1),
        ],
      }),
    )
    expect(error.summary).toContain('takes too long to compute during the import')
  })
})

describe('files', () => {
  const folder = mkdtempSync(join(tmpdir(), 'sinter-limits-'))
  const at = (name: string): string => join(folder, name)
  const server = createServer()
  beforeAll(async () => {
    for (const name of ['pipe.onnx', 'w.bin']) execFileSync('mkfifo', [at(name)])
    await new Promise<void>((done) => server.listen(at('socket.onnx'), done))
    const spec: ModelSpec = {
      nodes: [{ op: 'Neg', in: ['w'], out: ['y'] }],
      outputs: [value('y', FLOAT, 2)],
      initializers: [{ name: 'w', type: FLOAT, dims: [2], external: { location: 'w.bin' } }],
    }
    writeFileSync(at('external.onnx'), encodeModel(spec))
  })
  afterAll(() => {
    server.close()
    rmSync(folder, { recursive: true, force: true })
  })
  /** The error of loading a model; a writer waits at the other end of a pipe, so that whoever reads it gets its end and does not hang. */
  async function errorWith(model: string, pipe?: string): Promise<UserError> {
    const writer = pipe === undefined ? undefined : spawn('sh', ['-c', `: > "${pipe}"`], { stdio: 'ignore' })
    try {
      await loadModel(model)
    } catch (error) {
      return errorOf(() => {
        throw error
      })
    } finally {
      writer?.kill('SIGKILL')
    }
    throw new Error('nothing was thrown')
  }
  it('a pipe is no model, and no external data', async () => {
    for (const [model, pipe] of [
      ['pipe.onnx', 'pipe.onnx'],
      ['external.onnx', 'w.bin'],
    ] as const) {
      const error = await errorWith(at(model), at(pipe))
      expect(error.code).toBe('E_FILE')
      expect(error.summary).toBe(`cannot read ${at(pipe)}: it is a pipe`)
    }
  })
  it('neither is a socket, a folder or a device', async () => {
    expect((await errorWith(at('socket.onnx'))).summary).toContain('socket')
    execFileSync('ln', ['-s', '/dev/null', at('null.onnx')])
    expect((await errorWith(at('null.onnx'))).summary).toContain('it is a device')
    execFileSync('mkdir', [at('folder.onnx')])
    expect((await errorWith(at('folder.onnx'))).summary).toContain('it is a folder')
  })
})

describe('lists', () => {
  it('that hold themselves are E_STRUCTURE', () => {
    const list: unknown[] = [1]
    list[0] = list
    expect(errorOf(() => tensor(list as never)).code).toBe('E_STRUCTURE')
    const inner: unknown[] = [[1]]
    const outer = [inner, 1]
    inner[0] = outer
    expect(errorOf(() => tensor(outer as never)).code).toBe('E_STRUCTURE')
    // Not at the front.
    const late: unknown[] = [[1, 2]]
    late[1] = late
    expect(errorOf(() => tensor(late as never)).code).toBe('E_SHAPE')
    let deep: unknown = 1
    for (let i = 0; i < 100_000; i++) deep = [deep]
    expect(errorOf(() => tensor(deep as never)).code).toBe('E_STRUCTURE')
  })
  it('that share their parts and hold 2^40 elements are E_OVERFLOW', () => {
    for (const start of [[1], []]) {
      let shared: unknown = start
      for (let i = 0; i < 40; i++) shared = [shared, shared]
      expect(errorOf(() => tensor(shared as never)).code).toBe('E_OVERFLOW')
    }
  })
  it('of 20 levels are a tensor', () => {
    let shared: unknown = 1
    for (let i = 0; i < 10; i++) shared = [[shared], [shared]]
    const t = tensor(shared as never)
    expect(t.shape).toHaveLength(20)
    expect(t.size).toBe(1024)
  })
})
