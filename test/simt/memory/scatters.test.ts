/** Scatters whose places programs share out: every place takes its updates in order, on the interpreter, in CUDA on the host, in WGSL. */
import { beforeAll, describe, expect, test } from 'vitest'
import { valuesOf } from '../../../src/affine/expr.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import * as c from '../../../src/compose/index.ts'
import { withOrigin } from '../../../src/diagnostics/origin.ts'
import { makeNode, param, withContext } from '../../../src/graph/build.ts'
import type { Graph } from '../../../src/graph/node.ts'
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { writeElement } from '../../../src/scalar/host.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import type { DType } from '../../../src/types/dtype.ts'
import { type HostArray, hostArray } from '../../../src/types/host.ts'
import { sizeOf } from '../../../src/types/shape.ts'
import { noise } from '../../kernel/hard-cases/case.ts'
import { nightly, some, turn } from '../../support/nightly.ts'
import { checkEmulated, Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { type Adapter, openDevice } from '../dialects/wgsl.ts'
import { execute, executeWgsl } from '../programs/programs.ts'

interface Case {
  readonly name: string
  readonly target: readonly number[]
  /** Shape of the indices, the last dimension a place's coordinates. */
  readonly indices: readonly number[]
  readonly combiner: 'set' | 'sum' | 'prod' | 'max' | 'min'
  /** The one dimension that indices lead along, of so many updates; those that they have once are the same for all of the others. */
  readonly along?: { readonly axis: number; readonly updates: number }
  readonly dtype?: DType
  readonly indexDType?: 'i32' | 'i64'
  /** Indices from before the first place to behind the last. */
  readonly beyond?: boolean
  /** All updates meet in few places. */
  readonly few?: boolean
}

const cases: readonly Case[] = [
  { name: 'single places', target: [1000], indices: [3000, 1], combiner: 'sum' },
  { name: 'rows', target: [300, 17], indices: [500, 1], combiner: 'sum', beyond: true },
  { name: 'wide rows', target: [133, 300], indices: [100, 1], combiner: 'sum' },
  { name: 'two coordinates', target: [19, 23, 5], indices: [700, 2], combiner: 'max', beyond: true },
  { name: 'updates over two dimensions', target: [211, 8], indices: [30, 37, 1], combiner: 'sum', indexDType: 'i64' },
  { name: 'few places', target: [3, 2], indices: [2500, 1], combiner: 'sum' },
  { name: 'many to one place', target: [500, 4], indices: [400, 1], combiner: 'sum', few: true },
  { name: 'several rounds, a queue that fills', target: [6], indices: [20000, 1], combiner: 'sum', few: true },
  { name: 'several rounds of rows', target: [9, 40], indices: [17000, 1], combiner: 'max', beyond: true },
  {
    name: 'a table for many rows',
    target: [3, 7, 130, 5],
    indices: [1, 1, 1, 40],
    combiner: 'sum',
    along: { axis: 3, updates: 40 },
  },
  {
    name: 'a table for rows and columns',
    target: [11, 65, 130],
    indices: [1, 520, 1],
    combiner: 'sum',
    along: { axis: 1, updates: 520 },
  },
  {
    name: 'more rows than threads',
    target: [1300, 9],
    indices: [1, 90],
    combiner: 'max',
    along: { axis: 1, updates: 90 },
  },
  {
    name: 'a batch',
    target: [7, 60, 5],
    indices: [7, 300, 1],
    combiner: 'sum',
    along: { axis: 1, updates: 300 },
    beyond: true,
  },
  {
    name: 'a batch of elements',
    target: [40, 9, 4],
    indices: [40, 70, 4],
    combiner: 'set',
    along: { axis: 1, updates: 70 },
    few: true,
  },
  {
    name: 'few updates of many rows',
    target: [3000, 11],
    indices: [3000, 3],
    combiner: 'sum',
    along: { axis: 1, updates: 3 },
    beyond: true,
  },
  { name: 'the last one stays', target: [150, 3], indices: [999, 1], combiner: 'set', beyond: true },
  { name: 'products of half precision', target: [160, 5], indices: [300, 1], combiner: 'prod', dtype: 'f16' },
  { name: 'integers', target: [1025], indices: [2049, 1], combiner: 'sum', dtype: 'i32' },
  { name: 'bytes', target: [140, 9], indices: [256, 1], combiner: 'min', dtype: 'u8' },
]

function graphOf({ target, indices, combiner, dtype = 'f32', indexDType = 'i32', along }: Case): Graph {
  const rank = indices.at(-1) ?? 1
  const updates =
    along === undefined
      ? [...indices.slice(0, -1), ...target.slice(rank)]
      : target.map((n, d) => (d === along.axis ? along.updates : n))
  return withOrigin('scatter', undefined, () =>
    withContext(() => {
      const params = [param(0, target, dtype), param(1, indices, indexDType), param(2, updates, dtype)] as const
      const [x, at, values] = params
      return {
        params: [...params],
        outputs: [
          along === undefined
            ? c.scatterND(x, at, values, combiner)
            : c.scatterElements(x, c.broadcastTo(at, updates), values, along.axis, combiner),
        ],
        effects: [],
      }
    }),
  )
}

function inputsOf(k: Case, graph: Graph): HostArray[] {
  const rank = k.along === undefined ? (k.indices.at(-1) ?? 1) : 1
  const extents = k.along === undefined ? k.target : [k.target[k.along.axis] ?? 1]
  return graph.params.map((p, i) => {
    const out = hostArray(p.dtype, sizeOf(p.shape))
    const values = noise(i + k.name.length, sizeOf(p.shape))
    const numbers = values.map((v, n) => {
      if (i !== 1) return p.dtype === 'f32' ? v : Math.round(4 * Math.abs(v))
      const extent = k.few === true ? 2 : (extents[n % rank] ?? 1)
      return Math.floor(((v + 1) / 2) * extent * (k.beyond === true ? 1.2 : 1)) - (k.beyond === true ? 2 : 0)
    })
    numbers.forEach((v, n) => {
      writeElement(out, p.dtype, n, p.dtype === 'i64' ? BigInt(v) : v)
    })
    return out
  })
}

const modes = ['fast', 'strict'] as const
const all = cases.flatMap((k, i) => turn(modes, i).map((mode) => ({ ...k, mode })))

const compiled = all.map((k) => {
  const graph = graphOf(k)
  const { program } = compileGraph(graph, { mode: k.mode, target: cudaTarget })
  return { ...k, graph, program, kernels: program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : [])) }
})

