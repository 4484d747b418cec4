/** Refusals that are told before a body is built: those of the body, in its words, and nothing where another reason may come first. */
import { describe, expect, test } from 'vitest'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { topologicalOrder } from '../../src/graph/traverse.ts'
import { analyse } from '../../src/plan/axes/analyse.ts'
import { foreseen } from '../../src/plan/axes/foreseen.ts'
import { plannedBody } from '../../src/plan/axes/plannedBody.ts'
import { buildBody } from '../../src/plan/body/buildBody.ts'
import { isFree, type Region } from '../../src/plan/body/region.ts'
import type { Refused } from '../../src/plan/refusal.ts'
import { rewriteGraph } from '../../src/rewrite/index.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import { at, trace } from '../compile/support.ts'

/** All that a graph computes as one kernel. */
function regionOf(graph: Graph): Region {
  const { outputs } = rewriteGraph(graph, { mode: 'fast' }).graph
  const members = topologicalOrder(outputs).filter((n) => n.op !== 'param' && !isFree(n))
  return { members: new Set(members), outputs }
}

/** Why a region's body is none, or no kernel of a target computes it. */
function refusalOf(region: Region, target: Machine): Refused | undefined {
  const built = buildBody(region, { most: target.maxStatements, isInside: target.undivided !== undefined })
  if (!built.ok) return built
  const analysed = analyse(plannedBody(built.body, target, 'fast').body, target, 'fast')
  return analysed.ok ? undefined : analysed
}

interface Windows {
  readonly image?: number
  readonly taps?: number
  readonly padding?: number
  readonly stride?: number
  readonly dilation?: number
}

const channels = 12

/** A product over channels, and windows of each of its channels. */
const windowsOfProduct = ({ image = 14, taps = 3, ...how }: Windows, dtype: DType = 'f32'): Graph =>
  trace(
    [
      { shape: [1, 8, image, image], dtype },
      { shape: [channels, 8, 1, 1], dtype },
      { shape: [channels, 1, taps, taps], dtype },
    ],
    (p) => c.conv(c.relu(c.conv(at(p, 0), at(p, 1))), at(p, 2), { ...how, groups: channels }),
  )

/** Windows of each channel, and a product over channels of what `between` makes of them. */
const productOfWindows = (image: number, between: (x: Node) => Node, dtype: DType = 'f32'): Graph =>
  trace(
    [
      { shape: [1, channels, image, image], dtype },
      { shape: [channels, 1, 3, 3], dtype },
      { shape: [16, channels, 1, 1], dtype },
    ],
    (p) => c.conv(between(c.conv(at(p, 0), at(p, 1), { padding: 1, groups: channels })), at(p, 2)),
  )

const matrices = (build: (x: Node, w: Node) => Node | Node[], dtype: DType = 'f32'): Graph =>
  trace(
    [
      { shape: [33, 48], dtype },
      { shape: [48, 20], dtype },
    ],
    (p) => build(at(p, 0), at(p, 1)),
  )

const rows = (x: Node): Node => c.div(x, c.sum(c.exp(x), 1, true))

const told: readonly [string, string, Graph][] = [
  ['windows over a product', 'reduction-recomputed', windowsOfProduct({ padding: 1 })],
  ['the same of an odd image', 'reduction-recomputed', windowsOfProduct({ image: 13, taps: 5, padding: 2 })],
  ['without padding', 'reduction-recomputed', windowsOfProduct({})],
  ['in steps of two', 'reduction-recomputed', windowsOfProduct({ image: 29, padding: 1, stride: 2 })],
  ['of 16 bits', 'reduction-recomputed', windowsOfProduct({ padding: 1 }, 'f16')],
  ['a product over windows', 'reduction-in-prologue', productOfWindows(14, (x) => c.relu(x))],
  ['the same of few positions', 'reduction-in-prologue', productOfWindows(7, (x) => c.mul(x, c.sigmoid(x)))],
  ['of half precision', 'reduction-in-prologue', productOfWindows(9, (x) => x, 'f16')],
  ['a product of normalised rows', 'reduction-in-prologue', matrices((x, w) => c.matmul(rows(x), w))],
  ['of two folds', 'reduction-in-prologue', matrices((x, w) => c.matmul(rows(rows(x)), w))],
  ['with something behind it', 'reduction-in-prologue', matrices((x, w) => c.exp(c.matmul(rows(x), w)))],
]

/** What a body may be refused for otherwise, or not at all. */
const untold: readonly [string, Graph][] = [
  ['windows apart', windowsOfProduct({ image: 30, stride: 3 })],
  ['windows whose elements never meet', windowsOfProduct({ image: 31, dilation: 2, stride: 3 })],
  ['windows that few results are made of', windowsOfProduct({ image: 7, padding: 1 })],
  ['a fold behind a product', matrices((x, w) => c.sum(c.matmul(x, w), 1))],
  ['folds before and behind a product', matrices((x, w) => c.sum(c.matmul(rows(x), w), 1))],
  ['a fold beside a product', matrices((x, w) => [c.matmul(rows(x), w), rows(x)])],
  ['a product with a vector', matrices((x, w) => c.matmul(rows(x), c.sum(w, 1, true)))],
  ['two products', matrices((x, w) => c.matmul(c.matmul(rows(x), w), c.permute(w, [1, 0])))],
  ['rows that are regrouped', matrices((x, w) => c.matmul(c.reshape(rows(x), [66, 24]), c.sliceAxis(w, 0, 0, 24)))],
]

describe.each([wasmTarget, cudaTarget])('on $name', (target) => {
  test.each(told)('%s', (_, code, graph) => {
    const region = regionOf(graph)
    const found = foreseen(region, target)
    expect(found?.code).toBe(code)
    const { ok, detail } = refusalOf(region, target) ?? { ok: true }
    expect({ ok, code, detail }).toEqual(found)
  })

  test.each(untold)('nothing of %s', (_, graph) => {
    expect(foreseen(regionOf(graph), target)).toBeUndefined()
  })

  test('nothing where statements or buffers may be too many', () => {
    const region = regionOf(matrices((x, w) => c.matmul(rows(x), w)))
    expect(foreseen(region, { ...target, maxStatements: 8 })).toBeUndefined()
    expect(foreseen(region, { ...target, maxBuffers: 4 })).toBeUndefined()
  })
})
