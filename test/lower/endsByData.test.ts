/** Masks by data, as documents that tokens belong to: loops of chains go over what some row of a block may see. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { Kernel } from '../../src/kernel/ir.ts'
import { allStmts } from '../../src/kernel/walk.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { writeElement } from '../../src/scalar/host.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { at, expectClose, inputsOf, trace } from '../compile/support.ts'
import { Emulated, hasCompiler } from '../simt/dialects/emulator/emulator.ts'
import { execute } from '../simt/programs/programs.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { some } from '../support/nightly.ts'
import { onWasm } from '../support/runGraph.ts'
import { hidden, key, query } from '../support/scores.ts'

const positions = 96
const small: Machine = { ...wasmTarget, minPrograms: 1, chains: { rows: 16, shared: 16, width: 64 } }

/** A mask of scores [2, queries, keys] by a table. */
type Mask = (s: Node, table: Node) => Node

interface Case {
  readonly table: { readonly shape: readonly number[]; readonly dtype: DType }
  readonly mask: Mask
  /** What the table says of a position. */
  readonly of: (i: number) => number
}

/** A table of positions along an axis of scores. */
const along = (s: Node, table: Node, axis: number): Node =>
  c.broadcastTo(c.reshape(table, axis === 1 ? [1, positions, 1] : [1, 1, positions]), s.shape)
const isOwn: Mask = (s, d) => c.compare('eq', along(s, d, 1), along(s, d, 2))
const table = { shape: [positions], dtype: 'i32' } as const

const cases: Readonly<Record<string, Case>> = {
  'documents in order': { table, mask: isOwn, of: (i) => Math.floor((i * i) / 1000) },
  'documents in any order': { table, mask: isOwn, of: (i) => (i * 7) % 5 },
  'documents counted in bytes': {
    table: { shape: [positions], dtype: 'u8' },
    mask: isOwn,
    of: (i) => Math.floor(i / 25),
  },
  'documents, causal': {
    table,
    mask: (s, d) => c.logicalAnd(isOwn(s, d), c.compare('le', key(s), query(s))),
    of: (i) => Math.floor(i / 37),
  },
  'all but a document': { table, mask: (s, d) => c.logicalNot(isOwn(s, d)), of: (i) => Math.floor(i / 40) },
  'positions that are given': {
    table,
    mask: (s, d) => c.compare('ge', along(s, d, 1), along(s, d, 2)),
    of: (i) => 3 * i,
  },
  'where documents begin': { table, mask: (s, d) => c.compare('ge', key(s), along(s, d, 1)), of: (i) => i - (i % 20) },
  'keys that are there': {
    table: { shape: [positions], dtype: 'bool' },
    mask: (s, d) => along(s, d, 2),
    of: (i) => (i >= 20 && i < 70 && i !== 30 ? 1 : 0),
  },
  'rows that see nothing': {
    table,
    mask: (s, d) => c.compare('lt', along(s, d, 1), along(s, d, 2)),
    of: (i) => -Math.abs(i - 50),
  },
}

const graphOf = ({ table: { shape, dtype }, mask }: Case): Graph => {
  const input = { shape: [2, positions, 8], dtype: 'f32' } as const
  return trace([input, input, input, { shape, dtype }], (p) => {
    const s = c.matmul(at(p, 0), c.permute(at(p, 1), [0, 2, 1]))
    return c.matmul(c.softmax(c.where(mask(s, at(p, 3)), s, hidden)), at(p, 2))
  })
}

/** Inputs, with a table as fourth. */
function dataOf(graph: Graph, { table: { dtype }, of }: Case): HostArray[] {
  const numbers = hostArray(dtype, positions)
  for (let i = 0; i < positions; i++) writeElement(numbers, dtype, i, of(i))
  return inputsOf(graph).map((x, i) => (i === 3 ? numbers : x))
}

const endsOf = (kernel: Kernel): boolean[] =>
  kernel.parts.flatMap((p) =>
    [...allStmts(p.body)].flatMap((s) => (s.kind === 'loop' ? [s.from !== undefined && s.to !== undefined] : [])),
  )

