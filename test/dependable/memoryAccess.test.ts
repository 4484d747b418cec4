/**
 * One account of memory, reads and writes: what an access summary (src/plan/memory/access.ts) says of a group is what its launches bind.
 * Sites that counted for themselves: order.ts, peak.ts, liveness.ts, saved.ts, readersFirst.ts, takeovers.ts (now memory/reuse.ts), groups.ts, formats.ts and
 * boundaryCost.ts in src/plan.
 */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import { condNodes } from '../../src/compose/control.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node, NodeOf } from '../../src/graph/node.ts'
import type { BoundKernel, Launch } from '../../src/lower/launch.ts'
import { lowerGroup } from '../../src/lower/lowerGroup.ts'
import { lowerScatter } from '../../src/lower/scatter.ts'
import { storageOf } from '../../src/plan/body/region.ts'
import { scatterBody } from '../../src/plan/body/scatterBody.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import { accessOf } from '../../src/plan/memory/access.ts'
import { type SingleGroup, singleGroups } from '../../src/plan/plan.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, trace } from '../compile/support.ts'
import { randomGraph } from '../random/graphs.ts'
import { nightly } from '../support/nightly.ts'

interface Bound {
  readonly reads: ReadonlySet<Node>
  readonly writes: ReadonlySet<Node>
}

/** What the kernels of a launch bind, but for partial results. */
function boundBy({ main, finishing }: Launch): Bound {
  const of = (isRead: boolean): Set<Node> =>
    new Set(
      [main, ...finishing].flatMap(({ kernel, bindings }: BoundKernel) =>
        bindings.flatMap((b, i) =>
          b.kind === 'node' && (kernel.params[i]?.access === 'read') === isRead ? [storageOf(b.node)] : [],
        ),
      ),
    )
  return { reads: of(true), writes: of(false) }
}

const idsOf = (nodes: Iterable<Node>): string[] => [...nodes].map((n) => `${n.op} ${n.id}`).sort()

/** Expects of every group what its steps bind. */
function expectBound(g: SingleGroup, target: Machine): void {
  const { buffers, writes } = accessOf(g)
  const expectBinds = (bound: Bound): void => {
    expect(idsOf(buffers)).toEqual(idsOf(bound.reads))
    expect(idsOf(writes)).toEqual(idsOf(bound.writes))
  }
  switch (g.kind) {
    case 'kernel':
      if (g.outputs.some((n) => sizeOf(n.shape) > 0)) expectBinds(boundBy(lowerGroup('k', g, target, 'fast')))
      return
    case 'scatter': {
      const node = g.node as NodeOf<'scatter'>
      const { reads, writes } = boundBy(lowerScatter('k', node, scatterBody(node), target, 'fast'))
      expectBinds({ reads: new Set([...reads, storageOf(at(node.inputs, 0))]), writes })
      return
    }
    case 'opaque':
      expectBinds({ reads: new Set(g.node.inputs.map(storageOf)), writes: new Set([g.node]) })
      return
    case 'effect':
      expectBinds({ reads: new Set([storageOf(at(g.node.inputs, 0))]), writes: new Set() })
      return
    case 'region':
      expectBinds({ reads: new Set(g.node.inputs.map(storageOf)), writes: new Set(g.results) })
  }
}

const planned = (graph: Graph, target: Machine, fuse = true): SingleGroup[] =>
  singleGroups(planFusion(graph, target, 'fast', fuse))

/** Sums its input and itself turned around, so that an order of elements shows. */
const kernel = {
  name: 'mine',
  shapeRule: (inputs: readonly { shape: readonly number[]; dtype: 'f32' }[]) => at(inputs, 0),
  run: () => undefined,
}
const opaque = (x: Node): Node => c.opaque(kernel as never, x)

const inspect = (x: Node, previous?: Node): Node =>
  c.inspect(x, { label: 'seen', call: () => undefined } as never, previous)

const half = trace([{ shape: [6, 64] }], (p) => [c.mul(at(p, 0), 0.5), c.sum(at(p, 0))])
const same = trace([{ shape: [6, 64] }], (p) => [at(p, 0), c.sum(c.exp(at(p, 0)))])

/** Every kind of boundary over views and effects. */
const boundaries = (): Graph =>
  trace([{ shape: [64, 6] }, { shape: [3], dtype: 'i32' }, { shape: [3, 64] }], (p) => {
    const t = c.permute(c.exp(at(p, 0)), [1, 0])
    const seen = inspect(opaque(t))
    const again = inspect(c.reshape(seen, [64, 6]), seen)
    const s = c.scatterND(t, c.reshape(at(p, 1), [3, 1]), c.add(at(p, 2), 1))
    const chosen = condNodes(c.compare('lt', c.sum(at(p, 2)), c.full([], 1, 'f32')), [t], half, same)
    return [c.mul(c.add(s, at(chosen, 0)), c.permute(again, [1, 0])), c.sum(again), at(chosen, 1)]
  })

describe('what stands for a boundary', () => {
  test.each([
    ['transposed', (x: Node) => c.permute(x, [1, 0])],
    ['repeated', (x: Node) => c.broadcastTo(c.reshape(x, [1, 64, 6]), [3, 64, 6])],
  ])('is stored, not what it is a view of (%s)', (_, view) => {
    const graph = trace([{ shape: [64, 6] }], (p) => opaque(view(c.exp(at(p, 0)))))
    const { program, report } = compileGraph(graph, { mode: 'fast', target: wasmTarget })
    const given = sizeOf(at(graph.outputs, 0).shape) * 4
    expect(program.buffers.map((b) => b.bytes)).toEqual([64 * 6 * 4, given, given])
    expect(report.kernels.map((k) => [k.kind, k.bytesRead, k.bytesWritten])).toEqual([
      ['elementwise', 64 * 6 * 4, given],
      ['opaque', given, given],
    ])
  })

  test('an effect reads what it sees, not what the one before it saw', () => {
    const graph = trace([{ shape: [64, 6] }], (p) => {
      const first = inspect(c.exp(at(p, 0)))
      return [c.sum(inspect(c.sum(first), first))]
    })
    const effects = planned(graph, wasmTarget).filter((g) => g.kind === 'effect')
    expect(effects.map((g) => g.cost.bytesRead)).toEqual([64 * 6 * 4, 4])
  })
})

describe('an access summary is what a group binds', () => {
  const targets = [wasmTarget, webgpuTarget()]

  const programs = nightly ? 500 : 200

  test(`in ${programs} random programs`, () => {
    for (let seed = 0; seed < programs; seed++) {
      const target = at(targets, seed % 2)
      for (const g of planned(randomGraph(seed).graph, target)) expectBound(g, target)
    }
  })

  test.each([true, false])('beside boundaries, fused: %s', (fuse) => {
    for (const target of targets) {
      const groups = planned(boundaries(), target, fuse)
      for (const kind of ['opaque', 'effect', 'scatter', 'region'])
        expect(groups.filter((g) => g.kind === kind).length).toBeGreaterThan(0)
      for (const g of groups) expectBound(g, target)
    }
  })
})
