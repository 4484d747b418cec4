/** Loops that load while they compute: which do, what they compute, and that they read nothing beyond their rows. */
import { describe, expect, test } from 'vitest'
import { candidateSources, emitKernel, type SourceCandidate } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import type { Graph } from '../../../src/graph/node.ts'
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Program } from '../../../src/runtime/program.ts'
import { numberToBf16 } from '../../../src/scalar/half.ts'
import { cudaSimt, type SimtMachine, webgpuSimt } from '../../../src/target/simt.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import { vjpGraph } from '../../../src/transforms/index.ts'
import { at, inputsOf, trace } from '../../compile/support.ts'
import { difference } from '../../random/execute.ts'
import { atNight, nightly, some } from '../../support/nightly.ts'
import { type Buffers, Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { openDevice, runWgsl } from '../dialects/wgsl.ts'
import { executeWgsl } from '../programs/programs.ts'

interface Shape {
  readonly rows: number
  readonly columns: number
  /** Rows of an iteration. */
  readonly block?: number
  readonly dtype?: 'bf16' | 'f32'
  /** The index of a row of x by its number. */
  readonly place?: string
}

/** First and last rows of the programs: some, one, none, beyond the end, backwards. */
const first = [0, 7, 8, 8, 9, 5]
const last = [7, 8, 8, 9, 1000, 3]
const programs = first.length

/** Programs that go over rows, from and to numbers in memory: each row less its sum, each column's products added up. */
const rowsKernel = ({ rows, columns, block = 1, dtype = 'bf16', place = 'r' }: Shape): Kernel =>
  parseKernel(`kernel rows {
  param x: ${dtype}[${rows}, ${columns}] read
  param g: ${dtype}[${rows}, ${columns}] read
  param first: i32[${programs}] read
  param last: i32[${programs}] read
  param y: f32[${programs}, ${rows}, ${columns}] write
  param s: f32[${programs}, ${columns}] write
  axes p: ${programs}, r: ${rows}, c: ${columns}
  grid p
  %0 i32{p} = load first[p]
  %1 i32{p} = load last[p]
  %2 f32{p, c} = const 0
  %3 = loop r${block === 1 ? '' : `/${block}`} from %0 to %1 {
    carry %4 f32{p, c} = %2
    %5 ${dtype}{r, c} = load x[${place}, c]
    %6 ${dtype}{r, c} = load g[r, c]
    %7 f32{r, c} = cast %5
    %8 f32{r, c} = cast %6
    %9 f32{r} = reduce sum %7 over c
    %10 f32{r, c} = sub %8, %9
    %11 f32{r} = reduce max %10 over c
    %12 f32{r, c} = add %7, %11
    store y[p, r, c] = %12
    %13 f32{r, c} = mul %7, %8
    %14 f32{c} = reduce sum %13 over r
    %15 f32{p, c} = add %4, %14
    next %15
  }
  store s[p, c] = %3
}`)

/** Small integers: sums of them are exact in any order. */
function buffersOf({ rows, columns, dtype = 'bf16' }: Shape): Buffers {
  const numbers = (seed: number): Buffers[string] => {
    const x = Float32Array.from({ length: rows * columns }, (_, i) => ((i * 7919 + seed * 104729) % 17) - 8)
    return dtype === 'f32' ? x : Uint16Array.from(x, numberToBf16)
  }
  return {
    x: numbers(1),
    g: numbers(2),
    first: Int32Array.from(first),
    last: Int32Array.from(last),
    y: new Float32Array(programs * rows * columns).fill(77),
    s: new Float32Array(programs * columns).fill(77),
  }
}

const shapes: readonly (readonly [string, Shape])[] = [
  ['rows one by one', { rows: 13, columns: 2048 }],
  ['columns that do not fill the threads', { rows: 13, columns: 2040 }],
  ['two groups of a thread', { rows: 13, columns: 4096 }],
  ['f32', { rows: 13, columns: 1024, dtype: 'f32' }],
  ['backwards', { rows: 13, columns: 1024, place: '12 - r' }],
  ['blocks of rows', { rows: 20, columns: 1024, block: 4 }],
]

const ring = 'copy_words_'
const early = /x_ahead/

const interpreted = new Map<Shape, Buffers>()
const wanted = (shape: Shape): Buffers => {
  const have = interpreted.get(shape)
  if (have !== undefined) return have
  const want = buffersOf(shape)
  interpretKernel(rowsKernel(shape), want)
  interpreted.set(shape, want)
  return want
}

describe.skipIf(!hasCompiler())('in CUDA on the host (skipped where g++ is missing)', () => {
  test.each<[string, SimtMachine]>([
    ['in the background', cudaSimt],
    ['into registers', { ...cudaSimt, hasMatrixUnit: false }],
  ])('%s', { timeout: 120_000 }, (_, caps) => {
    // By day one half in the background, the other into registers.
    const own = shapes.filter((_, i) => nightly || i % 2 === (caps.hasMatrixUnit ? 0 : 1))
    const emulated = new Emulated(
      own.map(([, shape]) => rowsKernel(shape)),
      caps,
    )
    own.forEach(([name, shape], i) => {
      const got = buffersOf(shape)
      emulated.run(i, got)
      expect(got, name).toEqual(wanted(shape))
    })
    emulated.dispose()
  })
})

describe.each(shapes)('%s', (_, shape) => {
  const kernel = rowsKernel(shape)
  test('loads ahead', () => {
    const { source } = emitKernel(kernel, cudaSimt)
    expect(source).toContain(ring)
    const without = (machine: SimtMachine): SourceCandidate | undefined =>
      [...candidateSources(kernel, machine)].find((c) => c.form.loadsAhead === false)
    expect(without(cudaSimt)?.source.source).toBeDefined()
    expect(without(cudaSimt)?.source.source).not.toContain(ring)
    expect(without(webgpuSimt)?.source.source ?? '').not.toMatch(early)
  })

  const inWgsl = some(shapes, 4).some(([, s]) => s === shape) ? test : atNight
  inWgsl('in WGSL', { timeout: 60_000 }, async ({ skip }) => {
    const machine = await openDevice()
    if (typeof machine === 'string') return skip(machine)
    const got = buffersOf(shape)
    await runWgsl(machine, [kernel], got, { subgroups: true })
    expect(got).toEqual(wanted(shape))
  })
})

describe('which loops', () => {
  const count = (source: string, what: string): number => source.split(what).length - 1

  test('three rows are under way, two where three do not fit, of some loads where two of all do not', () => {
    const found = (columns: number, dtype: 'bf16' | 'f32'): (string | undefined)[] => {
      const { source } = emitKernel(rowsKernel({ rows: 64, columns, dtype }), { ...cudaSimt, maxThreads: 128 })
      const waits = [...source.matchAll(/^ +(copy_wait_\d)\(\);/gm)].map((m) => m[1])
      return [...waits, ...['x', 'g'].filter((p) => new RegExp(`copy_words_4\\(.*, ${p} \\+ `).test(source))]
    }
    expect(found(1024, 'bf16')).toEqual(['copy_wait_1', 'x', 'g'])
    expect(found(1024, 'f32')).toEqual(['copy_wait_0', 'x', 'g'])
    expect(found(4096, 'f32')).toEqual(['copy_wait_0', 'x'])
  })

  test('WGSL: where the words fit the registers beside what the loop holds', () => {
    const source = (columns: number): string =>
      emitKernel(rowsKernel({ rows: 64, columns }), { ...webgpuSimt, maxSharedBytes: 32768 }).source
    expect(source(2048)).toMatch(early)
    expect(source(16384)).not.toMatch(early)
  })

  test('WGSL: layer normalisation, forward and backward', () => {
    const graph = trace(
      [
        { shape: [16384, 4096], dtype: 'bf16' },
        { shape: [4096], dtype: 'bf16' },
        { shape: [4096], dtype: 'bf16' },
      ],
      (p) => c.layerNorm(at(p, 0), { scale: at(p, 1), bias: at(p, 2) }),
    )
    const { program } = compileGraph(vjpGraph(graph, [0, 1, 2]), {
      mode: 'fast',
      target: webgpuTarget({ storageBuffers: 12, sharedBytes: 32768 }),
    })
    const [step] = program.steps
    if (step?.kind !== 'kernel') throw new Error('no kernel')
    expect(emitKernel(step.kernel, { ...webgpuSimt, laneBits: 5 }).source).toMatch(/x0_ahead[\s\S]*x2_ahead/)
  })

  test('not what another parameter overwrites, short loops, or those without exchanges between warps', () => {
    const kernel = rowsKernel({ rows: 64, columns: 1024 })
    const aliased = emitKernel(kernel, cudaSimt, { mayAlias: (p) => p === 'x' || p === 'y' }).source
    const free = emitKernel(kernel, cudaSimt).source
    expect(count(aliased, ', g + ')).toBeGreaterThan(0)
    expect([count(free, ', x + ') > 0, count(aliased, ', x + ')]).toEqual([true, 0])
    expect(emitKernel(rowsKernel({ rows: 3, columns: 1024 }), cudaSimt).source).not.toContain(ring)
    expect(emitKernel(rowsKernel({ rows: 64, columns: 128 }), cudaSimt).source).not.toContain(ring)
  })
})

describe('chunks of rows that stream, in WGSL', () => {
  const programOf = (columns: number, dtype: 'bf16' | 'f32'): { graph: Graph; program: Program } => {
    const graph = trace([{ shape: [3, columns], dtype }], (p) => c.softmax(at(p, 0), -1))
    // Three programs would be too few.
    const target = { ...webgpuTarget(), programShare: { moving: 1, computing: 1 } }
    return { graph, program: compileGraph(graph, { mode: 'fast', target }).program }
  }
  const source = (columns: number, dtype: 'bf16' | 'f32'): string => {
    const [step] = programOf(columns, dtype).program.steps
    if (step?.kind !== 'kernel') throw new Error('no kernel')
    return emitKernel(step.kernel, webgpuSimt).source
  }

  test('load one chunk early where a thread loads few words for one', () => {
    // The walk that sums as it finds the greatest value, and the one that stores.
    expect(source(70_000, 'bf16').match(/var x0_ahead/g)).toHaveLength(2)
    expect(source(70_000, 'f32').match(/var x0_ahead/g)).toHaveLength(2)
    expect(source(10_000, 'bf16')).not.toMatch(/_ahead/)
    // Stores that the compiler must not move the early loads past.
    expect(source(70_000, 'bf16')).toMatch(/if \(program >= 0\) \{\n\s+y0\[/)
    expect(source(10_000, 'bf16')).not.toContain('program >= 0')
  })

  test('none where it loads many', () => {
    const graph = trace([{ shape: [3, 70_000], dtype: 'f32' }], (p) => c.sum(c.exp(at(p, 0)), 1))
    const { program } = compileGraph(graph, { mode: 'fast', target: { ...webgpuTarget(), minPrograms: 1 } })
    const [step] = program.steps
    if (step?.kind !== 'kernel') throw new Error('no kernel')
    const { source } = emitKernel(step.kernel, webgpuSimt)
    expect([source.includes('for (var '), source.includes('_ahead')]).toEqual([true, false])
  })

  test.for(some([40_960, 70_000, 70_001], 3))('rows of %i elements', async (columns, { skip }) => {
    const machine = await openDevice()
    if (typeof machine === 'string') return skip(machine)
    const { graph, program } = programOf(columns, 'bf16')
    const inputs = inputsOf(graph)
    const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const got = await executeWgsl(machine, program, inputs)
    expect(difference(at(got, 0), at(want, 0), 'bf16')).toBeUndefined()
  })
})
