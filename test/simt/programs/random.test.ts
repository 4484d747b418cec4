/**
 * Seeded random programs through the compiler and the WGSL lowering, on a software adapter: equal to the reference within each
 * program's own bound. SINTER_SIMT_PROGRAMS sets how many, SINTER_SIMT_FIRST where they start.
 */
import { beforeAll, describe, expect, test } from 'vitest'
import { compileGraph } from '../../../src/compile/index.ts'
import { evaluateGraph, toHostArray } from '../../../src/reference/evaluate.ts'
import type { Machine } from '../../../src/target/machine.ts'
import { webgpuTarget } from '../../../src/target/webgpu.ts'
import { allDTypes } from '../../../src/types/dtype.ts'
import { difference } from '../../random/execute.ts'
import { randomGraph } from '../../random/graphs.ts'
import { nightly } from '../../support/nightly.ts'
import { type Adapter, openDevice } from '../dialects/wgsl.ts'
import { executeWgsl } from './programs.ts'

const count = Number(process.env.SINTER_SIMT_PROGRAMS ?? (nightly ? 60 : 30))
const first = Number(process.env.SINTER_SIMT_FIRST ?? 0)
const perTest = 10

/** Blocks small enough that small tensors have tails and several programs. */
const smallBlocks: Machine = {
  ...webgpuTarget({ storageBuffers: 12 }),
  elementBlock: 40,
  dotBlock: { m: 8, n: 16, k: 5 },
  minPrograms: 6,
}

let machine: Adapter | string
beforeAll(async () => {
  machine = await openDevice()
})

describe('random programs on WGSL', () => {
  for (let from = first; from < first + count; from += perTest) {
    test(`seeds ${from} to ${Math.min(from + perTest, first + count) - 1}`, async ({ skip }) => {
      skip(typeof machine === 'string', String(machine))
      if (typeof machine === 'string') return
      for (let seed = from; seed < Math.min(from + perTest, first + count); seed++) {
        const p = randomGraph(seed, { dtypes: allDTypes.filter((d) => d !== 'f64'), maxElements: 300 })
        const expected = evaluateGraph(p.graph, p.inputs, { rounding: 'dtype' }).map(toHostArray)
        const target = seed % 2 === 0 ? smallBlocks : webgpuTarget({ storageBuffers: 12 })
        const mode = seed % 5 === 4 ? 'strict' : 'fast'
        const { program } = compileGraph(p.graph, { mode, target, verify: true })
        const got = await executeWgsl(machine, program, p.inputs, { subgroups: seed % 3 === 0 })
        expected.forEach((e, i) => {
          const a = got[i]
          const dtype = p.graph.outputs[i]?.dtype ?? 'f32'
          const why = a === undefined ? 'no result' : difference(a, e, dtype, p.tolerances[i] ?? 0)
          expect(why, `seed ${seed}, ${mode}, output ${i}`).toBeUndefined()
        })
      }
    })
  }
})
