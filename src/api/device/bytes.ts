/** Amounts of memory as users write them. */
import { UserError } from '../../diagnostics/errors.ts'

/** Bytes as a number, or text with a unit: `512MB` (10^6), `1.5GiB` (2^30), `4096`. */
export type ByteSize = number | string

const units: Readonly<Record<string, number>> = {
  '': 1,
  b: 1,
  kb: 1e3,
  mb: 1e6,
  gb: 1e9,
  kib: 2 ** 10,
  mib: 2 ** 20,
  gib: 2 ** 30,
}

/** The number of bytes. Throws E_ARGUMENT for what is no amount of memory. */
export function byteSize(size: ByteSize, what: string): number {
  const [, digits, unit] = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(String(size)) ?? []
  const bytes = Number(digits) * (units[unit?.toLowerCase() ?? ''] ?? Number.NaN)
  if (!Number.isFinite(bytes))
    throw new UserError('E_ARGUMENT', `${what} is ${JSON.stringify(size)}, which is no amount of memory`, {
      help: "give a number of bytes, or text such as '512MB' or '1GiB'",
    })
  return Math.floor(bytes)
}
