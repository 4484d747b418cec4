/** Models of ai.onnx.ml against loops from their definitions: trees of any depth, support vectors, encoders; what is refused. */
import { describe, expect, test } from 'vitest'
import {
  type Attributes,
  compiled,
  distance,
  f32,
  i64,
  type NodeCase,
  numbers,
  run,
  runCompiled,
  wholes,
} from './contribNode.ts'
import type { TensorSpec } from './encode.ts'
import { errorOf } from './models.ts'

const domain = 'ai.onnx.ml'
const range = (n: number): number[] => Array.from({ length: n }, (_, i) => i)
const sum = (v: readonly number[]): number => v.reduce((a, b) => a + b, 0)
const at = (v: readonly number[], i: number): number => v[i] ?? Number.NaN
const sigmoid = (v: number): number => 1 / (1 + Math.exp(-v))
const ml = (op: string, inputs: NodeCase['inputs'], attrs: Attributes, outputs = 1) =>
  run({ domain, op, inputs, attrs, outputs, version: 3 })

interface TreeNode {
  readonly feature: number
  readonly value: number
  readonly mode: string
  readonly yes: number
  readonly no: number
  readonly missing: boolean
}

/** A tree whose true branches lead to leaves, so that it is as deep as it has inner nodes; nodes 0 .. depth - 1, then leaves. */
function chain(depth: number, seed: number, mode: (i: number) => string): TreeNode[] {
  const [features, values, missing] = [wholes(depth, 3, seed), numbers(depth, seed + 1), wholes(depth, 2, seed + 2)]
  const inner = range(depth).map((i) => ({
    feature: at(features, i),
    value: at(values, i) - 0.6,
    mode: mode(i),
    yes: depth + i,
    no: i + 1 === depth ? 2 * depth : i + 1,
    missing: at(missing, i) === 1,
  }))
  const leaf = { feature: 0, value: 0, mode: 'LEAF', yes: 0, no: 0, missing: false }
  return [...inner, ...range(depth + 1).map(() => leaf)]
}

/** The leaf that a row reaches. */
function walk(nodes: readonly TreeNode[], row: readonly number[]): number {
  let i = 0
  for (let n = nodes[0]; n !== undefined && n.mode !== 'LEAF'; n = nodes[i]) {
    const v = at(row, n.feature)
    const tests: Record<string, boolean> = {
      BRANCH_LEQ: v <= n.value,
      BRANCH_LT: v < n.value,
      BRANCH_GTE: v >= n.value,
      BRANCH_GT: v > n.value,
      BRANCH_EQ: v === n.value,
      BRANCH_NEQ: v !== n.value,
    }
    i = tests[n.mode] === true || (n.missing && Number.isNaN(v)) ? n.yes : n.no
  }
  return i
}

const nodeAttributes = (trees: readonly (readonly TreeNode[])[]): Attributes => {
  const all = trees.flatMap((t, tree) => t.map((n, id) => ({ ...n, tree, id })))
  return {
    nodes_treeids: { ints: all.map((n) => n.tree) },
    nodes_nodeids: { ints: all.map((n) => n.id) },
    nodes_featureids: { ints: all.map((n) => n.feature) },
    nodes_values: { floats: all.map((n) => n.value) },
    nodes_modes: { strings: all.map((n) => n.mode) },
    nodes_truenodeids: { ints: all.map((n) => n.yes) },
    nodes_falsenodeids: { ints: all.map((n) => n.no) },
    nodes_missing_value_tracks_true: { ints: all.map((n) => (n.missing ? 1 : 0)) },
  }
}

