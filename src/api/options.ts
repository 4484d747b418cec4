/** Functions and options given to calls, as users write them. */
import { UserError } from '../diagnostics/errors.ts'
import type { Scalar } from '../scalar/ops.ts'

/** What a value is, in words. */
export function kindOf(x: unknown): string {
  if (x === null || x === undefined) return String(x)
  if (Array.isArray(x)) return 'an array'
  if (typeof x !== 'object') return `a ${typeof x}`
  const name = x.constructor?.name ?? ''
  if (name === '' || name === 'Object') return 'an object'
  return `${/^[AEIOU]/.test(name) ? 'an' : 'a'} ${name}`
}

/** Throws E_ARGUMENT for what is no list; `example` shows one. */
export function checkList(x: unknown, what: string, example: string): void {
  if (Array.isArray(x) || ArrayBuffer.isView(x)) return
  throw new UserError('E_ARGUMENT', `${what}: ${kindOf(x)}, not a list`, { help: `give a list such as ${example}` })
}

/** Throws E_ARGUMENT for what is none of the names. */
export function checkChoice(x: unknown, names: readonly string[], what: string): void {
  if (names.some((name) => name === x)) return
  throw new UserError('E_ARGUMENT', `there is no ${what} ${typeof x === 'string' ? `"${x}"` : String(x)}`, {
    help: `use one of ${names.join(', ')}`,
  })
}

/** Whether a value is a number, a boolean or a bigint. */
export const isScalar = (x: unknown): x is Scalar =>
  typeof x === 'number' || typeof x === 'boolean' || typeof x === 'bigint'

/** An operand that is neither tensor nor number. */
export function notOperand(x: unknown): UserError {
  const data = Array.isArray(x) || ArrayBuffer.isView(x)
  const what = kindOf(x)
  if (what === 'a Tensor')
    return new UserError('E_ARGUMENT', 'an operand is a tensor of another copy of this library', {
      help: 'have one copy installed (npm ls sinter), or import it in one way, not both as a bundle and as a package',
    })
  return new UserError('E_ARGUMENT', `an operand is ${what}, not a tensor`, {
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
