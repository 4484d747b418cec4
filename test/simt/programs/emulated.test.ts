/**
 * CUDA sources run on the host (emulator/): the hard cases, matrix products on tensor cores in every form of their operands, and
 * random programs. SINTER_SIMT_PROGRAMS sets how many, SINTER_SIMT_FIRST where they start.
 */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import { interpretKernel } from '../../../src/kernel/interpret.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { parseKernel } from '../../../src/kernel/parse.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import { cudaTarget } from '../../../src/target/cuda.ts'
import type { Machine } from '../../../src/target/machine.ts'
import { cudaSimt } from '../../../src/target/simt.ts'
import { loadKernels } from '../../kernel/hard-cases/case.ts'
import { hardCases } from '../../kernel/hard-cases/cases.ts'
import { difference } from '../../random/execute.ts'
import { randomGraph } from '../../random/graphs.ts'
import { seedsOf, some } from '../../support/nightly.ts'
import { type Buffers, Emulated, hasCompiler } from '../dialects/emulator/emulator.ts'
import { execute } from './programs.ts'

interface ProductCase {
  readonly name: string
  /** m, n, k and their blocks. */
  readonly sizes: readonly [number, number, number]
  readonly blocks: readonly [number, number, number]
  readonly a: 'm, k' | 'k, m'
  readonly b: 'k, n' | 'n, k'
  readonly dtype: 'bf16' | 'f16' | 'f32'
  /** Operands are computed on the way in. */
  readonly prologue: boolean
}

const forms: ProductCase[] = [
  {
    name: 'row-major',
    sizes: [128, 64, 128],
    blocks: [64, 32, 32],
    a: 'm, k',
    b: 'k, n',
    dtype: 'bf16',
    prologue: false,
  },
  {
    name: 'half precision',
    sizes: [64, 64, 64],
    blocks: [32, 32, 32],
    a: 'm, k',
    b: 'k, n',
    dtype: 'f16',
    prologue: false,
  },
  {
    name: 'a transposed',
    sizes: [64, 64, 64],
    blocks: [32, 32, 32],
    a: 'k, m',
    b: 'k, n',
    dtype: 'bf16',
    prologue: false,
  },
  {
    name: 'b transposed',
    sizes: [64, 64, 64],
    blocks: [32, 32, 32],
    a: 'm, k',
    b: 'n, k',
    dtype: 'bf16',
    prologue: false,
  },
  {
    name: 'single precision',
    sizes: [70, 41, 75],
    blocks: [32, 32, 16],
    a: 'm, k',
    b: 'k, n',
    dtype: 'f32',
    prologue: true,
  },
  { name: 'tails', sizes: [70, 41, 75], blocks: [32, 32, 32], a: 'm, k', b: 'k, n', dtype: 'bf16', prologue: false },
  {
    name: 'aligned tails',
    sizes: [72, 40, 72],
    blocks: [32, 32, 32],
    a: 'm, k',
    b: 'k, n',
    dtype: 'bf16',
    prologue: true,
  },
  {
    name: 'large blocks',
    sizes: [128, 128, 96],
    blocks: [128, 128, 32],
    a: 'm, k',
    b: 'k, n',
    dtype: 'bf16',
    prologue: true,
  },
  {
    name: 'few rows',
    sizes: [16, 128, 128],
    blocks: [16, 128, 64],
    a: 'm, k',
    b: 'k, n',
    dtype: 'bf16',
    prologue: true,
  },
  // Blocks of warp groups.
  ...(
    [
      ['groups', [128, 128, 192], [128, 128, 64], 'm, k', 'k, n', 'bf16', false],
      ['groups, a transposed', [128, 128, 192], [128, 128, 64], 'k, m', 'k, n', 'bf16', false],
      ['groups, b transposed', [128, 64, 192], [128, 64, 64], 'm, k', 'n, k', 'f16', false],
      ['groups, both transposed', [64, 128, 256], [64, 128, 128], 'k, m', 'n, k', 'f16', false],
      ['two groups', [256, 128, 128], [256, 128, 64], 'm, k', 'k, n', 'bf16', false],
      ['two groups of one piece', [128, 256, 128], [128, 256, 64], 'k, m', 'k, n', 'bf16', false],
      ['groups with aligned tails', [200, 136, 104], [128, 128, 64], 'm, k', 'k, n', 'bf16', false],
      ['groups with tails and a prologue', [130, 70, 67], [128, 64, 64], 'm, k', 'k, n', 'bf16', true],
      ['groups with a prologue', [128, 128, 192], [128, 128, 64], 'm, k', 'k, n', 'bf16', true],
      ['blocks that are no power of two', [96, 80, 144], [48, 80, 48], 'm, k', 'k, n', 'bf16', false],
      ['groups with fewer indices than a block', [120, 88, 40], [128, 128, 64], 'm, k', 'n, k', 'bf16', false],
    ] as const
  ).map(([name, sizes, blocks, a, b, dtype, prologue]) => ({ name, sizes, blocks, a, b, dtype, prologue })),
]

