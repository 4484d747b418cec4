/** Operands of products that are joined of several tensors: each piece is copied in runs, and results are the reference's. */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as s from '../../src/index.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { scheduleText } from '../../src/schedule/text.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { makeRng, type Rng } from '../random/rng.ts'
import { agree, type F } from './agree.ts'

afterAll(() => s.setDevice('reference'))

type Shape = readonly number[]

/** Whole numbers, whose sums of products are exact in f32. */
const draw = (rng: Rng, shape: Shape, dtype: DType): s.Tensor =>
  s.tensor(
    Array.from({ length: shape.reduce((a, b) => a * b, 1) }, () => rng.int(0, 7)),
    { shape: [...shape], dtype },
  )

function textOf(f: F, given: readonly { readonly shape: Shape; readonly dtype: DType }[]): string {
  const names = given.map((_, i) => `in${i}`)
  const { graph } = s
    .program((args) => f(...names.map((n) => (args as Record<string, s.Tensor>)[n] as s.Tensor)), {
      ...Object.fromEntries(given.map((g, i) => [`in${i}`, { ...g, shape: [...g.shape] }])),
    })
    .trace()
  const { program } = compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true })
  return kernelsOf(program)
    .flatMap(({ step }) => scheduleText(step.kernel, wasmTarget))
    .join('\n')
}

/** A convolution over tensors joined along some axis; what integers are multiplied as is wide. */
const convolution =
  (axis: number, options: NonNullable<Parameters<typeof s.conv2d>[2]>, wide: DType = 'f32'): F =>
  (w, ...pieces) =>
    s.conv2d(s.concat(pieces, axis).astype(wide), w.astype(wide), options)

const image = (c: number, h = 12, w = 20, dtype: DType = 'f32') => ({ shape: [1, c, h, w], dtype })
const filters = (k: number, c: number, r: number, dtype: DType = 'f32') => ({ shape: [k, c, r, r], dtype })

describe('pieces of channels', () => {
  test('are runs of their own, padding is filled in once', () => {
    const text = textOf(convolution(1, { padding: 1 }), [filters(16, 20, 3), image(8), image(12)])
    expect(text).toMatch(
      /copy %\d+ = x\d where 0 <= \w+ < 8, x\d where 8 <= \w+ < 20 into .*: runs of \w+( \w+)? \(4 to 4 bytes\), padding filled in/,
    )
    expect(text).not.toMatch(/point by point|nest l/)
  })

  test('three, the middle one between bounds; bytes into 16 bits', () => {
    expect(textOf(convolution(1, { padding: 1 }), [filters(16, 25, 3), image(8), image(5), image(12)])).toMatch(
      /x\d where 0 <= \w+ < 8, x\d where 8 <= \w+ < 13, x\d where 13 <= \w+ < 25 into/,
    )
    expect(
      textOf(convolution(1, { padding: 1 }, 'i32'), [
        filters(16, 20, 3, 'i8'),
        image(8, 12, 20, 'u8'),
        image(12, 12, 20, 'u8'),
      ]),
    ).toMatch(/x\d where 0 <= \w+ < 8, x\d where 8 <= \w+ < 20 into .* i16: runs of \w+( \w+)? \(1 to 2 bytes\)/)
  })

  test('joined along what runs go along, or of other strides, they are chosen element by element', () => {
    const along = textOf(convolution(3, { padding: 1 }), [filters(16, 8, 3), image(8, 12, 9), image(8, 12, 11)])
    expect(along).not.toMatch(/copy .* where/)
    const turned: F = (w, a, b) => s.conv2d(s.concat([a, b.transpose([0, 1, 3, 2])], 1), w, { padding: 1 })
    expect(textOf(turned, [filters(16, 20, 3), image(8), image(12, 20, 12)])).not.toMatch(/copy .* where/)
  })
})

test.each([
  [1, { padding: 1 }, 3, [8, 12], 12, 20],
  [1, { padding: 1 }, 3, [3, 1, 7], 9, 7],
  [1, { padding: 2, stride: 2 }, 5, [5, 6], 13, 11],
  [1, { padding: 2, dilation: 2 }, 3, [4, 30], 11, 17],
  [1, { padding: 0 }, 1, [20, 9, 3, 40], 14, 14],
  [1, { padding: 1, groups: 2 }, 3, [8, 4], 8, 9],
  [2, { padding: 1 }, 3, [5, 9], 5, 12],
  [3, { padding: 1 }, 3, [5, 9], 5, 12],
] as const)(
  "joined along %i, %o, windows of %i, pieces of %j: results are the reference interpreter's",
  (axis, options, r, sizes, h, w) => {
    const rng = makeRng(7 * r + sizes.length)
    const shape = (n: number): Shape => (axis === 1 ? [2, n, h, w] : axis === 2 ? [2, 6, n, w] : [2, 6, h, n])
    const channels = axis === 1 ? sizes.reduce((a, b) => a + b, 0) : 6
    const groups = 'groups' in options ? options.groups : 1
    for (const dtype of ['f32', 'u8'] as const)
      agree(convolution(axis, options, dtype === 'u8' ? 'i32' : 'f32'), [
        draw(rng, [10, channels / groups, r, r], dtype),
        ...sizes.map((n) => draw(rng, shape(n), dtype)),
      ])
  },
)

test('a depth and columns of a product', () => {
  const rng = makeRng(3)
  const depth: F = (x, a, b) => x.matmul(s.concat([a, b], 0))
  agree(depth, [draw(rng, [70, 50], 'f32'), draw(rng, [19, 40], 'f32'), draw(rng, [31, 40], 'f32')])
  const columns: F = (x, a, b) => x.matmul(s.concat([a, b], 1))
  agree(columns, [draw(rng, [70, 50], 'f32'), draw(rng, [50, 21], 'f32'), draw(rng, [50, 30], 'f32')])
  const turned: F = (x, a, b) => x.matmul(s.concat([a, b], 0).transpose([1, 0]))
  agree(turned, [draw(rng, [70, 50], 'f32'), draw(rng, [21, 50], 'f32'), draw(rng, [30, 50], 'f32')])
})
