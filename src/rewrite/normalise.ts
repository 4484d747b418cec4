/** Normal forms: one order of commutative operands, chains of casts, views of repeated values, results without elements. */
import { makeNode } from '../graph/build.ts'
import type { Node, OpName } from '../graph/node.ts'
import { opTable } from '../graph/table.ts'
import { type ScalarOp, scalarInfo, scalarOps } from '../scalar/ops.ts'
import { type DType, dtypeBits, dtypeClass, isFloat, isInteger } from '../types/dtype.ts'
import { sizeOf } from '../types/shape.ts'
import { fullOf, literalLeaf } from './facts.ts'
import { type Rule, rule, ruleOn } from './rule.ts'

const isOpName = (name: string): name is OpName => Object.hasOwn(opTable, name)
const allOps: readonly OpName[] = Object.keys(opTable).filter(isOpName)

const commutative = (Object.keys(scalarOps) as readonly ScalarOp[]).filter((op) => scalarInfo(op).commutative === true)

/** Repeated values stand last, other literals before them, the rest in order of age. */
function rank(n: Node): number {
  if (n.op === 'full') return 2
  return literalLeaf(n) === undefined ? 0 : 1
}

const standsBefore = (a: Node, b: Node): boolean => {
  const [ra, rb] = [rank(a), rank(b)]
  return ra === rb ? a.id <= b.id : ra < rb
}

/** Digits of the significand, the leading one included. */
const precision = { f64: 53, f32: 24, f16: 11, bf16: 8 } as const

/** Whether every value of `from` is a value of `to`. */
export function holdsAll(to: DType, from: DType): boolean {
  if (from === to || from === 'bool') return true
  if (to === 'bool') return false
  if (isFloat(to)) {
    if (isFloat(from)) return to === 'f64' || (to === 'f32' && from !== 'f64')
    const bits = dtypeBits(from) - (dtypeClass(from) === 'signed' ? 1 : 0)
    return bits <= precision[to]
  }
  if (isFloat(from)) return false
  if (dtypeClass(from) === dtypeClass(to)) return dtypeBits(to) >= dtypeBits(from)
  return dtypeClass(to) === 'signed' && dtypeBits(to) > dtypeBits(from)
}

/**
 * Whether casting `from` -> `via` -> `to` is casting `from` -> `to`. Integers wrap into integers, floats saturate, so a
 * detour by a float must not meet an integer too narrow.
 */
export function skipsCast(from: DType, via: DType, to: DType): boolean {
  if (isInteger(from) && isInteger(via) && isInteger(to)) return dtypeBits(via) >= dtypeBits(to) || holdsAll(via, from)
  if (!holdsAll(via, from)) return false
  return !(isInteger(from) && isFloat(via) && isInteger(to)) || holdsAll(to, from)
}

const casts: readonly Rule[] = [
  rule('cast', 'exact', 'cast-same', 'cast to the dtype it has -> x', ({ inputs: [x], dtype }) =>
    x?.dtype === dtype ? x : undefined,
  ),
  rule(
    'cast',
    'exact',
    'cast-cast',
    'cast(cast(x)) -> cast(x), where the first loses nothing the second keeps',
    ({ inputs: [x], dtype }) => {
      const y = x?.op === 'cast' ? x.inputs[0] : undefined
      if (x === undefined || y === undefined || !skipsCast(y.dtype, x.dtype, dtype)) return undefined
      return y.dtype === dtype ? y : makeNode('cast', [y], { dtype })
    },
  ),
  rule('bitcast', 'exact', 'bitcast-same', 'bitcast to the dtype it has -> x', ({ inputs: [x], dtype }) =>
    x?.dtype === dtype ? x : undefined,
  ),
  rule(
    'bitcast',
    'exact',
    'bitcast-there-and-back',
    'bitcast(bitcast(x)) of a float through an integer, to its own dtype -> x',
    ({ inputs: [x], dtype }) => {
      const y = x?.op === 'bitcast' ? x.inputs[0] : undefined
      return x !== undefined && y?.dtype === dtype && isInteger(x.dtype) ? y : undefined
    },
  ),
  rule(
    'bitcast',
    'exact',
    'bitcast-bitcast',
    'bitcast(bitcast(x)) of integers -> bitcast(x)',
    ({ inputs: [x], dtype }) => {
      const y = x?.op === 'bitcast' ? x.inputs[0] : undefined
      // Through floats, NaN bits need not survive; through bool, only 0 and 1 do.
      if (x === undefined || y === undefined || !isInteger(x.dtype) || !isInteger(y.dtype)) return undefined
      return makeNode('bitcast', [y], { dtype })
    },
  ),
]

/** Ops whose every result element is some input element: of a repeated value they repeat it. */
const selecting = allOps.filter((op) => op !== 'pad' && ['view', 'gather'].includes(opTable[op].family))

const fulls: readonly Rule[] = [
  ruleOn(selecting, 'exact', 'view-of-full', 'a view of one repeated value repeats it', (node) => {
    const [x] = node.inputs
    if (x?.op !== 'full') return undefined
    const { value } = x.attrs
    const data = node.op === 'gather' ? [x] : node.inputs
    const same = data.every((y) => y.op === 'full' && Object.is(y.attrs.value, value))
    return same ? makeNode('full', [], { value, dtype: node.dtype, shape: node.shape }) : undefined
  }),
  rule(
    'pad',
    'exact',
    'pad-of-full',
    'a repeated value padded with itself repeats',
    ({ inputs: [x], attrs, shape, dtype }) => {
      const fits =
        x !== undefined && (sizeOf(x.shape) === 0 || (x.op === 'full' && Object.is(x.attrs.value, attrs.value)))
      return fits ? makeNode('full', [], { value: attrs.value, dtype, shape }) : undefined
    },
  ),
  rule('iota', 'exact', 'iota-of-unit', 'index along an axis of extent 1 is 0', ({ attrs, shape, dtype }) =>
    shape[attrs.axis] === 1 ? fullOf(shape, dtype, 0) : undefined,
  ),
  rule('broadcast', 'exact', 'broadcast-of-iota', 'broadcast(iota) -> iota', ({ inputs: [x], attrs, shape, dtype }) => {
    const axis = x?.op === 'iota' ? attrs.dims[x.attrs.axis] : undefined
    if (x?.op !== 'iota' || axis === undefined || shape[axis] !== x.shape[x.attrs.axis]) return undefined
    return makeNode('iota', [], { axis, shape, dtype })
  }),
  rule('permute', 'exact', 'permute-of-iota', 'permute(iota) -> iota', ({ inputs: [x], attrs, shape, dtype }) =>
    x?.op === 'iota' ? makeNode('iota', [], { axis: attrs.perm.indexOf(x.attrs.axis), shape, dtype }) : undefined,
  ),
]

const emptiness = ruleOn(
  allOps.filter((op) => op !== 'full' && opTable[op].boundary === undefined && op !== 'param'),
  'exact',
  'empty-result',
  'a result without elements is any literal of its shape',
  (node) => (node.shape.includes(0) ? fullOf(node.shape, node.dtype, 0) : undefined),
)

const order = ruleOn(
  commutative,
  'exact',
  'commute',
  'operands of commutative operations in one order, literals last',
  (node) => {
    const [a, b] = node.inputs
    if (a === undefined || b === undefined || standsBefore(a, b)) return undefined
    return makeNode<OpName>(node.op, [b, a], {}) as Node
  },
)

/** Tried before all others. */
export const firstRules: readonly Rule[] = [emptiness, order]
export const normalRules: readonly Rule[] = [...casts, ...fulls]
