/** Functions and options given to calls, as users write them. */
import { UserError } from '../diagnostics/errors.ts'

/** Throws E_ARGUMENT for options that are no object; `example` shows what they look like. */
export function checkOptions(options: unknown, call: string, example: string): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return
  const what = options === null ? 'null' : Array.isArray(options) ? 'an array' : `a ${typeof options}`
  throw new UserError('E_ARGUMENT', `the options of ${call} are ${what}`, {
    help: `leave them out, or give an object such as ${example}`,
  })
}

/** Throws E_ARGUMENT for what is no function. */
export function checkFunction(f: unknown, call: string): void {
  if (typeof f === 'function') return
  const what = f === null || f === undefined ? String(f) : Array.isArray(f) ? 'an array' : `a ${typeof f}`
  throw new UserError('E_ARGUMENT', `${call} takes a function, and got ${what}`, {
    help: `write ${call}((x) => ...), or give the function itself and not its result`,
  })
}
