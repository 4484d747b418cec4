/** Warnings: what works, but hardly as it was meant. One channel for all of them. */
import { checkFunction } from './options.ts'
import { placed, withPlace } from './place.ts'

/**
 * Stable codes of warnings. `W_RECOMPILES`: a jitted function is compiled anew at most of its calls. `W_STALE_COMPILATION`: a kept compilation is not for this
 * version of the library, this machine or this engine.
 */
export type WarningCode = 'W_RECOMPILES' | 'W_STALE_COMPILATION'

/** A warning: what happens, where in the user's code, and what to do about it. */
export interface Warning {
  /** Which kind it is. */
  readonly code: WarningCode
  /** What happens, in one line. */
  readonly summary: string
  /** What to do about it. */
  readonly help: string
  /** The user's call site (`file:line:column`), where the engine says it. */
  readonly where?: string
}

interface Host {
  readonly process?: { readonly emitWarning?: (text: string, options: { type: string; code: string }) => void }
}

/** Node's own channel (`--disable-warning=W_RECOMPILES` silences a code), elsewhere the console. */
function print({ code, summary, help, where }: Warning): void {
  const text = `${summary}${where === undefined ? '' : `\n  at ${where}`}\n  help: ${help}`
  const { process }: Host = globalThis
  if (typeof process?.emitWarning === 'function') process.emitWarning(text, { type: 'SinterWarning', code })
  else console.warn(`[${code}] ${text}`)
}

let handle: (warning: Warning) => void = print

/**
 * Gives warnings to a function of the user from now on instead of printing them; `null` prints them again. In Node they are
 * process warnings of type `SinterWarning`, which `--disable-warning=CODE` silences too.
 * @throws E_ARGUMENT for what is no function
 * @example
 * const codes: string[] = []
 * onWarning(({ code }) => codes.push(code))
 * const f = jit((x: Tensor, n: number) => x.add(n))
 * for (let n = 0; n < 100; n++) f(ones([2]), n)
 * codes[0] // 'W_RECOMPILES': a number is part of the signature
 * onWarning(null)
 */
export function onWarning(handler: ((warning: Warning) => void) | null): void {
  placed(() => {
    if (handler !== null) checkFunction(handler, 'onWarning')
  })
  handle = handler ?? print
}

/** Warns, with the place of the user's call. */
export function warn(code: WarningCode, summary: string, help: string): void {
  handle({ code, summary, help, ...withPlace() })
}
