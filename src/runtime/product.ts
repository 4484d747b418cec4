/** What holds of every library call of a launch plan: its matrices lie inside their buffers and have the layouts of the contract. */
import { InternalError } from '../diagnostics/errors.ts'
import type { DType } from '../types/dtype.ts'
import { type StridedMatrix, standsOnAddend } from '../types/product.ts'
import { bufferOf, elementsOf } from './commands.ts'
import type { ProductStep, Program } from './program.ts'

/** Throws E_INTERNAL naming what is wrong with a product of a program. */
export function verifyProduct(step: ProductStep, program: Program): void {
  const { product, calls, name } = step
  const { batches, m, n, k, a, b, out, addend } = product
  const check = (holds: boolean, what: string): void => {
    if (!holds) throw new InternalError(`product ${name}: ${what}`)
  }
  check(
    [batches, m, n, k].every((d) => Number.isInteger(d) && d > 0),
    'an extent is no positive integer',
  )
  check(calls.length > 0, 'it has no calls')
  const sums: DType = a.dtype === 'f64' ? 'f64' : 'f32'
  check(a.dtype === b.dtype && (out.dtype === a.dtype || out.dtype === sums), 'the dtypes do not go together')
  const inside = (
    what: string,
    matrix: StridedMatrix,
    rows: number,
    columns: number,
    buffer: number,
    offsets: readonly number[],
  ): void => {
    const { dtype, format, source } = bufferOf(program, buffer)
    const [lines, length] = matrix.order === 'rows' ? [rows, columns] : [columns, rows]
    check(dtype === matrix.dtype && format === 'plain', `${what} is ${matrix.dtype}, its buffer ${dtype} (${format})`)
    check(matrix.leading >= length, `lines of ${what} overlap`)
    const last = (batches - 1) * matrix.batch + (lines - 1) * matrix.leading + length - 1
    const within = offsets.every((o) => o >= 0 && o + last < elementsOf(bufferOf(program, buffer)))
    check(within, `${what} reaches beyond its buffer`)
    if (what === 'the result')
      check(
        source.kind !== 'constant' && (batches === 1 || matrix.batch > 0),
        'results would be stored over each other',
      )
  }
  inside(
    'the first operand',
    a,
    m,
    k,
    step.a,
    calls.map((c) => c.a),
  )
  inside(
    'the second operand',
    b,
    k,
    n,
    step.b,
    calls.map((c) => c.b),
  )
  inside(
    'the result',
    out,
    m,
    n,
    step.out,
    calls.map((c) => c.out),
  )
  check(step.out !== step.a && step.out !== step.b, 'the result stands over an operand')
  check((addend === undefined) === (step.addend === undefined), 'an addend without a buffer, or a buffer without')
  if (addend === undefined || step.addend === undefined) return
  check(addend.dtype === out.dtype && addend.order === out.order, 'the addend is laid out unlike the result')
  check(
    calls.every((c) => c.addend !== undefined),
    'a call does not say where its addend is',
  )
  inside(
    'the addend',
    addend,
    m,
    n,
    step.addend,
    calls.map((c) => c.addend ?? -1),
  )
  check(step.out !== step.addend || standsOnAddend(step), 'the result stands over other elements of the addend')
}
