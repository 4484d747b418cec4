/** Control flow through the transforms: against written-out programs, nested, to higher orders, and what is refused. */
import { describe, expect, it } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { withOrigin } from '../../src/diagnostics/origin.ts'
import { param } from '../../src/graph/build.ts'
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import { regionResults } from '../../src/graph/ops/region.ts'
import { inlineOutputs } from '../../src/graph/subgraph.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { jvpGraph, linearizeGraph, vjpGraph, vmapGraph } from '../../src/transforms/index.ts'
import { isFloat } from '../../src/types/dtype.ts'
import { makeRng } from '../random/rng.ts'
import { tameData } from '../random/values.ts'
import { branches, doubling, growing, inner, looped, nested, recurrent, recurrentInputs, unrolled } from './regions.ts'
import { checkGrads, drawInputs, evaluate, expectClose, graphOf, numbersOf, type Program } from './support.ts'

const f64 = (...values: number[]): Float64Array => Float64Array.from(values)
const at = (x: Node | undefined): Node => {
  if (x === undefined) throw new Error('no node')
  return x
}
const floatsOf = (graph: Graph): number[] => graph.params.flatMap((p, i) => (isFloat(p.dtype) ? [i] : []))

/** Every node of a graph and of the graphs inside it that it evaluates. */
function everyNode(graph: Graph): Node[] {
  return nodesOf(graph).flatMap((n) => {
    if (n.op === 'loop') return [n, ...everyNode(n.attrs.body)]
    if (n.op === 'cond') return [n, ...everyNode(n.attrs.then), ...everyNode(n.attrs.otherwise)]
    return [n]
  })
}
const loopsOf = (graph: Graph): NodeOf<'loop'>[] => everyNode(graph).filter((n) => n.op === 'loop')

/** Random data for the parameters behind the first `inputs`. */
function extended(graph: Graph, inputs: readonly Float64Array[] | ReturnType<typeof drawInputs>) {
  const rng = makeRng(5)
  const more = graph.params.slice(inputs.length).map((p) =>
    tameData(
      rng,
      p.dtype,
      p.shape.reduce((n, d) => n * d, 1),
      -1,
      1,
    ),
  )
  return [...inputs, ...more]
}

/** Agreement of two graphs of the same parameters and outputs. */
function expectSame(got: Graph, want: Graph, inputs: ReturnType<typeof drawInputs>, tolerance = 1e-12): void {
  verifyGraph(got)
  verifyGraph(want)
  const [a, b] = [evaluate(got, extended(got, inputs)), evaluate(want, extended(want, inputs))]
  want.outputs.forEach((y, i) => {
    const data = [a[i], b[i]].map((d) => (d === undefined ? [] : numbersOf(d, y.dtype)))
    expectClose(data[0] ?? [], data[1] ?? [], tolerance, `output ${i}`)
  })
}

const rewritten = (graph: Graph): Graph => {
  const result = rewriteGraph(graph, { mode: 'fast' }).graph
  verifyGraph(result)
  return result
}

describe('loops against the steps written out', () => {
  it.each([
    ['forwards', recurrent(5), [...recurrentInputs, { shape: [5, 3] }]],
    ['backwards', recurrent(4, true), [...recurrentInputs, { shape: [4, 3] }]],
    [
      'with carries that get tangents on the way',
      growing,
      [{ shape: [2] }, { shape: [2] }, { shape: [2] }, { shape: [] }],
    ],
  ] as const)('%s', (_, spec, inputs) => {
    const loop = graphOf({ inputs, build: looped(spec) })
    const plain = graphOf({ inputs, build: unrolled(spec, inlineOutputs) })
    const data = drawInputs({ inputs, build: looped(spec) }, makeRng(4))
    const wrt = floatsOf(loop)
    const along = loop.params.map((p) => isFloat(p.dtype))
    expectSame(loop, plain, data)
    expectSame(jvpGraph(loop, along), jvpGraph(plain, along), data)
    expectSame(vjpGraph(loop, wrt), vjpGraph(plain, wrt), data)
    const second = (g: Graph): Graph => jvpGraph(vjpGraph(g, wrt), along)
    expectSame(second(loop), second(plain), data, 1e-10)
    expectSame(vjpGraph(vjpGraph(loop, wrt), wrt), vjpGraph(vjpGraph(plain, wrt), wrt), data, 1e-10)
    expectSame(rewritten(vjpGraph(loop, wrt)), vjpGraph(plain, wrt), data)
    expectSame(rewritten(second(loop)), second(plain), data, 1e-10)
  })
})

