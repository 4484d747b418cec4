/**
 * Kernels of a graph that start before those they follow have ended: along the edges and the waits, whatever two launches do to
 * the same memory happens in the order of the list. What no tool of the device sees is proved here on the host.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { dependenciesOf, type Touch } from '../../src/backends/cuda/dependencies.ts'
import { CudaDevice } from '../../src/backends/cuda/device.ts'
import { Prepared } from '../../src/backends/cuda/prepared.ts'
import type { KernelSource } from '../../src/codegen/simt/kernel.ts'
import { compileGraph } from '../../src/compile/index.ts'
import { condNodes, loopNodes, whileNodes } from '../../src/compose/control.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph } from '../../src/graph/node.ts'
import * as api from '../../src/index.ts'
import { type Command, commandsOf, overlapping } from '../../src/runtime/commands.ts'
import type { Program } from '../../src/runtime/program.ts'
import { Resources } from '../../src/runtime/resources.ts'
import { cudaTarget } from '../../src/target/cuda.ts'
import type { EarlyStart } from '../../src/target/simt.ts'
import { at, type Input, trace } from '../compile/support.ts'
import { randomGraph } from '../random/graphs.ts'
import { workloads } from '../simt/programs/workloads.ts'
import { nightly, seedsOf, some } from '../support/nightly.ts'
import { fakeDevice } from './fake.ts'

/** What is known of a launch: `early` touches may happen before it has waited. */
interface Node {
  readonly name: string
  readonly waits: boolean
  readonly touches: readonly (Touch & { readonly early: boolean })[]
}

/**
 * Pairs of launches that touch the same memory, one of them writing, and whose order nothing holds. A kernel begins, waits, and
 * ends. Into a kernel that waits edges say only that the other ends before the wait is over, into another that it ends before the
 * kernel begins.
 */
function unordered(nodes: readonly Node[], after: readonly (readonly number[])[]): string[] {
  /** Launches that have ended when a launch has waited, and when it begins. */
  const waited: Set<number>[] = []
  const begun: Set<number>[] = []
  const out: string[] = []
  nodes.forEach((node, i) => {
    const before = at(after, i)
    waited.push(new Set(before.flatMap((j) => [j, ...at(waited, j)])))
    begun.push(node.waits && before.length > 0 ? new Set() : at(waited, i))
    for (const t of node.touches)
      nodes.slice(0, i).forEach((other, j) => {
        const meets = other.touches.some((o) => (o.written || t.written) && overlapping(o.place, t.place))
        if (meets && !at(t.early ? begun : waited, i).has(j))
          out.push(`${j} ${other.name}, ${i} ${node.name}: base ${t.place.base} at ${t.place.offset}`)
      })
  })
  return out
}

/** Whether code declares memory so that loads of it may go before the wait: an argument, or any address of the table. */
const loadsEarly = ({ source, bindings }: KernelSource, param: string): boolean =>
  bindings.some((b) => b.name === param)
    ? new RegExp(`const [\\w ]+\\* __restrict__ ${param}\\b`).test(source)
    : /const [\w ]+\* __restrict__ const \w+ = /.test(source)

const folder = mkdtempSync(join(tmpdir(), 'sinter-'))
afterAll(() => rmSync(folder, { recursive: true }))

interface Found {
  readonly nodes: readonly Node[]
  readonly after: readonly (readonly number[])[]
}

