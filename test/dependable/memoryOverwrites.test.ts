/**
 * One account of memory, the law of overwriting: what the planner says of a group's body (`mayWriteOver`) is what the compiler finds in the
 * kernels that the body becomes (`mayShare`). Sites that judged for themselves: peak.ts (any elementwise kernel, and any of one result),
 * readersFirst.ts (same size, loads where it stores) and takeovers.ts in src/plan, inPlace.ts in src/compile.
 */
import { expect, test } from 'vitest'
import { mayShare } from '../../src/compile/inPlace.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import type { BoundKernel, Launch } from '../../src/lower/launch.ts'
import { lowerGroup } from '../../src/lower/lowerGroup.ts'
import { packBits } from '../../src/lower/packed.ts'
import { storageOf } from '../../src/plan/body/region.ts'
import { storedBytes } from '../../src/plan/body/stored.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import { accessOf } from '../../src/plan/memory/access.ts'
import { mayWriteOver } from '../../src/plan/memory/overwrites.ts'
import { singleGroups } from '../../src/plan/plan.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, trace } from '../compile/support.ts'
import { smallBlocks } from '../random/execute.ts'
import { randomGraph } from '../random/graphs.ts'

/** Cuts reductions of few elements. */
const cut: Machine = { ...smallBlocks, minPrograms: 200, elementBlock: 8 }
const targets: readonly Machine[] = [wasmTarget, webgpuTarget(), cut]

const paramsOf = ({ kernel, bindings }: BoundKernel, n: Node): string[] =>
  bindings.flatMap((b, i) => (b.kind === 'node' && storageOf(b.node) === n ? [kernel.params[i]?.name ?? ''] : []))

/** Whether the kernels of a launch leave a result right that stands over an input; undefined: it is written after all that read the other. */
function mayStandOver({ main, finishing }: Launch, write: Node, read: Node): boolean | undefined {
  const kernels = [main, ...finishing]
  const first = kernels.findIndex((k) => paramsOf(k, write).length > 0)
  const last = kernels.findLastIndex((k) => paramsOf(k, read).length > 0)
  if (first !== last) return first > last ? undefined : false
  const [stored, ...stores] = paramsOf(at(kernels, first), write)
  const [loaded, ...loads] = paramsOf(at(kernels, first), read)
  if (stored === undefined || loaded === undefined || stores.length + loads.length > 0) return false
  return mayShare(at(kernels, first).kernel, loaded, stored)
}

/** Pairs of as many bytes that a kernel may write over each other, and may not; they are the same by both. */
function compared(
  graph: Graph,
  target: Machine,
  mode: 'fast' | 'strict',
): { readonly yes: number; readonly no: number } {
  const plan = planFusion(graph, target, mode)
  const bytes = (n: Node): number => storedBytes(n, plan.stored)
  let [yes, no] = [0, 0]
  for (const g of singleGroups(plan)) {
    if (g.kind !== 'kernel' || g.called !== undefined || g.outputs.every((n) => sizeOf(n.shape) === 0)) continue
    const { buffers, writes } = accessOf(g)
    const pairs = [...buffers].flatMap((r) =>
      writes.flatMap((w) => (bytes(w) > 0 && bytes(w) === bytes(r) ? [[w, r]] : [])),
    )
    const launch = pairs.length === 0 ? undefined : packBits(lowerGroup('k', g, target, mode), plan.stored.bits)
    for (const [w, r] of pairs) {
      if (w === undefined || r === undefined || launch === undefined) continue
      const may = mayStandOver(launch, w, r)
      if (may === undefined) continue
      expect(mayWriteOver(g, w, r), `${w.op} over ${r.op}`).toBe(may)
      if (may) yes++
      else no++
    }
  }
  return { yes, no }
}

test('bodies and kernels may write over the same', () => {
  let [yes, no] = [0, 0]
  for (let seed = 0; seed < 120; seed++) {
    const { graph } = randomGraph(seed, seed % 2 === 0 ? {} : { operations: 20, dtypes: ['f32'], maxElements: 2000 })
    for (const target of targets) {
      const found = compared(graph, target, seed % 4 < 2 ? 'fast' : 'strict')
      yes += found.yes
      no += found.no
    }
  }
  expect(yes).toBeGreaterThan(100)
  expect(no).toBeGreaterThan(100)
})

test('beside matrix products and folds too', () => {
  const square = { shape: [64, 64] }
  const graph = trace([square, square, square], (p) => {
    const [x, y, z] = [at(p, 0), at(p, 1), at(p, 2)]
    const product = c.matmul(x, y)
    const scaled = c.mul(c.add(product, z), c.sum(z))
    return [
      scaled,
      c.sum(c.add(product, z), 0),
      c.sub(z, c.reduceMax(z, 1, true)),
      c.softmax(c.add(x, c.permute(y, [1, 0])), -1),
    ]
  })
  const all = targets.flatMap((target) => [compared(graph, target, 'fast'), compared(graph, target, 'strict')])
  expect(all.reduce((n, { yes }) => n + yes, 0)).toBeGreaterThan(1)
  expect(all.reduce((n, { no }) => n + no, 0)).toBeGreaterThan(1)
})
