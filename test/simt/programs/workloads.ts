/** Plain expressions at the sizes that matter on a GPU: what the generated code is judged by. */
import * as c from '../../../src/compose/index.ts'
import { withOrigin } from '../../../src/diagnostics/origin.ts'
import { param, withContext } from '../../../src/graph/build.ts'
import type { Graph, Node, NodeOf } from '../../../src/graph/node.ts'
import type { DType } from '../../../src/types/dtype.ts'

export type Spec = readonly [shape: readonly number[], dtype?: DType]

/** A graph over parameters of some shapes, f32 unless told. */
export function trace(specs: readonly Spec[], build: (p: (i: number) => NodeOf<'param'>) => Node | Node[]): Graph {
  return withOrigin('expression', undefined, () =>
    withContext(() => {
      const params = specs.map(([shape, dtype = 'f32'], i) => param(i, shape, dtype))
      const out = build((i) => {
        const p = params[i]
        if (p === undefined) throw new Error(`no parameter ${i}`)
        return p
      })
      return { params, outputs: Array.isArray(out) ? out : [out], effects: [] }
    }),
  )
}

const f32 = (x: Node): Node => c.cast(x, 'f32')
const bf16 = (x: Node): Node => c.cast(x, 'bf16')
const rows: Spec = [[16384, 4096], 'bf16']
const columns: Spec = [[4096], 'bf16']
const rms = (x: Node): Node => c.unary('rsqrt', c.add(c.mean(c.mul(x, x), -1, true), 1e-6))

function rotated(h: Node, cosine: Node, sine: Node): Node {
  const [a, b] = [c.sliceAxis(h, 2, 0, 64), c.sliceAxis(h, 2, 64, 128)]
  const turned = [c.sub(c.mul(a, cosine), c.mul(b, sine)), c.add(c.mul(b, cosine), c.mul(a, sine))]
  return bf16(c.concat(turned, 2))
}

export const workloads = (): Readonly<Record<string, Graph>> => ({
  log_exp: trace([[[1 << 27]]], (p) => c.log(c.add(c.exp(p(0)), 1))),
  bias_gelu_dropout: trace([rows, columns, [[2], 'u32']], (p) => c.dropout(c.gelu(c.add(p(0), p(1))), p(2), 0.1)),
  softmax: trace([rows], (p) => c.softmax(p(0), -1)),
  layernorm: trace([rows, columns, columns], (p) => c.layerNorm(p(0), { scale: p(1), bias: p(2) })),
  add_rmsnorm: trace([rows, rows, columns], (p) => {
    const s = c.add(p(0), p(1))
    const h = f32(s)
    return [c.mul(bf16(c.mul(h, rms(h))), p(2)), s]
  }),
  silu_mul: trace([[[16384, 22016], 'bf16']], (p) =>
    c.mul(c.silu(c.sliceAxis(p(0), 1, 0, 11008)), c.sliceAxis(p(0), 1, 11008, 22016)),
  ),
  rmsnorm_rotary: trace([[[16384, 40, 128], 'bf16'], [[128], 'bf16'], [[16384, 1, 64]], [[16384, 1, 64]]], (p) => {
    const h = f32(p(0))
    return rotated(c.mul(c.mul(h, rms(h)), f32(p(1))), p(2), p(3))
  }),
  cross_entropy: trace(
    [
      [[4096, 128256], 'bf16'],
      [[4096], 'i32'],
    ],
    (p) => c.mean(c.crossEntropy(f32(p(0)), p(1))),
  ),
  sum_exp: trace([[[1 << 27]]], (p) => c.sum(c.exp(p(0)))),
  column_sum: trace([rows], (p) => c.sum(f32(p(0)), 0)),
  long_rows: trace([[[64, 20000]]], (p) => c.softmax(p(0), -1)),
  transpose: trace([[[4096, 4096]]], (p) => c.exp(c.transpose(p(0)))),
  cumsum: trace([[[512, 4096]]], (p) => c.cumsum(p(0), 1)),
  matmul: trace([[[8192, 4096], 'bf16'], [[4096, 4096], 'bf16'], columns], (p) =>
    c.gelu(c.add(c.matmul(p(0), p(1)), p(2))),
  ),
  matmul_f32: trace([[[1024, 1024]], [[1024, 1024]], [[1024]]], (p) => c.relu(c.add(c.matmul(p(0), p(1)), p(2)))),
  int8_matmul: trace([[[16, 4096], 'bf16'], [[4096, 4096], 'i8'], columns], (p) =>
    c.matmul(p(0), c.mul(c.cast(p(1), 'bf16'), p(2))),
  ),
})
