/** Imports are bounded: functions that call functions forty levels deep, and the slowest of mutated models. */
import { slowest } from './mutants/slowest.mjs'

/** A protobuf field: a number, or text, or bytes. */
const varint = (v) => (v < 128 ? [v] : [(v % 128) + 128, ...varint(Math.floor(v / 128))])
export const number = (no, v) => [...varint(no * 8), ...varint(v)]
export const bytes = (no, v) => [...varint(no * 8 + 2), ...varint(v.length), ...v]
export const text = (no, s) => bytes(no, [...new TextEncoder().encode(s)])

const node = (op, domain, from, to) => [...text(1, from), ...text(2, to), ...text(4, op), ...text(7, domain)]
const value = (name) => {
  const type = bytes(1, [...number(1, 1), ...bytes(2, bytes(1, number(1, 2)))])
  return [...text(1, name), ...bytes(2, type)]
}

/** Function k calls function k - 1 twice. */
function doubling(levels) {
  const opsets = [bytes(8, [...text(1, ''), ...number(2, 21)]), bytes(8, [...text(1, 'local'), ...number(2, 1)])].flat()
  const graph = [...bytes(1, node(`f${levels}`, 'local', 'x', 'y')), ...bytes(11, value('x')), ...bytes(12, value('y'))]
  const functions = Array.from({ length: levels + 1 }, (_, k) => {
    const op = k === 0 ? ['Neg', ''] : [`f${k - 1}`, 'local']
    const nodes = [...bytes(7, node(...op, 'p', 'q')), ...bytes(7, node(...op, 'q', 'r'))]
    const opset = bytes(9, number(2, 21))
    return bytes(25, [...text(1, `f${k}`), ...text(4, 'p'), ...text(5, 'r'), ...nodes, ...opset, ...text(10, 'local')])
  })
  return Uint8Array.from([...number(1, 10), ...opsets, ...bytes(7, graph), ...functions.flat()])
}

async function functionsDoubling() {
  const { importOnnx } = await import('../../dist/onnx.js')
  const model = doubling(40)
  const start = performance.now()
  try {
    importOnnx(model)
  } catch (error) {
    if (error.code === 'E_OVERFLOW') return (performance.now() - start) / 1000
    throw error
  }
  throw new Error('a model of 2^40 nodes was imported')
}

export const items = [
  {
    id: 'onnx-functions',
    what: 'refusing ONNX functions that call each other twice, forty levels deep',
    unit: 's',
    bound: 2,
    measure: functionsDoubling,
  },
  {
    id: 'onnx-mutants',
    what: 'the slowest import of 20,000 mutated models',
    unit: 's',
    bound: 2,
    seconds: 180,
    measure: () => slowest('test/onnx/mutate/imports.ts', 20_000),
  },
]
