/** Masks by blocks of positions, and by distances of them: loops go over what a block of rows sees, forward and backward. */
import { expect, test } from 'vitest'
import { evaluate } from '../../src/affine/form.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { Kernel, ValueId } from '../../src/kernel/ir.ts'
import { allStmts } from '../../src/kernel/walk.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { vjpGraph } from '../../src/transforms/vjp.ts'
import { expectClose, inputsOf, trace } from '../compile/support.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { turn } from '../support/nightly.ts'
import { hidden, key, query } from '../support/scores.ts'

const small: Machine = { ...wasmTarget, minPrograms: 1, chains: { rows: 16, shared: 16, width: 64 } }

type Mask = (q: Node, k: Node) => Node

const within = (d: Node, most: number): Node => c.compare('le', c.unary('abs', d), most)
const blocks = (x: Node, size: number): Node => c.floorDivide(x, size)
const distance = (q: Node, k: Node, size: number): Node => c.sub(blocks(q, size), blocks(k, size))

/** Masks of 96 queries and keys, with what is left of the 6 x 6 blocks of 16. */
const masks: Readonly<Record<string, readonly [Mask, number]>> = {
  'blocks of their own': [(q, k) => c.compare('eq', blocks(q, 32), blocks(k, 32)), 12],
  'blocks of their own, causal': [
    (q, k) => c.logicalAnd(c.compare('le', k, q), c.compare('eq', blocks(q, 32), blocks(k, 32))),
    9,
  ],
  'blocks that no loop begins at': [(q, k) => c.compare('eq', blocks(q, 24), blocks(k, 24)), 14],
  'blocks before': [(q, k) => c.compare('ge', distance(q, k, 16), 0), 21],
  'some blocks before': [
    (q, k) => c.logicalAnd(c.compare('ge', distance(q, k, 16), 0), c.compare('lt', distance(q, k, 16), 2)),
    11,
  ],
  'blocks counted from a place': [(q, k) => c.compare('eq', blocks(c.add(q, 8), 32), blocks(c.add(k, 8), 32)), 17],
  'positions nearby': [(q, k) => within(c.sub(q, k), 10), 16],
  'less than so far': [(q, k) => c.compare('gt', 11, c.unary('abs', c.sub(k, q))), 16],
  'rows and columns of an image': [
    (q, k) => c.logicalAnd(within(distance(q, k, 16), 1), within(c.sub(c.floorMod(q, 16), c.floorMod(k, 16)), 2)),
    16,
  ],
}

const graphOf = (mask: Mask): Graph => {
  const input = { shape: [2, 96, 8], dtype: 'f32' } as const
  return trace([input, input, input], ([q, k, v]) => {
    const s = c.matmul(q as Node, c.permute(k as Node, [0, 2, 1]))
    return c.matmul(c.softmax(c.where(mask(query(s), key(s)), s, hidden)), v as Node)
  })
}

const block = 16
const positions = 96

/** Steps of all programs of one head, by the ends of their loops. */
function stepsOf(kernel: Kernel): number {
  const [part] = kernel.parts
  const [loop] = part === undefined ? [] : [...allStmts(part.body)].filter((s) => s.kind === 'loop')
  if (part === undefined || loop?.kind !== 'loop') throw new Error('no loop')
  const lets = new Map([...allStmts(part.body)].flatMap((s) => (s.kind === 'let' ? [[s.id, s] as const] : [])))
  const endOf = (id: ValueId, start: number): number => {
    const op = lets.get(id)?.op
    if (op?.kind === 'index')
      return evaluate(
        op.expr,
        () => start,
        () => 0,
      )
    if (op?.kind !== 'scalar' || (op.op !== 'max' && op.op !== 'min')) throw new Error(`an end by ${op?.kind}`)
    return Math[op.op](...op.args.map((x) => endOf(x, start)))
  }
  let steps = 0
  for (let start = 0; start < positions; start += block) {
    const from = loop.from === undefined ? 0 : Math.max(0, endOf(loop.from, start))
    const to = loop.to === undefined ? positions : Math.min(positions, endOf(loop.to, start))
    steps += Math.ceil((to - from) / block)
  }
  return steps
}

// By day every other one forward, and those between backward.
test.each(Object.entries(masks))('%s', (name, [mask, seen]) => {
  const forward = graphOf(mask)
  for (const graph of turn([forward, vjpGraph(forward, [0, 1, 2])], Object.keys(masks).indexOf(name))) {
    const { program } = compileGraph(graph, { mode: 'fast', target: small, verify: true })
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    expect(kernels.map(stepsOf)).toEqual(kernels.map(() => seen))
    const inputs = inputsOf(graph)
    const want = evaluateGraph(graph, inputs).map(toHostArray)
    expectClose(interpretProgram(program, inputs, 'dtype', graph.outputs), want, graph, 'interpreted')
  }
})
