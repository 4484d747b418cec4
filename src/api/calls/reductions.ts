/** What reductions and scans take besides axes. */
import type { CumulativeOptions, ScanOptions, TotalOptions } from '../../compose/index.ts'
import { UserError } from '../../diagnostics/errors.ts'
import { kindOf } from '../../diagnostics/shown.ts'
import { checkOptions, isRecord, kinds, optionNames } from './options.ts'

/** Options of reductions. */
export interface ReduceOptions {
  /** Reduced axes stay, with extent 1. */
  readonly keepdims?: boolean
}

/** Whether reduced axes stay, by itself or as an option. */
export type Keepdims = boolean | ReduceOptions

const reduceOptions = optionNames<ReduceOptions>('{ keepdims: true }', { keepdims: kinds.flag })

const totalOptions = optionNames<TotalOptions>("{ keepdims: true, dtype: 'i64' }", {
  keepdims: kinds.flag,
  dtype: kinds.anything,
})

/** Whether reduced axes stay, by itself or as an option beside the dtype of the result. */
export type KeepdimsOrDType = boolean | TotalOptions

/** What sums and products are given besides axes. Throws E_ARGUMENT. */
export function totalOptionsOf(call: string, given: KeepdimsOrDType | undefined): TotalOptions {
  if (!isRecord(given)) return { keepdims: keepdimsOf(call, given) }
  checkOptions(given, call, totalOptions)
  return given
}

/** Whether reduced axes stay. Throws E_ARGUMENT. */
export function keepdimsOf(call: string, given: Keepdims | undefined): boolean {
  if (given === undefined || typeof given === 'boolean') return given === true
  if (!isRecord(given))
    throw new UserError('E_ARGUMENT', `keepdims is ${typeof given === 'number' ? String(given) : kindOf(given)}`, {
      help: `give true or false, or { keepdims: true }; several axes are a list: ${call}([0, 1])`,
    })
  checkOptions(given, call, reduceOptions)
  return given.keepdims === true
}

const scanOptions = optionNames<CumulativeOptions>('{ reverse: true }', {
  reverse: kinds.flag,
  exclusive: kinds.flag,
  dtype: kinds.anything,
})

/** The options of a running fold. Throws E_ARGUMENT. */
export function scanOptionsOf(call: string, options: CumulativeOptions | undefined): CumulativeOptions {
  if (options === undefined) return {}
  checkOptions(options, call, scanOptions)
  return options
}

const foldOptions = optionNames<ScanOptions>('{ reverse: true }', { reverse: kinds.flag, exclusive: kinds.flag })

/** The options of a running extreme. Throws E_ARGUMENT. */
export function foldOptionsOf(call: string, options: ScanOptions | undefined): ScanOptions {
  if (options === undefined) return {}
  checkOptions(options, call, foldOptions)
  return options
}
