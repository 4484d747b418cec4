/** Mixtures of experts, of floats and of weights of few bits: the experts that a router ranks highest, weighed and added. */
import { gelu, relu, silu, softmax } from '../../../compose/nn.ts'
import { computeDType } from '../../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { repeatLast, scaled, unpackBits } from './blocks.ts'

interface Routing {
  /** Place of each expert in the order of the router's scores, lower numbers first where they are equal: [tokens, experts], i32. */
  readonly rank: n.Node
  /** What each expert's result counts, zero for those that are not chosen: [tokens, experts]. */
  readonly weights: n.Node
  readonly k: number
}

/**
 * The `k` experts of the highest scores: weighed by a softmax of theirs (`always`, or as the node says), else by what a softmax of all scores
 * gives them; or by weights given apart.
 */
function route(c: OpContext, scores: n.Node, given: n.Node | undefined, always: boolean): Routing {
  if (c.flag('use_sparse_mixer', false)) c.fail('the sparse mixer (use_sparse_mixer)')
  const [tokens = 0, experts = 0] = scores.shape
  const k = c.int('k', 1)
  c.requireShape(k >= 1 && k <= experts, scores.shape, `the router's scores, of which ${k} are chosen,`)
  const pairs = [tokens, experts, experts]
  const mine = n.broadcastTo(n.expandDims(scores, 2), pairs)
  const other = n.broadcastTo(n.expandDims(scores, 1), pairs)
  const earlier = n.compare('lt', n.iota(pairs, 2, 'i32'), n.iota(pairs, 1, 'i32'))
  const precedes = n.logicalOr(n.compare('gt', other, mine), n.logicalAnd(n.compare('eq', other, mine), earlier))
  const rank = n.sum(n.cast(precedes, 'i32'), [2])
  const chosen = n.compare('lt', rank, k)
  const normalise = c.flag('normalize_routing_weights', false)
  const work = n.cast(scores, computeDType(scores.dtype))
  const zero = n.scalarAs(work, 0)
  if (given !== undefined) {
    const kept = n.where(chosen, n.cast(given, work.dtype), zero)
    const total = n.sum(kept, [1], true)
    return {
      rank,
      k,
      weights: normalise ? n.div(kept, n.where(n.compare('eq', total, 0), n.scalarAs(total, 1), total)) : kept,
    }
  }
  const weights =
    normalise || always
      ? softmax(n.where(chosen, work, n.scalarAs(work, Number.NEGATIVE_INFINITY)))
      : n.where(chosen, softmax(work), zero)
  return { rank, k, weights }
}

/** What an expert's first products become. */
function activate(c: OpContext, first: n.Node, third: n.Node | undefined): n.Node {
  const type = c.string('activation_type', 'relu')
  if (type !== 'swiglu') {
    const f = { relu, gelu: (x: n.Node) => gelu(x), silu, identity: (x: n.Node) => x }
    const g = type === 'relu' || type === 'gelu' || type === 'silu' || type === 'identity' ? f[type] : undefined
    if (g === undefined) return c.fail(`the activation_type "${type}"`)
    const y = g(first)
    return third === undefined ? y : n.mul(y, third)
  }
  const last = first.shape.length - 1
  const width = first.shape[last] ?? 0
  const fusion = c.int('swiglu_fusion', 0)
  const [gate, linear] =
    third !== undefined
      ? [first, third]
      : fusion === 2
        ? [n.sliceAxis(first, last, 0, width / 2), n.sliceAxis(first, last, width / 2, width)]
        : [n.sliceAxis(first, last, 0, width, 2), n.sliceAxis(first, last, 1, width, 2)]
  const limit = c.optFloat('swiglu_limit')
  const g = limit === undefined ? gate : n.min(gate, limit)
  const l = limit === undefined ? linear : n.clip(linear, -limit, limit)
  const sigmoid = n.unary('sigmoid', n.mul(g, c.float('activation_alpha', 1)))
  return n.mul(n.mul(g, sigmoid), n.add(l, c.float('activation_beta', 0)))
}

interface Expert {
  /** [experts, out, in]. */
  readonly w: n.Node
  /** [experts, out]. */
  readonly b: n.Node | undefined
}

interface Experts {
  readonly first: Expert
  readonly second: Expert
  readonly third: Expert | undefined
}

/** All experts on all tokens: one product over experts and features at the end. */
function everyExpert(c: OpContext, x: n.Node, r: Routing, e: Experts): n.Node {
  const project = ({ w, b }: Expert): n.Node => {
    const y = n.contractLabelled(x, 'th', w, 'efh', 'tef')
    return b === undefined ? y : n.add(y, n.cast(b, y.dtype))
  }
  const hidden = activate(c, project(e.first), e.third === undefined ? undefined : project(e.third))
  const weighed = n.mul(hidden, n.cast(n.expandDims(r.weights, 2), hidden.dtype))
  const y = n.contractLabelled(weighed, 'tef', e.second.w, 'eof', 'to')
  if (e.second.b === undefined) return y
  return n.add(y, n.contractLabelled(n.cast(r.weights, y.dtype), 'te', n.cast(e.second.b, y.dtype), 'eo', 'to'))
}

