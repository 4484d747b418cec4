/** Windows of convolutions in groups: a reshape apart, and whatever layout the image stands in, one load at plain positions under its padding. */
import { describe, expect, test } from 'vitest'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { at, trace } from '../compile/support.ts'

const layouts: readonly [string, readonly number[], readonly number[]][] = [
  ['first', [0, 1, 2, 3], [0, 1, 2, 3]],
  ['last', [0, 3, 1, 2], [0, 2, 3, 1]],
  ['between', [0, 2, 1, 3], [0, 2, 1, 3]],
]

describe.each([wasmTarget, cudaTarget])('on $name', (target) => {
  test.each(layouts)('channels %s: no position is divided', (_, there, back) => {
    const shape = [2, 12, 9, 7]
    const stored = back.map((d) => shape[d] ?? 1)
    const graph = trace([{ shape: stored }, { shape: [12, 1, 3, 3] }], (p) =>
      c.permute(c.conv(c.permute(at(p, 0), there), at(p, 1), { padding: 1, groups: 12 }), back),
    )
    const { program } = compileGraph(graph, { mode: 'fast', target, verify: true })
    const loads = program.steps.flatMap((s) =>
      s.kind === 'kernel'
        ? s.kernel.parts.flatMap((p) => p.body.flatMap((t) => (t.kind === 'let' && t.op.kind === 'load' ? [t.op] : [])))
        : [],
    )
    const image = loads.filter((l) => l.index.length === 4 && l.mask.length > 0)
    expect(image.length).toBeGreaterThan(0)
    for (const { index } of image)
      for (const { terms } of index) expect(terms.map((t) => t.atom.kind).filter((k) => k !== 'axis')).toEqual([])
  })
})
