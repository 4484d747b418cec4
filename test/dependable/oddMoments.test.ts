/**
 * Variances and normalisations of rows and columns of odd lengths, of values far from zero, and of equal values, on WebAssembly and as thread
 * code in both languages. Moments are shifted, so that a variance is as exact near 10^6 as near 0; a normalised value errs by what the rounding of
 * its mean does. Sites: c.variance, c.layerNorm, c.groupNorm, c.batchNormTraining, over the last axis, the first and a middle one; a row in registers,
 * in parts, in programs of their own, streamed.
 */
import { describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import * as c from '../../src/compose/index.ts'
import { param, withContext } from '../../src/graph/build.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import { webgpuTarget } from '../../src/target/webgpu.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { execute } from '../random/execute.ts'
import { makeRng } from '../random/rng.ts'
import { nightly, some } from '../support/nightly.ts'
import { compileAll, faults, type Held, testOnHost, testOnSoftwareGpu } from './devices.ts'

interface Case {
  readonly name: string
  readonly shape: readonly number[]
  /** Axes that are normalised over. */
  readonly axes: readonly number[]
  readonly build: (x: Node) => Node
  /** Whether it gives one variance for each row, not values. */
  readonly isVariance: boolean
}

/** How far values lie from zero, and how far apart they are: whole numbers apart by 1/8 at least, which f32 holds up to 2^20. */
interface Given {
  readonly far: number
  readonly spread: number
}

const variance = (shape: readonly number[], ...axes: number[]): Case => ({
  name: 'variance',
  shape,
  axes,
  build: (x) => c.variance(x, axes),
  isVariance: true,
})
const normalised = (name: string, shape: readonly number[], axes: readonly number[], build: Case['build']): Case => ({
  name,
  shape,
  axes,
  build,
  isVariance: false,
})

const cases: readonly Case[] = [
  variance([3, 1021], 1),
  variance([1021, 3], 0),
  variance([1, 16_411], 1),
  variance([16_411], 0),
  variance([257, 33], 0, 1),
  variance([5, 131, 7], 1),
  variance([2, 3, 5, 7, 11], 0, 2, 4),
  variance([1, 2], 1),
  normalised('layerNorm', [7, 33], [1], (x) => c.layerNorm(x)),
  normalised('layerNorm', [3, 4099], [1], (x) => c.layerNorm(x)),
  normalised('groupNorm', [3, 6, 47], [1, 2], (x) => c.groupNorm(x, 1)),
  normalised('batchNormTraining', [13, 5, 29], [0, 2], (x) => c.batchNormTraining(x).output),
  normalised('batchNormTraining', [1, 3, 4097], [0, 2], (x) => c.batchNormTraining(x).output),
]

const graphOf = ({ shape, build }: Case): Graph =>
  withContext(() => {
    const x = param(0, shape, 'f32')
    return { params: [x], outputs: [build(x)], effects: [] }
  })

/** For each element the number of its row, and for each row the numbers of its elements. */
function rowsOf({ shape, axes }: Case): readonly number[][] {
  const rows = new Map<string, number[]>()
  for (let i = 0; i < sizeOf(shape); i++) {
    let rest = i
    const at = shape.map(() => 0)
    for (let d = shape.length - 1; d >= 0; d--) {
      const n = shape[d] ?? 1
      at[d] = rest % n
      rest = Math.floor(rest / n)
    }
    const key = at.filter((_, d) => !axes.includes(d)).join()
    const row = rows.get(key)
    if (row === undefined) rows.set(key, [i])
    else row.push(i)
  }
  return [...rows.values()]
}

const epsilon = 1e-5

const held: Held<Case, Given> = {
  given: function* () {
    for (const far of some([0, -1e5, 1e6], 2)) for (const spread of [0, 1]) yield { far, spread }
  },
  valuesOf: ({ shape }, { far, spread }) => {
    const rng = makeRng(7)
    return Float32Array.from({ length: sizeOf(shape) }, () => far + (spread * rng.int(-8, 8)) / 8)
  },
  faultOf: (of, mode, { far, spread }, data, got) => {
    for (const [r, row] of rowsOf(of).entries()) {
      const x = row.map((i) => Number(data[i]))
      const mean = x.reduce((t, y) => t + y, 0) / x.length
      const exact = x.reduce((t, y) => t + (y - mean) ** 2, 0) / x.length
      const what = `${of.name} of [${of.shape.join(', ')}] over [${of.axes.join(', ')}], ${mode}, ${spread} around ${far}, row ${r}`
      // 4 log2(n) 2^-24, of values and of what the mean is rounded by.
      const unit = 4 * Math.log2(x.length + 1) * 2 ** -24
      if (of.isVariance) {
        const v = Number(got[r])
        if (!(Math.abs(v - exact) <= 8 * unit * exact + (2 ** -24 * mean) ** 2)) return `${what}: ${v}, not ${exact}`
        continue
      }
      const deviation = Math.sqrt(exact + epsilon)
      for (const [k, i] of row.entries()) {
        const want = ((x[k] ?? 0) - mean) / deviation
        const y = Number(got[i])
        const room = (8 * unit + 2 ** -20) * (1 + Math.abs(want)) + (unit * Math.abs(mean)) / deviation
        if (!(Math.abs(y - want) <= room)) return `${what}, element ${k}: ${y}, not ${want} (bound ${room})`
      }
    }
    return undefined
  },
}

test('WebAssembly', async () => {
  const all = compileAll(cases, graphOf, wasmTarget)
  const backend = createWasmBackend({ threads: 2, shareAbove: 0 })
  const graphs = new Map(all.map((k) => [k.program, graphOf(k.of)]))
  const none: Graph = { params: [], outputs: [], effects: [] }
  const fault = await faults(all, held, (p, x) =>
    Promise.resolve(execute(backend, p, { inputs: [x], graph: graphs.get(p) ?? none, tolerances: [] })),
  )
  backend.dispose()
  expect(fault).toEqual([])
})

describe('thread code', () => {
  testOnHost(() => compileAll(some(cases, 2), graphOf, cudaTarget), held)
  // A shader takes the software GPU seconds to compile: every other case, by day every tenth.
  const few = cases.filter((_, i) => i % (nightly ? 2 : 10) === 1)
  testOnSoftwareGpu(() => compileAll(few, graphOf, webgpuTarget(), ['fast']), held)
})
