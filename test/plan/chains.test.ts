/** Chains of two contractions as one kernel, over random scores, masks, weights, orders of axes and dtypes; and what is no chain, with its reason. */
import { describe, expect, test } from 'vitest'
import { createWasmBackend } from '../../src/backends/wasm/backend.ts'
import { compileGraph } from '../../src/compile/index.ts'
import * as c from '../../src/compose/index.ts'
import type { Graph, Node } from '../../src/graph/node.ts'
import { printKernel } from '../../src/kernel/print.ts'
import { evaluateGraph, toHostArray } from '../../src/reference/evaluate.ts'
import { readElement } from '../../src/scalar/host.ts'
import type { Machine } from '../../src/target/machine.ts'
import { wasmTarget } from '../../src/target/wasm.ts'
import type { DType } from '../../src/types/dtype.ts'
import type { HostArray } from '../../src/types/host.ts'
import { sizeOf } from '../../src/types/shape.ts'
import { at, type Input, trace } from '../compile/support.ts'
import { dataOf, random } from '../support/alike.ts'
import { interpretProgram } from '../support/interpretProgram.ts'
import { seedsOf } from '../support/nightly.ts'
import { hidden, key, query, type Score } from '../support/scores.ts'

/** Blocks so small that short rows are several. */
const small: Machine = { ...wasmTarget, minPrograms: 1, chains: { rows: 8, shared: 8, width: 64 } }
/** The same where a program is a small share of the machine: the shared axis is cut into parts, however short it is. */
const cut: Machine = {
  ...small,
  chains: { rows: 8, shared: 4, width: 64 },
  minPrograms: 64,
  launch: 1e-12,
  programShare: { moving: 1 / 64, computing: 1 / 64 },
}
const backend = createWasmBackend({ threads: 1 })

const tolerances: Partial<Record<DType, number>> = { f32: 2e-5, bf16: 2e-2, f16: 4e-3 }

function expectAlike(
  got: readonly HostArray[],
  want: readonly HostArray[],
  graph: Graph,
  loose: number,
  what: string,
): void {
  want.forEach((w, o) => {
    const dtype = graph.outputs[o]?.dtype ?? 'f32'
    // Chains skip the rounding of the first product to half precision, which the reference makes: it moves sums by their terms' magnitudes.
    const sizes = Array.from({ length: w.length }, (_, i) => Math.abs(Number(readElement(w, dtype, i))))
    const scale = loose > 1e-3 ? Math.max(...sizes.filter(Number.isFinite)) : 0
    for (let i = 0; i < w.length; i++) {
      const [a, e] = [Number(readElement(at(got, o), dtype, i)), Number(readElement(w, dtype, i))]
      if (!(Object.is(a, e) || Math.abs(a - e) <= loose * (1 + Math.max(scale, Math.abs(e)))))
        expect.fail(`${what}: output ${o} is ${a} at ${i}, not ${e}`)
    }
  })
}

/** Compiles and runs a graph in the interpreter and in WebAssembly; both agree with the reference. */
function run(graph: Graph, seed: number, target: Machine, dtype: DType = 'f32'): ReturnType<typeof compileGraph> {
  const compiled = compileGraph(graph, { mode: 'fast', target, verify: true })
  const inputs = dataOf(graph, seed, 2)
  const loose = tolerances[dtype] ?? 0
  const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
  expectAlike(interpretProgram(compiled.program, inputs, 'dtype', graph.outputs), want, graph, loose, 'interpreted')
  const executable = backend.prepare(compiled.program)
  const bound = inputs.map((data) => {
    const b = backend.alloc(data.byteLength)
    backend.write(b, data)
    return b
  })
  const outputs = executable.run(bound)
  const got = outputs.map((b, i) => backend.readSync(b, at(graph.outputs, i).dtype, sizeOf(at(graph.outputs, i).shape)))
  expectAlike(got, want, graph, loose, 'in WebAssembly')
  executable.dispose()
  return compiled
}

/** One kernel, which moves its operands and results alone. */
function expectOne({ report }: ReturnType<typeof compileGraph>, graph: Graph): void {
  expect(report.kernels.map((k) => k.kind)).toEqual(['chain'])
  const bytes = (nodes: readonly Node[]): number =>
    nodes.reduce((n, x) => n + sizeOf(x.shape) * (x.dtype === 'f32' ? 4 : x.dtype === 'bool' ? 1 : 2), 0)
  expect(report.totals.bytes).toBeLessThanOrEqual(bytes([...graph.params, ...graph.outputs]))
}