/** The graphs of a program's sections, those inside control flow included. */
function graphsOf(program: Program, earlyStart: EarlyStart = 'work'): Found[] {
  const fake = fakeDevice()
  const device = new CudaDevice(fake.driver.open(0), fake.compiler, { cacheFolder: folder, earlyStart })
  const { bases, commands } = commandsOf(program, { alignment: 16 })
  const addresses = Float64Array.from(bases, (_, i) => (i + 1) * 2 ** 34)
  const prepared = new Prepared(device, addresses, new Set(), new Resources(device.residents))
  prepared.kernels.prepare(commands)
  const out: Found[] = []
  const visit = (list: readonly Command[]): void => {
    const sections = prepared.prepare(list).flatMap((w) => (w.kind === 'section' ? [w.section] : []))
    const steps = list.flatMap((x): Omit<Node, 'waits'>[] => {
      if (x.kind === 'copy')
        return [
          {
            name: 'copy_bytes',
            touches: [
              { place: x.to, written: true, early: true },
              { place: x.from, written: false, early: true },
            ],
          },
        ]
      if (x.kind !== 'launch') return []
      const { source } = prepared.kernels.of(x.step, x.places)
      if (source.programs === 0) return []
      const touches = x.places.map((place, i) => {
        const p = at(x.step.kernel.params, i)
        return { place, written: p.access !== 'read', early: loadsEarly(source, p.name) }
      })
      return [{ name: source.entry, touches }]
    })
    expect(sections.flatMap((s) => s.launches.map((l) => l.name))).toEqual(steps.map((s) => s.name))
    let next = 0
    for (const { launches } of sections) {
      const nodes = launches.map((l): Node => {
        const waits = !('enqueue' in l) && l.waits
        return { ...at(steps, next++), waits }
      })
      out.push({ nodes, after: dependenciesOf(launches.map((l) => l.touches)) })
    }
    for (const x of list) {
      if (x.kind === 'cond') [x.whenTrue, x.whenFalse].forEach(visit)
      if (x.kind === 'while') for (const r of x.rounds) [r.test, r.body, r.finish].forEach(visit)
      if (x.kind === 'repeat') for (const t of [0, 1, 2, x.length - 1]) visit(x.at(t))
    }
  }
  visit(commands)
  device.dispose()
  return out
}

const compiled = (graph: Graph, fuse = true, donated: readonly boolean[] = []): Program =>
  compileGraph(graph, { mode: 'fast', target: cudaTarget, fuse, donated }).program

function check(name: string, program: Program): Found[] {
  const graphs = graphsOf(program)
  for (const { nodes, after } of graphs) expect(unordered(nodes, after), name).toEqual([])
  return graphs
}

const early = (graphs: readonly Found[]): number =>
  graphs.flatMap(({ nodes, after }) => nodes.filter((n, i) => n.waits && at(after, i).length > 0)).length

/** A step of training two layers with AdamW, parameters and state donated. */
const training = (): { graph: Graph; donated: boolean[] } => {
  const shapes = [[64, 128], [128], [128, 32], [32]]
  const specs = Object.fromEntries([
    ...['p', 'm', 'v'].flatMap((k) => shapes.map((shape, i) => [`${k}${i}`, { shape }] as const)),
    ['x', { shape: [256, 64] }],
    ['t', { shape: [256], dtype: 'i32' as const }],
  ])
  const program = api.program(
    (given) => {
      const list = (k: string): api.Tensor[] => shapes.map((_, i) => given[`${k}${i}`] as api.Tensor)
      const { x, t } = given as { x: api.Tensor; t: api.Tensor }
      const [loss, grads] = api.valueAndGrad((p: api.Tensor[]) => {
        const [w = x, b = x, w2 = x, b2 = x] = p
        const h = api.nn.layerNorm(api.nn.gelu(x.matmul(w).add(b)))
        return api.nn.crossEntropy(h.matmul(w2).add(b2), t).mean()
      })(list('p'))
      const state = { step: api.tensor(3, { dtype: 'i32' }), first: list('m'), second: list('v') }
      const next = api.optim.adamw({ learningRate: 1e-3 }).update(grads, state, list('p'))
      return [loss, ...next.params, ...next.state.first, ...next.state.second]
    },
    specs,
    'training',
  )
  const { graph } = program.trace()
  return { graph, donated: graph.params.map((_, i) => i < 3 * shapes.length) }
}

const row: Input = { shape: [7] }

