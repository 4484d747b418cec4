/**
 * Issue: recursions over programs become loops, and scale everywhere else. Here: values disposed of while many wait, index maps that
 * regroup what was regrouped, functions traced inside one another, trees and ranks of any depth.
 * Sites looked at: `settle` in api/tensor/core.ts (walked over all that waits, for each value disposed of), `viewed` and `Instances.keyOf`
 * (index maps doubled with each reshape: a string too long for the engine at 40), `Trace`, `describe`, `shapeOfLists`,
 * `formatElements`, `nestedList`.
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import * as api from '../../src/api/tensor/lazy.ts'
import { Storage } from '../../src/api/tensor/storage.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import * as s from '../../src/index.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { kernelsOf } from '../../src/runtime/region.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { nightly, some } from '../support/nightly.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const targets = [wasmTarget, cudaTarget, webgpuTarget()].map((t) => [t.name, t] as const)
const before = s.getDevice()

beforeAll(() => s.setDevice('wasm', { threads: 1 }))
afterAll(() => s.setDevice(before))

describe('values disposed of while others wait', () => {
  test('what reads a storage is found from it, not among all that waits', () => {
    let looked = 0
    const counted = (n: Node): Node =>
      new Proxy(n, {
        get: (of, key) => {
          if (key === 'inputs') looked++
          return Reflect.get(of, key)
        },
      })
    const storages = range(500).map(() => Storage.ofHost(new Float32Array([1]), [1], 'f32'))
    const nodes = storages.map((x) => counted(c.add(c.mul(api.leafOf(x), 2), 1)))
    const readers = new api.Readers<number>(0)
    nodes.forEach((n, i) => {
      readers.add(n, i)
    })
    const built = looked
    storages.forEach((x, i) => {
      expect(readers.of(x)).toEqual([i])
    })
    expect(looked).toBe(built)
    expect(built).toBeLessThan(3 * 500)
  })
  test('their values are those of before', () => {
    const xs = range(40).map((i) => s.tensor([i]))
    const ys = xs.map((x, i) => x.add(xs[(i + 1) % 40] ?? x).mul(2))
    const zs = ys.map((y) => y.sum())
    for (const x of xs) x.dispose()
    for (const y of ys.slice(20)) y.dispose()
    const more = ys.slice(0, 20).map((y) => y.add(1))
    for (const y of ys.slice(0, 20)) y.dispose()
    range(40).forEach((i) => {
      expect(zs[i]?.item()).toBe(2 * (i + ((i + 1) % 40)))
    })
    range(20).forEach((i) => {
      expect(more[i]?.item()).toBe(2 * (2 * i + 1) + 1)
    })
  })
})

describe('reshapes of what was regrouped', () => {
  const dims = [
    [6, 35],
    [10, 21],
    [14, 15],
    [35, 6],
    [21, 10],
  ]
  const turned = (x: Node, n: number, each: (y: Node) => Node): Node =>
    range(n).reduce((y, i) => each(c.permute(c.reshape(y, dims[i % 5] ?? []), [1, 0])), x)
  const letters = (target: (typeof targets)[number][1], n: number, each: (y: Node) => Node): number => {
    const graph = withContext((): Graph => {
      const x = param(0, [210], 'f32')
      return { params: [x], outputs: [c.add(c.reshape(turned(x, n, each), [210]), 1)], effects: [] }
    })
    return kernelsOf(compileGraph(graph, { mode: 'fast', target }).program).reduce(
      (sum, { step }) => sum + printKernel(step.kernel).length,
      0,
    )
  }
  test.each(targets)('40 of them, views alone: index maps keep to a size, %s', (_, target) => {
    expect(letters(target, 40, (y) => y)).toBeLessThan(200_000)
  })
  test.each(some(targets, 2))('40 of them, operations between, %s', (_, target) => {
    expect(letters(target, 40, (y) => c.unary('sin', y))).toBeLessThan(200_000)
  })
  test('what they compute', () => {
    const source = Float32Array.from(range(210))
    let want = [...source]
    const times = nightly ? 24 : 12
    for (const i of range(times)) {
      const [rows = 1, columns = 1] = dims[i % 5] ?? []
      want = range(210).map((k) => want[(k % rows) * columns + Math.floor(k / rows)] ?? 0)
    }
    const f = s.jit((x: s.Tensor) => {
      let y = x
      for (const i of range(times)) y = y.reshape(dims[i % 5] ?? []).transpose([1, 0])
      return y.reshape([210])
    })
    expect([...f(s.tensor(source)).dataSync()]).toEqual(want)
  })
})

describe('functions traced inside one another', () => {
  const around: Readonly<Record<string, (f: (x: s.Tensor) => s.Tensor) => (x: s.Tensor) => s.Tensor>> = {
    scan: (f) => (x) => s.scan((carry: s.Tensor, y: s.Tensor) => [f(carry), y], x, s.ones([1, 2]))[0],
    cond: (f) => (x) =>
      s.cond(
        s.greater(s.sum(x), 0),
        (v: s.Tensor) => f(v),
        (v: s.Tensor) => v,
        x,
      ),
    vmap: (f) => (x) =>
      s
        .vmap(f)(s.stack([x]))
        .reshape(x.shape),
    jvp: (f) => (x) => s.jvp(f, [x], [x])[0],
    grad: (f) => (x) => s.grad((v: s.Tensor) => s.sum(f(v)))(x),
  }
  const most = nightly ? 60 : 30
  const nested = (name: string, depth: number): ((x: s.Tensor) => s.Tensor) =>
    range(depth).reduce(
      (f) => around[name]?.(f) ?? f,
      (x: s.Tensor): s.Tensor => s.add(x, 1),
    )
  test.each(Object.keys(around).filter((name) => name !== 'grad'))(`%s: ${most} compile and run`, (name) => {
    expect([
      ...s
        .jit(nested(name, most))(s.ones([2]))
        .dataSync(),
    ]).toEqual([2, 2])
  })
  test.each(Object.keys(around))('%s: 1,000 are a coded error, with and without jit', (name) => {
    for (const f of [nested(name, 1000), s.jit(nested(name, 1000))])
      expect(() => f(s.ones([2]))).toThrow(/^\[E_STRUCTURE\] .*nest deeper than 64, here for/)
  })
})

describe('trees, lists and ranks', () => {
  const deep = (depth: number, leaf: unknown): unknown =>
    range(depth).reduce((t: unknown, i) => (i % 2 ? [t] : { a: t }), leaf)
  const uses: Readonly<Record<string, (tree: never) => unknown>> = {
    jit: (t) => s.jit((x: unknown) => x)(t),
    explain: (t) => s.jit((x: unknown) => x).explain(t),
    grad: (t) => s.grad((_: unknown) => s.ones([]))(t),
    vmap: (t) => s.vmap((x: unknown) => x)(t),
    jvp: (t) => s.jvp((x: unknown) => x, [t], [t]),
    vjp: (t) => s.vjp((x: unknown) => x, t),
    scan: (t) => s.scan((carry: never, y: s.Tensor) => [carry, y], t, s.ones([2])),
    'tree.map': (t) => s.tree.map((x) => x, t),
    'optim.init': (t) => s.optim.sgd({ learningRate: 0.1 }).init(t),
  }
  test.each(Object.keys(uses))('%s of a tree 100,000 deep', (name) => {
    for (const depth of [1000, 100_000])
      expect(() => uses[name]?.(deep(depth, s.ones([2])) as never)).toThrow(/^\[E_STRUCTURE\]/)
  })
  test('a result that deep', () => {
    expect(() => s.jit((x: s.Tensor) => deep(100_000, x))(s.ones([2]))).toThrow(/^\[E_STRUCTURE\]/)
  })
  test('a tensor of 10,000 axes is computed and shown', () => {
    const x = s.ones([2, 2]).reshape([2, 2, ...range(9998).map(() => 1)])
    const text = x.add(1).toString()
    expect(text.split('[').length - 1).toBe((2 * 9998 * 4) / 2 + 4)
    expect(text.endsWith(']'.repeat(10_000))).toBe(true)
    let row: unknown = x.tolist()
    for (let depth = 0; depth < 10_000; depth++) row = Array.isArray(row) ? row[0] : undefined
    expect(row).toBe(1)
  })
})