const scores: Record<string, Score> = {
  plain: (s) => s,
  scaled: (s) => c.mul(s, 0.3),
  capped: (s) => c.mul(c.tanh(c.div(s, 3)), 3),
  sloped: (s, [slope]) => c.add(s, c.mul(c.cast(c.sub(key(s), query(s)), 'f32'), c.expandDims(slope as Node, [1, 2]))),
  biased: (s, [, bias]) => c.add(s, bias as Node),
  powers: (s) => c.mul(s, Math.LN2),
}

const masks: Record<string, Score> = {
  none: (s) => s,
  causal: (s) => c.where(c.compare('le', key(s), query(s)), s, hidden),
  offset: (s) => c.where(c.compare('lt', c.add(key(s), 2), query(s)), s, hidden),
  window: (s) =>
    c.where(c.logicalAnd(c.compare('le', key(s), query(s)), c.compare('gt', key(s), c.sub(query(s), 5))), s, hidden),
  additive: (s) => c.add(s, c.where(c.compare('ge', key(s), query(s)), c.full(s.shape, 0, 'f32'), hidden)),
  finite: (s) => c.add(s, c.where(c.compare('le', key(s), query(s)), c.full(s.shape, 0, 'f32'), -1e9)),
  data: (s, [, , seen]) => c.where(c.expandDims(seen as Node, [0, 1]), s, hidden),
  prefix: (s) => c.where(c.logicalOr(c.compare('le', key(s), query(s)), c.compare('lt', key(s), 4)), s, hidden),
}

const weights: Record<string, (s: Node) => Node> = {
  softmax: (s) => c.softmax(s, -1),
  byHand: (s) => {
    const e = c.exp(c.sub(s, c.reduceMax(s, -1, true)))
    return c.mul(e, c.div(1, c.sum(e, -1, true)))
  },
  unnormalised: (s) => c.exp(c.sub(s, c.reduceMax(s, -1, true))),
  finiteAnchor: (s) => {
    const m = c.reduceMax(s, -1, true)
    const e = c.exp(c.sub(s, c.where(c.unary('isinf', m), 0, m)))
    return c.div(e, c.add(c.sum(e, -1, true), 1e-6))
  },
  oneMore: (s) => {
    const m = c.max(c.reduceMax(s, -1, true), 0)
    const e = c.exp(c.sub(s, m))
    return c.div(e, c.add(c.sum(e, -1, true), c.exp(c.neg(m))))
  },
  twice: (s) => {
    const m = c.reduceMax(s, -1, true)
    return c.exp(c.mul(c.sub(s, m), 2))
  },
  noAnchor: (s) => {
    const e = c.exp(c.min(s, 5))
    return c.div(e, c.add(c.sum(e, -1, true), 1e-3))
  },
  sigmoid: (s) => c.sigmoid(s),
  squares: (s) => c.square(c.relu(s)),
}

interface Case {
  readonly graph: Graph
  readonly keys: number
  readonly what: string
  readonly dtype: DType
}

const pick = <T>(of: Readonly<Record<string, T>>, next: () => number): readonly [string, T] =>
  at(Object.entries(of), Math.floor(next() * Object.keys(of).length))

/** A chain by a seed: scores between a query and keys, hidden by a mask, weighing values. */
function caseOf(seed: number): Case {
  const next = random(seed)
  const size = (from: number, to: number): number => from + Math.floor(next() * (to - from + 1))
  const [batch, heads, queries, keys] = [size(1, 2), size(1, 3), size(4, 19), size(5, 27)]
  const [width, out] = [size(4, 13), size(4, 12)]
  const [scoreName, score] = pick(scores, next)
  const [maskName, mask] = pick(masks, next)
  const [weightName, weight] = pick(weights, next)
  const last = next() < 0.3
  const dtype: DType = next() < 0.7 ? 'f32' : next() < 0.7 ? 'bf16' : 'f16'
  const gated = next() < 0.3
  const shape = (n: number, d: number): Input => ({ shape: last ? [batch, n, heads, d] : [batch, heads, n, d], dtype })
  const inputs: Input[] = [
    shape(queries, width),
    shape(keys, width),
    shape(keys, out),
    { shape: [heads] },
    { shape: [heads, queries, keys] },
    { shape: [queries, keys], dtype: 'bool' },
    { shape: [batch, heads, queries, out] },
  ]
  const graph = trace(inputs, (p) => {
    const [q, k, v] = p.slice(0, 3).map((x) => (last ? c.permute(x, [0, 2, 1, 3]) : x)) as [Node, Node, Node]
    const extra = p.slice(3)
    const s = c.cast(c.matmul(q, c.permute(k, [0, 1, 3, 2])), 'f32')
    const w = weight(mask(score(s, extra), extra))
    const y = c.matmul(c.cast(w, dtype), v)
    return gated ? c.mul(c.cast(y, 'f32'), c.sigmoid(at(p, 6))) : y
  })
  return {
    graph,
    keys,
    dtype,
    what: `${dtype} ${scoreName}, ${maskName}, ${weightName}, [${batch}, ${heads}, ${queries}, ${keys}]`,
  }
}

