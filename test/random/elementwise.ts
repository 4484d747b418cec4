/** Steps of random programs: elementwise operations of every class, kept to where they are continuous or exact. */
import { makeNode } from '../../src/graph/build.ts'
import type { OpName } from '../../src/graph/node.ts'
import { scalarOf } from '../../src/scalar/host.ts'
import { extreme } from '../../src/scalar/ops.ts'
import { type DType, dtypeBits, isFloat, isInteger } from '../../src/types/dtype.ts'
import type { Builder, Step } from './builder.ts'
import {
  applySmooth,
  arithmetic,
  isExact,
  magnitude,
  moving,
  rounding,
  smooth,
  type Tracked,
  tracked,
} from './tracked.ts'

const isNumber = (t: Tracked): boolean => t.node.dtype !== 'bool'
const isWhole = (t: Tracked): boolean => isInteger(t.node.dtype)

/** An integer result, wrapped: nothing is known of it but its dtype. */
function integer(op: OpName, inputs: readonly Tracked[]): Tracked | undefined {
  const node = makeNode<OpName>(
    op,
    inputs.map((t) => t.node),
    {},
  )
  const { dtype } = inputs.at(-1)?.node ?? node
  return tracked(
    node as Tracked['node'],
    Number(extreme(dtype, 'least')) * 2,
    Number(extreme(dtype, 'greatest')) * 2,
    0,
  )
}

function combine(
  b: Builder,
  op: 'add' | 'sub' | 'mul' | 'div' | 'max' | 'min',
  x: Tracked,
  y: Tracked,
): Tracked | undefined {
  if (b.rng.chance(0.3) && op !== 'div') return combineOrdered(op, y, x)
  return combineOrdered(op, x, y)
}

function combineOrdered(
  op: 'add' | 'sub' | 'mul' | 'div' | 'max' | 'min',
  x: Tracked,
  y: Tracked,
): Tracked | undefined {
  return isFloat(x.node.dtype) ? arithmetic(op, x, y) : integer(op, [x, y])
}

/** |x| + 0.5: in the domain of log, sqrt, rsqrt and of divisors. */
function awayFromZero(b: Builder, x: Tracked): Tracked | undefined {
  const absolute = tracked(makeNode('abs', [x.node], {}), 0, magnitude(x), x.error)
  return absolute === undefined ? undefined : arithmetic('add', absolute, b.full(x.node.shape, x.node.dtype, 0.5))
}

/** A float scaled into (-1, 1) or so. */
function scaledDown(b: Builder, x: Tracked, to: number): Tracked | undefined {
  const m = magnitude(x)
  return m <= to ? x : arithmetic('mul', x, b.full(x.node.shape, x.node.dtype, to / m))
}

function exactCondition(b: Builder): Tracked | undefined {
  const known = b.find((t) => t.node.dtype === 'bool')
  if (known !== undefined && b.rng.chance(0.4)) return known
  const x = b.find((t) => isExact(t) && isNumber(t))
  if (x === undefined) return known
  const y = b.partner(x)
  if (!isExact(y)) return known
  const op = b.rng.pick(['lt', 'le', 'gt', 'ge', 'eq', 'ne'] as const)
  return tracked(makeNode(op, [x.node, y.node], {}), 0, 1, 0)
}

/** A condition of a given shape. */
function conditionLike(b: Builder, x: Tracked): Tracked {
  const { shape } = x.node
  const known = b.find((t) => t.node.dtype === 'bool' && t.node.shape.join() === shape.join())
  if (known !== undefined && b.rng.chance(0.7)) return known
  if (isExact(x) && isNumber(x)) {
    const made = tracked(makeNode('gt', [x.node, b.full(shape, x.node.dtype).node], {}), 0, 1, 0)
    if (made !== undefined) return made
  }
  return b.broadcastOperand(shape, 'bool')
}

function convert(b: Builder): Tracked | undefined {
  const x = b.find(() => true)
  if (x === undefined) return undefined
  const from = x.node.dtype
  const to = b.dtype((d) => d !== from)
  if (to === undefined) return undefined
  const node = makeNode('cast', [x.node], { dtype: to })
  if (isFloat(to)) {
    // An exact value rounds to one value everywhere.
    if (isExact(x)) return tracked(node, x.lo - 1, x.hi + 1, 0)
    return rounding('cast', [x], { dtype: to }, x.lo, x.hi, x.error)
  }
  if (!isExact(x)) return undefined
  if (isFloat(from)) return tracked(node, Math.floor(x.lo), Math.ceil(x.hi), 0)
  return tracked(node, x.lo, x.hi, 0)
}

/** The same program written again: common subexpressions. */
function again(b: Builder): Tracked | undefined {
  const x = b.find((t) => t.node.inputs.length > 0)
  if (x === undefined) return undefined
  const node = makeNode<OpName>(x.node.op, x.node.inputs, x.node.attrs as never)
  return { ...x, node: node as Tracked['node'] }
}

/** Work that changes nothing, for rewriting to find. */
function idle(b: Builder): Tracked | undefined {
  const x = b.find(isNumber)
  if (x === undefined) return undefined
  const { shape, dtype } = x.node
  const kept = (node: Tracked['node']): Tracked => ({ ...x, node })
  switch (b.rng.int(0, 5)) {
    case 0:
      return kept(makeNode('mul', [x.node, b.full(shape, dtype, 1).node], {}))
    case 1:
      return isFloat(dtype) && !isExact(x)
        ? kept(makeNode('add', [b.full(shape, dtype, 0).node, x.node], {}))
        : undefined
    case 2:
      return kept(makeNode('neg', [makeNode('neg', [x.node], {})], {}))
    case 3:
      return kept(makeNode('reshape', [x.node], { shape }))
    case 4:
      return kept(makeNode('max', [x.node, x.node], {}))
    default:
      return kept(makeNode('div', [x.node, b.full(shape, dtype, 1).node], {}))
  }
}