describe('ensembles of trees', () => {
  const rows = 12
  const x = numbers(rows * 3, 1).map((v, i) => (i % 7 === 0 ? Number.NaN : v))
  const row = (r: number): number[] => x.slice(3 * r, 3 * r + 3)
  const modes = ['BRANCH_LEQ', 'BRANCH_LT', 'BRANCH_GTE', 'BRANCH_GT', 'BRANCH_NEQ']

  /** Three trees of a depth, every leaf of two targets but each third, which has the second alone. */
  const ensemble = (depth: number) => {
    const trees = [11, 23, 37].map((seed) =>
      chain(depth, seed, (i) => modes[(i + seed) % modes.length] ?? 'BRANCH_LEQ'),
    )
    const leaves = trees.flatMap((t, tree) =>
      t.flatMap((n, node) => {
        if (n.mode !== 'LEAF') return []
        const weights = numbers(2, 100 * tree + node)
        return (node % 3 === 0 ? [1] : [0, 1]).map((target) => ({ tree, node, target, weight: at(weights, target) }))
      }),
    )
    const attrs: Attributes = {
      ...nodeAttributes(trees),
      target_treeids: { ints: leaves.map((l) => l.tree) },
      target_nodeids: { ints: leaves.map((l) => l.node) },
      target_ids: { ints: leaves.map((l) => l.target) },
      target_weights: { floats: leaves.map((l) => l.weight) },
      n_targets: { int: 2 },
      base_values: { floats: [0.25, -0.5] },
    }
    const reached = (r: number, target: number): number[] =>
      trees.flatMap((t, tree) => {
        const node = walk(t, row(r))
        return leaves.flatMap((l) => (l.tree === tree && l.node === node && l.target === target ? [l.weight] : []))
      })
    return { attrs, reached }
  }

  // Twenty levels are a loop of the program.
  test.each([
    [5, 'SUM'],
    [20, 'SUM'],
    [5, 'AVERAGE'],
    [5, 'MIN'],
    [20, 'MAX'],
  ])('%i levels, aggregated by %s', (depth, how) => {
    const { attrs, reached } = ensemble(depth)
    const wanted = range(rows).flatMap((r) =>
      [0, 1].map((target) => {
        const w = reached(r, target)
        const total =
          how === 'SUM'
            ? sum(w)
            : how === 'AVERAGE'
              ? sum(w) / 3
              : w.length === 0
                ? 0
                : how === 'MIN'
                  ? Math.min(...w)
                  : Math.max(...w)
        return total + (target === 0 ? 0.25 : -0.5)
      }),
    )
    const node: NodeCase = {
      domain,
      op: 'TreeEnsembleRegressor',
      inputs: [f32([rows, 3], x)],
      attrs: { ...attrs, aggregate_function: { string: how } },
      version: 3,
    }
    expect(distance(run(node)[0]?.data, wanted)).toBeLessThan(1e-6)
    expect(distance(runCompiled(node)[0], wanted)).toBeLessThan(1e-6)
  })

  test('as many kernels for deep trees as for shallow ones, and few', () => {
    const kernels = (depth: number): number =>
      compiled({
        domain,
        op: 'TreeEnsembleRegressor',
        inputs: [f32([rows, 3], x)],
        attrs: ensemble(depth).attrs,
        version: 3,
      }).report.totals.kernels
    expect(kernels(3)).toBeLessThanOrEqual(2)
    expect(kernels(10)).toBe(kernels(3))
    expect(kernels(40)).toBeLessThanOrEqual(4)
  })

  test('trees that lead in a circle are malformed', () => {
    const circle: TreeNode[] = [
      { feature: 0, value: 0, mode: 'BRANCH_LEQ', yes: 0, no: 1, missing: false },
      { feature: 0, value: 0, mode: 'LEAF', yes: 0, no: 0, missing: false },
    ]
    const attrs = {
      ...nodeAttributes([circle]),
      target_treeids: { ints: [0] },
      target_nodeids: { ints: [1] },
      target_ids: { ints: [0] },
      target_weights: { floats: [1] },
    }
    expect(errorOf(() => ml('TreeEnsembleRegressor', [f32([1, 1], [1])], attrs)).code).toBe('E_ONNX_MALFORMED')
  })

  test('operator set 5: sets of members, several trees, the least of leaves', () => {
    const tensor = (type: number, dims: readonly number[], raw: Uint8Array): { tensor: TensorSpec } => ({
      tensor: { name: '', type, dims, raw },
    })
    const floats = (v: readonly number[]): { tensor: TensorSpec } =>
      tensor(1, [v.length], new Uint8Array(Float32Array.from(v).buffer))
    // Node 0: x0 in {1, 3}; node 1: x1 > 0.5; node 2 (a second tree): x0 in {2}.
    const leaves = [1, -2, 5, 0.5, 4]
    const [y] = run({
      domain,
      op: 'TreeEnsemble',
      version: 5,
      inputs: [f32([4, 2], [1, 0.9, 2, 0.9, 2, 0.1, 3, 0.1])],
      attrs: {
        nodes_featureids: { ints: [0, 1, 0] },
        nodes_splits: floats([0, 0.5, 0]),
        nodes_modes: tensor(2, [3], Uint8Array.from([6, 3, 6])),
        nodes_truenodeids: { ints: [0, 1, 3] },
        nodes_trueleafs: { ints: [1, 1, 1] },
        nodes_falsenodeids: { ints: [1, 2, 4] },
        nodes_falseleafs: { ints: [0, 1, 1] },
        leaf_targetids: { ints: [0, 0, 0, 0, 0] },
        leaf_weights: floats(leaves),
        membership_values: floats([1, 3, Number.NaN, 2]),
        tree_roots: { ints: [0, 2] },
        aggregate_function: { int: 2 },
        n_targets: { int: 1 },
      },
    })
    expect(y?.data).toEqual([1, -2, 0.5, 1])
  })

  test('two classes told by one: positive weights, a threshold of one half', () => {
    const tree = chain(3, 5, () => 'BRANCH_LEQ')
    const weights = numbers(7, 6).map(Math.abs)
    const ids = [3, 4, 5, 6]
    const data = x.map((v) => (Number.isNaN(v) ? 0 : v))
    const [label, scores] = ml(
      'TreeEnsembleClassifier',
      [f32([rows, 3], data)],
      {
        ...nodeAttributes([tree]),
        class_treeids: { ints: ids.map(() => 0) },
        class_nodeids: { ints: ids },
        class_ids: { ints: ids.map(() => 0) },
        class_weights: { floats: ids.map((i) => at(weights, i)) },
        classlabels_int64s: { ints: [4, 9] },
      },
      2,
    )
    const wanted = range(rows).map((r) => at(weights, walk(tree, data.slice(3 * r, 3 * r + 3))))
    expect(label?.data).toEqual(wanted.map((v) => (v > 0.5 ? 9 : 4)))
    expect(
      distance(
        scores?.data,
        wanted.flatMap((v) => [1 - v, v]),
      ),
    ).toBeLessThan(1e-6)
  })
})

