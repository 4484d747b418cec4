/** Transposition rules of ops with graphs inside. */
import type { TransposeRules } from './rule.ts'

export const regionTranspose: TransposeRules<'cond' | 'while' | 'loop' | 'custom' | 'customLinear' | 'result'> = {
  cond: 'nonlinear',
  while: 'nonlinear',
  loop: 'nonlinear',
  custom: 'nonlinear',
  customLinear: 'nonlinear',
  result: 'nonlinear',
}
