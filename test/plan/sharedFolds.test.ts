/** Folded axes that are one: which get one name, and that a body's other statements stay what they are. */
import { expect, test } from 'vitest'
import * as ix from '../../src/affine/expr.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { LetStmt, TileOp } from '../../src/kernel/ir.ts'
import { shareFoldedAxes } from '../../src/plan/axes/sharedFolds.ts'
import type { Body } from '../../src/plan/body/body.ts'

const extents = { i: 4, e: 8, f: 8, g: 8, h: 5 }
type Axis = keyof typeof extents
const nodes = withContext(() => ({ x: param(0, [4, 8], 'f32'), w: param(1, [8], 'f32'), v: param(2, [8], 'f32') }))

/** A row of sums over products of two tensors: of each the tensor that rows are multiplied with, and the axis that is summed. */
function rows(...sums: readonly (readonly [keyof typeof nodes, Axis])[]): Body {
  const lets: LetStmt[] = []
  const put = (axes: readonly string[], op: TileOp): number => {
    lets.push({ kind: 'let', id: lets.length, dtype: 'f32', axes, op })
    return lets.length - 1
  }
  const load = (name: keyof typeof nodes, ...axes: readonly Axis[]): number =>
    put(axes, { kind: 'load', param: name, index: axes.map((a) => ix.axis(a, extents[a])), mask: [], other: 0 })
  const made = sums.map(([name, a]) =>
    put(['i'], { kind: 'dot', a: load('x', 'i', a), b: name === 'x' ? load('x', 'i', a) : load(name, a), axes: [a] }),
  )
  const value = made.reduce((s, d) => put(['i'], { kind: 'scalar', op: 'add', args: [s, d] }))
  const used = new Set<string>(['i', ...sums.map(([, a]) => a)])
  return {
    axes: Object.entries(extents).flatMap(([name, extent]) => (used.has(name) ? [{ name, extent }] : [])),
    lets,
    stores: [{ node: nodes.x, shape: [4], value, index: [ix.axis('i', 4)] }],
    loads: new Map(Object.entries(nodes).map(([name, node]) => [name, { node, shape: node.shape }])),
    origin: new Map(),
  }
}

const namesOf = (b: Body): string => b.axes.map((a) => a.name).join('')

test('sums over positions of the same tensors run along one axis, and what is a repeat then stands once', () => {
  const body = rows(['w', 'e'], ['w', 'f'], ['v', 'g'])
  const shared = shareFoldedAxes(body)
  expect(namesOf(shared)).toBe('ie')
  expect(shared.lets.map((l) => (l.op.kind === 'load' ? l.op.param : l.op.kind)).join(' ')).toBe(
    'x w dot v dot scalar scalar',
  )
  // Both sums of the first two are the first of them.
  expect(shared.lets.find((l) => l.op.kind === 'scalar')?.op).toMatchObject({ args: [2, 2] })
})

test('statements that no name changes are those of the body: what is known of them is known again', () => {
  const body = rows(['w', 'e'], ['w', 'f'], ['v', 'g'])
  const shared = shareFoldedAxes(body)
  for (const i of [0, 1, 2]) expect(shared.lets[i]).toBe(body.lets[i])
})

test.each([
  ['axes of different extents', rows(['w', 'e'], ['v', 'h'], ['v', 'h'])],
  ['two products', rows(['w', 'e'], ['w', 'f'])],
])('%s keep their names', (_, body) => {
  expect(namesOf(shareFoldedAxes(body))).toBe(namesOf(body))
})

test('an axis whose name would make no repeat keeps its own', () => {
  const body = rows(['w', 'e'], ['w', 'e'], ['v', 'f'])
  // Another tensor in the place of the one that all read.
  const apart = {
    ...body,
    lets: body.lets.map((l) => (l.id === 6 ? { ...l, op: { ...l.op, param: 'z' } } : l)),
  } as Body
  expect(namesOf(shareFoldedAxes(body))).toBe('ie')
  expect(namesOf(shareFoldedAxes(apart))).toBe('ief')
})
