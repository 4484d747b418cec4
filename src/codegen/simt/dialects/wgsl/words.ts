/** How the parameters of a kernel are declared in WGSL: arrays of words, or of vectors of them, as their accesses ask. */
import type { KernelParam } from '../../../../kernel/ir.ts'
import type { S } from '../../ir/ir.ts'
import { visitStatements } from '../../ir/walk.ts'

/** How a parameter is declared. */
export interface Words {
  readonly type: 'f32' | 'i32' | 'u32'
  readonly width: number
  readonly atomic: boolean
}

export function wordsOf(p: KernelParam, body: readonly S[]): Words {
  const type = p.format === 'plain' && (p.dtype === 'f32' || p.dtype === 'i32') ? p.dtype : 'u32'
  let loads = 1
  let stores = 4
  let stored = false
  let atomic = false
  visitStatements(body, (s) => {
    if (s.k === 'vload' && s.param === p.name) loads = Math.max(loads, s.words)
    if (s.k === 'vstore' && s.param === p.name) {
      stores = Math.min(stores, s.values.length)
      stored = true
    }
    if (s.k === 'store' && s.param === p.name) {
      stores = 1
      stored = true
    }
    if (s.k === 'storeBits' && s.param === p.name) atomic = true
  })
  return { type, width: atomic ? 1 : stored ? stores : loads, atomic }
}