describe('chains of contractions', () => {
  const seeds = seedsOf('SINTER_SEEDS', 20, 60)
  test.each(Array.from({ length: seeds }, (_, i) => i))('seed %i is one kernel', (seed) => {
    const { graph, what, dtype } = caseOf(seed)
    const compiled = run(graph, seed, small, dtype)
    expect([what, compiled.report.kernels.map((k) => k.kind)]).toEqual([what, ['chain']])
  })

  test.each(Array.from({ length: seeds }, (_, i) => i))('seed %i in parts of the shared axis', (seed) => {
    const { graph, keys, what, dtype } = caseOf(seed)
    const { report } = run(graph, seed, cut, dtype)
    // A part has two steps of four.
    const stages = keys > 8 ? 1 : 0
    expect([what, report.kernels.map((k) => [k.kind, k.stages.length])]).toEqual([what, [['chain', stages]]])
  })
})

describe('parts of the shared axis', () => {
  test('other results behind the loop, and a statistic beside them', () => {
    const graph = trace(three, ([q, k, v]) => {
      const s = scored(q as Node, k as Node)
      const m = c.reduceMax(s, 1, true)
      const sum = c.sum(c.exp(c.sub(s, m)), 1, true)
      return [c.rmsNorm(c.matmul(c.div(c.exp(c.sub(s, m)), sum), v as Node)), c.add(c.log(sum), m)]
    })
    expect(run(graph, 4, cut).report.kernels.map((k) => [k.kind, k.stages.length])).toEqual([['chain', 1]])
  })

  test('gates and residuals that the finishing stage reads', () => {
    const graph = trace([...three, { shape: [40, 16] }], ([q, k, v, g]) => {
      const y = c.matmul(c.softmax(scored(q as Node, k as Node), 1), v as Node)
      return c.add(c.mul(y, c.sigmoid(g as Node)), g as Node)
    })
    expect(run(graph, 7, cut).report.kernels.map((k) => [k.kind, k.stages.length])).toEqual([['chain', 1]])
  })

  test('the same bits at every run, whatever the order of programs', () => {
    const graph = chainOf((s) => c.softmax(s, 1))
    const { program } = compileGraph(graph, { mode: 'fast', target: cut, verify: true })
    const inputs = dataOf(graph, 9, 2)
    const [first] = interpretProgram(program, inputs, 'dtype', graph.outputs)
    const executable = backend.prepare(program)
    const bound = inputs.map((data) => {
      const b = backend.alloc(data.byteLength)
      backend.write(b, data)
      return b
    })
    const once = (): HostArray =>
      backend.readSync(at(executable.run(bound), 0), 'f32', sizeOf(at(graph.outputs, 0).shape))
    expect(once()).toEqual(once())
    expectAlike([once()], [at([first], 0) as HostArray], graph, 2e-6, 'by the interpreter')
    executable.dispose()
  })

  test('many programs, or a short shared axis, are not cut', () => {
    const busy: Machine = { ...cut, programShare: { moving: 1 / 4, computing: 1 / 4 } }
    const graph = trace([{ shape: [8, 40, 16] }, { shape: [8, 48, 16] }, { shape: [8, 48, 16] }], ([q, k, v]) =>
      c.attention(q as Node, k as Node, v as Node),
    )
    expect(run(graph, 3, busy).report.kernels.map((k) => [k.kind, k.stages.length])).toEqual([['chain', 0]])
    const short = trace([{ shape: [9, 4] }, { shape: [7, 4] }, { shape: [7, 5] }], ([q, k, v]) =>
      c.attention(q as Node, k as Node, v as Node),
    )
    expect(run(short, 3, cut).report.kernels.map((k) => [k.kind, k.stages.length])).toEqual([['chain', 0]])
  })
})