type Compiled = (typeof compiled)[number]

/** By day the interpreter and the host leave out what takes seconds of either. */
const slow = new Set([
  'several rounds of rows',
  'a table for rows and columns',
  'wide rows',
  'few updates of many rows',
])
const quick = compiled.filter(({ name }) => nightly || !slow.has(name))

const wanted = (k: Compiled): HostArray | undefined =>
  evaluateGraph(k.graph, inputsOf(k, k.graph), { rounding: 'dtype' }).map(toHostArray)[0]

async function check(
  k: Compiled,
  run: (kernel: Kernel, buffers: Record<string, HostArray>) => Promise<void> | void,
): Promise<void> {
  const [got] = await execute(k.program, inputsOf(k, k.graph), run)
  expect(got, `${k.name}, ${k.mode}`).toEqual(wanted(k))
}

describe('the kernel', () => {
  test.each(quick.filter((_, i) => nightly || i % 3 === 1))('$name, $mode, gives every bit of the reference', (k) =>
    check(k, (kernel, buffers) => interpretKernel(kernel, buffers, { rounding: 'dtype', order: 'backward' })),
  )
  test('shares places out among programs', () => {
    for (const { name, kernels } of compiled) {
      const stores = kernels.flatMap((k) =>
        k.parts.filter((p) => p.body.some((s) => s.kind === 'store' && s.index.some((e) => valuesOf(e).size > 0))),
      )
      expect(stores.length, name).toBe(1)
      expect(stores[0]?.grid.length, name).toBeGreaterThan(0)
    }
  })
})

