/** Elementwise ONNX operators: arithmetic, comparison, logic, bits, rounding. */
import { UserError } from '../../diagnostics/errors.ts'
import { readElement } from '../../scalar/host.ts'
import type { BinaryName, UnaryName } from '../../scalar/ops.ts'
import { type DType, dtypeBits, dtypeClass, isFloat } from '../../types/dtype.ts'
import type { Handler, HandlerTable, OpContext } from '../context.ts'
import * as n from '../nodes.ts'

const one =
  (op: UnaryName): Handler =>
  (c) =>
    n.unary(op, c.need(0))

/** Operator sets before 7 broadcast only with `broadcast = 1`, the second operand's axes placed from `axis`. */
function operands(c: OpContext): [n.Node, n.Node] {
  const a = c.need(0)
  const b = c.need(1)
  const axis = c.optInt('axis')
  if (c.opset >= 7 || axis === undefined) return [a, b]
  const from = axis < 0 ? axis + a.shape.length : axis
  const shape = a.shape.map((_, i) => b.shape[i - from] ?? 1)
  return [a, n.reshape(b, shape)]
}

const two =
  (op: BinaryName): Handler =>
  (c) => {
    const [a, b] = operands(c)
    if (a.dtype !== b.dtype)
      throw new UserError('E_DTYPE', `operands of ${a.dtype} and ${b.dtype}`, {
        help: 'ONNX promotes nothing: insert a Cast',
      })
    return n.binary(op, a, b)
  }

const many =
  (op: BinaryName): Handler =>
  (c) =>
    c.all().reduce((a, b) => n.binary(op, a, b))

/** Whether the model's own value of a node is whole. */
function isWhole(c: OpContext, x: n.Node): boolean {
  const own = c.services.ownValue(x)
  if (own === undefined) return false
  for (let i = 0; i < own.data.length; i++) if (!Number.isInteger(readElement(own.data, own.dtype, i))) return false
  return true
}

/** Pow gives the base's dtype; a base of whole numbers with a float exponent is computed in floats. */
const power: Handler = (c) => {
  const base = c.need(0)
  const exponent = c.need(1)
  if (isWhole(c, exponent)) c.host(1, 'whole exponent')
  if (isFloat(base.dtype)) return n.pow(base, n.cast(exponent, base.dtype))
  if (!isFloat(exponent.dtype)) return n.pow(base, n.cast(exponent, base.dtype))
  const wide: DType = dtypeBits(base.dtype) > 16 || exponent.dtype === 'f64' ? 'f64' : 'f32'
  return n.cast(n.pow(n.cast(base, wide), n.cast(exponent, wide)), base.dtype)
}

const modulo: Handler = (c) => {
  const a = c.need(0)
  const b = c.need(1)
  if (c.flag('fmod', false)) return n.rem(a, b)
  return n.floorMod(a, b)
}

const bitShift: Handler = (c) => {
  const direction = c.string('direction', '')
  if (direction !== 'LEFT' && direction !== 'RIGHT')
    throw new UserError('E_ONNX_MALFORMED', `BitShift has direction "${direction}"`)
  return n.binary(direction === 'LEFT' ? 'shl' : 'shr', c.need(0), c.need(1))
}

/** Bounds: attributes before operator set 11, scalar inputs since. */
const clip: Handler = (c) => {
  const x = c.need(0)
  const bound = (i: number, name: string): n.Node | undefined => {
    const given = c.opt(i)
    if (given !== undefined) return n.asScalar(given)
    const v = c.optFloat(name)
    return v === undefined ? undefined : n.scalarAs(x, v)
  }
  return n.clip(x, bound(1, 'min'), bound(2, 'max'))
}

const isInf: Handler = (c) => {
  const x = c.need(0)
  const negative = c.flag('detect_negative', true)
  const positive = c.flag('detect_positive', true)
  const inf = n.unary('isinf', x)
  if (negative && positive) return inf
  if (!negative && !positive) return n.full(x.shape, false, 'bool')
  return n.logicalAnd(inf, n.compare(positive ? 'gt' : 'lt', x, 0))
}

const average: Handler = (c) => {
  const xs = c.all()
  return n.div(
    xs.reduce((a, b) => n.add(a, b)),
    xs.length,
  )
}

const bitCast: Handler = (c) => {
  const x = c.need(0)
  const to = c.dtype('to')
  if (dtypeBits(x.dtype) !== dtypeBits(to)) c.fail(`a bit cast from ${x.dtype} to ${to} changes the width`)
  return n.bitcast(x, to)
}

/** Sign of an unsigned value is 0 or 1, which `sign` gives on every numeric dtype. */
const absolute: Handler = (c) => {
  const x = c.need(0)
  return dtypeClass(x.dtype) === 'unsigned' ? x : n.unary('abs', x)
}

export const elementwiseHandlers: HandlerTable = {
  Abs: absolute,
  Acos: one('acos'),
  Acosh: one('acosh'),
  Add: two('add'),
  And: two('and'),
  Asin: one('asin'),
  Asinh: one('asinh'),
  Atan: one('atan'),
  Atanh: one('atanh'),
  BitCast: bitCast,
  BitShift: bitShift,
  BitwiseAnd: two('and'),
  BitwiseNot: one('not'),
  BitwiseOr: two('or'),
  BitwiseXor: two('xor'),
  Ceil: one('ceil'),
  Clip: clip,
  Cos: one('cos'),
  Cosh: one('cosh'),
  Div: two('div'),
  Equal: two('eq'),
  Erf: one('erf'),
  Exp: one('exp'),
  Floor: one('floor'),
  Greater: two('gt'),
  GreaterOrEqual: two('ge'),
  IsInf: isInf,
  IsNaN: one('isnan'),
  Less: two('lt'),
  LessOrEqual: two('le'),
  Log: one('log'),
  Max: many('max'),
  Mean: average,
  Min: many('min'),
  Mod: modulo,
  Mul: two('mul'),
  Neg: one('neg'),
  Not: one('not'),
  Or: two('or'),
  Pow: power,
  Reciprocal: (c) => n.div(n.scalarAs(c.need(0), 1), c.need(0)),
  Round: one('round'),
  Sigmoid: one('sigmoid'),
  Sign: one('sign'),
  Sin: one('sin'),
  Sinh: one('sinh'),
  Sqrt: one('sqrt'),
  Sub: two('sub'),
  Sum: many('add'),
  Tan: one('tan'),
  Tanh: one('tanh'),
  Where: (c) => n.where(c.need(0), c.need(1), c.need(2)),
  Xor: two('xor'),
}
