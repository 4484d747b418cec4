/** Collapsed bodies compute what the bodies compute, on fewer axes. */
import { describe, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import { interpretKernel } from '../../src/kernel/interpret.ts'
import { lowerMatrix } from '../../src/lower/matrix.ts'
import { lowerStraight } from '../../src/lower/straight.ts'
import { analyse } from '../../src/plan/axes/analyse.ts'
import type { Body } from '../../src/plan/body/body.ts'
import { buildBody } from '../../src/plan/body/buildBody.ts'
import { collapse } from '../../src/plan/body/collapse.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import { singleGroups } from '../../src/plan/plan.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { type HostArray, hostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, type Input, inputsOf, trace } from '../compile/support.ts'
import { randomGraph } from '../random/graphs.ts'

const target: Machine = { ...wasmTarget, elementBlock: 24, dotBlock: { m: 8, n: 16, k: 5 }, minPrograms: 6 }

/** Results of a body lowered and interpreted on the given tensors; undefined where no kernel of it is possible. */
function run(body: Body, outputs: readonly Node[], tensors: ReadonlyMap<Node, HostArray>): HostArray[] | undefined {
  const analysed = analyse(body, target, 'strict')
  if (!analysed.ok) return undefined
  const { roles } = analysed
  const lower = roles.kind === 'matrix' ? lowerMatrix : lowerStraight
  const launch = lower('k', body, roles, target, 'strict')
  const partials = launch.partials.map((p) => hostArray(p.dtype, sizeOf(p.shape)))
  const results = new Map(outputs.map((o) => [o, hostArray(o.dtype, sizeOf(o.shape))]))
  for (const { kernel, bindings } of [launch.main, ...launch.finishing]) {
    const named = kernel.params.map((p, i): [string, HostArray] => {
      const b = at(bindings, i)
      const data = b.kind === 'partial' ? partials[b.index] : (results.get(b.node) ?? tensors.get(b.node))
      if (data === undefined) throw new Error(`nothing bound to ${p.name}`)
      return [p.name, data]
    })
    interpretKernel(kernel, Object.fromEntries(named), { rounding: 'dtype' })
  }
  return outputs.map((o) => results.get(o) ?? hostArray(o.dtype, 0))
}

const tensorsOf = (body: Body): Map<Node, HostArray> => {
  const nodes = [...body.loads.values()].map((t) => t.node)
  const values = inputsOf({ params: nodes as never, outputs: [], effects: [] })
  return new Map(nodes.map((n, i) => [n, at(values, i)]))
}

function bodyOf(members: ReadonlySet<Node>, outputs: readonly Node[]): Body {
  const whole = buildBody({ members, outputs })
  if (whole.ok) return whole.body
  const others = [{ inPieces: true }, { overhang: true }].map((o) =>
    buildBody({ members, outputs }, { mode: 'strict', ...o }),
  )
  const built = others.find((o) => o.ok)
  if (built?.ok !== true) throw new Error(whole.detail)
  return built.body
}

test('random programs give the same bits', () => {
  let collapsed = 0
  for (let seed = 0; seed < 150; seed++) {
    const { graph } = randomGraph(seed)
    for (const g of singleGroups(planFusion(graph, wasmTarget, 'strict'))) {
      if (g.kind !== 'kernel' || g.outputs.some((o) => sizeOf(o.shape) === 0)) continue
      const body = bodyOf(g.members, g.outputs)
      const less = collapse(body, Number.POSITIVE_INFINITY)
      if (less === body) continue
      expect(less.axes.length).toBeLessThan(body.axes.length)
      const tensors = tensorsOf(body)
      const want = run(body, g.outputs, tensors)
      const got = run(less, g.outputs, tensors)
      if (want === undefined || got === undefined) continue
      collapsed++
      expect(got, `seed ${seed}`).toEqual(want)
    }
  }
  expect(collapsed).toBeGreaterThan(50)
})

/** The results of a program and the body that computes all of it. */
function wholeOf(inputs: readonly Input[], build: (p: readonly Node[]) => Node): [readonly Node[], Body] {
  const out = trace(inputs, build).outputs
  const members = new Set<Node>()
  const stack = [...out]
  for (let n = stack.pop(); n !== undefined; n = stack.pop())
    if (n.op !== 'param') {
      members.add(n)
      stack.push(...n.inputs)
    }
  return [out, bodyOf(members, out)]
}

test('masks, eight neighbours of which share a word, are the same along one axis', () => {
  for (const shape of [
    [3, 4, 5],
    [7, 9],
    [6, 16],
    [5, 1, 3],
    [2, 3, 7, 3],
  ]) {
    const rest = shape.slice(1)
    for (const view of [
      (m: Node): Node => m,
      (m: Node): Node => c.sliceAxis(m, 0, 1, shape[0] ?? 1),
      (m: Node): Node => c.reshape(m, [-1, rest.reduce((a, b) => a * b, 1)]),
    ]) {
      const [out, body] = wholeOf([{ shape: [2], dtype: 'u32' }], (p) =>
        c.cast(view(c.bernoulli(at(p, 0), 0.4, shape)), 'f32'),
      )
      const less = collapse(body, Number.POSITIVE_INFINITY)
      expect(less.axes).toHaveLength(1)
      const tensors = tensorsOf(body)
      expect(run(less, out, tensors), String(shape)).toEqual(run(body, out, tensors))
    }
  }
})

describe('axes left', () => {
  const axes = (inputs: readonly Input[], build: (p: readonly Node[]) => Node): number[] =>
    collapse(wholeOf(inputs, build)[1], Number.POSITIVE_INFINITY).axes.map((a) => a.extent)
  const x: Input = { shape: [3, 4, 5] }

  test('elementwise work runs along one', () => {
    expect(axes([x, x], (p) => c.exp(c.add(at(p, 0), at(p, 1))))).toEqual([60])
  })
  test('a mask runs along one, also over odd rows', () => {
    expect(axes([x, { shape: [2], dtype: 'u32' }], (p) => c.dropout(at(p, 0), at(p, 1), 0.1))).toEqual([60])
  })
  test('a row vector keeps rows and columns', () => {
    expect(axes([x, { shape: [5] }], (p) => c.add(at(p, 0), at(p, 1)))).toEqual([12, 5])
  })
  test('a reduction keeps what it keeps', () => {
    expect(axes([x], (p) => c.sum(at(p, 0), 2))).toEqual([12, 5])
    expect(axes([x], (p) => c.sum(at(p, 0), [1, 2]))).toEqual([3, 20])
    expect(axes([x], (p) => c.sum(at(p, 0), 1))).toHaveLength(3)
  })
  test('padding keeps the axis it bounds', () => {
    expect(
      axes([x], (p) =>
        c.pad(at(p, 0), [
          [0, 0],
          [1, 1],
          [0, 0],
        ]),
      ),
    ).toEqual([3, 6, 5])
    expect(
      axes([x], (p) =>
        c.pad(at(p, 0), [
          [1, 1],
          [0, 0],
          [0, 0],
        ]),
      ),
    ).toEqual([5, 20])
  })
  test('a transpose of leading axes keeps the rest whole', () => {
    expect(axes([x], (p) => c.permute(at(p, 0), [1, 0, 2]))).toEqual([4, 3, 5])
    expect(axes([x], (p) => c.permute(at(p, 0), [2, 0, 1]))).toEqual([5, 12])
  })
  test('a scan keeps its axis', () => {
    expect(axes([x], (p) => c.cumsum(at(p, 0), 2))).toEqual([12, 5])
  })
})
