/** The batching rule of every op. */
import { boundaryBatching } from './boundary.ts'
import { elementwiseBatching } from './elementwise.ts'
import { randomBatching } from './random.ts'
import { regionBatching } from './region.ts'
import type { BatchRules } from './rule.ts'
import { contractionBatching, foldBatching, indexingBatching, viewBatching } from './structure.ts'

export type { Batching, BatchRule, BatchRules } from './rule.ts'

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
  ...regionBatching,
} satisfies BatchRules
