/** Which products are multiplied on matrices of subgroups, and the code for them; test/webgpu runs it. */
import { describe, expect, test } from 'vitest'
import { traceFunction } from '../../../src/api/tensor/traceFunction.ts'
import { type bitcast, call, elem, int, lit, type S, uint, v } from '../../../src/codegen/simt/ir/ir.ts'
import { emitKernel } from '../../../src/codegen/simt/kernel.ts'
import { movedHalves } from '../../../src/codegen/simt/passes/movedHalves.ts'
import { compileGraph } from '../../../src/compile/index.ts'
import { conv, einsum, spec, type Tensor } from '../../../src/index.ts'
import type { Kernel } from '../../../src/kernel/ir.ts'
import { printThreadSchedule } from '../../../src/schedule/simt/print.ts'
import { scheduleThreads } from '../../../src/schedule/simt/scheduleThreads.ts'
import { type WebgpuLimits, webgpuTarget } from '../../../src/target/webgpu.ts'
import type { DType } from '../../../src/types/dtype.ts'

const limits: Partial<WebgpuLimits> = { sharedBytes: 49152, laneBits: 5, hasHalfConversions: true }
const target = webgpuTarget({ ...limits, hasSubgroupMatrices: true })

/** The kernel that multiplies; one that puts parts of the depth together may follow. */
function kernelOf(
  f: (a: Tensor, b: Tensor) => Tensor,
  shapes: readonly (readonly number[])[],
  dtype: DType,
  machine = target,
  mode: 'fast' | 'strict' = 'fast',
): Kernel {
  const { graph } = traceFunction(
    f,
    shapes.map((s) => spec(s, dtype)),
  )
  const { program } = compileGraph(graph, { mode, target: machine })
  const first = program.steps.find((s) => s.kind === 'kernel')
  if (first === undefined) throw new Error('no kernel')
  return first.kernel
}

const product = (a: Tensor, b: Tensor): Tensor => a.matmul(b)
const scheduleOf = (k: Kernel, machine = target): string =>
  printThreadSchedule(scheduleThreads(k, machine.simt)).join('\n')
const square = [
  [512, 512],
  [512, 512],
]

describe('schedules', () => {
  test('f16 on matrices, others in vectors', () => {
    expect(scheduleOf(kernelOf(product, square, 'f16'))).toContain('on matrices of subgroups: ')
    for (const dtype of ['f32', 'bf16'] as const)
      expect(scheduleOf(kernelOf(product, square, dtype))).toContain('in vectors of four along ')
  })

  test('not in strict mode, nor on a device without them', () => {
    const plain = webgpuTarget(limits)
    expect(scheduleOf(kernelOf(product, square, 'f16', plain), plain)).toContain('in vectors of four along ')
    expect(scheduleOf(kernelOf(product, square, 'f16', target, 'strict'))).not.toContain('matrices')
  })

  test('a large product has 64 x 64 results a subgroup and steps of 32', () => {
    const sizes = [
      [4096, 4096],
      [4096, 4096],
    ]
    expect(scheduleOf(kernelOf(product, sizes, 'f16'))).toContain('128 x 128 x 32 by 2 x 2 subgroups')
  })

  test('the depth of a step is filled up to whole matrices', () => {
    const sizes = [
      [512, 200],
      [200, 512],
    ]
    expect(scheduleOf(kernelOf(product, sizes, 'f16'))).toMatch(/on matrices of subgroups: \d+ x \d+ x 32 by/)
  })

  const windows = (channels: number): [number[], number[]] => [
    [2, channels, 28, 30],
    [64, channels, 3, 3],
  ]
  const convolution = (x: Tensor, w: Tensor): Tensor => conv(x, w, { padding: 1 })

  test('a step of windows has channels at one tap: the depth is one axis, by whole groups of channels', () => {
    expect(scheduleOf(kernelOf(convolution, windows(40), 'f16'))).toMatch(/axis \w+: 32 of 360 a program/)
    expect(scheduleOf(kernelOf(convolution, windows(40), 'f32'))).toMatch(/axis \w+: 3 of 3 a program/)
    expect(scheduleOf(kernelOf(convolution, windows(45), 'f16'))).toMatch(/axis \w+: 3 of 3 a program/)
  })

  test('of several axes of the depth the one along which memory lies is innermost', () => {
    const heads = (x: Tensor, w: Tensor): Tensor => einsum('mhd,hdn->mn', x, w)
    const text = scheduleOf(
      kernelOf(
        heads,
        [
          [512, 64, 32],
          [64, 32, 512],
        ],
        'f16',
      ),
    )
    expect(text).toMatch(/take x0 from registers, fill the tile|load x0 \(8 at a time\)/)
  })

  test('what neighbouring channels have in common is found once', () => {
    const { source } = emitKernel(kernelOf(convolution, windows(40), 'f16'), target.simt)
    const places = [...source.matchAll(/u32\((m0_\d+(?: \+ \d+)?)\) % 40u/g)].map(([, place]) => place)
    expect(places.length).toBeGreaterThan(8)
    expect(new Set(places.filter((p) => /\+/.test(p ?? ''))).size).toBe(0)
  })

  test('a device with less shared memory than tiles and results take multiplies in vectors', () => {
    const small = webgpuTarget({ ...limits, hasSubgroupMatrices: true, sharedBytes: 16384 })
    const text = scheduleOf(kernelOf(product, square, 'f16', small), small)
    expect(emitKernel(kernelOf(product, square, 'f16', small), small.simt).sharedBytes).toBeLessThanOrEqual(16384)
    expect(text).toContain('in vectors of four along ')
  })
})