describe('regions inside regions', () => {
  const inputs: Program['inputs'] = [{ shape: [] }, { shape: [3] }, { shape: [4, 3] }]
  const graph = graphOf({ inputs, build: (t, x, y) => nested(at(t), at(x), at(y)) })

  it.each([1, -1])('derivatives to second order, condition %i', (sign) => {
    const [, ...rest] = drawInputs({ inputs, build: () => [] }, makeRng(6))
    checkGrads(graph, [f64(sign), ...rest], makeRng(2), 2)
  })

  it.each([
    ['the whole batch alike', [null, 0, 0]],
    ['conditions that differ', [0, 1, null]],
  ] as const)('derivatives of batches, %s', (_, axes) => {
    const batch = vmapGraph(graph, axes, [0, 0], 2)
    const data = drawInputs({ inputs: batch.params.map((p) => ({ shape: p.shape })), build: () => [] }, makeRng(9))
    checkGrads(batch, data, makeRng(3), 2)
    expectSame(rewritten(batch), batch, data)
  })

  it('batches of gradients are gradients of batches', () => {
    const wide = vmapGraph(vjpGraph(graph, [1, 2]), [0, 0, 0, 0, 0], [0, 0, 0, 0], 2)
    const other = vjpGraph(vmapGraph(graph, [0, 0, 0], [0, 0], 2), [1, 2])
    const data = drawInputs({ inputs: wide.params.map((p) => ({ shape: p.shape })), build: () => [] }, makeRng(9))
    expectSame(wide, other, data)
  })

  it('the rewritten gradient is the gradient', () => {
    const reverse = vjpGraph(graph, [1, 2])
    for (const sign of [1, -1]) {
      const [, ...rest] = drawInputs({ inputs, build: () => [] }, makeRng(6))
      expectSame(rewritten(reverse), reverse, [f64(sign), ...rest])
    }
  })
})

describe('what loops keep', () => {
  const spec = recurrent(1000)
  const loop = graphOf({ inputs: [...recurrentInputs, { shape: [1000, 3] }], build: looped(spec) })
  const last: Graph = { ...loop, outputs: loop.outputs.slice(0, 1) }
  const sequences = (n: NodeOf<'loop'>): number[] =>
    regionResults(n)
      .slice(n.attrs.carries)
      .map((t) => t.shape.slice(1).reduce((a, b) => a * b, 1))

  it('forward mode keeps nothing from step to step', () => {
    const forward = rewritten(jvpGraph(last, [true, true, true, false, true]))
    const loops = loopsOf(forward)
    expect(loops.map(sequences)).toEqual([[]])
    expect(loops.map((n) => n.attrs.carries)).toEqual([2])
  })

  it('compiled, forward mode needs as much memory for many steps as for few', () => {
    const arena = (length: number): number => {
      const long = graphOf({ inputs: [...recurrentInputs, { shape: [length, 3] }], build: looped(recurrent(length)) })
      const forward = jvpGraph({ ...long, outputs: long.outputs.slice(0, 1) }, [true, true, true, false, false])
      return compileGraph(forward, { mode: 'fast', target: wasmTarget, verify: true }).program.arenaBytes
    }
    expect(arena(1000)).toBe(arena(10))
  })

  it('reverse mode keeps a row a step: constants, and what follows from them alone, are handed over once', () => {
    const loops = loopsOf(rewritten(vjpGraph(last, [0, 1, 2, 4])))
    expect(loops.map((n) => n.attrs.reverse).sort()).toEqual([false, true])
    const kept = loops.find((n) => !n.attrs.reverse)
    expect(kept === undefined ? [] : sequences(kept).every((size) => size === 3)).toBe(true)
    expect(kept === undefined ? 0 : sequences(kept).length).toBeLessThanOrEqual(3)
  })

  it('what a few cheap operations make of results the loop gives is not kept beside them', () => {
    // tanh' is 1 - y^2 of the y that is stacked, relu' a comparison with it.
    const body = inner([{ shape: [3] }, { shape: [3] }], (h, x) => {
      const y = c.tanh(c.add(h, x))
      const z = c.relu(c.sub(y, x))
      return [c.add(y, z), y, z]
    })
    const build = looped({ body, length: 6, consts: 0, carries: 1 })
    const rows = graphOf({ inputs: [{ shape: [3] }, { shape: [6, 3] }], build })
    const reverse = vjpGraph(rows, [0, 1])
    const [kept] = loopsOf(rewritten(reverse)).filter((n) => !n.attrs.reverse)
    expect(kept === undefined ? [] : sequences(kept)).toEqual([3, 3])
    checkGrads(rows, drawInputs({ inputs: [{ shape: [3] }, { shape: [6, 3] }], build }, makeRng(2)), makeRng(3), 2)
  })

  it('a loop no tangent enters stays as it is', () => {
    const build: Program['build'] = (x, y) => [
      c.mul(at(x), at(looped(growing)(at(y), at(y), at(y), c.ones([], 'f64'))[0])),
    ]
    const graph = graphOf({ inputs: [{ shape: [2] }, { shape: [2] }], build })
    expect(loopsOf(vjpGraph(graph, [0])).map((n) => n.attrs)).toEqual(
      [growing].map(({ body, length, consts, carries }) => ({ body, length, reverse: false, consts, carries })),
    )
  })

  it('branches of a condition share the places of what they keep', () => {
    const graph = graphOf({
      inputs: [{ shape: [] }, { shape: [3] }, { shape: [2, 3] }],
      build: (t, x, y) => c.condNodes(c.compare('gt', at(t), 0), [at(x), at(y)], branches.first, branches.second),
    })
    const { primal } = linearizeGraph(graph, [false, true, true])
    verifyGraph(primal)
    const region = nodesOf(primal).find((n) => n.op === 'cond')
    const kept = region === undefined ? [] : regionResults(region).slice(2)
    const alone = [branches.first, branches.second].map((b) => {
      const own = linearizeGraph(b, [true, true]).primal
      return own.outputs.slice(2).filter((n) => n.op !== 'param')
    })
    for (const shape of ['', '3', '2,3']) {
      const count = (of: readonly { readonly shape: readonly number[] }[]): number =>
        of.filter((t) => t.shape.join() === shape).length
      expect(count(kept), shape).toBe(Math.max(...alone.map(count)))
    }
    expect(kept.length).toBeLessThan(alone.flat().length)
  })
})

