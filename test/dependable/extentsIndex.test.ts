/**
 * Index arithmetic over values that are never stored and have more points than 32 bits count: what WebAssembly, whose positions have 32
 * bits, cannot count it refuses before it runs, and index expressions stay exact up to 2^53. Sites: src/affine/expr.ts (`div`, `mul`,
 * `flatten`), src/plan/body/collapse.ts (axes that are joined), src/codegen/wasm/kernel.ts (`compileModule`), src/kernel/beyond32.ts.
 */
import { describe, expect, test } from 'vitest'
import * as ix from '../../src/affine/expr.ts'
import { compileModule } from '../../src/codegen/wasm/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import { UserError } from '../../src/diagnostics/errors.ts'
import type { Graph } from '../../src/graph/node.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { trace } from '../compile/support.ts'

/** The axes of a program's kernels; its code for WebAssembly, or why there is none. */
function codeOf(graph: Graph): string {
  try {
    const { program } = compileGraph(graph, { mode: 'fast', target: wasmTarget })
    const kernels = program.steps.flatMap((s) => (s.kind === 'kernel' ? [s.kernel] : []))
    const axes = kernels.flatMap((k) => k.parts.map((p) => p.axes.map((a) => a.extent).join('x'))).join(' ')
    const jobs = kernels.map((kernel, i) => ({ kernel, name: `k${i}`, mayAlias: () => false }))
    const { bytes } = compileModule(jobs, {
      machine: wasmTarget,
      relaxed: false,
      memory: { min: 1, max: 65535, shared: false },
    })
    return `${axes}: ${WebAssembly.validate(new Uint8Array(bytes)) ? 'valid' : 'broken'}`
  } catch (e) {
    if (!(e instanceof UserError)) throw e
    return `${e.code} ${e.summary}`
  }
}

describe('WebAssembly', () => {
  const most = (n: number): Graph => trace([], () => c.reduceMax(c.add(c.iota([n], 0, 'f32'), 1)))
  test('counts to below 2^31 and refuses what is beyond', () => {
    const found = [2 ** 30, 2 ** 31 - 1, 2 ** 31, 2 ** 32 + 7].map((n) => codeOf(most(n)))
    expect(found).toMatchInlineSnapshot(`
      [
        "1073741824 1024: valid",
        "E_UNSUPPORTED add gives f32[2147483647], whose positions do not fit the 32 bits that kernels of the target wasm count with",
        "E_UNSUPPORTED add gives f32[2147483648], whose positions do not fit the 32 bits that kernels of the target wasm count with",
        "E_UNSUPPORTED add gives f32[4294967303], whose positions do not fit the 32 bits that kernels of the target wasm count with",
      ]
    `)
    const windows = trace([{ shape: [2 ** 17] }], ([x]) => (x ? c.reduceMax(c.slidingWindow(x, 0, 2 ** 16)) : []))
    expect(codeOf(windows)).toMatchInlineSnapshot(`"65537x65536 1009: valid"`)
    const grid = trace([{ shape: [1] }], ([x]) =>
      x ? c.reduceMax(c.add(c.broadcastTo(x, [2 ** 17, 2 ** 16]), c.iota([2 ** 17, 2 ** 16], 1, 'f32'))) : [],
    )
    expect(codeOf(grid)).toMatchInlineSnapshot(`"131072x65536 1024: valid"`)
  })
})

describe('index expressions', () => {
  test('are exact where products of extents would not be', () => {
    // floor(((2^50 - 1) x + floor(y / g)) / 2^51): one quotient by 2^51 g would be of numbers beyond 2^53.
    const g = 2 ** 20 + 1
    const inner = ix.div(ix.axis('y', 2 ** 40), g)
    const e = ix.div(ix.add(ix.mul(ix.axis('x', 8), 2 ** 50 - 1), inner), 2 ** 51)
    for (let x = 0; x < 8; x++)
      for (let k = 1; k < 12; k++)
        for (const y of [k * g - 1, k * g]) {
          const exact = (BigInt(x) * (2n ** 50n - 1n) + BigInt(y) / BigInt(g)) / 2n ** 51n
          const found = ix.evaluate(
            e,
            (name) => (name === 'x' ? x : y),
            () => 0,
          )
          expect(BigInt(found)).toBe(exact)
        }
    // Small ones are one quotient still.
    const small = ix.div(ix.add(ix.mul(ix.axis('x', 8), 5), ix.div(ix.axis('y', 64), 7)), 3)
    expect(small.key).toBe('(14*x+y)/21+x')
  })
})
