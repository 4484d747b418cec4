/** Programs that contain the pattern of a pattern rule, drawn from the pattern itself. */
import { makeNode } from '../../src/graph/build.ts'
import type { Graph, Node, OpName } from '../../src/graph/node.ts'
import { isOperation, type Pattern, type PatternOp, type PatternRule } from '../../src/rewrite/pattern.ts'
import { scalarOf } from '../../src/scalar/host.ts'
import { extreme, type Scalar, scalarInfo } from '../../src/scalar/ops.ts'
import { type DType, dtypeClass, isFloat } from '../../src/types/dtype.ts'
import type { Shape } from '../../src/types/shape.ts'
import { specialValue } from '../random/values.ts'
import type { Draw } from './support.ts'

const dtypes: readonly DType[] = [
  'f32',
  'f64',
  'f16',
  'bf16',
  'i8',
  'i16',
  'i32',
  'i64',
  'u8',
  'u16',
  'u32',
  'u64',
  'bool',
]

function literal(d: Draw, dtype: DType, tame: boolean): Scalar {
  const roll = d.rng.unit()
  if (tame && isFloat(dtype)) return roll < 0.5 ? d.rng.pick([3, 0.75, -0.3, 1.7]) : d.rng.pick([2, 0.5, -4])
  if (roll < 0.3) return extreme(dtype, d.rng.chance(0.5) ? 'least' : 'greatest')
  if (roll < 0.6 && dtype !== 'bool')
    return scalarOf(dtype, d.rng.pick(isFloat(dtype) ? [2, 0.5, -4, 1, -1] : [1, 2, 3]))
  if (roll < 0.7 && dtypeClass(dtype) === 'signed') return scalarOf(dtype, -1)
  return specialValue(d.rng, dtype)
}

/** A program whose output is an instance of the rule's pattern. */
export function patternExample(rule: PatternRule, d: Draw): Graph {
  const fits = dtypes.filter((t) => rule.on.includes(dtypeClass(t)) && rule.dtypes?.includes(t) !== false)
  const root = d.rng.pick(fits)
  const shape: Shape = d.rng.pick([[], [1], [5], [2, 3], [3, 1, 2], [0], [2, 0]])
  const tame = rule.kind === 'fast'
  const bound = new Map<string, Node>()
  const build = (p: Pattern, dtype: DType): Node => {
    if (typeof p === 'string') {
      const have = bound.get(p)
      if (have !== undefined) return have
      const made = p.startsWith('#') ? d.full(shape, dtype, literal(d, dtype, tame)) : d.param(shape, dtype)
      bound.set(p, made)
      return made
    }
    if (!isOperation(p)) return d.full(shape, dtype, scalarOf(dtype, p))
    const [op, ...args] = p
    const info = scalarInfo(op)
    // A comparison under another operation may compare anything.
    const operand = info.result === 'bool' ? d.rng.pick(dtypes.filter((t) => info.on.includes(dtypeClass(t)))) : dtype
    return combine(op, args, operand)
  }
  const combine = (op: PatternOp, args: readonly Pattern[], dtype: DType): Node => {
    const inputs = args.map((a, i) => build(a, op === 'select' && i === 0 ? 'bool' : dtype))
    if (scalarInfo(op).commutative === true && d.rng.chance(0.3)) inputs.reverse()
    return makeNode<OpName>(op, inputs, {}) as Node
  }
  for (let attempt = 0; ; attempt++) {
    bound.clear()
    d.params.length = 0
    const [op, ...args] = rule.from
    const node = combine(op, args, root)
    if (attempt > 300 || rule.when === undefined || rule.when(bound, root)) return d.graph(node)
  }
}