function power(b: Builder): Tracked | undefined {
  const x = b.findFloat()
  const base = x === undefined ? undefined : awayFromZero(b, x)
  if (base === undefined || base.hi > 4 || base.error > 0.01) return undefined
  const e = b.rng.pick([-2, -1, -0.5, 0.5, 1, 1.3, 2, 3])
  const ends = [base.lo ** e, base.hi ** e]
  const slope = Math.abs(e) * Math.max(base.lo ** (e - 1), base.hi ** (e - 1)) * 1.5
  return rounding(
    'pow',
    [base, b.full(base.node.shape, base.node.dtype, e)],
    {},
    Math.min(...ends),
    Math.max(...ends),
    base.error * slope,
  )
}

export const elementwiseSteps: readonly Step[] = [
  {
    name: 'smooth',
    weight: 8,
    apply: (b) => {
      const x = b.findFloat()
      return x === undefined ? undefined : applySmooth(b.rng.pick(Object.keys(smooth)), x)
    },
  },
  {
    name: 'smooth-in-domain',
    weight: 4,
    apply: (b) => {
      const x = b.findFloat()
      if (x === undefined) return undefined
      if (b.rng.chance(0.3)) {
        const small = scaledDown(b, x, 0.85)
        return small === undefined
          ? undefined
          : applySmooth(b.rng.pick(['asin', 'acos', 'atanh', 'tan', 'exp', 'sinh', 'cosh']), small)
      }
      const positive = awayFromZero(b, x)
      if (positive === undefined) return undefined
      return applySmooth(b.rng.pick(['log', 'sqrt', 'rsqrt', 'log1p']), positive)
    },
  },
  {
    name: 'sign',
    weight: 2,
    apply: (b) => {
      const x = b.find(isNumber)
      if (x === undefined) return undefined
      const op = b.rng.pick(['neg', 'abs'] as const)
      if (isWhole(x)) return integer(op, [x])
      const node = makeNode(op, [x.node], {})
      return op === 'neg' ? tracked(node, -x.hi, -x.lo, x.error) : tracked(node, 0, magnitude(x), x.error)
    },
  },
  {
    name: 'round',
    weight: 1,
    apply: (b) => {
      const x = b.find((t) => isNumber(t) && isExact(t))
      if (x === undefined) return undefined
      const node = makeNode(b.rng.pick(['floor', 'ceil', 'round', 'trunc', 'sign'] as const), [x.node], {})
      return tracked(node, Math.min(-1, Math.floor(x.lo)), Math.max(1, Math.ceil(x.hi)), 0)
    },
  },
  {
    name: 'arithmetic',
    weight: 12,
    apply: (b) => {
      const x = b.find(isNumber)
      return x === undefined
        ? undefined
        : combine(b, b.rng.pick(['add', 'sub', 'mul', 'add', 'mul', 'max', 'min'] as const), x, b.partner(x))
    },
  },
  {
    name: 'divide',
    weight: 2,
    apply: (b) => {
      const x = b.find(isNumber)
      if (x === undefined) return undefined
      const y = b.partner(x)
      if (!isFloat(x.node.dtype)) return integer(b.rng.pick(['div', 'rem'] as const), [x, y])
      const divisor = awayFromZero(b, y)
      return divisor === undefined ? undefined : arithmetic('div', x, divisor)
    },
  },
  { name: 'power', weight: 1, apply: power },
  { name: 'compare', weight: 2, apply: exactCondition },
  {
    name: 'select',
    weight: 3,
    apply: (b) => {
      const x = b.find(() => true)
      if (x === undefined) return undefined
      const y = b.partner(x)
      return moving('select', [conditionLike(b, x), x, y], {}, [x, y])
    },
  },
  {
    name: 'logic',
    weight: 2,
    apply: (b) => {
      const x = b.find((t) => !isFloat(t.node.dtype))
      if (x === undefined) return undefined
      const op = b.rng.pick(['and', 'or', 'xor', 'not'] as const)
      if (op === 'not') return integer(op, [x])
      return integer(op, [x, b.partner(x)])
    },
  },
  {
    name: 'shift',
    weight: 1,
    apply: (b) => {
      const x = b.find(isWhole)
      if (x === undefined) return undefined
      const { shape, dtype } = x.node
      const count = b.rng.int(0, Math.min(dtypeBits(dtype) - 1, 12))
      const by = makeNode('full', [], { value: scalarOf(dtype, count), shape, dtype })
      return integer(b.rng.pick(['shl', 'shr'] as const), [x, { node: by, lo: count, hi: count, error: 0 }])
    },
  },
  { name: 'cast', weight: 3, apply: convert },
  {
    name: 'bitcast',
    weight: 1,
    apply: (b) => {
      const x = b.find(isWhole)
      if (x === undefined) return undefined
      const { dtype } = x.node
      const to = `${dtype.startsWith('u') ? 'i' : 'u'}${dtype.slice(1)}` as DType
      const node = makeNode('bitcast', [x.node], { dtype: to })
      return tracked(node, Number(extreme(to, 'least')), Number(extreme(to, 'greatest')), 0)
    },
  },
  { name: 'again', weight: 1, apply: again },
  { name: 'idle', weight: 2, apply: idle },
]
