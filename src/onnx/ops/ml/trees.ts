/** Ensembles of trees: regression, classification, and both in the form of operator set 5. */
import { UserError } from '../../../diagnostics/errors.ts'
import { readElement } from '../../../scalar/host.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { type Forest, leavesOf, type Mode } from './forest.ts'
import { labelsOf, pair, rowsOf, second, type Transform, transformed, transformOf, winner } from './scores.ts'

const malformed = (c: OpContext, what: string): UserError =>
  new UserError('E_ONNX_MALFORMED', `${c.node.opType}: ${what}`)

/** Weights of leaves: what a node adds to a target. */
interface Leaf {
  readonly node: number
  readonly target: number
  readonly weight: number
}

interface Ensemble {
  readonly forest: Forest
  readonly leaves: readonly Leaf[]
  readonly targets: number
}

/** Numbers of a list or of the tensor that stands for it in f64. */
function numbers(c: OpContext, name: string): number[] {
  const t = c.tensor(`${name}_as_tensor`)
  if (t === undefined) return c.floats(name) ?? []
  return Array.from({ length: t.data.length }, (_, i) => Number(readElement(t.data, t.dtype, i)))
}

const modes: Readonly<Record<string, Mode>> = {
  BRANCH_LEQ: 'LEQ',
  BRANCH_LT: 'LT',
  BRANCH_GTE: 'GTE',
  BRANCH_GT: 'GT',
  BRANCH_EQ: 'EQ',
  BRANCH_NEQ: 'NEQ',
}

/** A forest from nodes named by tree and number, as operator sets before 5 have it; `kind` names the lists of leaves. */
function namedForest(c: OpContext, kind: 'target' | 'class', targets: number): Ensemble {
  const list = (name: string): number[] => c.ints(name) ?? []
  const [trees, ids] = [list('nodes_treeids'), list('nodes_nodeids')]
  const count = ids.length
  const checked = <T>(name: string, values: readonly T[]): readonly T[] => {
    if (values.length !== count) throw malformed(c, `${name} holds ${values.length} values for ${count} nodes`)
    return values
  }
  const names = checked('nodes_modes', c.strings('nodes_modes') ?? [])
  const isLeaf = names.map((m) => m === 'LEAF')
  const mode = names.map((m): Mode => (m === 'LEAF' ? 'LEQ' : (modes[m] ?? c.fail(`nodes of mode "${m}"`))))
  const place = new Map<string, number>()
  const roots: number[] = []
  const known = new Set<number>()
  checked('nodes_treeids', trees).forEach((tree, i) => {
    place.set(`${tree}:${ids[i]}`, i)
    // A tree begins with its root.
    if (!known.has(tree)) roots.push(i)
    known.add(tree)
  })
  const find = (tree: number | undefined, id: number | undefined): number => {
    const at = place.get(`${tree}:${id}`)
    if (at === undefined) throw malformed(c, `tree ${tree} has no node ${id}`)
    return at
  }
  const branch = (name: string): number[] => {
    const to = checked(name, list(name))
    return to.map((id, i) => (isLeaf[i] === true ? i : find(trees[i], id)))
  }
  const missing = list('nodes_missing_value_tracks_true')
  const forest: Forest = {
    roots,
    feature: checked('nodes_featureids', list('nodes_featureids')).map((v, i) => (isLeaf[i] === true ? 0 : v)),
    split: checked('nodes_values', numbers(c, 'nodes_values')),
    mode,
    whenTrue: branch('nodes_truenodeids'),
    whenFalse: branch('nodes_falsenodeids'),
    missingTrue: ids.map((_, i) => isLeaf[i] !== true && missing[i] === 1),
    isLeaf,
    members: new Map(),
  }
  const [leafTrees, leafIds] = [list(`${kind}_treeids`), list(`${kind}_nodeids`)]
  const weights = numbers(c, `${kind}_weights`)
  const leaves = list(`${kind}_ids`).map((target, i) => ({
    node: find(leafTrees[i], leafIds[i]),
    target,
    weight: weights[i] ?? 0,
  }))
  return { forest, leaves, targets }
}

/** Elements of the table of weights, at most. */
const largestTable = 2 ** 26

type Aggregate = 'SUM' | 'AVERAGE' | 'MIN' | 'MAX'