/** Queries, keys and values [rows, width]. */
const three: Input[] = [{ shape: [40, 16] }, { shape: [48, 16] }, { shape: [48, 16] }]
const scored = (q: Node, k: Node): Node => c.matmul(q, c.permute(k, [1, 0]))
const chainOf = (weight: (s: Node) => Node): Graph =>
  trace(three, ([q, k, v]) => c.matmul(weight(scored(q as Node, k as Node)), v as Node))

describe('what a chain moves', () => {
  test('attention reads its operands and writes its results', () => {
    const graph = trace(three, ([q, k, v]) =>
      c.attention(q as Node, k as Node, v as Node, { softcap: 5, causal: true }),
    )
    expectOne(run(graph, 1, small), graph)
  })

  test('heads that share keys', () => {
    const graph = trace([{ shape: [2, 6, 9, 8] }, { shape: [2, 2, 17, 8] }, { shape: [2, 2, 17, 5] }], ([q, k, v]) =>
      c.attention(q as Node, k as Node, v as Node),
    )
    expectOne(run(graph, 2, small), graph)
  })

  test('rows are normalised on the way in, results gated and normalised on the way out', () => {
    const graph = trace(
      [{ shape: [2, 19, 16] }, { shape: [2, 21, 16] }, { shape: [2, 21, 8] }, { shape: [2, 19, 8] }],
      ([q, k, v, g]) => {
        const y = c.attention(c.rmsNorm(q as Node), k as Node, v as Node)
        return c.rmsNorm(c.mul(y, c.sigmoid(g as Node)))
      },
    )
    expectOne(run(graph, 3, small), graph)
  })

  test('the logarithm of the sum is a second result', () => {
    const graph = trace(three, ([q, k, v]) => {
      const s = scored(q as Node, k as Node)
      const m = c.reduceMax(s, 1, true)
      const sum = c.sum(c.exp(c.sub(s, m)), 1, true)
      return [c.matmul(c.div(c.exp(c.sub(s, m)), sum), v as Node), c.add(c.log(sum), m)]
    })
    expectOne(run(graph, 4, small), graph)
  })

  test('without an anchor: two layers whose inner width is summed over', () => {
    const graph = trace(
      [{ shape: [33, 12] }, { shape: [12, 40] }, { shape: [40] }, { shape: [40, 10] }],
      ([x, w, b, u]) => c.matmul(c.gelu(c.linear(x as Node, w as Node, b)), u as Node),
    )
    expectOne(run(graph, 5, small), graph)
  })

  test('infinite and NaN scores, and values behind them, give what they give apart', () => {
    const graph = trace(
      [{ shape: [24, 8] }, { shape: [20, 8] }, { shape: [20, 8] }, { shape: [24, 20] }],
      ([q, k, v, m]) => c.matmul(c.softmax(c.add(scored(q as Node, k as Node), m as Node)), v as Node),
    )
    const compiled = compileGraph(graph, { mode: 'fast', target: small, verify: true })
    const inputs = dataOf(graph, 6, 2)
    const mask = inputs[3] as Float32Array
    for (let t = 0; t < 20; t++) mask[t] = Number.NEGATIVE_INFINITY
    mask[21] = Number.POSITIVE_INFINITY
    mask[45] = Number.NaN
    const want = evaluateGraph(graph, inputs, { rounding: 'dtype' }).map(toHostArray)
    const got = interpretProgram(compiled.program, inputs, 'dtype', graph.outputs)
    expectAlike(got, want, graph, 2e-5, 'interpreted')
    expect(Number.isNaN(Number(at(want, 0)[0]))).toBe(true)
  })

  test('scores made of one value by two ways, forty times over', () => {
    const inputs: readonly Input[] = [{ shape: [9, 4] }, { shape: [11, 4] }, { shape: [11, 5] }]
    const graph = trace(inputs, (p) => {
      let s = c.mul(c.matmul(at(p, 0), c.transpose(at(p, 1))), 2 ** -40)
      for (let i = 0; i < 40; i++) s = c.add(c.sub(s, 2 ** (i - 42)), s)
      return c.matmul(c.softmax(s, 1), at(p, 2))
    })
    expect(run(graph, 5, small).program.steps.length).toBeLessThan(3)
  })

  test('a prefix that all see, or what is past: the loop ends where either does', () => {
    const graph = trace(three, ([q, k, v]) => {
      const s = scored(q as Node, k as Node)
      const [query, key] = [c.iota(s.shape, 0), c.iota(s.shape, 1)]
      const seen = c.logicalOr(c.compare('le', key, query), c.compare('lt', key, 20))
      return c.matmul(c.softmax(c.where(seen, s, Number.NEGATIVE_INFINITY), 1), v as Node)
    })
    const compiled = run(graph, 8, small)
    expectOne(compiled, graph)
    const [kernel] = compiled.program.steps.flatMap((x) => (x.kind === 'kernel' ? [x.kernel] : []))
    const text = kernel === undefined ? '' : printKernel(kernel)
    // Rows come in blocks of 8.
    const [, past, prefix, end] =
      /%(\d+) i32 = index \w+\.start \+ 8\n +%(\d+) i32 = index 20\n +%(\d+) i32 = max %\1, %\2/.exec(text) ?? []
    expect([text, past !== undefined && prefix !== undefined]).toEqual([text, true])
    expect(text).toMatch(new RegExp(`loop \\w+/8 to %${end} `))
  })

  test('scores that memory does not hold', () => {
    const shape = [4, 32, 16384, 64]
    const graph = trace([{ shape }, { shape }, { shape }], ([q, k, v]) =>
      c.attention(q as Node, k as Node, v as Node, { causal: true }),
    )
    expectOne(compileGraph(graph, { mode: 'fast', target: wasmTarget, verify: true }), graph)
  })
})

