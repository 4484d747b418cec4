/** What reductions and scans take besides axes. */
import type { ScanOptions } from '../compose/index.ts'
import { UserError } from '../diagnostics/errors.ts'
import { checkOptions, isRecord, kindOf, kinds, optionNames } from './options.ts'

/** Options of reductions. */
export interface ReduceOptions {
  /** Reduced axes stay, with extent 1. */
  readonly keepdims?: boolean
}

/** Whether reduced axes stay, by itself or as an option. */
export type Keepdims = boolean | ReduceOptions

const reduceOptions = optionNames<ReduceOptions>('{ keepdims: true }', { keepdims: kinds.flag })

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

const scanOptions = optionNames<ScanOptions>('{ reverse: true }', { reverse: kinds.flag, exclusive: kinds.flag })

/** The options of a scan. Throws E_ARGUMENT. */
export function scanOptionsOf(call: string, options: ScanOptions | undefined): ScanOptions {
  if (options === undefined) return {}
  checkOptions(options, call, scanOptions)
  return options
}
