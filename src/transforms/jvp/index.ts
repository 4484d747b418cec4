/** The JVP rule of every op. */
import { elementwiseJvp } from './elementwise.ts'
import { indexingJvp } from './indexing.ts'
import { reductionJvp } from './reduction.ts'
import { regionJvp } from './region.ts'
import type { JvpRules } from './rule.ts'
import { boundaryJvp, contractionJvp, sourceJvp, viewJvp } from './structure.ts'

export type { JvpRule, JvpRules, Tangent } from './rule.ts'

export const jvpRules = {
  ...elementwiseJvp,
  ...sourceJvp,
  ...viewJvp,
  ...indexingJvp,
  ...reductionJvp,
  ...contractionJvp,
  ...boundaryJvp,
  ...regionJvp,
} satisfies JvpRules
