/** Forward-mode rules of ops with graphs inside. */
import { customJvp, customLinearJvp } from './custom.ts'
import { jointCond, jointLoop, jointWhile } from './joint.ts'
import { linearCond, linearLoop, linearWhile } from './linearised.ts'
import type { JvpRules, RegionJvpRules } from './rule.ts'

export const regionJvp: RegionJvpRules = {
  cond: (call) => (call.mode === 'joint' ? jointCond(call) : linearCond(call)),
  while: (call) => (call.mode === 'joint' ? jointWhile(call) : linearWhile(call)),
  loop: (call) => (call.mode === 'joint' ? jointLoop(call) : linearLoop(call)),
  custom: customJvp,
  customLinear: customLinearJvp,
}

/** A result has the tangent its region's rule gives it. */
export const resultJvp: JvpRules<'result'> = { result: 'zero' }
