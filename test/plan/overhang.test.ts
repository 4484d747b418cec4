/** Results whose digits count beyond them: what stands beyond is computed and not stored, so no second kernel cuts it off. */
import { afterAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { StoreStmt } from '../../src/kernel/ir.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, check, trace } from '../compile/support.ts'
import { smallBlocks } from '../random/execute.ts'
import { makeRng } from '../random/rng.ts'
import { compiledBackend } from '../support/device.ts'
import { nightly, seedsOf, turn } from '../support/nightly.ts'

const targets: readonly Machine[] = [wasmTarget, cudaTarget, webgpuTarget()]
const backend = compiledBackend({ threads: 2 })
afterAll(() => backend.dispose())

interface Transposed {
  readonly x: readonly number[]
  readonly w: readonly number[]
  readonly options: c.ConvTransposeOptions
  readonly dtype?: DType
}

const epilogues: Record<string, (y: Node) => Node> = {
  none: (y) => y,
  'elementwise, with a residual': (y) => c.tanh(c.sub(c.mul(y, y), c.iota(y.shape, y.shape.length - 1, y.dtype))),
  softmax: (y) => c.softmax(y, 1),
}

const graphOf = ({ x, w, options, dtype = 'f32' }: Transposed, epilogue: (y: Node) => Node): Graph =>
  trace(
    [
      { shape: x, dtype },
      { shape: w, dtype },
      { shape: [w[1] ?? 1], dtype },
    ],
    (p) => epilogue(c.convTranspose(at(p, 0), at(p, 1), { ...options, bias: at(p, 2) })),
  )

/** The masks of what a graph's kernels store, by the number of kernels. */
function planned(graph: Graph, target: Machine, mode: 'fast' | 'strict' = 'fast'): StoreStmt[][] {
  const { program } = compileGraph(graph, { mode, target, verify: true })
  return program.steps.flatMap((s) =>
    s.kind === 'kernel'
      ? [s.kernel.parts.flatMap((p) => p.body.flatMap((t): StoreStmt[] => (t.kind === 'store' ? [t] : [])))]
      : [],
  )
}

describe('a transposed convolution of odd extent is one kernel, whose stores have a mask', () => {
  const given: Transposed = {
    x: [4, 32, 32, 32],
    w: [32, 48, 4, 4],
    options: { stride: 2, padding: 1, outputPadding: 1 },
  }
  for (const target of targets)
    for (const [i, [name, epilogue]] of Object.entries(epilogues).entries())
      for (const mode of turn(['fast', 'strict'] as const, i + targets.indexOf(target)))
        test(`${name}, ${target.name}, ${mode}`, () => {
          const kernels = planned(graphOf(given, epilogue), target, mode)
          expect(kernels).toHaveLength(1)
          expect(at(at(kernels, 0), 0).mask).toHaveLength(2)
        })

  test('of even extent without', () => {
    const even = graphOf({ ...given, options: { stride: 2, padding: 1 } }, (y) => y)
    expect(planned(even, cudaTarget).map((k) => k.map((s) => s.mask))).toEqual([[[]]])
  })
})

/** One to three axes, any strides, dilations, groups, paddings and extents, with a reader behind. */
function draw(seed: number): { readonly given: Transposed; readonly epilogue: string } {
  const { int, pick } = makeRng(seed)
  const axes = pick([1, 1, 2, 2, 3])
  const groups = pick([1, 1, 2])
  const each = <T>(f: (i: number) => T): T[] => Array.from({ length: axes }, (_, i) => f(i))
  const stride = each(() => int(1, 4))
  const kernel = each(() => int(1, 4))
  const dilation = each(() => pick([1, 1, 2]))
  const span = kernel.map((k, i) => (k - 1) * (dilation[i] ?? 1) + 1)
  const dtype = pick<DType>(['f32', 'f32', 'bf16', 'f16', 'f64'])
  return {
    given: {
      x: [int(1, 2), groups * int(1, 3), ...each(() => int(3, axes === 3 ? 5 : 9))],
      w: [0, int(1, 4), ...kernel],
      options: {
        stride,
        dilation,
        groups,
        padding: span.map((s): [number, number] => [int(0, (s - 1) >> 1), int(0, (s - 1) >> 1)]),
        outputPadding: stride.map((s) => int(0, s - 1)),
      },
      dtype,
    },
    epilogue: pick(Object.keys(epilogues)),
  }
}

const drawn = seedsOf('SINTER_TRANSPOSED', 64, 240)

test.each([0, 1, 2, 3])('drawn transposed convolutions, part %i of 4', { timeout: 120_000 }, (part) => {
  let masked = 0
  for (let seed = part; seed < drawn; seed += 4) {
    const { given, epilogue } = draw(seed)
    const groups = given.options.groups ?? 1
    const x = given.x
    const whole = { ...given, w: [x[1] ?? 1, ...given.w.slice(1)] }
    const bias = (whole.w[1] ?? 1) * groups
    const graph = trace(
      [
        { shape: x, dtype: given.dtype ?? 'f32' },
        { shape: whole.w, dtype: given.dtype ?? 'f32' },
        { shape: [bias], dtype: given.dtype ?? 'f32' },
      ],
      (p) => {
        const y = c.convTranspose(at(p, 0), at(p, 1), { ...given.options, bias: at(p, 2) })
        return (epilogues[epilogue] ?? c.tanh)(c.mul(y, 0.125))
      },
    )
    const target = at([wasmTarget, cudaTarget, smallBlocks, webgpuTarget()], seed % 4 === 3 ? 0 : seed % 3)
    const mode = seed % 5 === 0 ? 'strict' : 'fast'
    // Fast code rounds half precision less often than the reference does.
    const runs = (target === smallBlocks || target === wasmTarget) && (given.dtype === 'f32' || given.dtype === 'f64')
    const { program } = check(graph, { mode, target }, runs ? backend : undefined)
    for (const s of program.steps)
      if (
        s.kind === 'kernel' &&
        s.kernel.parts.some((p) => p.body.some((t) => t.kind === 'store' && t.mask.length > 0))
      )
        masked++
  }
  expect(masked).toBeGreaterThan(nightly ? 5 : 0)
})

/** A product whose rows and columns are digits of one dimension, of which a reader takes fewer than all. */
const woven = (n: number, digits: number, dropped: number): Graph =>
  trace([{ shape: [6, n, 32] }, { shape: [32, digits] }], (p) => {
    const y = c.reshape(c.relu(c.matmul(at(p, 0), at(p, 1))), [6, n * digits])
    return c.sliceAxis(y, 1, 0, n * digits - dropped)
  })

test('rows and columns of a product that are digits of one dimension, cut', () => {
  for (const target of targets)
    for (const [n, digits, dropped] of [
      [5, 3, 1],
      [8, 4, 3],
      [7, 2, 1],
    ] as const) {
      const { program } = check(woven(n, digits, dropped), { target }, target === wasmTarget ? backend : undefined)
      expect(program.steps, `${target.name}, ${n} x ${digits} - ${dropped}`).toHaveLength(1)
    }
})
