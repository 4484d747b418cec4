/** The batching rule of every op. */
import { boundaryBatching } from './boundary.ts'
import { elementwiseBatching } from './elementwise.ts'
import { randomBatching } from './random.ts'
import type { BatchRules } from './rule.ts'
import { contractionBatching, foldBatching, indexingBatching, viewBatching } from './structure.ts'

export { regionBatching } from './region.ts'
export type { BatchedNode, Batching, BatchRule, BatchRules, RegionBatching, RegionBatchRules } from './rule.ts'

const sourceBatching: BatchRules<'param' | 'constant' | 'full' | 'iota'> = {
  param: 'constant',
  constant: 'constant',
  full: 'constant',
  iota: 'constant',
}

export const batchRules = {
  ...elementwiseBatching,
  ...sourceBatching,
  ...randomBatching,
  ...viewBatching,
  ...indexingBatching,
  ...foldBatching,
  ...contractionBatching,
  ...boundaryBatching,
} satisfies BatchRules
