/** Batching rules of ops with graphs inside. */
import { unsupported } from '../rule.ts'
import type { BatchRules } from './rule.ts'

export const regionBatching: BatchRules<'cond' | 'while' | 'loop' | 'custom' | 'customLinear' | 'result'> = {
  cond: unsupported('no rule'),
  while: unsupported('no rule'),
  loop: unsupported('no rule'),
  custom: unsupported('no rule'),
  customLinear: unsupported('no rule'),
  result: unsupported('no rule'),
}
