/** Blocks of networks in 16 bits and steps of training them, as large as a GPU is given: what order values stand in, what is stored, in which blocks products run. */
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { trace } from '../compile/support.ts'
import type { RecordedProgram } from './record.ts'

interface Block {
  /** Of inputs, then of parameters. */
  readonly shapes: readonly (readonly [shape: readonly number[], dtype?: DType])[]
  /** The first parameter: gradients are those of it and what follows. */
  readonly first: number
  readonly of: (...p: Node[]) => Node
}

/** A step of training: gradients of the mean of what a block gives times numbers. */
function step({ shapes, first, of }: Block): Graph {
  const inputs = shapes.map(([shape, dtype = 'bf16']) => ({ shape, dtype }))
  const graph = trace(inputs, (p) => {
    const y = c.cast(of(...p), 'f32')
    return c.mean(c.mul(y, y))
  })
  return vjpGraph(
    graph,
    shapes.flatMap((_, i) => (i < first ? [] : [i])),
  )
}

const norm = (x: Node): Node => c.batchNormTraining(x).output

const rows = (x: Node, heads: number): Node => {
  const [b = 1, s = 1, w = 1] = x.shape
  return c.permute(c.reshape(x, [b, s, heads, w / heads]), [0, 2, 1, 3])
}

/** Causal attention in which pairs of heads share keys, repeated by a broadcast; positions are counted in i64. */
const attention = (x: Node, wq: Node, wk: Node, wv: Node): Node => {
  const [b = 1, s = 1] = x.shape
  const shared = (y: Node): Node => {
    const [, , n = 1, d = 1] = y.shape
    return c.reshape(c.broadcastTo(c.reshape(y, [b, 4, 1, n, d]), [b, 4, 2, n, d]), [b, 8, n, d])
  }
  const [q, k, v] = [rows(c.matmul(x, wq), 8), shared(rows(c.matmul(x, wk), 4)), shared(rows(c.matmul(x, wv), 4))]
  const at = c.iota([s], 0, 'i64')
  const seen = c.compare('ge', c.reshape(at, [s, 1]), c.reshape(at, [1, s]))
  const scores = c.mul(c.matmul(q, c.swapAxes(k, -1, -2)), 0.125)
  return c.matmul(c.softmax(c.where(seen, scores, Number.NEGATIVE_INFINITY)), v)
}

const residual: Block = {
  shapes: [[[16, 256, 14, 14]], [[64, 256, 1, 1]], [[64, 64, 3, 3]], [[256, 64, 1, 1]]],
  first: 1,
  of: (x, a, b, d) => {
    const normed = (y: Node): Node => c.relu(norm(y))
    const inner = (y: Node): Node => norm(c.conv(normed(c.conv(normed(c.conv(y, a)), b, { padding: 1 })), d))
    const once = c.relu(c.add(x, inner(x)))
    return c.relu(c.add(once, inner(once)))
  },
}

const grouped: Block = {
  shapes: [[[1, 128, 64, 64]], [[128, 128, 3, 3]], [[128, 128, 3, 3]]],
  first: 1,
  of: (x, a, b) => {
    const y = c.conv(c.silu(c.groupNorm(x, 32)), a, { padding: 1 })
    return c.add(x, c.conv(c.silu(c.groupNorm(y, 32)), b, { padding: 1 }))
  },
}

const enlarged: Block = {
  shapes: [[[2, 64, 32, 32]], [[64, 64, 3, 3]]],
  first: 0,
  of: (x, w) => c.conv(c.repeat(c.repeat(x, 2, 2), 2, 3), w, { padding: 1 }),
}

const attended: Block = {
  shapes: [[[2, 512, 512]], [[512, 512]], [[512, 256]], [[512, 256]]],
  first: 1,
  of: attention,
}

const gated: Block = {
  shapes: [[[2, 512, 512]], [[512, 1536]], [[512, 1536]], [[1536, 512]]],
  first: 1,
  of: (x, g, a, b) => {
    const n = c.rmsNorm(x)
    return c.add(x, c.matmul(c.mul(c.silu(c.matmul(n, g)), c.matmul(n, a)), b))
  },
}

const biased: Block = {
  shapes: [[[4, 12, 256, 256]], [[256, 256], 'i32'], [[32, 12]]],
  first: 2,
  of: (x, bucket, table) => c.softmax(c.add(x, c.permute(c.take(table, bucket, 0), [2, 0, 1]))),
}

const messages: Block = {
  shapes: [[[20000], 'i32'], [[20000], 'i32'], [[5000, 64]], [[128, 64]]],
  first: 2,
  of: (from, to, x, w) => {
    const sent = c.relu(c.matmul(c.concat([c.take(x, from, 0), c.take(x, to, 0)], 1), w))
    return c.scatterND(c.zeros([5000, 64], 'bf16'), c.reshape(to, [20000, 1]), sent, 'sum')
  },
}

const joined: Block = {
  shapes: [[[8, 64, 28, 28]], [[32, 64, 3, 3]], [[32, 96, 3, 3]]],
  first: 1,
  of: (x, a, b) => {
    const y = c.concat([x, c.relu(c.conv(x, a, { padding: 1 }))], 1)
    return c.concat([y, c.relu(c.conv(y, b, { padding: 1 }))], 1)
  },
}

/** Steps of training blocks of networks, each with what it is of. */
export function* networkPrograms(): Generator<RecordedProgram> {
  const blocks = { residual, grouped, enlarged, attended, gated, biased, messages, joined }
  for (const [name, block] of Object.entries(blocks)) yield { name: `network ${name}`, graph: step(block) }
}
