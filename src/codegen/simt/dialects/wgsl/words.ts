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

/** How each parameter of a kernel is declared. */
export function wordsOfAll(params: readonly KernelParam[], body: readonly S[]): Map<string, Words> {
  const loads = new Map<string, number>()
  const stores = new Map<string, number>()
  const atomic = new Set<string>()
  visitStatements(body, (s) => {
    if (s.k === 'vload') loads.set(s.param, Math.max(loads.get(s.param) ?? 1, s.words))
    else if (s.k === 'vstore') stores.set(s.param, Math.min(stores.get(s.param) ?? 4, s.values.length))
    else if (s.k === 'store') stores.set(s.param, 1)
    else if (s.k === 'storeBits') atomic.add(s.param)
  })
  return new Map(
    params.map((p) => {
      const type = p.format === 'plain' && (p.dtype === 'f32' || p.dtype === 'i32') ? p.dtype : 'u32'
      const width = stores.get(p.name) ?? loads.get(p.name) ?? 1
      return [p.name, { type, width: atomic.has(p.name) ? 1 : width, atomic: atomic.has(p.name) }]
    }),
  )
}
