/** Parameters as arrays of 32-bit words: elements a word, bits an element. */
import type { KernelParam } from '../../../kernel/ir.ts'
import { dtypeBits, dtypeBytes } from '../../../types/dtype.ts'

/** Bits of an element in memory. */
export function elementBits(p: KernelParam): number {
  return p.format === 'bits' ? 1 : p.format === 'int4' ? 4 : dtypeBits(p.dtype)
}

export const bytesPerElement = (p: KernelParam): number =>
  p.format === 'plain' ? dtypeBytes(p.dtype) : elementBits(p) / 8