describe('conditions', () => {
  it('the branch not taken leaves no trace, whatever its derivative', () => {
    const root = inner([{ shape: [] }], (x) => [c.sqrt(x)])
    const zero = inner([{ shape: [] }], (x) => [c.mul(x, 3)])
    const graph = graphOf({
      inputs: [{ shape: [] }],
      build: (x) => c.condNodes(c.compare('gt', at(x), 0), [at(x)], root, zero),
    })
    expect(evaluate(vjpGraph(graph, [0]), [f64(0), f64(1)])).toEqual([f64(0), f64(3)])
    expect(evaluate(vjpGraph(graph, [0]), [f64(4), f64(1)])).toEqual([f64(2), f64(0.25)])
  })
})

describe('while', () => {
  const inputs: Program['inputs'] = [{ shape: [], lo: 30, hi: 90 }, { shape: [3] }]
  const build: Program['build'] = (bound, x) =>
    withOrigin('whileLoop', 'user.ts:7:3', () => c.whileNodes(doubling.test, doubling.body, [at(bound)], [at(x)]))
  const graph = graphOf({ inputs, build })

  it('forward mode against the steps written out', () => {
    const [bound, x] = [f64(50), f64(1, 2, -1)]
    const forward = jvpGraph(graph, [true, true])
    verifyGraph(forward)
    const steps = (v: readonly number[], b: number): number[] => {
      let y = [...v]
      while (y.reduce((s, e) => s + e * e, 0) < b) y = y.map((e) => 2 * e + b / 8)
      return y
    }
    const got = evaluate(forward, [bound, x, f64(0.5), f64(1, -1, 2)])
    expect([...(got[0] ?? [])]).toEqual(steps([1, 2, -1], 50))
    const h = 1e-6
    const up = steps([1 + h, 2 - h, -1 + 2 * h], 50 + 0.5 * h)
    const down = steps([1 - h, 2 + h, -1 - 2 * h], 50 - 0.5 * h)
    expectClose(
      [...(got[1] ?? [])].map(Number),
      up.map((v, i) => (v - (down[i] ?? 0)) / (2 * h)),
      1e-7,
      'tangent',
    )
  })

  it('a batch runs until the last element is done', () => {
    const batch = vmapGraph(jvpGraph(graph, [true, true]), [0, 0, 0, 0], [0, 0], 3)
    verifyGraph(batch)
    const bounds = [1, 40, 4000]
    const data = [
      Float64Array.from(bounds),
      f64(1, 2, -1, 1, 2, -1, 1, 2, -1),
      f64(1, 1, 1),
      f64(1, 0, 0, 1, 0, 0, 1, 0, 0),
    ]
    const got = evaluate(batch, data)
    bounds.forEach((bound, b) => {
      const own = evaluate(jvpGraph(graph, [true, true]), [f64(bound), f64(1, 2, -1), f64(1), f64(1, 0, 0)])
      own.forEach((want, i) => {
        expect(got[i]?.slice(3 * b, 3 * b + 3)).toEqual(want)
      })
    })
  })

  it('reverse mode is refused, with the place of the call and a way out', () => {
    expect(() => vjpGraph(graph, [1])).toThrow(
      expect.objectContaining({
        code: 'E_UNSUPPORTED',
        where: 'user.ts:7:3',
        message: expect.stringContaining('whileLoop'),
        help: expect.stringContaining('foriLoop'),
      }),
    )
  })

  it('reverse mode goes past a while loop no gradient depends on', () => {
    const past = graphOf({
      inputs,
      build: (bound, x) => {
        const [y] = c.whileNodes(doubling.test, doubling.body, [at(bound)], [at(x)])
        return [c.mul(at(x), c.unary('floor', at(y)))]
      },
    })
    const reverse = vjpGraph(past, [1])
    verifyGraph(reverse)
    const floor = evaluate(past, [f64(50), f64(1, 1, 1)])[0]
    expect(evaluate(reverse, [f64(50), f64(1, 1, 1), f64(1, 1, 1)])[1]).toEqual(floor)
  })
})