const controlFlow = (): Record<string, Graph> => {
  const square: Input = { shape: [6, 6] }
  const body = trace([square], (p) => c.mul(c.matmul(c.softmax(c.matmul(at(p, 0), at(p, 0)), 0), at(p, 0)), 0.1))
  const scalar: Input = { shape: [], dtype: 'i32' }
  const below = trace([scalar, row], (p) => c.compare('lt', at(p, 0), c.full([], 5, 'i32')))
  const turn = trace([scalar, row], (p) => [c.add(at(p, 0), c.full([], 1, 'i32')), c.flip(at(p, 1), [0])])
  const then = trace([row], (p) => c.exp(c.flip(c.cumsum(at(p, 0), 0), [0])))
  const otherwise = trace([row], (p) => c.neg(at(p, 0)))
  const uneven = trace([{ shape: [3] }, { shape: [3] }], (p) => [c.add(at(p, 0), at(p, 1)), c.flip(at(p, 1), [0])])
  return {
    loop: trace([square], (p) => loopNodes(body, { length: 4 }, [], [c.exp(at(p, 0))], []).carries),
    long: trace([square], (p) => loopNodes(body, { length: 5001 }, [], [c.exp(at(p, 0))], []).carries),
    copies: trace([{ shape: [3] }, { shape: [5, 3] }], (p) => {
      const r = loopNodes(uneven, { length: 5 }, [], [at(p, 0)], [at(p, 1)])
      return [...r.carries, ...r.sequences]
    }),
    while: trace([row], (p) => whileNodes(below, turn, [], [c.full([], 0, 'i32'), c.exp(at(p, 0))])),
    cond: trace([{ shape: [], dtype: 'bool' }, row], (p) => condNodes(at(p, 0), [at(p, 1)], then, otherwise)),
  }
}

describe('the order of what touches the same memory', () => {
  test('holds in workloads, each operation alone too', { timeout: 120_000 }, () => {
    const all = Object.entries(workloads())
    for (const [name, graph] of some(all, 2)) check(name, compiled(graph))
    for (const [name, graph] of some(all, 6)) check(`${name}, unfused`, compiled(graph, false))
  })

  test('holds in a training step', () => {
    const { graph, donated } = training()
    const graphs = check('training', compiled(graph, true, donated))
    expect(early(graphs)).toBeGreaterThan(3)
    if (nightly) check('training, unfused', compiled(graph, false, donated))
  })

  test('holds in control flow, with copies', { timeout: 120_000 }, () => {
    const graphs = Object.entries(controlFlow()).flatMap(([name, graph]) => check(name, compiled(graph)))
    expect(graphs.some(({ nodes }) => nodes.some((n) => n.name === 'copy_bytes'))).toBe(true)
  })

  test('holds in random programs', { timeout: 240_000 }, () => {
    let kernels = 0
    const seeds = seedsOf('SINTER_EARLY', 10, 60)
    for (let seed = 0; seed < seeds; seed++)
      for (const fuse of [true, false]) {
        const graphs = check(`seed ${seed}`, compiled(randomGraph(seed).graph, fuse))
        kernels += early(graphs)
      }
    expect(kernels).toBeGreaterThan((2 / 3) * seeds)
  })

  test('is lost with any edge, and where a kernel reads before it waits', () => {
    const { graph, donated } = training()
    const graphs = graphsOf(compiled(graph, true, donated))
    let edges = 0
    for (const { nodes, after } of graphs) {
      after.forEach((list, i) => {
        for (const j of list) {
          edges++
          const without = after.map((l, k) => (k === i ? l.filter((x) => x !== j) : l))
          expect(unordered(nodes, without).length, `without ${j} before ${i}`).toBeGreaterThan(0)
        }
      })
      const hasty = nodes.map((n) => ({ ...n, touches: n.touches.map((t) => ({ ...t, early: true })) }))
      expect(unordered(hasty, after).length > 0).toBe(after.some((l) => l.length > 0))
    }
    expect(edges).toBeGreaterThan(3)
  })
})

test('devices before 9.0, and those told so, start nothing early', () => {
  const { graph, donated } = training()
  const program = compiled(graph, true, donated)
  expect(early(graphsOf(program, 'never'))).toBe(0)
  expect(early(graphsOf(program, 'exit'))).toBeGreaterThan(0)
  const old = fakeDevice(1 << 30, 89)
  const device = new CudaDevice(old.driver.open(0), old.compiler, { cacheFolder: folder })
  const { bases, commands } = commandsOf(program, { alignment: 16 })
  const prepared = new Prepared(device, new Float64Array(bases.length), new Set(), new Resources(device.residents))
  prepared.kernels.prepare(commands)
  expect(prepared.kernels.waits).toBe(false)
  for (const k of prepared.kernels.all()) expect(k.source.source).not.toContain('wait_for_kernels')
})
