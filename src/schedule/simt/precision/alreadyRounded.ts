/**
 * Values known to have a half dtype's precision already, though registers hold them in f32: what was loaded from it, bits
 * taken for it, literals that it holds, and choices among such (`chooses` of the scalar table). A store packs their bits without rounding.
 */
import type { ValueId } from '../../../kernel/ir.ts'
import { roundTo } from '../../../scalar/eval.ts'
import { type Scalar, scalarInfo } from '../../../scalar/ops.ts'
import { isFloat } from '../../../types/dtype.ts'
import type { Part } from '../part/part.ts'

const known = new WeakMap<Part, Map<string, boolean>>()

/** Whether a value of a part has no more digits than `dtype`. */
export function isAlreadyRounded(part: Part, id: ValueId, dtype: 'bf16' | 'f16'): boolean {
  const answers = known.get(part) ?? new Map<string, boolean>()
  known.set(part, answers)
  const key = `${id} ${dtype}`
  const answer = answers.get(key) ?? compute(part, id, dtype)
  answers.set(key, answer)
  return answer
}

function compute(part: Part, id: ValueId, dtype: 'bf16' | 'f16'): boolean {
  const l = part.lets.get(id)
  if (l === undefined || !isFloat(l.dtype) || l.dtype === 'f64') return false
  const { op } = l
  const holds = (x: Scalar): boolean => Object.is(roundTo(dtype, Number(x)), Number(x))
  switch (op.kind) {
    case 'const':
      return holds(op.value)
    case 'load':
      return part.params.get(op.param)?.dtype === dtype && holds(op.other)
    case 'scalar': {
      if (op.op === 'bitcast') return l.dtype === dtype
      if (op.op !== 'cast' && scalarInfo(op.op).chooses !== true) return false
      return op.args.slice(op.op === 'select' ? 1 : 0).every((a) => isAlreadyRounded(part, a, dtype))
    }
    default:
      return false
  }
}
