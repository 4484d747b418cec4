/** Memory that ran out, told with the value of the program that asks for most of it. */
import type { Compiled } from '../../compile/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { storedBytes } from '../../plan/body/stored.ts'
import { storedBy } from '../../plan/plan.ts'
import { showShape } from '../../types/shape.ts'

/** The largest value that a program stores: its type, its operation and where that was called, as far as known. */
export function largestOf({ plan }: Compiled): string | undefined {
  const stored = plan.groups.flatMap(storedBy).map((node) => ({ node, bytes: storedBytes(node, plan.stored) }))
  const most = stored.reduce((n, s) => Math.max(n, s.bytes), 0)
  const node = stored.find((s) => s.bytes === most)?.node
  if (node === undefined) return undefined
  const { name, where } = node.origin
  const of = name === 'unknown' ? node.op : name
  const size = `${(most / 2 ** 20).toFixed(1)} MiB`
  return `${node.dtype}${showShape(node.shape)} (${size}) of ${of}${where === undefined ? '' : ` at ${where}`}`
}

/** An error of compiling or running a program: where memory ran out, with the program's largest value. */
export function withLargest(error: unknown, largest: string | undefined): unknown {
  if (!(error instanceof UserError) || error.code !== 'E_OUT_OF_MEMORY' || largest === undefined) return error
  return new UserError(error.code, `${error.summary}; the largest value of the program is ${largest}`, {
    ...(error.where === undefined ? {} : { where: error.where }),
    ...(error.help === undefined ? {} : { help: error.help }),
    cause: error,
  })
}
