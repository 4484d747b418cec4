/** The planner counts as many walks over rows that do not stay in registers as the code makes. */
import { describe, expect, test } from 'vitest'
import { emitKernel } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import type { NumericsMode } from '../../src/kernel/ir.ts'
import { planFusion } from '../../src/plan/fuse/planFusion.ts'
import { singleGroups } from '../../src/plan/plan.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { webgpuSimt } from '../../src/target/simt.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { trace } from '../compile/support.ts'

const target = webgpuTarget({ storageBuffers: 16 })

/** Passes of the one kernel of a function of long rows: as planned, and loops over chunks in its code. */
function passesOf(f: (x: Node) => Node, columns: number, mode: NumericsMode): { planned: number[]; walks: number[] } {
  const graph = trace([{ shape: [64, columns] }], ([x]) => {
    if (x === undefined) throw new Error('no input')
    return f(x)
  })
  const groups = singleGroups(planFusion(rewriteGraph(graph, { mode }).graph, target, mode))
  const { program } = compileGraph(graph, { target, mode })
  const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
  return {
    planned: groups.flatMap((g) => (g.kind === 'kernel' ? [g.roles.passes ?? 1] : [])),
    walks: kernels.map((k) => [...emitKernel(k, webgpuSimt).source.matchAll(/for \(var \w+_at\w* = 0/g)].length),
  }
}

const cases: readonly {
  readonly name: string
  readonly f: (x: Node) => Node
  readonly fast: number
  strict: number
}[] = [
  { name: 'softmax', f: (x) => c.softmax(x, 1), fast: 2, strict: 3 },
  { name: 'layer normalisation', f: (x) => c.layerNorm(x), fast: 2, strict: 3 },
  { name: 'variance', f: (x) => c.variance(x, [1]), fast: 1, strict: 2 },
  {
    name: 'mean absolute difference from the mean',
    f: (x) => c.mean(c.unary('abs', c.sub(x, c.mean(x, [1], true))), [1]),
    fast: 2,
    strict: 2,
  },
]

describe.each(cases)('$name', ({ f, fast, strict }) => {
  test.each([
    ['fast', fast],
    ['strict', strict],
  ] as const)('%s', (mode, passes) => expect(passesOf(f, 32768, mode)).toEqual({ planned: [passes], walks: [passes] }))

  test('a row that stays is read once', () => expect(passesOf(f, 2048, 'fast')).toEqual({ planned: [1], walks: [0] }))
})