/** The chosen experts' weights for each token: for few tokens, which choose fewer experts than there are. */
function chosenExperts(c: OpContext, x: n.Node, r: Routing, e: Experts): n.Node {
  const [tokens = 0, experts = 0] = r.rank.shape
  const shape = [tokens, r.k, experts]
  const here = n.compare('eq', n.broadcastTo(n.expandDims(r.rank, 1), shape), n.iota(shape, 1, 'i32'))
  const index = n.sum(n.where(here, n.iota(shape, 2, 'i32'), n.full(shape, 0, 'i32')), [2])
  const weight = n.sum(n.where(here, n.expandDims(r.weights, 1), n.scalarAs(r.weights, 0)), [2])
  const of = (v: n.Node): n.Node => n.take(v, index, 0)
  const project = ({ w, b }: Expert): n.Node => {
    const y = n.contractLabelled(x, 'th', of(w), 'tkfh', 'tkf')
    return b === undefined ? y : n.add(y, n.cast(of(b), y.dtype))
  }
  const hidden = activate(c, project(e.first), e.third === undefined ? undefined : project(e.third))
  const second = n.contractLabelled(hidden, 'tkf', of(e.second.w), 'tkof', 'tko')
  const biased = e.second.b === undefined ? second : n.add(second, n.cast(of(e.second.b), second.dtype))
  return n.sum(n.mul(biased, n.cast(n.expandDims(weight, 2), biased.dtype)), [1])
}

function mixture(c: OpContext, r: Routing, e: Experts): n.Node {
  const input = c.need(0)
  const width = input.shape.at(-1) ?? 0
  const [tokens = 0, experts = 0] = r.rank.shape
  const x = n.reshape(input, [tokens, width])
  const y = tokens * r.k <= experts ? chosenExperts(c, x, r, e) : everyExpert(c, x, r, e)
  return n.reshape(n.cast(y, input.dtype), input.shape)
}

const moe: Handler = (c) => {
  const expert = (i: number): Expert => ({ w: c.need(i), b: c.opt(i + 1) })
  const third = c.opt(6) === undefined ? undefined : expert(6)
  return mixture(c, route(c, c.need(1), undefined, false), { first: expert(2), second: expert(4), third })
}

/** Weights [experts, out, in] from bytes, a scale for each row or for each block of it, and zero points packed like the weights. */
function dequantised(c: OpContext, bytes: n.Node, scales: n.Node, zeros: n.Node | undefined): n.Node {
  const bits = c.int('expert_weight_bits', 4)
  if (bits !== 2 && bits !== 4 && bits !== 8) c.fail(`weights of ${bits} bits`)
  const codes = unpackBits(bytes, bits)
  const [experts = 1, rows = 1, length = 1] = codes.shape
  const to = c.need(0).dtype
  const blockwise = scales.shape.length === 3
  const blocks = blockwise ? (scales.shape[2] ?? 1) : 1
  const size = blockwise && blocks > 1 ? c.int('block_size', length / blocks) || length / blocks : length
  const beside = (v: n.Node): n.Node =>
    blocks > 1 ? repeatLast(n.reshape(v, [experts, rows, blocks]), size, length) : n.reshape(v, [experts, rows, 1])
  if (zeros === undefined) return scaled(codes, 2 ** (bits - 1), beside(scales), to)
  // Zero points of rows are packed along the rows, those of blocks along the blocks.
  const points = unpackBits(zeros, bits)
  const last = points.shape.length - 1
  return scaled(codes, beside(n.sliceAxis(points, last, 0, blockwise ? blocks : rows)), beside(scales), to)
}

const qMoe: Handler = (c) => {
  const type = c.string('quant_type', 'int')
  if (type !== 'int') c.fail(`weights of quant_type "${type}"`)
  if (c.int('weights_prepacked', -1) === 1) c.fail('weights arranged for one GPU (weights_prepacked)')
  const expert = (i: number, zero: number): Expert => ({
    w: dequantised(c, c.need(i), c.need(i + 1), c.opt(zero)),
    b: c.opt(i + 2),
  })
  const third = c.opt(8) === undefined ? undefined : expert(8, 13)
  return mixture(c, route(c, c.need(1), c.opt(14), true), { first: expert(2, 11), second: expert(5, 12), third })
}

export const contribMoeHandlers: HandlerTable = { MoE: moe, QMoE: qMoe }
