/**
 * Non-maximum suppression: of boxes that overlap the one with the highest score is kept, one after the other, for every class. As onnxruntime's
 * kernel: of equal scores the first box, and no overlap of boxes without an area.
 */
import { searchSorted } from '../../compose/binning.ts'
import { loopNodes } from '../../compose/control.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { makeNode } from '../../graph/build.ts'
import { graphBetween } from '../../graph/subgraph.ts'
import { positionDType } from '../../types/dtype.ts'
import { showShape } from '../../types/shape.ts'
import * as n from '../nodes.ts'

export interface SuppressionOptions {
  /** Boxes that are kept of a class at most. */
  readonly most: number
  /** Boxes that overlap by more than this share of their union are suppressed; 0 unless given. */
  readonly overlap: n.Node | undefined
  /** Scores have to be above it. */
  readonly threshold: n.Node | undefined
  /** Boxes are centre and size, else two corners. */
  readonly isCentred: boolean
  /** Rows that there is room for. */
  readonly bound: number | undefined
}

/** Edges of boxes, each [batch, boxes]. */
interface Edges {
  readonly left: n.Node
  readonly right: n.Node
  readonly top: n.Node
  readonly bottom: n.Node
}

function edgesOf(boxes: n.Node, isCentred: boolean): Edges {
  const at = (i: number): n.Node => n.indexAxis(boxes, 2, i)
  if (isCentred) {
    const [x, y, w, h] = [at(0), at(1), n.div(at(2), 2), n.div(at(3), 2)]
    return { left: n.sub(x, w), right: n.add(x, w), top: n.sub(y, h), bottom: n.add(y, h) }
  }
  const [y1, x1, y2, x2] = [at(0), at(1), at(2), at(3)]
  return { left: n.min(x1, x2), right: n.max(x1, x2), top: n.min(y1, y2), bottom: n.max(y1, y2) }
}

const areaOf = (e: Edges): n.Node => n.mul(n.sub(e.right, e.left), n.sub(e.bottom, e.top))

/** Whether boxes [batch, classes, 1] and [batch, 1, boxes] overlap by more than a share of their union. */
function overlaps(a: Edges, b: Edges, share: n.Node): n.Node {
  const width = n.sub(n.min(a.right, b.right), n.max(a.left, b.left))
  const height = n.sub(n.min(a.bottom, b.bottom), n.max(a.top, b.top))
  const common = n.mul(width, height)
  const [one, other] = [areaOf(a), areaOf(b)]
  const union = n.sub(n.add(one, other), common)
  const isPositive = (x: n.Node): n.Node => n.compare('gt', x, 0)
  return [width, height, common, one, other, union]
    .map(isPositive)
    .reduce((all, x) => n.logicalAnd(all, x), n.compare('gt', n.div(common, union), share))
}

const mapEdges = (e: Edges, f: (x: n.Node) => n.Node): Edges => ({
  left: f(e.left),
  right: f(e.right),
  top: f(e.top),
  bottom: f(e.bottom),
})

/** Boxes kept one after the other, each [steps, batch, classes]: which, and whether there was one. */
function kept(
  edges: Edges,
  scores: n.Node,
  alive: n.Node,
  share: n.Node,
  steps: number,
): { which: n.Node; isOne: n.Node } {
  const [batch = 0, classes = 0, count = 0] = scores.shape
  const outer = [scores, edges.left, edges.right, edges.top, edges.bottom, share]
  const inner = [...outer, alive].map((x, index) => makeNode('param', [], { index, shape: x.shape, dtype: x.dtype }))
  const [s, left, right, top, bottom, limit, living] = inner
  if (!s || !left || !right || !top || !bottom || !limit || !living)
    throw new RangeError('a body without its parameters')
  const best = n.argReduce(n.where(living, s, Number.NEGATIVE_INFINITY), 'argmax', 2)
  const at = n.broadcastInto(best, [batch, classes, count], [0, 1])
  const isBest = n.compare('eq', n.iota([batch, classes, count], 2, 'i64'), at)
  const isOne = n.keepReduce('max', n.logicalAnd(isBest, living), [2])
  const of = (x: n.Node): n.Node => n.gather(x, [best], [batch, classes], [{ axis: 0 }, { input: 0 }])
  const all: Edges = { left, right, top, bottom }
  const chosen = mapEdges(all, (x) => n.expandDims(of(x), 2))
  const others = mapEdges(all, (x) => n.expandDims(x, 1))
  const gone = n.logicalOr(isBest, overlaps(chosen, others, limit))
  const next = n.logicalAnd(living, n.logicalNot(gone))
  const body = graphBetween(inner, [next, best, n.reshape(isOne, [batch, classes])])
  const { sequences } = loopNodes(body, { length: steps }, outer, [alive], [])
  const [which, found] = sequences
  if (which === undefined || found === undefined) throw new RangeError('a loop without its sequences')
  return { which, isOne: found }
}

/**
 * Rows (batch, class, box) of what is kept, by batch, class and score, i64 [room, 3] of zeros behind them; and how many there are. Boxes are f32
 * [batch, boxes, 4], scores [batch, classes, boxes]. Throws E_SHAPE.
 */
export function nonMaxSuppression(
  boxes: n.Node,
  scores: n.Node,
  options: SuppressionOptions,
): { readonly rows: n.Node; readonly count: n.Node } {
  const [batch = 0, count = 0, four] = boxes.shape
  const [scored, classes = 0, others] = scores.shape
  if (boxes.shape.length !== 3 || scores.shape.length !== 3 || four !== 4 || scored !== batch || others !== count)
    throw new UserError('E_SHAPE', `boxes ${showShape(boxes.shape)} with scores ${showShape(scores.shape)}`, {
      help: 'boxes are [batch, boxes, 4], scores [batch, classes, boxes]',
    })
  const steps = Math.min(options.most, count)
  const total = batch * classes * steps
  const room = Math.min(total, options.bound ?? total)
  if (total === 0) return { rows: n.full([0, 3], 0, 'i64'), count: n.full([], 0, 'i64') }
  const share = options.overlap === undefined ? n.full([], 0, scores.dtype) : n.asScalar(options.overlap)
  const isNumber = n.compare('eq', scores, scores)
  const alive =
    options.threshold === undefined
      ? isNumber
      : n.compare('gt', scores, n.cast(n.asScalar(options.threshold), scores.dtype))
  const { which, isOne } = kept(edgesOf(boxes, options.isCentred), scores, alive, n.cast(share, boxes.dtype), steps)
  // A class keeps boxes in its first steps: rows are those of one class behind those of another, and none is moved.
  const lists = batch * classes
  const flat = (x: n.Node): n.Node => n.reshape(x, [steps, lists])
  const dtype = positionDType({ lo: 0, hi: 2 * total })
  const counts = n.sum(n.cast(flat(isOne), dtype), 0)
  const ends = n.scan('sum', counts, 0)
  const found = n.asScalar(n.sliceAxis(ends, 0, lists - 1, lists))
  const row = n.iota([room], 0, dtype)
  const isThere = n.compare('lt', row, found)
  const list = n.min(searchSorted(ends, row, 'right'), lists - 1)
  const step = n.sub(row, n.take(n.sub(ends, counts), list))
  const columns = [
    n.div(list, classes),
    n.rem(list, classes),
    n.gather(flat(which), [step, list], [room], [{ input: 0 }, { input: 1 }]),
  ].map((x) => n.where(isThere, n.cast(x, 'i64'), 0))
  return { rows: n.stack(columns, 1), count: found }
}
