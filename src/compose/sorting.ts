/**
 * Sorting, as compositions. Every dtype has unsigned keys in its order, so one sort serves all: NaN is last, zeros of either sign are equal,
 * and equal elements keep their order. Short rows are ranked by comparing all pairs, in one kernel or two; longer ones go through a radix sort
 * of four bits a pass, in which each element's new place is where its digit begins, and how many before it have that digit (D. E. Knuth, The Art of
 * Computer Programming 3, 5.2.5). What both cost says docs/graph.md.
 */
import { UserError } from '../diagnostics/errors.ts'
import { makeNode, param } from '../graph/build.ts'
import type { Node } from '../graph/node.ts'
import { graphBetween } from '../graph/subgraph.ts'
import { type DType, dtypeBits, dtypeClass, isFloat, positionDType, unsignedOf } from '../types/dtype.ts'
import { normaliseAxis, showShape, sizeOf } from '../types/shape.ts'
import { broadcastTo, expandDims, reshape } from './broadcast.ts'
import { customNodes, loopNodes } from './control.ts'
import { add, binary, bitcast, cast, compare, logicalAnd, logicalOr, mul, unary, where } from './elementwise.ts'
import { takeAlongAxis } from './indexing.ts'
import { reduceMin, scan, sum } from './reduce.ts'
import { constant, full, iota, zeros } from './source.ts'
import { moveAxis, pad, sliceAxis, stack } from './views.ts'

/** Unsigned integers in the order of elements: u32 with `bits` of them used, or u64. */
interface Keys {
  readonly node: Node
  readonly bits: number
}

const keyDType = (bits: number): 'u32' | 'u64' => (bits === 64 ? 'u64' : 'u32')
/** 2^power as a host number beside keys. */
const power = (bits: number, exponent: number): number | bigint =>
  bits === 64 ? 1n << BigInt(exponent) : 2 ** exponent
/** All bits of a key. */
const ones = (bits: number): number | bigint => (bits === 64 ? (1n << 64n) - 1n : 2 ** bits - 1)

/** Elements as keys that ascend, or descend, with them. Floats below zero have all their bits turned, others the first: so their order is that of integers. */
function keysOf(x: Node, descending: boolean): Keys {
  const bits = x.dtype === 'bool' ? 1 : dtypeBits(x.dtype)
  const raw = (y: Node): Node => cast(y.dtype === 'bool' ? y : bitcast(y, unsignedOf(y.dtype)), keyDType(bits))
  const ordered = (): Node => {
    if (isFloat(x.dtype)) {
      const plain = raw(where(compare('eq', x, 0), 0, x))
      const top = power(bits, bits - 1)
      const turned = binary(
        'xor',
        plain,
        where(compare('ge', plain, top), full([], ones(bits), plain.dtype), full([], top, plain.dtype)),
      )
      return where(unary('isnan', x), ones(bits), turned)
    }
    return dtypeClass(x.dtype) === 'signed' ? binary('xor', raw(x), power(bits, bits - 1)) : raw(x)
  }
  return { node: descending ? binary('xor', ordered(), ones(bits)) : ordered(), bits }
}

/** The elements that keys stand for. */
function elementsOf({ node, bits }: Keys, dtype: DType, descending: boolean): Node {
  const key = descending ? binary('xor', node, ones(bits)) : node
  const top = power(bits, bits - 1)
  const plain = (): Node => {
    if (isFloat(dtype))
      return binary(
        'xor',
        key,
        where(compare('ge', key, top), full([], top, key.dtype), full([], ones(bits), key.dtype)),
      )
    return dtypeClass(dtype) === 'signed' ? binary('xor', key, top) : key
  }
  return dtype === 'bool' ? cast(key, 'bool') : bitcast(cast(plain(), unsignedOf(dtype)), dtype)
}

/** Rows up to this length are ranked by all pairs: as many comparisons an element cost what the passes of a radix sort do. */
const mostRanked = 128

/** Elements of a block, whose digits are counted in bytes: four counters in a word. */
const blockLength = 128
const digitBits = 4
const digits = 2 ** digitBits