describe('support vectors', () => {
  const [features, each] = [3, [2, 3, 2]]
  const total = sum(each)
  const support = numbers(total * features, 1)
  const coefficients = numbers(2 * total, 2)
  const rho = numbers(3, 3)
  const rows = 6
  const x = numbers(rows * features, 4)
  const owner = each.flatMap((n, c) => range(n).map(() => c))

  /** Decisions of (0, 1), (0, 2), (1, 2) by a polynomial kernel. */
  const decisions = (r: number): number[] => {
    const kernel = range(total).map(
      (v) => (0.5 * sum(range(features).map((f) => at(x, r * features + f) * at(support, v * features + f))) + 1) ** 2,
    )
    return [
      [0, 1],
      [0, 2],
      [1, 2],
    ].map(([i = 0, j = 0], p) => {
      const terms = range(total).map((v) =>
        owner[v] === i
          ? at(coefficients, (j - 1) * total + v) * at(kernel, v)
          : owner[v] === j
            ? at(coefficients, i * total + v) * at(kernel, v)
            : 0,
      )
      return sum(terms) + at(rho, p)
    })
  }
  const votes = (d: readonly number[]): number => {
    const count = [0, 0, 0]
    ;[
      [0, 1],
      [0, 2],
      [1, 2],
    ].forEach(([i = 0, j = 0], p) => {
      const won = at(d, p) > 0 ? i : j
      count[won] = at(count, won) + 1
    })
    return count.indexOf(Math.max(...count))
  }
  const attrs: Attributes = {
    kernel_type: { string: 'POLY' },
    kernel_params: { floats: [0.5, 1, 2] },
    support_vectors: { floats: support },
    coefficients: { floats: coefficients },
    rho: { floats: rho },
    vectors_per_class: { ints: each },
    classlabels_ints: { ints: [10, 20, 30] },
  }

  test('three classes by votes of pairs', () => {
    const [label, scores] = ml('SVMClassifier', [f32([rows, features], x)], attrs, 2)
    const all = range(rows).map(decisions)
    expect(label?.data).toEqual(all.map((d) => 10 * (votes(d) + 1)))
    expect(distance(scores?.data, all.flat())).toBeLessThan(1e-5)
  })

  test('probabilities coupled as libsvm couples them', () => {
    const [a, b] = [
      [-1.5, -2, -0.7],
      [0.1, -0.2, 0.3],
    ]
    const wanted = range(rows).flatMap((row) => {
      const d = decisions(row)
      const r = range(3).map(() => [0, 0, 0])
      ;[
        [0, 1],
        [0, 2],
        [1, 2],
      ].forEach(([i = 0, j = 0], p) => {
        const v = Math.min(1 - 1e-7, Math.max(1e-7, 1 - sigmoid(at(d, p) * at(a ?? [], p) + at(b ?? [], p))))
        const [ri, rj] = [r[i], r[j]]
        if (ri !== undefined) ri[j] = v
        if (rj !== undefined) rj[i] = 1 - v
      })
      const q = range(3).map((t) =>
        range(3).map((j) =>
          t === j
            ? sum(
                range(3)
                  .filter((k) => k !== t)
                  .map((k) => at(r[k] ?? [], t) ** 2),
              )
            : -at(r[j] ?? [], t) * at(r[t] ?? [], j),
        ),
      )
      let p = [1 / 3, 1 / 3, 1 / 3]
      for (let step = 0; step < 100; step++) {
        let qp = q.map((line) => sum(line.map((v, j) => v * at(p, j))))
        let value = sum(qp.map((v, i) => v * at(p, i)))
        if (Math.max(...qp.map((v) => Math.abs(v - value))) < 0.005 / 3) break
        for (let t = 0; t < 3; t++) {
          const own = at(q[t] ?? [], t)
          const diff = (value - at(qp, t)) / own
          value = (value + diff * (diff * own + 2 * at(qp, t))) / (1 + diff) ** 2
          qp = qp.map((v, j) => (v + diff * at(q[t] ?? [], j)) / (1 + diff))
          p = p.map((v, j) => (j === t ? v + diff : v) / (1 + diff))
        }
      }
      return p
    })
    const [label, scores] = ml(
      'SVMClassifier',
      [f32([rows, features], x)],
      { ...attrs, prob_a: { floats: a ?? [] }, prob_b: { floats: b ?? [] } },
      2,
    )
    expect(distance(scores?.data, wanted)).toBeLessThan(1e-4)
    expect(label?.data).toEqual(range(rows).map((r) => 10 * (votes(decisions(r)) + 1)))
  })

  test('one class: the sign of a linear score', () => {
    const w = numbers(features, 5)
    const [y] = ml('SVMRegressor', [f32([rows, features], x)], {
      coefficients: { floats: w },
      rho: { floats: [0.1] },
      one_class: { int: 1 },
    })
    const score = (r: number): number => sum(w.map((v, f) => v * at(x, r * features + f))) + Math.fround(0.1)
    expect(y?.data).toEqual(range(rows).map((r) => (score(r) > 0 ? 1 : -1)))
  })
})

