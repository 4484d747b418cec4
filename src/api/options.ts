/** Options of calls, as users write them. */
import { UserError } from '../diagnostics/errors.ts'

/** Throws E_ARGUMENT for options that are no object; `example` shows what they look like. */
export function checkOptions(options: unknown, call: string, example: string): void {
  if (typeof options === 'object' && options !== null && !Array.isArray(options)) return
  const what = options === null ? 'null' : Array.isArray(options) ? 'an array' : `a ${typeof options}`
  throw new UserError('E_ARGUMENT', `the options of ${call} are ${what}`, {
    help: `leave them out, or give an object such as ${example}`,
  })
}