/** The place of every element of rows [rows, blocks * length] when they are sorted by a digit of their keys, in their order where these are equal. */
function placesByDigit(keys: Node, shift: Node, blocks: number, length: number): Node {
  const [rows = 0, n = 0] = keys.shape
  const digit = reshape(cast(binary('and', binary('shr', keys, shift), digits - 1), 'u32'), [rows, blocks, length])
  const byte = binary('shl', binary('and', digit, 3), 3)
  const isIn = compare('eq', expandDims(binary('shr', digit, 2), 1), iota([1, digits / 4, 1, 1], 1, 'u32'))
  const one = expandDims(binary('shl', full(digit.shape, 1, 'u32'), byte), 1)
  const words = where(isIn, one, 0)
  const dtype = positionDType({ lo: 0, hi: n })
  const counter = (packed: Node, at: Node): Node => cast(binary('and', binary('shr', packed, at), 255), dtype)
  const inBlock = expandDims(sum(words, 3), 2)
  const counters = counter(inBlock, binary('shl', iota([1, 1, 4, 1], 2, 'u32'), 3))
  const starts = scan('sum', reshape(counters, [rows, digits * blocks]), 1, { exclusive: true })
  const before = sum(where(isIn, scan('sum', words, 3, { exclusive: true }), 0), 1)
  const own = add(mul(cast(digit, dtype), blocks), iota(digit.shape, 1, dtype))
  const start = takeAlongAxis(reshape(starts, [rows, 1, digits * blocks]), own, 2)
  return reshape(add(counter(before, byte), start), [rows, n])
}

/** Rows [rows, n] by their keys, equal ones in order: the keys, and what is carried along, sorted in the same way. */
function radixSort({ node, bits }: Keys, carried: readonly Node[]): Node[] {
  const n = node.shape[1] ?? 0
  const length = n <= 255 ? n : blockLength
  const blocks = Math.ceil(n / length)
  const whole = blocks * length
  const padded = (x: Node, value: number | bigint): Node =>
    pad(
      x,
      [
        [0, 0],
        [0, whole - n],
      ],
      'constant',
      value,
    )
  const init = [padded(node, ones(bits)), ...carried.map((x) => padded(x, 0))]
  const inner = init.map((x, i) => param(i, x.shape, x.dtype))
  const shift = param(inner.length, [], node.dtype)
  const [keys = node] = inner
  const places = placesByDigit(keys, shift, blocks, length)
  const moved = inner.map((x) =>
    makeNode('scatter', [zeros(x.shape, x.dtype), x, places], {
      sources: [{ axis: 0 }, { input: 0 }],
      combiner: 'set',
      distinct: true,
      covers: true,
    }),
  )
  const passes = Math.ceil(bits / digitBits)
  const body = graphBetween([...inner, shift], moved)
  const shifts = Array.from({ length: passes }, (_, i) => i * digitBits)
  const sequence =
    bits === 64
      ? constant(BigUint64Array.from(shifts, BigInt), [passes], 'u64')
      : constant(Uint32Array.from(shifts), [passes], 'u32')
  return loopNodes(body, { length: passes }, [], init, [sequence]).carries.map((x) => sliceAxis(x, 1, 0, n))
}

/** Whether element j of a row comes before element i: [rows, n (i), n (j)]. */
function precedes(keys: Node): Node {
  const [rows = 0, n = 0] = keys.shape
  const pairs = [rows, n, n]
  const mine = broadcastTo(expandDims(keys, 2), pairs)
  const other = broadcastTo(expandDims(keys, 1), pairs)
  const earlier = compare('lt', iota(pairs, 2), iota(pairs, 1))
  return logicalOr(compare('lt', other, mine), logicalAnd(compare('eq', other, mine), earlier))
}

/** The positions that the first `count` elements of sorted rows [rows, n] have in them, of all pairs. */
function rankedOrder({ node }: Keys, count: number): Node {
  const [rows = 0, n = 0] = node.shape
  const rank = sum(cast(precedes(node), 'i32'), 2)
  const places = [rows, count, n]
  const here = compare('eq', broadcastTo(expandDims(rank, 1), places), iota(places, 1))
  return sum(where(here, iota(places, 2), 0), 2)
}

/** The order of rows [rows, n], or the first `count` of it. */
function orderOf(keys: Keys, count: number): Node {
  const [rows = 0, n = 0] = keys.node.shape
  if (count === 0 || rows === 0) return zeros([rows, count], 'i32')
  if (n <= mostRanked) return rankedOrder(keys, count)
  const [, order = keys.node] = radixSort(keys, [iota([rows, n], 1)])
  return sliceAxis(order, 1, 0, count)
}

/** An axis as rows, and rows of another length as that axis again. */
function asRows(x: Node, axis: number): { readonly rows: Node; readonly back: (y: Node) => Node } {
  const a = normaliseAxis(axis, x.shape.length)
  const last = moveAxis(x, a, -1)
  const head = last.shape.slice(0, -1)
  const n = last.shape.at(-1) ?? 0
  return {
    rows: reshape(last, [sizeOf(head), n]),
    back: (y) => moveAxis(reshape(y, [...head, y.shape[1] ?? 0]), -1, a),
  }
}