function productOf(c: ProductCase): Kernel {
  const [m, n, k] = c.sizes
  const [bm, bn, bk] = c.blocks
  const d = c.dtype
  const shape = (axes: string): string =>
    axes
      .split(', ')
      .map((x) => (x === 'm' ? m : x === 'n' ? n : k))
      .join(', ')
  return parseKernel(`kernel product {
    param x: ${d}[${shape(c.a)}] read
    param w: ${d}[${shape(c.b)}] read
    param bias: f32[${n}] read
    param y: f32[${m}, ${n}] write
    axes m: ${m}, n: ${n}, k: ${k}
    grid m/${bm}, n/${bn}
    %0 f32{m, n} = const 0
    %1 = loop k/${bk} {
      carry %2 f32{m, n} = %0
      %3 ${d}{m, k} = load x[${c.a}]
      %4 ${d} = const ${c.prologue ? 0.5 : 1}
      %5 ${d}{m, k} = mul %3, %4
      %6 ${d}{m, k} = stage ${c.prologue ? '%5' : '%3'}
      %7 ${d}{k, n} = load w[${c.b}]
      %8 ${d}{k, n} = stage %7
      %9 f32{m, n} = dot %6, %8 over k acc %2
      next %9
    }
    %10 f32{n} = load bias[n]
    %11 f32{m, n} = add %1, %10
    store y[m, n] = %11
  }`)
}

/** Multiples of 1/4 from -2 to 2, as bits of the dtype. */
function operand(dtype: ProductCase['dtype'], n: number, seed: number): Float32Array | Uint16Array {
  let s = seed
  const values = Float32Array.from({ length: n }, () => {
    s = (Math.imul(s, 1664525) + 1013904223) >>> 0
    return (((s >>> 16) % 17) - 8) / 4
  })
  if (dtype === 'f32') return values
  const words = new Uint32Array(values.buffer)
  if (dtype === 'bf16') return Uint16Array.from(words, (u) => u >>> 16)
  return Uint16Array.from(words, (u) =>
    (u & 0x7fffffff) === 0 ? 0 : ((u >>> 16) & 0x8000) | ((((u >>> 23) & 255) - 112) << 10) | ((u >>> 13) & 0x3ff),
  )
}

/** Blocks small enough that small tensors have tails and several programs. */
const smallBlocks: Machine = {
  ...cudaTarget,
  elementBlock: 40,
  dotBlock: { m: 16, n: 16, k: 16 },
  minPrograms: 6,
}

