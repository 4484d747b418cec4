/** Programs whose results may stand where their inputs stood: training steps, control flow, scatters, results beside matrix products. */
import { condNodes, loopNodes, whileNodes } from '../../src/compose/control.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { pullBack } from '../../src/transforms/index.ts'
import { type Spec, trace } from '../simt/programs/workloads.ts'
import type { RecordedProgram } from './record.ts'

type Build = (p: (i: number) => NodeOf<'param'>) => Node | Node[]

const square: Spec = [[64, 64]]
const row: Spec = [[64]]

/** Two layers of one weight, with its update and its bias' by momentum. */
const training: Build = (p) => {
  const params = [0, 1, 2, 3, 4].map(p)
  const hidden = c.relu(c.add(c.matmul(p(0), p(1)), p(2)))
  const error = c.sub(c.matmul(hidden, p(1)), p(0))
  const loss = c.mean(c.mul(error, error))
  const pulled = pullBack({ params, outputs: [loss], effects: [] }, params, [1, 2])
  return pulled.gradients([c.scalarLike(loss, 1)]).flatMap((gradient, i) => {
    if (gradient === undefined) throw new Error(`no gradient of weight ${i}`)
    const moment = c.add(c.mul(p(3 + i), 0.9), gradient)
    return [c.sub(p(1 + i), c.mul(moment, 0.01)), moment]
  })
}

/** Adam's step of three tensors: their values, gradients, first and second moments. */
const optimiser: Build = (p) =>
  [0, 4, 8].flatMap((i) => {
    const first = c.add(c.mul(p(i + 2), 0.9), c.mul(p(i + 1), 0.1))
    const second = c.add(c.mul(p(i + 3), 0.99), c.mul(c.mul(p(i + 1), p(i + 1)), 0.01))
    return [c.sub(p(i), c.div(first, c.add(c.sqrt(second), 1e-3))), first, second]
  })

/** Results beside a matrix product: its residual, sums of its columns, a norm that its rows need. */
const beside: Build = (p) => {
  const h = c.add(c.matmul(p(0), p(1)), p(2))
  return [h, c.sum(h, 0), c.mul(p(3), c.sum(c.mul(h, h)))]
}

const recurrence = trace([row, row, row], (p) => {
  const next = c.tanh(c.add(c.mul(p(1), p(0)), p(2)))
  return [next, c.mul(next, 2)]
})
/** Carries that change places, one of them unread outside. */
const turning = trace([row, row, row], (p) => [c.add(p(1), p(2)), p(0)])

const loop =
  (body: Graph, length: number, carries: number): Build =>
  (p) => {
    const init = Array.from({ length: carries }, (_, i) => (i === 0 ? p(0) : c.exp(p(1))))
    const consts = carries === 1 ? [p(1)] : []
    const r = loopNodes(body, { length }, consts, init, [p(2)])
    return [...r.carries, ...r.sequences]
  }

const until: Build = (p) => {
  const test = trace([row, row], (q) => c.compare('lt', c.sum(q(1)), c.sum(q(0))))
  const body = trace([row, row], (q) => c.add(c.mul(q(1), 1.5), q(0)))
  return c.add(whileNodes(test, body, [p(0)], [p(1)])[0] ?? p(1), 1)
}

const either: Build = (p) => {
  const then = trace([square, row], (q) => [c.softmax(q(0), -1), c.sum(q(0), 0)])
  const otherwise = trace([square, row], (q) => [q(0), q(1)])
  return condNodes(c.compare('lt', c.sum(p(1)), c.full([], 1, 'f32')), [c.exp(p(0)), p(1)], then, otherwise)
}

const at: Spec = [[50, 1], 'i32']
const updates: Spec = [[50, 64]]
const into = (x: Node, p: (i: number) => Node): Node => c.scatterND(x, p(1), p(2), 'sum')

const programs: readonly (readonly [name: string, inputs: readonly Spec[], build: Build])[] = [
  ['training step', [square, square, row, square, row], training],
  ['optimiser step', [square, row, square].flatMap((x) => [x, x, x, x]), optimiser],
  ['beside a product', [[[256, 64]], [[64, 256]], [[256, 256]], [[256]]], beside],
  ['after a product of much depth', [[[32, 8192]], [[8192, 64]], [[32, 64]]], (p) => c.add(c.matmul(p(0), p(1)), p(2))],
  ['loop of even length', [row, row, [[4, 64]]], loop(recurrence, 4, 1)],
  ['loop of odd length', [row, row, [[5, 64]]], loop(recurrence, 5, 1)],
  ['loop whose carries turn', [row, row, [[5, 64]]], loop(turning, 5, 2)],
  ['loop until', [row, row], until],
  ['one of two', [square, row], either],
  ['scatter into an input', [square, at, updates], (p) => into(p(0), p)],
  ['scatter into what is read again', [square, at, updates], (p) => [into(c.exp(p(0)), p), c.cumsum(p(0), 0)]],
  ['scatters into zeros', [square, at, updates], (p) => into(into(c.full([64, 64], 0, 'f32'), p), p)],
  ['swapped', [square, square], (p) => [c.mul(p(1), 2), c.add(p(0), p(1))]],
  ['outputs that are inputs', [square, square], (p) => [p(0), c.exp(p(0)), p(1), p(1)]],
]

/** Each with inputs that stay, and with inputs that may be written over. */
export function* overwritingPrograms(): Generator<RecordedProgram> {
  for (const [name, inputs, build] of programs) {
    const graph = trace(inputs, build)
    yield { name: `memory ${name}`, graph }
    yield { name: `memory ${name}, donated`, graph, donated: inputs.map(() => true) }
  }
}
