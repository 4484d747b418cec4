/** Queries and keys with a rotary embedding in halves, of one packed projection: a chain has one axis for their depth, as a matrix unit takes it. */
import { describe, expect, it } from 'vitest'
import { traceFunction } from '../../src/api/tensor/traceFunction.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { concat, nn, spec, type Tensor } from '../../src/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'

const [keyHeads, group, positions] = [2, 4, 1024]

/** A token's queries, rotated, over a cache. */
function attend(packed: Tensor, cos: Tensor, sin: Tensor, keys: Tensor, values: Tensor): Tensor {
  const width = keys.shape.at(-1) ?? 1
  const rotated = (x: Tensor): Tensor => {
    const [p, q] = [x.slice(null, [0, width / 2]).astype('f32'), x.slice(null, [width / 2, width]).astype('f32')]
    return concat([p.mul(cos).sub(q.mul(sin)), q.mul(cos).add(p.mul(sin))], -1).astype('bf16')
  }
  const q = rotated(packed.slice([0, keyHeads * group])).reshape([keyHeads, group, width])
  const scores = q
    .matmul(keys.transpose([0, 2, 1]))
    .astype('f32')
    .mul(width ** -0.5)
  return nn.softmax(scores, -1).astype('bf16').matmul(values)
}

describe('a chain whose queries are rotated in halves', () => {
  it.each([64, 128])('width %i', (width) => {
    const heads = keyHeads * (group + 2)
    const specs = [
      spec([heads, width], 'bf16'),
      spec([1, width / 2]),
      spec([1, width / 2]),
      spec([keyHeads, positions, width], 'bf16'),
      spec([keyHeads, positions, width], 'bf16'),
    ]
    const { graph } = traceFunction(attend, specs)
    const { program, report } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    expect(report.kernels.map((k) => k.kind)).toEqual(['chain'])
    const [step] = program.steps
    if (step?.kind !== 'kernel') throw new Error('no kernel')
    const loops = step.kernel.parts.flatMap((p) => p.body.filter((s) => s.kind === 'loop'))
    const dots = loops.flatMap((l) => l.body.flatMap((s) => (s.kind === 'let' && s.op.kind === 'dot' ? [s.op] : [])))
    expect(dots.map((op) => op.axes.length)).toEqual([1, 1])
  })
})
