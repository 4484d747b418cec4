/** What few programs do is priced as what few programs do: no kernel of one, or of a handful, reads what a machine of many has to bring. */
import { describe, expect, it } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { concat, nn, spec, type Tensor } from '../../src/index.ts'
import { gridSize, type Kernel } from '../../src/kernel/ir.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { dtypeBytes } from '../../src/types/dtype.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { nightly, some } from '../support/nightly.ts'

/** What a block of threads brings in the time of a launch or two (`Machine.programShare`), with as much again. */
const mostBytes = 512 << 10
const fewPrograms = 16

const readBy = (kernel: Kernel): number =>
  kernel.params.reduce((n, p) => n + (p.access === 'read' ? sizeOf(p.shape) * dtypeBytes(p.dtype) : 0), 0)

/** The kernels, stages among them, that have few programs for what they read. */
function overloaded(f: (...args: never[]) => unknown, args: readonly unknown[]): string[] {
  const { graph } = traceFunction(f as (...args: readonly unknown[]) => Tensor, args)
  const { program } = compileGraph(graph, { mode: 'fast', target: cudaTarget })
  return program.steps.flatMap((s) => {
    if (s.kind !== 'kernel') return []
    const programs = s.kernel.parts.reduce((n, p) => n + gridSize(p), 0)
    const bytes = readBy(s.kernel)
    return programs < fewPrograms && bytes / programs > mostBytes ? [`${s.kernel.name}: ${programs}, ${bytes} B`] : []
  })
}

const [width, heads, inner] = [768, 12, 3072]
const head = width / heads

/** A token through a layer that looks back on a cache. */
function decode(x: Tensor, cache: readonly Tensor[], weights: readonly Tensor[]): Tensor[] {
  const [qkv, out, up, down] = weights as [Tensor, Tensor, Tensor, Tensor]
  const split = (y: Tensor): Tensor => y.reshape([1, 1, heads, head]).transpose([0, 2, 1, 3])
  const all = x.matmul(qkv)
  const part = (i: number): Tensor => split(all.slice(null, null, [i * width, (i + 1) * width]))
  const [keys, values] = cache.map((c, i) => concat([c, part(i + 1)], 2)) as [Tensor, Tensor]
  const scores = part(0)
    .matmul(keys.swapaxes(-1, -2))
    .mul(head ** -0.5)
  const mixed = nn.softmax(scores, -1).matmul(values).transpose([0, 2, 1, 3]).reshape([1, 1, width])
  const y = nn.layerNorm(x.add(mixed.matmul(out)))
  return [nn.layerNorm(y.add(nn.gelu(y.matmul(up)).matmul(down))), keys, values]
}

describe.each(['bf16', 'f32'] satisfies DType[])('in %s', (dtype) => {
  const of = (...shape: number[]) => spec(shape, dtype)

  // By day every other length, in turn.
  const lengths = [8, 64, 215, 300, 500, 2000, 4095].filter((_, i) => nightly || (dtype === 'f32') === (i % 2 === 0))
  it.each(lengths)('a decoding step after %i positions', (past) => {
    const cache = [of(1, heads, past, head), of(1, heads, past, head)]
    const weights = [of(width, 3 * width), of(width, width), of(width, inner), of(inner, width)]
    expect(overloaded(decode, [of(1, 1, width), cache, weights])).toEqual([])
  })

  const behind: Record<string, (x: Tensor, w: Tensor) => Tensor> = {
    'layer normalisation': (x, w) => nn.layerNorm(x.matmul(w)),
    softmax: (x, w) => nn.softmax(x.matmul(w), -1),
    argmax: (x, w) => x.matmul(w).argmax(-1),
    'a function and layer normalisation': (x, w) => nn.layerNorm(nn.gelu(x.matmul(w)).add(1)),
  }
  const shapes = [1, 2, 5, 16].flatMap((m) => [64, 768, 4096].flatMap((k) => [64, 256, 4096].map((n) => [m, k, n])))

  it.each(Object.keys(behind))('%s behind a product of few rows', (name) => {
    const f = behind[name] ?? (() => expect.fail(name))
    for (const [m = 1, k = 1, n = 1] of some(shapes, 5))
      expect(overloaded(f, [of(m, k), of(k, n)]), `${m} x ${k} x ${n}`).toEqual([])
  })
})

it.each([
  [64, 3072, 768, 6],
  [64, 768, 768, 6],
  [64, 768, 3072, 12],
  [192, 768, 2048, 8],
])('threads share out a product of %d x %d x %d evenly', (rows, depth, columns, least) => {
  const { graph } = traceFunction(
    (x: Tensor, w: Tensor) => nn.gelu(x.matmul(w)),
    [spec([rows, depth]), spec([depth, columns])],
  )
  const { program } = compileGraph(graph, { mode: 'fast', target: wasmTarget })
  const grids = program.steps.flatMap((s) => (s.kind === 'kernel' ? s.kernel.parts.map(gridSize) : []))
  expect(Math.max(...grids)).toBeGreaterThanOrEqual(least)
})