/** What trees say together of each target: [rows, targets]. A target that no leaf reached has 0. */
function aggregate(c: OpContext, e: Ensemble, x: n.Node, how: Aggregate): n.Node {
  const nodes = e.forest.feature.length
  if (nodes * e.targets > largestTable) c.fail(`${nodes} nodes with weights of ${e.targets} targets`)
  const sum = how === 'SUM' || how === 'AVERAGE'
  const none = sum ? 0 : how === 'MIN' ? Number.POSITIVE_INFINITY : Number.NEGATIVE_INFINITY
  const table = new Float64Array(nodes * e.targets).fill(none)
  for (const { node, target, weight } of e.leaves) {
    if (!(target >= 0 && target < e.targets)) throw malformed(c, `a leaf adds to target ${target} of ${e.targets}`)
    const at = node * e.targets + target
    const before = table[at] ?? none
    table[at] = sum ? before + weight : how === 'MIN' ? Math.min(before, weight) : Math.max(before, weight)
  }
  const weights = n.take(n.floats(table, [nodes, e.targets], x.dtype), leavesOf(e.forest, x), 0)
  if (how === 'SUM') return n.sum(weights, [1])
  if (how === 'AVERAGE') return n.div(n.sum(weights, [1]), e.forest.roots.length)
  const y = how === 'MIN' ? n.reduceMin(weights, [1]) : n.reduceMax(weights, [1])
  return n.where(n.unary('isinf', y), n.scalarAs(y, 0), y)
}

const isAggregate = (s: string): s is Aggregate => s === 'SUM' || s === 'AVERAGE' || s === 'MIN' || s === 'MAX'

const withBase = (scores: n.Node, base: readonly number[]): n.Node =>
  base.length === 0 ? scores : n.add(scores, n.floats(base, [base.length], scores.dtype))

const treeEnsembleRegressor: Handler = (c) => {
  const x = rowsOf(c)
  const how = c.string('aggregate_function', 'SUM')
  if (!isAggregate(how)) throw malformed(c, `there is no aggregate_function "${how}"`)
  const targets = c.int('n_targets', 1)
  const base = numbers(c, 'base_values')
  if (base.length > 0) c.requireLength('base_values', base, targets)
  const scores = withBase(aggregate(c, namedForest(c, 'target', targets), x, how), base)
  return n.cast(transformed(scores, transformOf(c)), 'f32')
}

interface TwoClasses {
  /** [rows, 2]. */
  readonly scores: n.Node
  readonly base: readonly number[]
  /** Classes that leaves add to. */
  readonly ids: ReadonlySet<number>
  readonly isPositive: boolean
}

/**
 * Two classes, as onnxruntime reads them. Leaves that add to the first alone tell both: the second has their sum, the first the rest of 1 where all
 * weights are positive, else the opposite. What leaves add to the second alone stands beside 0. One base value counts for the first class.
 */
function twoClasses(t: TwoClasses, transform: Transform): { readonly chosen: n.Node; readonly scores: n.Node } {
  const { base, ids, isPositive } = t
  const least = ids.size === 1 && isPositive ? 0.5 : 0
  if (ids.has(1)) {
    const moved = base.length === 2 ? base : base.length === 1 && ids.has(0) ? [base[0] ?? 0, 0] : []
    const scores = withBase(t.scores, moved)
    return { chosen: second(n.compare('gt', n.indexAxis(scores, 1, 1), least)), scores: transformed(scores, transform) }
  }
  const score = n.add(n.indexAxis(t.scores, 1, 0), base[0] ?? 0)
  const chosen = second(n.compare('gt', score, least))
  if (base.length === 2) {
    const both = withBase(t.scores, base)
    return { chosen: second(n.compare('gt', n.indexAxis(both, 1, 1), 0)), scores: transformed(both, transform) }
  }
  if (transform === 'PROBIT') return { chosen, scores: transformed(n.expandDims(score, 1), transform) }
  if (isPositive) return { chosen, scores: pair(n.sub(1, score), score) }
  const both = pair(n.neg(score), score)
  return { chosen, scores: transform === 'LOGISTIC' ? transformed(both, transform) : both }
}