describe('where a thread has one place alone', () => {
  const sourceOf = (name: string): string => {
    const kernel = compiled.find((k) => k.name === name)?.kernels.at(-1)
    return kernel === undefined ? '' : emitKernel(kernel, cudaTarget.simt).source
  }
  test.each(['a table for rows and columns', 'a batch', 'few places', 'the last one stays'])(
    '%s: updates combine in a register',
    (name) => {
      expect(sourceOf(name).match(/\by\[.*\] = /g)).toHaveLength(1)
      expect(sourceOf(name)).toContain('y_own')
    },
  )
  test('threads are as many as updates or places', () => {
    const threadsOf = (name: string): string | undefined => /__launch_bounds__\((\d+)/.exec(sourceOf(name))?.[1]
    expect(threadsOf('a batch of elements')).toBe('128')
    expect(threadsOf('a batch')).toBe('512')
    expect(threadsOf('several rounds, a queue that fills')).toBe('1024')
  })
  test('several places of a thread are combined in memory', () => {
    expect(sourceOf('two coordinates')).not.toContain('y_own')
  })
})

describe.skipIf(!hasCompiler())('CUDA on the host (skipped where g++ is missing)', () => {
  test('every case', { timeout: 240_000 }, async () => {
    await checkEmulated(some(quick, 2), check)
  })
})

describe('WGSL', () => {
  let machine: Adapter | string
  beforeAll(async () => {
    machine = await openDevice()
  })
  test.for(
    some(
      compiled.filter((k) => k.dtype !== 'f16' && k.indexDType !== 'i64'),
      6,
    ),
  )('$name, $mode', async (k, { skip }) => {
    skip(typeof machine === 'string', String(machine))
    if (typeof machine === 'string') return
    const { program } = compileGraph(k.graph, { mode: k.mode, target: webgpuTarget() })
    const [got] = await executeWgsl(machine, program, inputsOf(k, k.graph))
    expect(got).toEqual(wanted(k))
  })
})

describe('places that are promised to be distinct', () => {
  const [rows, n] = [3, 5000]
  const places = Int32Array.from({ length: rows * n }, (_, i) => ((i % n) * 1237 + 5 * Math.floor(i / n)) % n)
  const values = Uint32Array.from({ length: rows * n }, (_, i) => i)
  const graph = withOrigin('scatter', undefined, () =>
    withContext((): Graph => {
      const params = [param(0, [rows, n], 'u32'), param(1, [rows, n], 'i32')] as const
      const [x, at] = params
      const sources = [{ axis: 0 }, { input: 0 }]
      const moved = makeNode('scatter', [c.zeros([rows, n], 'u32'), x, at], {
        sources,
        combiner: 'set',
        distinct: true,
      })
      return { params: [...params], outputs: [moved], effects: [] }
    }),
  )
  const { program } = compileGraph(graph, { mode: 'strict', target: cudaTarget })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  const moved = Uint32Array.from({ length: rows * n })
  places.forEach((at, i) => {
    moved[n * Math.floor(i / n) + at] = i
  })

  test('updates are shared out among programs, and no place is asked for', () => {
    const stores = kernels.flatMap((k) =>
      k.parts.filter((p) => p.body.some((s) => s.kind === 'store' && s.maskValue !== undefined)),
    )
    expect(stores.map((p) => p.grid.length)).toEqual([2])
    expect(stores.flatMap((p) => p.body).some((s) => s.kind === 'store' && s.mask.length > 0)).toBe(false)
  })
  test.each(['forward', 'backward'] as const)('give every bit, programs %s', async (order) => {
    const run = (kernel: Kernel, buffers: Record<string, HostArray>): void => {
      interpretKernel(kernel, buffers, { rounding: 'dtype', order })
    }
    expect((await execute(program, [values, places], run))[0]).toEqual(moved)
  })
  test.skipIf(!hasCompiler())('in CUDA on the host', { timeout: 120_000 }, async () => {
    const emulated = new Emulated(kernels)
    try {
      const run = (kernel: Kernel, buffers: Record<string, HostArray>): void => {
        emulated.run(kernels.indexOf(kernel), buffers)
      }
      expect((await execute(program, [values, places], run))[0]).toEqual(moved)
    } finally {
      emulated.dispose()
    }
  })
})
