/** Attention whose heads share keys and values, its operands columns of projections, its mask of positions counted in 64 bits: as imported models have it. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, check, trace } from '../compile/support.ts'

interface Form {
  readonly batch: number
  readonly length: number
  readonly heads: number
  readonly shared: number
  readonly width: number
  readonly dtype: DType
}

/** Keys and values of each group of heads repeated for all of them, as a model without grouped attention of its own writes it. */
function attention({ batch, length, heads, shared, width, dtype }: Form): Graph {
  const rows = (n: number): { shape: number[]; dtype: DType } => ({ shape: [batch, length, n * width], dtype })
  return trace([rows(heads), rows(shared), rows(shared)], (p) => {
    const headsOf = (x: Node, n: number): Node => c.permute(c.reshape(x, [batch, length, n, width]), [0, 2, 1, 3])
    const repeated = (x: Node): Node => {
      const groups = [batch, shared, heads / shared, length, width]
      return c.reshape(c.broadcastTo(c.reshape(headsOf(x, shared), [batch, shared, 1, length, width]), groups), [
        batch,
        heads,
        length,
        width,
      ])
    }
    const [q, k, v] = [headsOf(at(p, 0), heads), repeated(at(p, 1)), repeated(at(p, 2))]
    const scores = c.div(c.matmul(q, c.permute(k, [0, 1, 3, 2])), Math.sqrt(width))
    const place = (axis: number): Node => c.iota([length, length], axis, 'i64')
    const isHidden = c.compare('ge', c.sub(place(1), place(0)), c.full([], 1, 'i64'))
    const weights = c.softmax(c.where(isHidden, Number.NEGATIVE_INFINITY, scores), -1)
    return [c.reshape(c.permute(c.matmul(weights, v), [0, 2, 1, 3]), [batch, length, heads * width])]
  })
}

const textOf = (graph: Graph): string[] =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true }).program.steps.flatMap((s) =>
    s.kind === 'kernel' ? [printKernel(s.kernel)] : [],
  )

describe('heads that share keys', () => {
  const texts = textOf(attention({ batch: 4, length: 2048, heads: 32, shared: 8, width: 128, dtype: 'bf16' }))
  const [text = ''] = texts

  test('are rows of one kernel, in blocks of positions', () => {
    expect(texts).toHaveLength(1)
    const axis = /(\w+): 2048, \w+: 4/.exec(text)?.[1] ?? /(\w+): 2048/.exec(text)?.[1]
    expect(text).toMatch(new RegExp(`grid .*\\b${axis}/128`))
  })

  test('read keys and values as they are: copies run ahead', () => {
    for (const name of ['x1', 'x2']) {
      const id = new RegExp(`(%\\d+) .* = load ${name}\\[`).exec(text)?.[1]
      expect(text).toMatch(new RegExp(`stage ${id}$`, 'm'))
    }
  })

  test('a mask of places in 64 bits ends the loop, and is computed in 32', () => {
    expect(text).toMatch(/loop \w+\/64 to %\d+/)
    expect(text).not.toContain('i64')
  })

  test.each<Form>([
    { batch: 2, length: 9, heads: 4, shared: 2, width: 16, dtype: 'f32' },
    { batch: 1, length: 70, heads: 6, shared: 1, width: 32, dtype: 'f32' },
    { batch: 2, length: 5, heads: 4, shared: 4, width: 8, dtype: 'f32' },
  ])('gives what the reference gives: $heads heads of $shared, $length positions', (form) => {
    check(attention(form), { target: cudaTarget })
  })
})

describe('gradients of heads that share keys', () => {
  test.each<DType>(['bf16', 'f16'])('of %s: the sum over a group stands behind the chain', (dtype) => {
    const [heads, length] = [16, 1023]
    const graph = vjpGraph(attention({ batch: 1, length, heads, shared: 4, width: 128, dtype }), [0, 1, 2])
    const { report } = compileGraph(graph, { mode: 'fast', target: cudaTarget, verify: true })
    expect(report.kernels.map((k) => k.kind).filter((kind) => kind === 'chain')).toHaveLength(3)
    for (const k of report.kernels) expect(k.bytesWritten).toBeLessThan(2 * heads * length * length)
  })

  test('give what the reference gives', () => {
    const [heads, length] = [4, 44]
    const graph = vjpGraph(attention({ batch: 2, length, heads, shared: 2, width: 6, dtype: 'f32' }), [0, 1, 2])
    const target = {
      ...wasmTarget,
      minPrograms: 1,
      chains: { rows: 8, shared: 8, width: 64 },
      mostBytes: { ...wasmTarget.mostBytes, value: 4 * 2 * heads * length * length - 1 },
    }
    const { report } = check(graph, { target })
    expect(report.kernels.map((k) => k.kind)).toContain('chain')
  })
})
