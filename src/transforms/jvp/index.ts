/** The JVP rule of every op. */
import { elementwiseJvp } from './elementwise.ts'
import { indexingJvp } from './indexing.ts'
import { reductionJvp } from './reduction.ts'
import { resultJvp } from './region.ts'
import type { JvpRules } from './rule.ts'
import { boundaryJvp, contractionJvp, sourceJvp, viewJvp } from './structure.ts'

export { regionJvp } from './region.ts'
export type {
  Derivative,
  Differentiation,
  JvpRule,
  JvpRules,
  RegionCall,
  RegionDerivative,
  RegionJvpRules,
  Tangent,
} from './rule.ts'

export const jvpRules = {
  ...elementwiseJvp,
  ...sourceJvp,
  ...viewJvp,
  ...indexingJvp,
  ...reductionJvp,
  ...contractionJvp,
  ...boundaryJvp,
  ...resultJvp,
} satisfies JvpRules