describe('what is no chain', () => {
  const reasons = (graph: Graph, target: Machine = small): string[] => {
    const { report } = compileGraph(graph, { mode: 'fast', target, verify: true })
    expect(report.kernels.map((k) => k.kind)).not.toContain('chain')
    return report.refused.map((r) => r.code)
  }

  test('terms against a mean', () => {
    expect(reasons(chainOf((s) => c.exp(c.sub(s, c.mean(s, 1, true)))))).toContain('no-stream')
  })

  test('terms with what depends on the anchor beside the exponential', () => {
    const weight = (s: Node): Node => {
      const m = c.reduceMax(s, 1, true)
      return c.add(c.exp(c.sub(s, m)), c.mul(s, m))
    }
    expect(reasons(chainOf(weight))).toContain('no-stream')
  })

  test('two anchors', () => {
    const weight = (s: Node): Node => {
      const [most, least] = [c.reduceMax(s, 1, true), c.reduceMin(s, 1, true)]
      return c.mul(c.exp(c.sub(s, most)), c.exp(c.sub(least, s)))
    }
    expect(reasons(chainOf(weight))).toContain('no-stream')
  })

  test('an exponential that grows away from its anchor', () => {
    expect(reasons(chainOf((s) => c.exp(c.sub(c.reduceMax(s, 1, true), s))))).toContain('no-stream')
  })

  test('weights that are a result too', () => {
    const graph = trace(three, ([q, k, v]) => {
      const w = c.softmax(scored(q as Node, k as Node))
      return [c.matmul(w, v as Node), w]
    })
    expect(reasons(graph)).toContain('no-stream')
  })

  test('products that are too wide', () => {
    const graph = trace([{ shape: [40, 80] }, { shape: [48, 80] }, { shape: [48, 16] }], ([q, k, v]) =>
      c.attention(q as Node, k as Node, v as Node),
    )
    const { report } = compileGraph(graph, { mode: 'fast', target: small, verify: true })
    expect(report.kernels.map((k) => k.kind)).not.toContain('chain')
  })

  test('strict mode, whose order of summation is that of each operation alone', () => {
    const { report } = compileGraph(
      chainOf((s) => c.softmax(s)),
      { mode: 'strict', target: small, verify: true },
    )
    expect(report.kernels.map((k) => k.kind)).not.toContain('chain')
  })

  test('a machine without chains', () => {
    const { chains: _, ...machine } = small
    expect(
      reasons(
        chainOf((s) => c.softmax(s)),
        machine,
      ),
    ).toContain('two-contractions')
  })
})
