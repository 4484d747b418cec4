/** Random bits in CUDA on the host and in WGSL: the same as the reference's in every width, through views, in rows and under vmap. */
import { expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import { withOrigin } from '../../../src/diagnostics/origin.ts'
import { param, withContext } from '../../../src/graph/build.ts'
import type { Graph, Node } from '../../../src/graph/node.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { randomDTypes } from '../../../src/scalar/threefry.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { webgpuSimt } from '../../../src/target/simt.ts'
import { wasmTarget } from '../../../src/target/wasm.ts'
import { vmapGraph } from '../../../src/transforms/index.ts'
import type { HostArray } from '../../../src/types/host.ts'
import { nightly, turn } from '../../support/nightly.ts'
import { Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { openDevice } from '../dialects/wgsl.ts'
import { execute, executeWgsl } from '../programs/programs.ts'

const trace = (build: (key: Node) => Node[]): Graph =>
  withOrigin('random', undefined, () =>
    withContext(() => {
      const key = param(0, [2], 'u32')
      return { params: [key], outputs: build(key), effects: [] }
    }),
  )

/** Elements as bits, so that no rounding hides one. */
const views = (key: Node): Node[] =>
  randomDTypes.flatMap((dtype) => {
    const wide = (x: Node): Node => c.cast(x, 'u32')
    const odd = c.randomBits(key, [5, 53], dtype)
    const even = c.randomBits(key, [6, 64], dtype)
    return [
      c.randomBits(key, [1], dtype),
      odd,
      even,
      c.add(wide(c.sliceAxis(even, 1, 3, 59)), 1),
      c.add(wide(c.sliceAxis(even, 1, 8, 40)), 1),
      c.add(wide(c.sliceAxis(odd, 1, 1, 53, 2)), 1),
      c.add(wide(c.flip(even)), 1),
      c.add(wide(c.transpose(odd)), 1),
      c.max(wide(c.randomBits(c.randomBits(key, [2]), [3, 40], dtype)), 7),
      c.sum(wide(even), 1),
      c.randomBits(key, [0], dtype),
    ]
  })

/** Masks of even and odd rows, as numbers, through the views that change which of two neighbours an element is. */
const masks = (key: Node): Node[] =>
  [
    [6, 64],
    [5, 53],
    [3, 2, 40],
    [7, 1],
  ].flatMap((shape) => {
    const m = c.cast(c.bernoulli(key, 0.4, shape), 'i32')
    const last = shape.length - 1
    const n = shape[last] ?? 1
    return [
      m,
      c.add(c.flip(m), 1),
      c.add(c.transpose(m), 1),
      c.sum(m, last),
      ...(n === 1 ? [] : [c.add(c.sliceAxis(m, last, 1, n), 1), c.add(c.sliceAxis(m, last, 0, n, 2), 1)]),
      c.add(c.sliceAxis(m, 0, 1, 3), 1),
      c.reshape(c.add(m, 1), [-1]),
    ]
  })

const programs: Readonly<Record<string, Graph>> = {
  views: trace(views),
  masks: trace((key) => [
    c.bernoulli(key, 0.3, [7, 33]),
    c.dropout(c.full([9, 64], 1, 'bf16'), key, 0.1),
    c.sum(c.mul(c.cast(c.bernoulli(key, 0.5, [6, 300]), 'i32'), c.cast(c.bernoulli(key, 0.5, [6, 300]), 'i32')), 1),
    c.sliceAxis(c.dropout(c.full([4, 130], 3, 'f32'), key, 0.4), 1, 5, 127),
    // Rows of an even and of an odd number of words.
    c.dropout(c.full([16, 512], 1, 'f32'), key, 0.3),
    c.dropout(c.full([16, 520], 1, 'f32'), key, 0.3),
    ...[
      [16, 520],
      [2, 520],
      [4, 72],
    ].map(([rows = 0, n = 0]) =>
      c.mul(c.dropout(c.full([rows, n], 1, 'f32'), key, 0.3), c.cast(c.randomBits(key, [n], 'u8'), 'f32')),
    ),
    c.dropout(c.full([6, 520], 1, 'bf16'), key, 0.3),
    c.dropout(c.full([6, 528], 1, 'f16'), key, 0.3),
  ]),
  maskViews: trace(masks),
  vmapMasks: vmapGraph(
    trace((key) => [c.bernoulli(key, 0.7, [3, 7]), c.bernoulli(key, 0.2, [4, 16])]),
    [0],
    [0, 0],
    3,
  ),
  vmap: vmapGraph(
    trace((key) => randomDTypes.map((dtype) => c.randomBits(key, [3, 7], dtype))),
    [0],
    randomDTypes.map(() => 0),
    3,
  ),
}

const keysOf = (g: Graph): HostArray =>
  Uint32Array.from({ length: g.params[0]?.shape.length === 2 ? 6 : 2 }, (_, i) => (0x9e3779b9 * (i + 1)) >>> 0)

const expected = Object.fromEntries(
  Object.entries(programs).map(([name, g]) => [
    name,
    evaluateGraph(g, [keysOf(g)], { rounding: 'dtype' }).map(toHostArray),
  ]),
)

interface Compiled {
  readonly name: string
  readonly graph: Graph
  readonly program: Program
  readonly want: readonly HostArray[] | undefined
}

const targets = [cudaTarget, { ...cudaTarget, elementBlock: 64 }, { ...wasmTarget, packBools: false }]

const compiled = (mode: 'fast' | 'strict'): Compiled[] =>
  Object.entries(programs).flatMap(([name, graph], i) =>
    turn(targets, mode === 'fast' ? i : i + 1).map((target) => ({
      name: `${name}, ${mode}, ${target.name} ${target.elementBlock}`,
      graph,
      program: compileGraph(graph, { mode, target }).program,
      want: expected[name],
    })),
  )

test('a call of the generator serves sixteen elements of a mask, eight of two threads, which know their places', () => {
  const graph = trace((key) => [c.dropout(c.full([1024, 1024], 1, 'bf16'), key, 0.1)])
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget })
  const [step, ...more] = program.steps
  if (step?.kind !== 'kernel') throw new Error('no kernel')
  const { kernel } = step
  expect(more).toEqual([])
  const bodyOf = (laneBits: number): string =>
    emitKernel(kernel, { ...webgpuSimt, laneBits }).source.split('@compute')[1] ?? ''
  const count = (body: string, what: RegExp): number => body.match(what)?.length ?? 0
  for (const [laneBits, served] of [
    [5, 16],
    [0, 8],
  ] as const) {
    const body = bodyOf(laneBits)
    const stored = 2 * count(body, /bf16_pair\(/g)
    expect(stored).toBeGreaterThanOrEqual(16)
    expect(count(body, /= threefry_13\(/g)).toBe(stored / served)
    expect(count(body, /subgroupShuffleXor\(/g)).toBe(laneBits === 0 ? 0 : stored / 16)
    expect(body).not.toMatch(/random_u32|% 8|& 7/)
  }
})

test('code for what the place in a pair decides does not double with each operation on it', () => {
  const doubled = Array.from({ length: 40 }, (_, k) => `%${k + 1} i32{i} = add %${k}, %${k}`)
  const kernel = parseKernel(`kernel doubled {
  param y: i32[4096] write
  axes i: 4096
  grid i/1024
  %0 i32{i} = index i % 2
  ${doubled.join('\n  ')}
  store y[i] = %40
}`)
  const { source } = emitKernel(kernel, { ...webgpuSimt, laneBits: 5 })
  expect(source.length).toBeLessThan(20_000)
})

test.skipIf(!hasCompiler())('in CUDA on the host (skipped where g++ is missing)', { timeout: 240_000 }, async () => {
  const all = [...compiled('fast'), ...compiled('strict')]
  const kernels = all.flatMap((p) => p.program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : [])))
  const emulated = new Emulated(kernels)
  for (const { name, graph, program, want } of all) {
    const got = await execute(program, [keysOf(graph)], (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
    expect(got, name).toEqual(want)
  }
  emulated.dispose()
})

test('in WGSL', { timeout: 240_000 }, async ({ skip }) => {
  const machine = await openDevice()
  skip(typeof machine === 'string', String(machine))
  if (typeof machine === 'string') return
  // By day the views of masks, and bits in a batch.
  for (const { name, graph, program, want } of compiled('fast').filter((_, i) => nightly || i === 2 || i === 4)) {
    const got = await executeWgsl(machine, program, [keysOf(graph)])
    expect(got, name).toEqual(want)
  }
})
