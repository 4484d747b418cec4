/** The depth of products in the order of memory, on machines of loops: windows whose channels are last are copied in runs. */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as s from '../../src/index.ts'
import type { Kernel, NumericsMode } from '../../src/kernel/ir.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { scheduleText } from '../../src/schedule/text.ts'
import { wasmTarget } from '../../src/target/wasm.ts'

afterAll(() => s.setDevice('reference'))

/** The kernels of a 3 x 3 convolution whose channels are last, those of its weights too. */
function kernels([from, to]: readonly [number, number], groups = 1, mode: NumericsMode = 'fast'): readonly Kernel[] {
  const { graph } = s
    .program(
      ({ x, w }) =>
        s.conv2d(x.transpose([0, 3, 1, 2]), w.transpose([3, 2, 0, 1]), { padding: 1, groups }).transpose([0, 2, 3, 1]),
      { x: { shape: [1, 20, 20, from] }, w: { shape: [3, 3, from / groups, to] } },
    )
    .trace()
  return kernelsOf(compileGraph(graph, { target: wasmTarget, mode }).program).map(({ step }) => step.kernel)
}

/** Extents of the depth of every product, outermost first. */
const depths = (found: readonly Kernel[]): number[][] =>
  found.flatMap(({ parts }) =>
    parts.flatMap(({ axes, body }) =>
      body
        .flatMap((at) => (at.kind === 'loop' ? at.body : [at]))
        .flatMap((at) =>
          at.kind === 'let' && at.op.kind === 'dot'
            ? [at.op.axes.map((a) => axes.find((x) => x.name === a)?.extent ?? 0)]
            : [],
        ),
    ),
  )

describe('filters on channels apart', () => {
  test.each([
    ['two', 48, 96, []],
    ['as many as two lines of memory have', 4, 128, []],
    ['more', 4, 160, [[3, 3]]],
  ] as const)('%s of them: whether a product', (_, from, to, expected) => {
    const found = kernels([from, to], from)
    expect(depths(found.filter(({ parts }) => parts.some((p) => p.body.some((at) => at.kind === 'loop'))))).toEqual(
      expected,
    )
  })
})

test('heads side by side are no windows', () => {
  const heads = (x: s.Tensor): s.Tensor => x.reshape([-1, 4, 16]).transpose([1, 0, 2])
  const { graph } = s
    .program(({ q, k }) => heads(q).matmul(heads(k).transpose([0, 2, 1])), {
      q: { shape: [4, 64] },
      k: { shape: [50, 64] },
    })
    .trace()
  const { program } = compileGraph(graph, { target: wasmTarget, mode: 'fast' })
  const [kernel] = kernelsOf(program).map(({ step }) => step.kernel)
  expect(kernel?.parts.some((p) => p.body.some((at) => at.kind === 'loop'))).toBe(true)
})

describe('channels that are last', () => {
  test('are the innermost of the depth', () => expect(depths(kernels([16, 24]))).toEqual([[3, 3, 16]]))
  test('in groups', () => expect(depths(kernels([32, 32], 8))).toEqual([[3, 3, 4]]))
  test('not in strict mode, which adds in order', () =>
    expect(depths(kernels([16, 24], 1, 'strict'))).toEqual([[16, 3, 3]]))
  test('are copied in runs, and few columns take one vector', () =>
    expect(kernels([4, 4]).flatMap((k) => scheduleText(k, wasmTarget).slice(0, -1))).toMatchInlineSnapshot(`
      [
        "schedule of k0_conv2d: 7 programs of i/3, j/20, k/4, 13632 bytes of scratch",
        "  loop m in blocks of 3: carrying %7 in tile 64 (k:4 j:32 i:640) f32, its product adding in place",
        "    first nest i j(60) k(4 by 4)",
        "    first   keep %6 in tile 64 (k:4 j:32 i:640) f32",
        "    copy %1 = x0 into tile 2048 (l:4 n:16 m:48 j:192 i:3840) f32: runs of l n (4 to 4 bytes), padding filled in",
        "    product %8 rows i, j; columns k; depth m, n, l: 6, 3, 1 rows by one vector, %1 from its tile, %2 from x1 in place, adding in tile 64 (k:4 j:32 i:640) f32",
        "  nest i j(60) k(4 by 4)",
        "    store y0 = %3",
      ]
    `))
})