describe.skipIf(!hasCompiler())('CUDA sources on the host (skipped where g++ is missing)', () => {
  test('hard cases', { timeout: 180_000 }, () => {
    const tried = some(hardCases, 4)
    const lists = tried.map((c) => loadKernels(c.file))
    const emulated = new Emulated(lists.flat())
    let at = 0
    tried.forEach((c, i) => {
      const buffers = c.buffers()
      const expected = c.expected(c.buffers())
      for (const _ of lists[i] ?? []) emulated.run(at++, buffers)
      const tolerance = c.tolerance ?? 1e-5
      for (const [name, want] of Object.entries(expected)) {
        const got = Array.from(buffers[name] ?? [], Number)
        want.forEach((w, j) => {
          const g = got[j] ?? Number.NaN
          const close = Object.is(g, w) || Math.abs(g - w) <= tolerance * Math.max(1, Math.abs(w))
          if (!close) expect.fail(`${c.name}: ${name}[${j}] is ${g}, expected ${w}`)
        })
      }
    })
    emulated.dispose()
  })

  test('matrix products', { timeout: 180_000 }, () => {
    const tried = some(forms, 4)
    const kernels = tried.map(productOf)
    const emulated = new Emulated(kernels)
    tried.forEach((c, i) => {
      const [m, n, k] = c.sizes
      const make = (): Buffers => ({
        x: operand(c.dtype, m * k, 1),
        w: operand(c.dtype, n * k, 2),
        bias: operand('f32', n, 3),
        y: new Float32Array(m * n).fill(77),
      })
      const [want, got] = [make(), make()]
      const kernel = kernels[i]
      if (kernel === undefined) throw new Error('no kernel')
      interpretKernel(kernel, want, { rounding: 'dtype' })
      emulated.run(i, got)
      // Sums of multiples of 1/32 are exact in any order.
      expect(got.y, c.name).toEqual(want.y)
    })
    emulated.dispose()
  })

  test('a union of equal parts in a table of pointers', { timeout: 120_000 }, () => {
    const tensors = [0, 1, 2, 3, 4, 5]
    const kernel = parseKernel(`kernel step {
      param rate: f32[] read
      ${tensors.map((i) => `param p${i}: f32[70] update\n      param g${i}: f32[70] read`).join('\n      ')}
      param q: f32[9] update
      ${tensors
        .map(
          (i) => `part {
        axes i: 70
        grid i/32
        %0 f32 = load rate[]
        %1 f32{i} = load p${i}[i]
        %2 f32{i} = load g${i}[i]
        %3 f32{i} = mul %0, %2
        %4 f32{i} = sub %1, %3
        store p${i}[i] = %4
      }`,
        )
        .join('\n      ')}
      part {
        axes i: 9
        grid i/9
        %0 f32{i} = load q[i]
        %1 f32{i} = neg %0
        store q[i] = %1
      }
    }`)
    const make = (): Buffers => ({
      rate: Float32Array.of(0.5),
      q: operand('f32', 9, 99),
      ...Object.fromEntries(
        tensors.flatMap((i) => [
          [`p${i}`, operand('f32', 70, i + 1)],
          [`g${i}`, operand('f32', 70, i + 50)],
        ]),
      ),
    })
    const source = emitKernel(kernel, cudaSimt)
    expect(source.table).toEqual(tensors.flatMap((i) => [`p${i}`, `g${i}`]))
    expect(source.bindings.map((b) => b.name)).toEqual(['rate', 'q'])
    const [want, got] = [make(), make()]
    interpretKernel(kernel, want)
    const emulated = new Emulated([kernel])
    emulated.run(0, got)
    emulated.dispose()
    expect(got).toEqual(want)
  })

  test('random programs', { timeout: 240_000 }, async () => {
    const count = seedsOf('SINTER_SIMT_PROGRAMS', 5, 32)
    const first = Number(process.env.SINTER_SIMT_FIRST ?? 0)
    const programs = Array.from({ length: count }, (_, i) => {
      const seed = first + i
      const random = randomGraph(seed, { maxElements: 300 })
      const mode = seed % 5 === 4 ? 'strict' : 'fast'
      const target = seed % 2 === 0 ? smallBlocks : cudaTarget
      return { seed, random, program: compileGraph(random.graph, { mode, target }).program }
    })
    const kernels = programs.flatMap(({ program }) =>
      program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : [])),
    )
    const emulated = new Emulated(kernels)
    for (const { seed, random, program } of programs) {
      const expected = evaluateGraph(random.graph, random.inputs, { rounding: 'dtype' }).map(toHostArray)
      const got = await execute(program, random.inputs, (k, buffers) => emulated.run(kernels.indexOf(k), buffers))
      expected.forEach((e, i) => {
        const a = got[i]
        const dtype = random.graph.outputs[i]?.dtype ?? 'f32'
        const why = a === undefined ? 'no result' : difference(a, e, dtype, random.tolerances[i] ?? 0)
        expect(why, `seed ${seed}, output ${i}`).toBeUndefined()
      })
    }
    emulated.dispose()
  })
})