/** Options of sorts. */
export interface SortOptions {
  /** The axis to sort along; the last unless given. */
  readonly axis?: number
  /** From the greatest to the least; NaN is first. Equal elements keep their order all the same. */
  readonly descending?: boolean
}

/** The positions of an axis in the order of its elements, equal ones in their order (NumPy's stable argsort): i32. Throws E_AXIS. */
export function argsort(x: Node, options: SortOptions = {}): Node {
  const { rows, back } = asRows(x, options.axis ?? -1)
  return back(orderOf(keysOf(rows, options.descending === true), rows.shape[1] ?? 0))
}

/** Sorted rows whose derivative is not asked for: their keys alone are moved. */
function sortedRows(rows: Node, descending: boolean): Node {
  const keys = keysOf(rows, descending)
  const [node = keys.node] = radixSort(keys, [])
  return elementsOf({ node, bits: keys.bits }, rows.dtype, descending)
}

/** Sorted rows of floats: their tangents go where they go, in the order that argsort gives. */
function differentiableRows(rows: Node, descending: boolean): Node {
  const [x, tangent] = [param(0, rows.shape, rows.dtype), param(1, rows.shape, rows.dtype)]
  const order = orderOf(keysOf(x, descending), rows.shape[1] ?? 0)
  const graph = graphBetween([x, tangent], [takeAlongAxis(x, order, 1), takeAlongAxis(tangent, order, 1)])
  const body = graphBetween([x], [sortedRows(x, descending)])
  const [sorted = rows] = customNodes(body, { kind: 'jvp', name: 'sort', graph }, [rows])
  return sorted
}

/** An axis in order: NaN last, zeros of either sign equal. Throws E_AXIS. */
export function sort(x: Node, options: SortOptions = {}): Node {
  const { rows, back } = asRows(x, options.axis ?? -1)
  const descending = options.descending === true
  const n = rows.shape[1] ?? 0
  if (n < 2 || sizeOf(rows.shape) === 0) return x
  if (n <= mostRanked) return back(takeAlongAxis(rows, orderOf(keysOf(rows, descending), n), 1))
  return back(isFloat(x.dtype) ? differentiableRows(rows, descending) : sortedRows(rows, descending))
}

/** So many of a longer row are found one by one, each in a pass over it: a sort takes twice as many passes, and moves the row in each. */
const mostRounds = 8

/** The positions of the first `count` elements of sorted rows, one after the other: the least key beyond the last one, and where it is first. */
function foundOrder({ node, bits }: Keys, count: number): Node {
  const [rows = 0, n = 0] = node.shape
  const position = iota([rows, n], 1)
  const found: Node[] = []
  let beyond: Node | undefined
  for (let i = 0; i < count; i++) {
    const left = beyond === undefined ? node : where(beyond, node, ones(bits))
    const least = reduceMin(left, 1, true)
    const isLeast = compare('eq', node, least)
    const at = reduceMin(where(beyond === undefined ? isLeast : logicalAnd(beyond, isLeast), position, n - 1), 1, true)
    found.push(reshape(at, [rows]))
    beyond = logicalOr(compare('gt', node, least), logicalAnd(isLeast, compare('gt', position, at)))
  }
  return stack(found, 1)
}

/** Options of `topK`. */
export interface TopKOptions {
  /** The axis to look along; the last unless given. */
  readonly axis?: number
  /** The greatest elements, from the greatest on, unless false: then the least, from the least on. */
  readonly largest?: boolean
}

/** The k greatest (or least) elements of an axis in order, and their positions (i32); of equal ones the first. NaN is beyond all numbers. Throws E_AXIS, E_SHAPE. */
export function topK(x: Node, k: number, options: TopKOptions = {}): [Node, Node] {
  const { rows, back } = asRows(x, options.axis ?? -1)
  const n = rows.shape[1] ?? 0
  if (k < 0 || k > n)
    throw new UserError('E_SHAPE', `the ${k} greatest of ${n} elements of ${showShape(x.shape)}`, {
      help: 'ask for at most as many as the axis has',
    })
  const keys = keysOf(rows, options.largest !== false)
  const isFew = n > mostRanked && k > 0 && k <= mostRounds && sizeOf(rows.shape) > 0
  const order = isFew ? foundOrder(keys, k) : orderOf(keys, k)
  return [back(sizeOf(order.shape) === 0 ? sliceAxis(rows, 1, 0, k) : takeAlongAxis(rows, order, 1)), back(order)]
}
