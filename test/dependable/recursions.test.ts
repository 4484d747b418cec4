/**
 * Issue: recursions over programs become loops. Here: every recursion of src is known, with the reason why it ends before the stack does;
 * a new one fails until its reason stands in recursionBounds.ts. And what the table's audit found: times that doubled with each operation.
 * Sites looked at: the components of the call graph of src, by the TypeScript checker (test/support/recursions.ts); `lowerMatrix` (whether
 * values depend on the depth was asked again on every way to them), `diagonals` in onnx/ops/linear.ts (called itself for each label),
 * `Analysis` in cli/verify/operands.ts (walked from function to function).
 */
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { shapeFixingValues } from '../../src/cli/verify/operands.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { NodeProto } from '../../src/onnx/proto.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { keyOf, recursionsOf } from '../support/recursions.ts'
import { type Bound, bounds, needNote, recursions } from './recursionBounds.ts'

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/[\\/]$/, '')

test('every recursion of src says why it ends', () => {
  const found = recursionsOf(root, 'src').map(keyOf)
  const missing = found.filter((key) => !Object.hasOwn(recursions, key))
  const gone = Object.keys(recursions).filter((key) => !found.includes(key))
  const lines = [
    ...missing.map((key) => `recursive, and not in the table: ${key}`),
    ...gone.map((key) => `in the table, and not recursive (or with other functions now): ${key}`),
  ]
  expect(
    lines,
    'Write what calls itself as a loop; where its depth is bounded, add a line to test/dependable/recursionBounds.ts with the class of the bound. Take lines out that are recursive no more.',
  ).toEqual([])
}, 180_000)

test('a class that says nothing alone has a note', () => {
  const bare = Object.entries(recursions).filter(
    ([, why]) => typeof why === 'string' && needNote.includes(why as Bound),
  )
  expect(bare).toEqual([])
  const used = new Set(Object.values(recursions).map((why) => (typeof why === 'string' ? why : why[0])))
  expect([...used].filter((name) => !(name in bounds))).toEqual([])
})

test.each([wasmTarget, cudaTarget].map((t) => [t.name, t] as const))(
  'values of the rows before a product, each read twice, %s',
  (_, target) => {
    const graph = withContext((): Graph => {
      const [v, a, b] = [
        [64, 1],
        [64, 64],
        [64, 64],
      ].map((shape, i) => param(i, shape, 'f32'))
      if (v === undefined || a === undefined || b === undefined) throw new Error('no parameters')
      let y: Node = v
      for (let i = 0; i < 60; i++) y = c.mul(y, c.add(y, 1))
      return { params: [v, a, b] as Graph['params'], outputs: [c.matmul(c.mul(a, y), b)], effects: [] }
    })
    expect(compileGraph(graph, { mode: 'fast', target }).plan.groups.length).toBeLessThan(10)
  },
)

test('functions of a model that call each other in a row of 5,000', () => {
  const node = (opType: string, domain: string): NodeProto => ({
    name: '',
    opType,
    domain,
    overload: '',
    input: ['x', 'shape'],
    output: ['y'],
    attribute: [],
  })
  const functions = Array.from({ length: 5000 }, (_, i) => ({
    name: `f${i}`,
    domain: 'own',
    overload: '',
    input: ['x', 'shape'],
    output: ['y'],
    attribute: [],
    attributeProto: [],
    opsetImport: [],
    node: [i < 4999 ? node(`f${i + 1}`, 'own') : node('Reshape', '')],
  }))
  const main = { name: '', node: [node('f0', 'own')], initializer: [], input: [], output: [], sparseInitializers: 0 }
  const model = {
    functions,
    graph: main,
    opsetImport: [],
    irVersion: 8,
    producer: '',
    producerVersion: '',
    domain: '',
    modelVersion: 0n,
    description: '',
    metadata: new Map<string, string>(),
  }
  expect([...shapeFixingValues(model)]).toEqual(['shape'])
})