describe.each(some(Object.entries(cases), 4))('%s', (name, x) => {
  test.each([
    ['forward', graphOf(x)],
    ['both passes', vjpGraph(graphOf(x), [0, 1, 2])],
  ] as const)('%s', (pass, graph) => {
    const { program, report } = compileGraph(graph, { mode: 'fast', target: small, verify: true })
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    // Where nothing is known of how much is hidden, a derivative may store scores.
    const chains = kernels.filter((_, i) => report.kernels[i]?.kind === 'chain')
    if (pass === 'forward') expect(chains).toHaveLength(1)
    // What is not equal is anywhere.
    const ends = chains.flatMap(endsOf)
    expect(ends).toEqual(ends.map(() => name !== 'all but a document'))
    const inputs = dataOf(graph, x)
    const want = evaluateGraph(graph, inputs).map(toHostArray)
    expectClose(interpretProgram(program, inputs, 'dtype', graph.outputs), want, graph, 'interpreted')
    expectClose(at(onWasm(program, inputs, graph, 1), 0), want, graph, 'WebAssembly')
  })
})

test('tables of a batch, and few keys', () => {
  const rows = { shape: [64, 512, 64], dtype: 'bf16' } as const
  const loops = (keys: number): boolean[] => {
    const other = { shape: [64, keys, 64], dtype: 'bf16' } as const
    const graph = trace([rows, other, other, { shape: [64, keys], dtype: 'bool' }], (p) => {
      const s = c.matmul(at(p, 0), c.permute(at(p, 1), [0, 2, 1]))
      const seen = c.broadcastTo(c.reshape(at(p, 3), [64, 1, keys]), s.shape)
      return c.matmul(c.softmax(c.where(seen, s, hidden)), at(p, 2))
    })
    const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    return program.steps.flatMap((s) => (s.kind === 'kernel' ? endsOf(s.kernel) : []))
  }
  expect(loops(1024)).toEqual([true])
  expect(loops(128)).toEqual([false])
})

describe.skipIf(!hasCompiler())('in CUDA on the host (skipped where g++ is missing)', () => {
  const length = 330
  const rows = { shape: [2, length, 64], dtype: 'bf16' } as const
  /** Documents by a table; compared as floats they end no loop. */
  const documents = (dtype: 'i32' | 'f32'): Graph =>
    trace([rows, rows, rows, { shape: [length], dtype: 'i32' }], (p) => {
      const s = c.mul(c.matmul(at(p, 0), c.permute(at(p, 1), [0, 2, 1])), 1 / 16)
      const of = c.cast(at(p, 3), dtype)
      const [q, k] = [
        [1, length, 1],
        [1, 1, length],
      ].map((shape) => c.broadcastTo(c.reshape(of, shape), s.shape))
      return c.matmul(c.softmax(c.where(c.compare('eq', q as Node, k as Node), s, hidden)), at(p, 2))
    })

  const passes = [
    ['forward', (graph: Graph) => graph],
    ['both passes', (graph: Graph) => vjpGraph(graph, [0, 1, 2])],
  ] as const
  test.each(some(passes, 2))('%s: as where all keys are gone through', { timeout: 180_000 }, async (_, of) => {
    const results = []
    for (const [dtype, hasEnds] of [
      ['i32', true],
      ['f32', false],
    ] as const) {
      const graph = of(documents(dtype))
      const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
      const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
      expect(kernels.flatMap(endsOf)).toEqual(kernels.map(() => hasEnds))
      const table = Int32Array.from({ length }, (_, j) => Math.floor(j / 70))
      const inputs = inputsOf(graph).map((x, i) => (i === 3 ? table : x))
      const emulated = new Emulated(kernels)
      results.push(await execute(program, inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers)))
      emulated.dispose()
    }
    expect(results[0]).toEqual(results[1])
    expect(results[0]?.every((y) => y?.some((v) => v !== 0) === true)).toBe(true)
  })
})
