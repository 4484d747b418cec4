import { expect, it } from 'vitest'
import { evaluateGraph } from '../../src/backends/reference/evaluate.ts'
import { boundScans } from '../../src/compile/longScans.ts'
import type { Graph } from '../../src/graph/node.ts'
import { makeNode, param } from '../../src/graph/build.ts'
import { verifyGraph } from '../../src/graph/verify.ts'
import { cudaTarget } from '../../src/plan/target.ts'

const target = { ...cudaTarget, lineBytes: { fast: 512, strict: 256 } }
const at = (i: number): number => Math.fround(Math.sin(i * 12.9898) * 43758.5453 % 1)

for (const mode of ['strict', 'fast'] as const)
  for (const n of [2049, 4096, 5000, 70001])
    for (const [reverse, exclusive] of [[false, false], [true, false], [false, true], [true, true]] as const)
      for (const inner of n > 10000 ? [1] : [1, 3])
        it(`${mode} ${n} x ${inner} ${reverse} ${exclusive}`, () => {
          for (const combiner of ['sum', 'prod', 'max'] as const) {
            const x = param(0, [2, n, inner], 'f32')
            const y = makeNode('scan', [x], { combiner, axis: 1, reverse, exclusive })
            const g = { params: [x], outputs: [y], effects: [] }
            const split = boundScans(g, target, mode)
            expect(split).not.toBe(g)
            verifyGraph(split)
            const data = Float32Array.from({ length: 2 * n * inner }, (_, i) => (combiner === 'prod' ? Math.fround(1 + 0.01 * at(i)) : at(i)))
            const rounding = mode === 'strict' ? 'strict' : 'f64'
            const run = (h: Graph) => evaluateGraph(h, [data], { rounding })[0]?.data as Float64Array
            const [a, b] = [run(g), run(split)]
            if (mode === 'strict') expect(Buffer.from(a.buffer).equals(Buffer.from(b.buffer))).toBe(true)
            else for (let i = 0; i < a.length; i++) if (Math.abs((a[i] ?? 0) - (b[i] ?? 0)) > 1e-9) throw new Error(`${i} ${a[i]} ${b[i]}`)
          }
        })
