/** Hyperparameters: what they may be. */
import { UserError } from '../../diagnostics/errors.ts'
import { show } from '../calls/options.ts'

interface Range {
  readonly what: string
  readonly holds: (x: number) => boolean
}

export const nonNegative: Range = { what: 'a number of at least 0', holds: (x) => x >= 0 && Number.isFinite(x) }
export const positive: Range = { what: 'a positive number', holds: (x) => x > 0 && Number.isFinite(x) }
export const finite: Range = { what: 'a finite number', holds: Number.isFinite }
export const fraction: Range = { what: 'a number of at least 0 and below 1', holds: (x) => x >= 0 && x < 1 }
export const count: Range = { what: 'a whole number of at least 1', holds: (x) => Number.isSafeInteger(x) && x >= 1 }

/** Throws E_ARGUMENT for the first value outside its range. */
export function check(values: Readonly<Record<string, unknown>>, ranges: Readonly<Record<string, Range>>): void {
  for (const [name, { what, holds }] of Object.entries(ranges)) {
    const value = values[name]
    if (typeof value !== 'number' || !holds(value))
      throw new UserError('E_ARGUMENT', `${name} is ${show(value)}`, { help: `give ${what}` })
  }
}
