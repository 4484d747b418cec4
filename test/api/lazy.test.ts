/** Tensors outside jit: evaluated when a value is read, and freed when disposed, with their scope, or moved. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { CompileRequest, Device } from '../../src/api/device/device.ts'
import { createReferenceDevice } from '../../src/api/device/reference.ts'
import { useDevice } from '../../src/api/device/session.ts'
import type { Graph } from '../../src/graph/node.ts'
import { nodesOf } from '../../src/graph/traverse.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import * as s from '../../src/index.ts'

/** The reference device with a log of what was compiled and run. */
class Probe {
  readonly graphs: Graph[] = []
  runs = 0
  readonly device: Device
  constructor() {
    const inner = createReferenceDevice()
    this.device = {
      ...inner,
      compile: (graph: Graph, request: CompileRequest) => {
        verifyGraph(graph)
        this.graphs.push(graph)
        const compiled = inner.compile(graph, request)
        return {
          ...compiled,
          run: (inputs) => {
            this.runs++
            return compiled.run(inputs)
          },
        }
      },
    }
  }
}

let probe = new Probe()
const fresh = (): void => {
  probe = new Probe()
  useDevice(probe.device)
}
beforeAll(fresh)
afterAll(() => s.setDevice('reference'))

const { tensor } = s

describe('laziness', () => {
  it('runs nothing until a value is read, then everything at once', () => {
    fresh()
    const x = tensor([1, 2])
    const y = x.add(1).mul(x).tanh().sum()
    expect(probe.graphs).toEqual([])
    expect(y.item()).toBeCloseTo(Math.tanh(2) + Math.tanh(6), 5)
    expect(probe.graphs.length).toBe(1)
    expect(y.item()).toBeCloseTo(Math.tanh(2) + Math.tanh(6), 5)
    expect(probe.runs).toBe(1)
  })
  it('compiles a structure once', () => {
    fresh()
    for (let i = 0; i < 5; i++) expect(tensor([i]).mul(3).add(1).item()).toBe(3 * i + 1)
    expect([probe.graphs.length, probe.runs]).toEqual([1, 5])
    tensor([1]).mul(4).add(1).item()
    expect(probe.graphs.length).toBe(2)
  })
  it('a number that changes becomes an input', () => {
    fresh()
    const x = tensor([1, 2])
    for (let i = 1; i < 20; i++) {
      const y = x.mul(i).add(0.5)
      expect(y.tolist()).toEqual([i + 0.5, 2 * i + 0.5])
    }
    expect(probe.graphs.length).toBe(2)
    expect(probe.graphs.map((g) => g.params.length)).toEqual([1, 2])
    expect(x.mul(-0).add(0.5).tolist()).toEqual([0.5, 0.5])
    expect(probe.graphs.length).toBe(2)
  })
  it('uses values already computed', () => {
    fresh()
    const h = tensor([1, 2]).mul(2)
    const y = h.add(1)
    h.dataSync()
    expect(y.tolist()).toEqual([3, 5])
    expect(probe.graphs.map((g) => nodesOf(g).length)).toEqual([3, 3])
  })
  it('evaluates several tensors as one program', () => {
    fresh()
    const x = tensor([1, 2])
    const r = s.evaluate({ a: x.mul(2), b: [x.mul(2).add(1)] })
    expect(probe.runs).toBe(1)
    expect(r.a.tolist()).toEqual([2, 4])
    expect(r.b[0]?.tolist()).toEqual([3, 5])
    expect(probe.runs).toBe(1)
  })
  it('evaluates graphs that grow beyond 500 nodes', () => {
    fresh()
    let x = tensor([0])
    for (let i = 0; i < 1200; i++) x = x.add(1)
    expect(probe.runs).toBeGreaterThan(0)
    expect(x.item()).toBe(1200)
    for (const g of probe.graphs) expect(nodesOf(g).length).toBeLessThan(1100)
  })
  it('counts shared nodes once', () => {
    fresh()
    let x = tensor([1])
    for (let i = 0; i < 60; i++) x = x.mul(0.5).add(x.mul(0.5))
    expect(probe.runs).toBe(0)
    expect(x.item()).toBe(1)
  })
  it('a view of nothing shares the value', () => {
    fresh()
    const x = tensor([1, 2])
    const same = x.reshape([2])
    x.dispose()
    expect(same.tolist()).toEqual([1, 2])
    expect(probe.runs).toBe(0)
  })
})

describe('memory', () => {
  it('dispose frees at once, and pending results stay valid', () => {
    fresh()
    const x = tensor([1, 2]).add(0).evaluate()
    const y = x.mul(10)
    const unread = x.mul(20).add(y)
    expect(s.memory().used).toBeGreaterThan(0)
    x.dispose()
    x.dispose()
    expect(y.tolist()).toEqual([10, 20])
    expect(unread.tolist()).toEqual([30, 60])
    expect(() => x.dataSync()).toThrow(/E_DISPOSED/)
    expect(() => x.add(1)).toThrow(/E_DISPOSED.*add of a disposed tensor f32\[2\]/)
    y.dispose()
    unread.dispose()
    expect(String(x)).toBe('Tensor(f32[2], disposed)')
  })
  it('disposes a node others still build on', () => {
    fresh()
    const h = tensor([1, 2]).mul(2)
    const y = h.add(1)
    const again = h.add(2)
    h.dataSync()
    h.dispose()
    expect([y.tolist(), again.tolist()]).toEqual([
      [3, 5],
      [4, 6],
    ])
  })
  it('tidy keeps its result alone', () => {
    fresh()
    const x = tensor([1, 2])
    x.add(0).dataSync()
    const before = s.memory().used
    const made: s.Tensor[] = []
    const r = s.tidy(() => {
      const a = x.mul(2).evaluate()
      made.push(a)
      return { y: a.add(1), list: [a.add(2)] }
    })
    expect(made[0]?.disposed).toBe(true)
    expect(r.y.tolist()).toEqual([3, 5])
    expect(r.list[0]?.tolist()).toEqual([4, 6])
    expect(s.memory().used).toBe(before + 16)
    expect(() => s.tidy(async () => x)).toThrow(/E_ARGUMENT.*async/)
    expect(x.disposed).toBe(false)
  })
  it('tidy frees when the body throws, and nests', () => {
    fresh()
    const made: s.Tensor[] = []
    expect(() =>
      s.tidy(() => {
        made.push(tensor([1]))
        throw new Error('mine')
      }),
    ).toThrow('mine')
    expect(made[0]?.disposed).toBe(true)
    const inner: s.Tensor[] = []
    s.tidy(() => {
      inner.push(s.tidy(() => tensor([2])))
      expect(inner[0]?.disposed).toBe(false)
    })
    expect(inner[0]?.disposed).toBe(true)
  })
  it('using disposes at the end of the block', () => {
    fresh()
    const x = tensor([3])
    const y = (() => {
      using h = x.mul(2)
      return h.add(1)
    })()
    expect(y.item()).toBe(7)
  })
  it('1,000 synchronous steps in a scope hold one value', () => {
    fresh()
    const step = s.jit((x: s.Tensor) => x.mul(0.5))
    let x = s.ones([64]).evaluate()
    const before = s.memory().used
    for (let i = 0; i < 1000; i++) {
      const next = step(x)
      x.dispose()
      x = next
    }
    expect(s.memory().used).toBe(before)
  })
  it('tensors move between devices', () => {
    fresh()
    const x = tensor([1, 2]).add(1).evaluate()
    fresh()
    expect(x.mul(2).tolist()).toEqual([4, 6])
  })
})
