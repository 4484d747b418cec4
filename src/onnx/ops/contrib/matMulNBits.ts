/** Products with weights of 2, 4 or 8 bits in blocks, and what onnxruntime fuses with them; products with 4-bit floats of bitsandbytes. */
import { gelu, relu, silu } from '../../../compose/nn.ts'
import { computeDType } from '../../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../../context.ts'
import * as n from '../../nodes.ts'
import { quickGelu } from './activation.ts'
import { repeatLast, scaled, unpackBits } from './blocks.ts'

/** Attributes that say how weights [N, K] stand. */
interface Packing {
  readonly k: number
  readonly n: number
  readonly bits: number
  readonly block: number
}

function packingOf(c: OpContext, rows: string): Packing {
  const bits = c.int('bits', 4)
  if (bits !== 2 && bits !== 4 && bits !== 8) c.fail(`weights of ${bits} bits`)
  if (c.int('weight_prepacked', 0) !== 0) c.fail('weights arranged for one GPU (weight_prepacked)')
  const block = c.int('block_size', 0)
  if (block < 16 || 2 ** Math.round(Math.log2(block)) !== block) c.fail(`blocks of ${block} elements`)
  return { k: c.int('K', 0), n: c.int(rows, 0), bits, block }
}

interface Quantised {
  readonly bytes: n.Node
  readonly scales: n.Node
  readonly zeros?: n.Node | undefined
  readonly groups?: n.Node | undefined
}

/** Zero points [N, blocks]: packed like weights, each row filled up to whole bytes, or numbers as they are. */
function zeroPoints(c: OpContext, p: Packing, blocks: number, zeros: n.Node | undefined): n.Node | number {
  if (zeros === undefined) return 2 ** (p.bits - 1)
  if (zeros.dtype !== 'u8') return n.reshape(zeros, [p.n, blocks])
  const bytes = Math.ceil((blocks * p.bits) / 8)
  c.requireShape(zeros.shape.reduce((a, b) => a * b, 1) === p.n * bytes, zeros.shape, 'the tensor of zero points')
  return n.sliceAxis(unpackBits(n.reshape(zeros, [p.n, bytes]), p.bits), 1, 0, blocks)
}

/** Dequantised weights [N, K]: (code - zero) scale, blockwise along K; `groups` names the block of each element of K. */
function weights(c: OpContext, p: Packing, q: Quantised, to: n.Node['dtype']): n.Node {
  const blocks = Math.ceil(p.k / p.block)
  const blob = (p.block * p.bits) / 8
  c.requireShape(
    q.bytes.shape.reduce((a, b) => a * b, 1) === p.n * blocks * blob,
    q.bytes.shape,
    `the tensor of weights of K ${p.k}, N ${p.n}, ${p.bits} bits, blocks of ${p.block}`,
  )
  const zeros = zeroPoints(c, p, blocks, q.zeros)
  const scales = n.reshape(q.scales, [p.n, blocks])
  if (q.groups === undefined) {
    const codes = unpackBits(n.reshape(q.bytes, [p.n, blocks, blob]), p.bits)
    const beside = (v: n.Node): n.Node => n.expandDims(v, -1)
    const values = scaled(codes, typeof zeros === 'number' ? zeros : beside(zeros), beside(scales), to)
    return n.sliceAxis(n.reshape(values, [p.n, blocks * p.block]), 1, 0, p.k)
  }
  const codes = n.sliceAxis(unpackBits(n.reshape(q.bytes, [p.n, blocks * blob]), p.bits), 1, 0, p.k)
  const index = n.reshape(q.groups, [-1])
  c.requireShape((index.shape[0] ?? 0) >= p.k, q.groups.shape, `the tensor of ${p.k} groups`)
  const of = (v: n.Node): n.Node => n.take(v, n.sliceAxis(index, 0, 0, p.k), 1)
  return scaled(codes, typeof zeros === 'number' ? zeros : of(zeros), of(scales), to)
}

/** A W' + bias, the weights in the input's dtype. */
function product(c: OpContext, a: n.Node, p: Packing, q: Quantised, bias: n.Node | undefined): n.Node {
  c.requireShape(a.shape.at(-1) === p.k, a.shape, `the input of K ${p.k}`)
  const lead = n.labels(a.shape.length - 1, 2)
  const y = n.contractLabelled(a, `${lead}a`, weights(c, p, q, a.dtype), 'ba', `${lead}b`)
  return bias === undefined ? y : n.add(y, n.cast(bias, a.dtype))
}

const matMulNBits: Handler = (c) =>
  product(
    c,
    c.need(0),
    packingOf(c, 'N'),
    { bytes: c.need(1), scales: c.need(2), zeros: c.opt(3), groups: c.opt(4) },
    c.opt(5),
  )

