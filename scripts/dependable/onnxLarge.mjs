/** ONNX graphs of 10,000 nodes and concatenations of 3,000 inputs: read, compiled and run on WebAssembly. */
import * as s from '../../dist/index.js'
import { importOnnx } from '../../dist/onnx.js'
import { bytes, number, text } from './onnx.mjs'

const range = (n) => Array.from({ length: n }, (_, i) => i)
const node = (op, from, to, attribute = []) => [
  ...from.flatMap((name) => text(1, name)),
  ...text(2, to),
  ...text(4, op),
  ...attribute,
]
const value = (name, length) => {
  const type = bytes(1, [...number(1, 1), ...bytes(2, bytes(1, number(1, length)))])
  return [...text(1, name), ...bytes(2, type)]
}
const float = (v) => [2 * 8 + 5, ...new Uint8Array(Float32Array.of(v).buffer)]
const alpha = (v) => bytes(5, [...text(1, 'alpha'), ...float(v), ...number(20, 1)])
const axis0 = bytes(5, [...text(1, 'axis'), ...number(3, 0), ...number(20, 2)])

/** A model of [4] `x`, with one result of `length` for each name. */
function model(nodes, results, length = 4) {
  const parts = [
    ...nodes.map((n) => bytes(1, n)),
    text(2, 'g'),
    bytes(11, value('x', 4)),
    ...results.map((name) => bytes(12, value(name, length))),
  ]
  return Uint8Array.from([...number(1, 10), ...bytes(8, [...text(1, ''), ...number(2, 21)]), ...bytes(7, parts.flat())])
}

const graphs = {
  chain: (n) =>
    model(
      range(n).map((i) => node(i % 2 ? 'Neg' : 'Sin', [i === 0 ? 'x' : `t${i - 1}`], `t${i}`)),
      [`t${n - 1}`],
    ),
  fan: (n) =>
    model(
      range(n).map((i) => node('LeakyRelu', ['x'], `t${i}`, alpha((i + 1) / n))),
      range(n).map((i) => `t${i}`),
    ),
  tree: (n) => {
    const leaves = range(n / 2).map((i) => node('LeakyRelu', ['x'], `t${i}`, alpha((i + 1) / n)))
    const inner = range(n / 2 - 1).map((i) =>
      node(i % 2 ? 'Max' : 'Add', [`t${2 * i}`, `t${2 * i + 1}`], `t${n / 2 + i}`),
    )
    return model([...leaves, ...inner], [`t${n - 2}`])
  },
  concat: (n) => {
    const parts = range(n).map((i) => node('LeakyRelu', ['x'], `t${i}`, alpha((i + 1) / n)))
    const names = range(n).map((i) => `t${i}`)
    return model([...parts, node('Concat', names, 'y', axis0)], ['y'], 4 * n)
  },
}

/** Seconds from the model's bytes to its values. */
function seconds(make, n) {
  s.setDevice('wasm', { threads: 1 })
  const data = make(n)
  const start = performance.now()
  const imported = importOnnx(data)
  const results = s.evaluate(imported.apply(imported.parameters, { x: s.tensor([-2, -1, 1, 2]) }))
  const [first] = Object.values(results)
  if (first.dataSync().some(Number.isNaN)) throw new Error('a result is not a number')
  return (performance.now() - start) / 1e3
}

const item = (id, what, make, n) => ({ id, what, unit: 's', bound: 10, measure: () => seconds(make, n) })

export const items = [
  item('onnx-chain-10000', 'an ONNX chain of 10,000 nodes, run', graphs.chain, 10_000),
  item('onnx-fan-10000', 'an ONNX graph of 10,000 results of one input, run', graphs.fan, 10_000),
  item('onnx-tree-10000', 'an ONNX element-wise tree of 10,000 nodes, run', graphs.tree, 10_000),
  item('onnx-concat-3000', 'an ONNX Concat of 3,000 computed inputs, run', graphs.concat, 3000),
]