describe('code', () => {
  const { source } = emitKernel(kernelOf(product, square, 'f16'), target.simt)

  test('asks for what it uses', () => {
    expect(source).toContain('enable f16;\nenable chromium_experimental_subgroup_matrix;')
    expect(emitKernel(kernelOf(product, square, 'f32'), target.simt).source).not.toContain('enable f16;')
  })

  test('rows of a tile go along what its loads are contiguous along', () => {
    expect(source).toMatch(/subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, row_major>/)
    expect(source).toMatch(/subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, row_major>/)
    const turned = kernelOf((a, b) => a.transpose().matmul(b.transpose()), square, 'f16')
    const other = emitKernel(turned, target.simt).source
    expect(other).toMatch(/subgroupMatrixLoad<subgroup_matrix_left<f16, 16, 16>, col_major>/)
    expect(other).toMatch(/subgroupMatrixLoad<subgroup_matrix_right<f16, 16, 16>, col_major>/)
  })

  test('halves are moved, not converted', () => {
    expect(source).not.toContain('unpack2x16float')
  })

  test('tiles and results have one array, which is written and read in groups of 16 bytes', () => {
    expect(source.match(/var<workgroup>.*/g)).toEqual(['var<workgroup> tiles_8: array<vec4<u32>, 640>;'])
    expect(source.match(/tiles_8\[.*\] = vec4<u32>\(/g)).toHaveLength(4)
    expect(source.match(/= bitcast<vec4<f32>>\(tiles_8\[/g)).toHaveLength(8)
  })

  test('all threads take as much of each row of matrices: nothing asks which', () => {
    const behind = source.slice(source.indexOf('subgroupMatrixStore'))
    expect(behind).not.toContain('if (')
  })

  test('loads of a step are on their way while the step before is multiplied', () => {
    const [, loop = ''] = source.split('for (var k_start')
    expect(loop.indexOf('x0_ahead[0] = ')).toBeGreaterThan(
      loop.lastIndexOf('tiles_8[', loop.indexOf('subgroupMatrixLoad')),
    )
    expect(loop.indexOf('x0_ahead[0] = ')).toBeLessThan(loop.indexOf('subgroupMatrixLoad'))
  })

  test.each([
    [
      'first',
      [1024, 1003, 1024],
      /stage %4 .*i \(\d+ repeats x \d+ threads x 8 side by side\), k \(1 repeats x 32 threads/,
    ],
    [
      'second',
      [1024, 1024, 1003],
      /stage %5 .*k \(\d+ repeats x \d+ threads x 8 side by side\), j \(2 repeats x 32 threads/,
    ],
  ] as const)(
    'where halves of the %s operand lie askew, neighbouring threads load neighbours and write groups across',
    (...each) => {
      const [, [m, k, n], stage] = each
      const sizes = [
        [m, k],
        [k, n],
      ]
      expect(scheduleOf(kernelOf(product, sizes, 'f16'))).toMatch(stage)
    },
  )

  test('the registers that results come to are not zeroed first', () => {
    expect(source).not.toMatch(/const_\d+\[\d+\] = 0/)
  })
})

describe('halves that only move', () => {
  const word = v('u32', 'w')
  const half = call('f32', 'f16_value', word)
  const array = { name: 'tile', type: 'u32', length: 4, inGroups: true } as const
  const put = (value: S & { k: 'matrix' }): S => value
  const into = (value: Parameters<typeof bitcast>[1]): S =>
    put({ k: 'matrix', of: { op: 'put', array, at: int(0), values: Array.from({ length: 8 }, () => value) } })
  const declared: readonly S[] = [
    { k: 'array', name: 'r', type: 'f32', length: 2 },
    { k: 'assign', to: elem('f32', 'r', int(0)), value: half },
    { k: 'assign', to: elem('f32', 'r', int(1)), value: lit('f32', 0) },
  ]

  test('keep their bits', () => {
    expect(movedHalves([...declared, into(elem('f32', 'r', int(1)))])).toEqual([
      { k: 'array', name: 'r', type: 'u32', length: 2 },
      { k: 'assign', to: elem('u32', 'r', int(0)), value: word },
      { k: 'assign', to: elem('u32', 'r', int(1)), value: uint(0) },
      into(elem('u32', 'r', int(1))),
    ])
  })

  test('are numbers where anything else is done with them', () => {
    const used: S = { k: 'let', name: 'x', value: call('f32', 'f32_exp', elem('f32', 'r', int(0))) }
    const body = [...declared, used, into(elem('f32', 'r', int(1)))]
    expect(movedHalves(body)).toEqual(body)
    const other: S = { k: 'assign', to: elem('f32', 'r', int(0)), value: lit('f32', 3) }
    const mixed = [...declared, other, into(elem('f32', 'r', int(1)))]
    expect(movedHalves(mixed)).toEqual(mixed)
  })
})