describe('nodes', () => {
  it('equal regions are one', () => {
    const twice = graphOf({
      inputs: [{ shape: [3] }, { shape: [2, 3] }],
      build: (a, b) => {
        const test = c.compare('gt', c.sum(at(a)), 0)
        const one = c.condNodes(test, [at(a), at(b)], branches.first, branches.second)
        const other = c.condNodes(test, [at(a), at(b)], branches.first, branches.second)
        return [...one, ...other]
      },
    })
    expect(nodesOf(rewritten(twice)).filter((n) => n.op === 'cond').length).toBe(1)
  })

  it.each([
    ['a value from outside', () => inner([{ shape: [3] }], (x) => [c.add(x, param(1, [3], 'f64'))])],
    ['parameters out of order', (): Graph => ({ params: [param(1, [3], 'f64')], outputs: [], effects: [] })],
  ])('the verifier refuses %s inside', (_, make) => {
    const body = make()
    const x = param(0, [3], 'f64')
    const all: Graph = body.outputs.length > 0 ? body : { ...body, outputs: body.params }
    const r = c.loopNodes(all, { length: 2 }, [], [x], [])
    expect(() => {
      verifyGraph({ params: [x], outputs: r.carries, effects: [] })
    }).toThrow(expect.objectContaining({ code: 'E_INTERNAL' }))
  })

  it.each([
    [
      'a condition that is no bool',
      () =>
        c.condNodes(
          c.zeros([]),
          [],
          inner([], () => []),
          inner([], () => []),
        ),
      'E_DTYPE',
    ],
    [
      'branches of different results',
      () =>
        c.condNodes(
          c.full([], true, 'bool'),
          [],
          inner([], () => [c.zeros([])]),
          inner([], () => []),
        ),
      'E_STRUCTURE',
    ],
    [
      'a carry that changes its type',
      () =>
        c.loopNodes(
          inner([{ shape: [3] }], (x) => [c.sum(x)]),
          { length: 2 },
          [],
          [param(0, [3], 'f64')],
          [],
        ),
      'E_SHAPE',
    ],
    [
      'a sequence of another length',
      () =>
        c.loopNodes(
          inner([{ shape: [] }], (x) => [x]),
          { length: 2 },
          [],
          [],
          [param(0, [3], 'f64')],
        ),
      'E_SHAPE',
    ],
  ])('%s is refused', (_, call, code) => {
    expect(call).toThrow(expect.objectContaining({ code }))
  })
})
