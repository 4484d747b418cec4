/** The statements of a part, and how its last one streams if it does. */
import type { Kernel, LetStmt, ValueId } from '../../src/kernel/ir.ts'
import { type Streamed, streamedSum } from '../../src/kernel/streams.ts'

export type Lets = ReadonlyMap<ValueId, LetStmt>

export const letsOf = (k: Kernel): Lets =>
  new Map(k.parts.flatMap((p) => p.body.flatMap((s) => (s.kind === 'let' ? [[s.id, s] as const] : []))))

/** The last statement. */
export const sumOf = (lets: Lets): LetStmt => {
  const last = [...lets.values()].at(-1)
  if (last === undefined) throw new Error('no statements')
  return last
}

export const streamed = (lets: Lets): Streamed | undefined => streamedSum(sumOf(lets), lets)