const treeEnsembleClassifier: Handler = (c) => {
  const x = rowsOf(c)
  const labels = labelsOf(c, 'classlabels_int64s', 'classlabels_strings')
  const transform = transformOf(c)
  const base = numbers(c, 'base_values')
  const e = namedForest(c, 'class', labels.count)
  const scores = aggregate(c, e, x, 'SUM')
  if (labels.count === 2) {
    const ids = new Set(e.leaves.map((l) => l.target))
    const isPositive = e.leaves.every((l) => l.weight >= 0)
    const two = twoClasses({ scores, base, ids, isPositive }, transform)
    return [labels.at(two.chosen), n.cast(two.scores, 'f32')]
  }
  if (base.length > 0) c.requireLength('base_values', base, labels.count)
  const moved = withBase(scores, base)
  return [labels.at(winner(moved)), n.cast(transformed(moved, transform), 'f32')]
}

const laterModes: readonly Mode[] = ['LEQ', 'LT', 'GTE', 'GT', 'EQ', 'NEQ', 'MEMBER']
const laterAggregates: readonly Aggregate[] = ['AVERAGE', 'SUM', 'MIN', 'MAX']
const laterTransforms: readonly Transform[] = ['NONE', 'SOFTMAX', 'LOGISTIC', 'SOFTMAX_ZERO', 'PROBIT']

/** The elements of a tensor attribute as numbers. */
function elements(c: OpContext, name: string): number[] {
  const t = c.tensor(name)
  if (t === undefined) throw malformed(c, `attribute "${name}" is missing`)
  return Array.from({ length: t.data.length }, (_, i) => Number(readElement(t.data, t.dtype, i)))
}

/** Operator set 5: inner nodes and leaves in lists of their own; leaves stand behind the nodes in the tables. */
function numberedForest(c: OpContext, targets: number): Ensemble {
  const list = (name: string): number[] => c.ints(name) ?? []
  const feature = list('nodes_featureids')
  const split = elements(c, 'nodes_splits')
  const weights = elements(c, 'leaf_weights')
  const leafTargets = list('leaf_targetids')
  const count = feature.length
  const inner = elements(c, 'nodes_modes').map((m): Mode => laterModes[m] ?? c.fail(`nodes of mode ${m}`))
  const branch = (ids: string, leafs: string): number[] => {
    const [to, isLeaf] = [list(ids), list(leafs)]
    c.requireLength(ids, to, count)
    return to.map((id, i) => (isLeaf[i] === 1 ? count + id : id))
  }
  const self = leafTargets.map((_, i) => count + i)
  const missing = list('nodes_missing_value_tracks_true')
  // Sets stand behind each other, each closed by a NaN.
  const sets: number[][] = [[]]
  if (c.has('membership_values'))
    for (const v of elements(c, 'membership_values')) {
      if (Number.isNaN(v)) sets.push([])
      else sets.at(-1)?.push(v)
    }
  const members = new Map<number, readonly number[]>()
  inner.forEach((m, i) => {
    if (m === 'MEMBER') members.set(i, sets.shift() ?? [])
  })
  const forest: Forest = {
    roots: list('tree_roots'),
    feature: [...feature, ...self.map(() => 0)],
    split: [...split, ...self.map(() => 0)],
    mode: [...inner, ...self.map((): Mode => 'LEQ')],
    whenTrue: [...branch('nodes_truenodeids', 'nodes_trueleafs'), ...self],
    whenFalse: [...branch('nodes_falsenodeids', 'nodes_falseleafs'), ...self],
    missingTrue: [...feature.map((_, i) => missing[i] === 1), ...self.map(() => false)],
    isLeaf: [...feature.map(() => false), ...self.map(() => true)],
    members,
  }
  const leaves = leafTargets.map((target, i) => ({ node: count + i, target, weight: weights[i] ?? 0 }))
  return { forest, leaves, targets }
}

const treeEnsemble: Handler = (c) => {
  const given = c.need(0)
  const x = rowsOf(c)
  const how = laterAggregates[c.int('aggregate_function', 1)] ?? c.fail('its aggregate_function')
  const transform = laterTransforms[c.int('post_transform', 0)] ?? c.fail('its post_transform')
  const targets = c.int('n_targets', 1)
  return n.cast(transformed(aggregate(c, numberedForest(c, targets), x, how), transform), given.dtype)
}

export const mlTreeHandlers: HandlerTable = {
  TreeEnsemble: treeEnsemble,
  TreeEnsembleClassifier: treeEnsembleClassifier,
  TreeEnsembleRegressor: treeEnsembleRegressor,
}