describe('linear models and features', () => {
  test('a classifier of one row of coefficients: the label behind its product, on every machine', () => {
    const attrs = {
      coefficients: { floats: [1, -2] },
      intercepts: { floats: [0.5] },
      classlabels_ints: { ints: [3, 8] },
    }
    const node: NodeCase = {
      domain,
      op: 'LinearClassifier',
      inputs: [f32([3, 2], [1, 1, 1, 0, 0, 2])],
      attrs,
      outputs: 2,
      version: 3,
    }
    const [label, scores] = run(node)
    expect(label?.data).toEqual([3, 8, 3])
    expect(distance(scores?.data, [1.5, -0.5, -0.5, 1.5, 4.5, -3.5])).toBeLessThan(1e-6)
    expect(runCompiled(node)[0]).toEqual([3, 8, 3])
  })

  test('transforms of scores', () => {
    const of = (post: string, intercepts: number[]) =>
      ml('LinearRegressor', [f32([1, 1], [0])], {
        coefficients: { floats: intercepts.map(() => 0) },
        intercepts: { floats: intercepts },
        targets: { int: intercepts.length },
        post_transform: { string: post },
      })[0]?.data ?? []
    expect(distance(of('LOGISTIC', [1, -2]), [sigmoid(1), sigmoid(-2)])).toBeLessThan(1e-6)
    const e = [Math.exp(1), Math.exp(2)]
    expect(distance(of('SOFTMAX_ZERO', [1, 0, 2]), [at(e, 0) / sum(e), 0, at(e, 1) / sum(e)])).toBeLessThan(1e-6)
    // The normal quantile of 0.975 is 1.95996; the approximation keeps three digits.
    expect(distance(of('PROBIT', [0.975, 0.5]), [1.96, 0])).toBeLessThan(5e-3)
  })

  test('labels by tensors, NaN among the keys; what is no key', () => {
    const tensor = (v: readonly number[]): { tensor: TensorSpec } => ({
      tensor: { name: '', type: 1, dims: [v.length], raw: new Uint8Array(Float32Array.from(v).buffer) },
    })
    const [y] = run({
      domain,
      op: 'LabelEncoder',
      version: 4,
      inputs: [f32([4], [2, Number.NaN, 7, 1])],
      attrs: {
        keys_tensor: tensor([1, 2, Number.NaN]),
        values_tensor: tensor([10, 20, 30]),
        default_tensor: tensor([-5]),
      },
    })
    expect(y?.data).toEqual([20, 30, -5, 10])
  })

  test('columns, vectors, imputed numbers, norms of rows of zeros', () => {
    expect(ml('ArrayFeatureExtractor', [f32([3], [5, 6, 7]), i64([2], [2, 0])], {})[0]).toEqual({
      shape: [1, 2],
      data: [7, 5],
    })
    expect(
      ml('FeatureVectorizer', [f32([2, 2], [1, 2, 3, 4]), i64([2, 1], [5, 6])], {
        inputdimensions: { ints: [1, 2] },
      })[0]?.data,
    ).toEqual([1, 5, 0, 3, 6, 0])
    expect(
      ml('Imputer', [i64([2, 2], [0, 7, 3, 0])], {
        imputed_value_int64s: { ints: [4, 5] },
        replaced_value_int64: { int: 0 },
      })[0]?.data,
    ).toEqual([4, 7, 3, 5])
    expect(ml('Normalizer', [f32([2, 2], [3, -1, 0, 0])], { norm: { string: 'L1' } })[0]?.data).toEqual([
      0.75, -0.25, 0, 0,
    ])
  })

  test('strings and maps are refused with what they are', () => {
    const labels = { coefficients: { floats: [1, 2] }, classlabels_strings: { strings: ['no', 'yes'] } }
    expect(errorOf(() => ml('LinearClassifier', [f32([1, 1], [1])], labels, 2)).message).toContain(
      'labels that are strings',
    )
    expect(errorOf(() => ml('ZipMap', [f32([1, 1], [1])], {})).message).toContain('maps are not imported')
    // Scores alone need no labels.
    expect(
      run({
        domain,
        op: 'LinearClassifier',
        inputs: [f32([1, 1], [1])],
        attrs: labels,
        outputs: 2,
        skipped: [0],
        version: 3,
      })[0]?.data,
    ).toEqual([1, 2])
  })
})
