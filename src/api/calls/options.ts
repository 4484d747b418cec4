/**
 * Functions and options given to calls, as users write them. Every options object of the library has a list of its names
 * (`optionNames`), and is held to it (`checkOptions`).
 */
import { UserError } from '../../diagnostics/errors.ts'
import { nearestName } from '../../diagnostics/nearest.ts'
import { isRevoked, kindOf } from '../../diagnostics/shown.ts'
import type { Scalar } from '../../scalar/ops.ts'

/** Throws E_ARGUMENT for what is no list; `example` shows one. */
export function checkList(x: unknown, what: string, example: string): void {
  if (Array.isArray(x) || (ArrayBuffer.isView(x) && !(x instanceof DataView))) return
  throw new UserError('E_ARGUMENT', `${what}: ${kindOf(x)}, not a list`, { help: `give a list such as ${example}` })
}

/** Throws E_ARGUMENT for what is none of the names. */
export function checkChoice(x: unknown, names: readonly string[], what: string): void {
  if (names.some((name) => name === x)) return
  throw new UserError('E_ARGUMENT', `there is no ${what} ${show(x)}`, {
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

/** What the value of an option may be. */
export interface OptionKind {
  readonly what: string
  readonly holds: (x: unknown) => boolean
}

const isList = (x: unknown): x is readonly unknown[] => Array.isArray(x)
const isCount = (x: unknown): boolean => Number.isSafeInteger(x) && Number(x) >= 1
const isSize = (x: unknown): boolean => Number.isSafeInteger(x) && Number(x) >= 0

/** Kinds of values. `anything` is for what the call itself checks: tensors, shapes, dtypes, ranges. */
export const kinds = {
  anything: { what: 'a value', holds: () => true },
  flag: { what: 'true or false', holds: (x) => typeof x === 'boolean' },
  number: { what: 'a number', holds: (x) => typeof x === 'number' && !Number.isNaN(x) },
  whole: { what: 'a whole number', holds: (x) => Number.isSafeInteger(x) },
  count: { what: 'a whole number of at least 1', holds: isCount },
  counts: {
    what: 'a whole number of at least 1, or a list of them',
    holds: (x) => isCount(x) || (isList(x) && x.every(isCount)),
  },
  sizes: {
    what: 'a whole number of at least 0, or a list of them',
    holds: (x) => isSize(x) || (isList(x) && x.every(isSize)),
  },
  text: { what: 'text', holds: (x) => typeof x === 'string' },
  positive: { what: 'a number above 0', holds: (x) => typeof x === 'number' && x > 0 },
  call: { what: 'a function', holds: (x) => typeof x === 'function' },
} as const satisfies Readonly<Record<string, OptionKind>>

/** The names that an options object of type O may have, each with what its value may be, and an example. */
export interface OptionNames<O extends object> {
  readonly example: string
  readonly names: { readonly [K in keyof O]-?: OptionKind }
}

/** Lists the names of options: one that is missing, or one too many, is an error of types. */
export const optionNames = <O extends object>(example: string, names: OptionNames<O>['names']): OptionNames<O> => ({
  example,
  names,
})

export const show = (x: unknown): string =>
  typeof x === 'number' || typeof x === 'boolean'
    ? String(x)
    : typeof x === 'bigint'
      ? `${x}n`
      : typeof x === 'string'
        ? JSON.stringify(x.length > 40 ? `${x.slice(0, 40)}...` : x)
        : kindOf(x)

/** Whether a value has entries by name: no list, no tensor, no Map, no promise. */
export const isRecord = (x: unknown): x is Readonly<Record<string, unknown>> =>
  !isRevoked(x) && Object.prototype.toString.call(x) === '[object Object]' && kindOf(x) !== 'a Tensor'

/** Throws E_ARGUMENT for options that are no object, for a name there is not, and for a value of another kind. */
export function checkOptions<O extends object>(
  options: NoInfer<O> | undefined,
  call: string,
  known: OptionNames<O>,
): void {
  const given: unknown = options
  if (!isRecord(given))
    throw new UserError('E_ARGUMENT', `the options of ${call} are ${kindOf(given)}`, {
      help: `leave them out, or give an object such as ${known.example}`,
    })
  checkNames(given, `${call} has no option`, known.names, 'the options are')
}

/** Throws E_ARGUMENT for an entry of an object that is not among the names, and for a value of another kind. */
export function checkNames(
  given: object,
  odd: string,
  names: Readonly<Record<string, OptionKind>>,
  list: string,
): void {
  for (const [name, value] of Object.entries(given)) {
    const kind = Object.hasOwn(names, name) ? names[name] : undefined
    if (kind === undefined) {
      const near = nearestName(name, Object.keys(names))
      throw new UserError('E_ARGUMENT', `${odd} ${show(name)}`, {
        help: `${near === undefined ? '' : `write ${near}; `}${list} ${Object.keys(names).join(', ')}`,
      })
    }
    if (value !== undefined && !kind.holds(value))
      throw new UserError('E_ARGUMENT', `${name} is ${show(value)}`, { help: `give ${kind.what}` })
  }
}

/** A whole number. Throws E_ARGUMENT for what is none. */
export function whole(x: number, what: string): number {
  if (Number.isSafeInteger(x)) return x
  throw new UserError('E_ARGUMENT', `${what} is ${show(x)}`, { help: 'give a whole number' })
}

/** A number. Throws E_ARGUMENT for what is none. */
export function real(x: number, what: string): number {
  if (typeof x === 'number' && !Number.isNaN(x)) return x
  throw new UserError('E_ARGUMENT', `${what} is ${show(x)}`, { help: 'give a number' })
}

/** A number above 0. Throws E_ARGUMENT for what is none. */
export function positive(x: number, what: string): number {
  if (kinds.positive.holds(x)) return x
  throw new UserError('E_ARGUMENT', `${what} is ${show(x)}`, { help: 'give a number above 0' })
}

/** One value for every element. Throws E_ARGUMENT for what is no number, boolean or bigint. */
export function scalarValue(x: Scalar): Scalar {
  if (isScalar(x)) return x
  throw new UserError('E_ARGUMENT', `the value is ${show(x)}`, {
    help: 'give a number, a boolean or a bigint; broadcastTo repeats a tensor',
  })
}

/** Throws E_ARGUMENT for what is no function. */
export function checkFunction(f: unknown, call: string): void {
  if (typeof f === 'function' && !isRevoked(f)) return
  throw new UserError('E_ARGUMENT', `${call} takes a function, and got ${kindOf(f)}`, {
    help: `write ${call}((x) => ...), or give the function itself and not its result`,
  })
}

/** What a transform of functions is given: a function, and options of its own. Throws E_ARGUMENT. */
export function checkTransform<O extends object>(
  name: string,
  f: unknown,
  options: NoInfer<O> | undefined,
  known: OptionNames<O>,
): void {
  checkFunction(f, name)
  checkOptions(options, name, known)
}
