/** Functions and options given to calls, as users write them. */
import { UserError } from '../diagnostics/errors.ts'
import type { Scalar } from '../scalar/ops.ts'

/** What a value is, in words. */
export function kindOf(x: unknown): string {
  if (x === null || x === undefined) return String(x)
  return Array.isArray(x) ? 'an array' : typeof x === 'object' ? 'an object' : `a ${typeof x}`
}

/** Whether a value is a number, a boolean or a bigint. */
export const isScalar = (x: unknown): x is Scalar =>
  typeof x === 'number' || typeof x === 'boolean' || typeof x === 'bigint'

/** An operand that is neither tensor nor number. */
export function notOperand(x: unknown): UserError {
  const data = Array.isArray(x) || ArrayBuffer.isView(x)
  return new UserError('E_ARGUMENT', `an operand is ${kindOf(x)}, not a tensor`, {
    help: data ? 'make a tensor of it first: tensor(data)' : 'pass a tensor; a number does where shapes broadcast',
  })
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