interface Shared {
  /** What the projections read. */
  readonly x: n.Node
  /** Input and residual. */
  readonly sum: n.Node | undefined
}

/** The input, with a residual added and by its root mean square where the node asks for it. */
function normalised(c: OpContext): Shared {
  const a = c.need(0)
  const [skip, scale] = [c.opt(1), c.opt(2)]
  const work = computeDType(a.dtype)
  const sum = skip === undefined ? n.cast(a, work) : n.add(n.cast(a, work), n.cast(skip, work))
  const kept = skip === undefined ? undefined : n.cast(sum, a.dtype)
  if (scale === undefined) return { x: kept ?? a, sum: kept }
  const last = [a.shape.length - 1]
  const inverse = n.unary('rsqrt', n.add(n.mean(n.square(sum), last, true), c.float('epsilon', 1e-5)))
  return { x: n.cast(n.mul(n.mul(sum, inverse), n.cast(scale, work)), a.dtype), sum: kept }
}

const gates: Readonly<Record<string, (x: n.Node) => n.Node>> = {
  gelu: (x) => gelu(x),
  quickgelu: (x) => quickGelu(x, 1.702),
  relu,
  sigmoid: (x) => n.unary('sigmoid', x),
  silu: (x) => silu(x),
  swish: (x) => silu(x),
}

/** activation(gate projection) times the up projection. */
const matMulNBitsMlp: Handler = (c) => {
  const { x, sum } = normalised(c)
  const packing = packingOf(c, 'N')
  const name = c.string('activation', '').toLowerCase()
  const gate = Object.hasOwn(gates, name) ? gates[name] : undefined
  if (gate === undefined) return c.fail(`the activation "${name}"`)
  const of = (i: number): n.Node => product(c, x, packing, { bytes: c.need(i), scales: c.need(i + 1) }, c.opt(i + 2))
  return [n.mul(gate(of(3)), of(6)), sum]
}

const matMulNBitsQkv: Handler = (c) => {
  const { x, sum } = normalised(c)
  const of = (i: number, rows: string): n.Node =>
    product(c, x, packingOf(c, rows), { bytes: c.need(i), scales: c.need(i + 1) }, c.opt(i + 2))
  return [of(3, 'Nq'), of(6, 'Nkv'), of(9, 'Nkv'), sum]
}

/** Magnitudes of FP4, a float of three bits; the fourth is the sign. */
const fp4 = [0, 0.00520833333, 0.66666667, 1, 0.33333333, 0.5, 0.16666667, 0.25]
/** NF4: quantiles of the normal distribution (Dettmers et al. 2023). */
const nf4 = [
  -1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
  -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
  0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1,
]
/** Values of the 4-bit codes of bitsandbytes, by quant_type. */
const bnb4: readonly (readonly number[])[] = [[...fp4, ...fp4.map((v) => -v)], nf4]

/** A W' with W [N, K] of codes, two a byte with the first in the high half, and a greatest magnitude for each block of the flat weights. */
const matMulBnb4: Handler = (c) => {
  const a = c.need(0)
  const [k, rows, block] = [c.int('K', 0), c.int('N', 0), c.int('block_size', 0)]
  const type = c.int('quant_type', 1)
  const table = bnb4[type] ?? c.fail(`the quant_type ${type}`)
  const work = a.dtype
  const bytes = n.reshape(c.need(1), [-1])
  const count = bytes.shape[0] ?? 0
  const total = k * rows
  c.requireShape(count === Math.ceil(total / 2), c.need(1).shape, `the tensor of weights of K ${k}, N ${rows}`)
  const pairs = [count, 2]
  const shift = n.sub(4, n.mul(n.iota(pairs, 1, 'i32'), 4))
  const wide = n.broadcastTo(n.expandDims(n.cast(bytes, 'i32'), -1), pairs)
  const codes = n.binary('and', n.binary('shr', wide, shift), n.full([], 15, 'i32'))
  const flat = n.sliceAxis(n.reshape(codes, [2 * count]), 0, 0, total)
  const values = n.take(n.floats(table, [16], work), flat, 0)
  const scale = repeatLast(n.cast(n.reshape(c.need(2), [-1]), work), block, total)
  const w = n.reshape(n.mul(values, scale), [rows, k])
  const lead = n.labels(a.shape.length - 1, 2)
  return n.contractLabelled(a, `${lead}a`, w, c.flag('transB', true) ? 'ba' : 'ab', `${lead}b`)
}

export const contribMatMulHandlers: HandlerTable = {
  MatMulBnb4: matMulBnb4,
  MatMulNBits: matMulNBits,
  MatMulNBitsMlp: matMulNBitsMlp,
  MatMulNBitsQkv: matMulNBitsQkv,
}
