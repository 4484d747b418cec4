/**
 * Issue: a report grows as the program does. A refusal that says the same of many pairs is told once, with their number.
 * Sites looked at: `fuseSiblings` (kernels that are full are told once each), `note` of unions, `mergeEdges`, `tryRecompute`, who prints
 * refusals (text, SVG, HTML, JSON).
 */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Node } from '../../src/graph/node.ts'
import type { FusionReport } from '../../src/report/data.ts'
import { formatReport } from '../../src/report/format.ts'
import { reportPage } from '../../src/report/html.ts'
import { reportPicture } from '../../src/report/svg.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { trace } from '../compile/support.ts'
import { turn } from '../support/nightly.ts'

const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const programs: Readonly<Record<string, (x: Node, i: number) => Node>> = {
  products: (x, i) => c.mul(x, i + 1),
  sums: (x, i) => c.sum(c.add(x, i + 1)),
  exponentials: (x, i) => c.exp(c.mul(x, i + 1)),
}

// By day each on one of the targets.
describe('reports of programs of many outputs', () => {
  for (const [i, target] of [wasmTarget, cudaTarget, webgpuTarget()].entries())
    for (const [name, output] of turn(Object.entries(programs), i)) {
      const reportOf = (n: number): FusionReport =>
        compileGraph(
          trace([{ shape: [64] }], (p) => range(n).flatMap((i) => p.map((x) => output(x, i)))),
          { mode: 'fast', target },
        ).report
      test(`${name} for ${target.name}`, () => {
        const [few, many] = [reportOf(300), reportOf(1200)]
        expect(JSON.stringify(many).length).toBeLessThan(5 * JSON.stringify(few).length)
        for (const r of [few, many]) {
          const told = r.refused.map(({ from, to, code, detail }) => [from, to, code, detail].join())
          expect(new Set(told).size).toBe(told.length)
          expect(told.length).toBeLessThanOrEqual(20)
        }
        const pairs = (r: FusionReport): number => r.refused.reduce((n, f) => n + f.count, 0)
        expect(pairs(many)).toBeLessThan(6 * (pairs(few) + 1))
      })
    }
})

test('what is said of several pairs is told with their number, everywhere', () => {
  const report = compileGraph(
    trace([{ shape: [64] }], (p) => range(1600).flatMap((i) => p.map((x) => c.mul(x, i + 1)))),
    { mode: 'fast', target: cudaTarget },
  ).report
  const most = report.refused.find((f) => f.count > 1)
  expect(most).toBeDefined()
  const times = `${most?.count} times`
  expect(formatReport(report)).toContain(times)
  expect(reportPicture(report, { alone: true })).toContain(times)
  expect(reportPage(report)).toContain(`<td class="number">${most?.count}</td>`)
  expect(JSON.parse(JSON.stringify(report)).refused).toEqual(report.refused)
})
