/** Functions and options given to calls, as users write them. */
import { UserError } from '../diagnostics/errors.ts'

/** What a value is, in words. */
export function kindOf(x: unknown): string {
  if (x === null || x === undefined) return String(x)
  return Array.isArray(x) ? 'an array' : typeof x === 'object' ? 'an object' : `a ${typeof x}`
}

/** Throws E_ARGUMENT for options that are no object; `example` shows what they look like. */
export function checkOptions(options: unknown, call: string, example: string): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return
  throw new UserError('E_ARGUMENT', `the options of ${call} are ${kindOf(options)}`, {
    help: `leave them out, or give an object such as ${example}`,
  })
}

/** Throws E_ARGUMENT for what is no function. */
export function checkFunction(f: unknown, call: string): void {
  if (typeof f === 'function') return
  throw new UserError('E_ARGUMENT', `${call} takes a function, and got ${kindOf(f)}`, {
    help: `write ${call}((x) => ...), or give the function itself and not its result`,
  })
}
