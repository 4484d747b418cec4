/** Parts that end in a sum over a row: their statements, how the sum streams if it does, and values of theirs at a point. */
import type { Kernel, LetStmt, ValueId } from '../../src/kernel/ir.ts'
import { parseKernel } from '../../src/kernel/parse.ts'
import { type Streamed, streamedSum } from '../../src/kernel/streams.ts'
import { evalScalar } from '../../src/scalar/eval.ts'
import type { Scalar } from '../../src/scalar/ops.ts'
import type { DType } from '../../src/types/dtype.ts'

export type Lets = ReadonlyMap<ValueId, LetStmt>

export const letsOf = (k: Kernel): Lets =>
  new Map(k.parts.flatMap((p) => p.body.flatMap((s) => (s.kind === 'let' ? [[s.id, s] as const] : []))))

/** Statements after x (%0), w (%1) and the row's v (%2), in f32 or another dtype in its place; the last one is the sum. */
export const rowsOf = (text: string, dtype = 'f32'): Lets =>
  letsOf(
    parseKernel(
      `kernel k {
  param x: f32[4, 9] read
  param w: f32[4, 9] read
  param v: f32[4] read
  axes r: 4, c: 9
  grid r
  %0 f32{r, c} = load x[r, c]
  %1 f32{r, c} = load w[r, c]
  %2 f32{r} = load v[r]
${text}
}`.replaceAll('f32', dtype),
    ),
  )

/** The last statement. */
const sumOf = (lets: Lets): LetStmt => {
  const last = [...lets.values()].at(-1)
  if (last === undefined) throw new Error('no statements')
  return last
}

export const streamed = (lets: Lets): Streamed | undefined => streamedSum(sumOf(lets), lets)

/** What the sum is of. */
export function termOf(lets: Lets): ValueId {
  const { op } = sumOf(lets)
  if (op.kind !== 'reduce') throw new Error('no sum')
  return op.arg
}

/** A value at a point, in double precision, where some are known. */
export function valueAt(lets: Lets, id: ValueId, known: ReadonlyMap<ValueId, number>): number {
  const values = new Map<ValueId, Scalar>(known)
  const wide = (d: DType): DType => (d === 'bool' ? d : 'f64')
  const value = (of: ValueId): Scalar => {
    const have = values.get(of)
    if (have !== undefined) return have
    const l = lets.get(of)
    if (l?.op.kind === 'const') return l.op.value
    if (l?.op.kind !== 'scalar') throw new Error(`%${of} is not known`)
    const { op, args } = l.op
    const from = lets.get(args[op === 'select' ? 1 : 0] ?? of)?.dtype ?? 'f32'
    const out = evalScalar(op, wide(from), wide(l.dtype), args.map(value))
    values.set(of, out)
    return out
  }
  return Number(value(id))
}
