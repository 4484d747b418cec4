/** Every rewrite rule, in the order they are tried on a node. */
import { algebraRules } from './algebra.ts'
import { broadcastRules, pastRules } from './broadcasts.ts'
import { constantRules } from './constants.ts'
import { contractionRules } from './contraction.ts'
import { convolutionRules } from './convolution.ts'
import { decidedComparisonRules } from './decidedComparisons.ts'
import { knownPositionRules } from './knownPositions.ts'
import { firstRules, normalRules } from './normalise.ts'
import { positionRules } from './positions.ts'
import { reductionRules } from './reductions.ts'
import { regionRules } from './regions.ts'
import type { Rule } from './rule.ts'
import { shortIndexRules } from './shortIndices.ts'
import { shortIntegerRules } from './shortIntegers.ts'
import { viewRules } from './views.ts'

export const allRules: readonly Rule[] = [
  ...regionRules,
  ...firstRules,
  ...pastRules,
  ...constantRules,
  ...knownPositionRules,
  ...normalRules,
  ...algebraRules,
  ...viewRules,
  ...broadcastRules,
  ...reductionRules,
  ...contractionRules,
  ...shortIntegerRules,
  ...positionRules,
  ...decidedComparisonRules,
  ...shortIndexRules,
  ...convolutionRules,
]
