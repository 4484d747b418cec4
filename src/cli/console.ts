/** Where commands write: results on standard output, notes and progress on standard error; errors as people or programs read them. */
import pc from 'picocolors'
import { InternalError, UserError } from '../diagnostics/errors.ts'

/** The two streams a command writes to. */
export interface Console {
  /** A line of the result. */
  line(text?: string): void
  /** A line beside the result. */
  note(text: string): void
  /** A line that the next one overwrites; `undefined` clears it. Shown on terminals only. */
  progress(text: string | undefined): void
}

/** The process's own streams. */
export function processConsole(): Console {
  const terminal = process.stderr.isTTY === true
  let shown = false
  const clear = (): void => {
    if (shown) process.stderr.write('\r\u001b[K')
    shown = false
  }
  return {
    line: (text = '') => {
      clear()
      process.stdout.write(`${text}\n`)
    },
    note: (text) => {
      clear()
      process.stderr.write(`${text}\n`)
    },
    progress: (text) => {
      if (!terminal) return
      clear()
      if (text === undefined) return
      const width = Math.max(20, process.stderr.columns ?? 80)
      process.stderr.write(pc.dim(text.length >= width ? `${text.slice(0, width - 2)}…` : text))
      shown = true
    },
  }
}

/** Exit codes: 1 for failed work, 2 for bad usage, 3 for a defect of Sinter. */
export const exitCodes = { failed: 1, usage: 2, defect: 3 } as const

/** The command line itself is wrong. */
export class UsageError extends UserError {
  constructor(message: string, help?: string) {
    super('E_ARGUMENT', message, help === undefined ? {} : { help })
  }
}

/** An error as plain data. */
export interface ErrorData {
  readonly code: string
  readonly message: string
  readonly where?: string
  readonly help?: string
}

/** What of an error a user is told. */
export function errorData(error: unknown): ErrorData {
  if (error instanceof UserError)
    return {
      code: error.code,
      message: error.summary,
      ...(error.where === undefined ? {} : { where: error.where }),
      ...(error.help === undefined ? {} : { help: error.help }),
    }
  if (error instanceof InternalError)
    return { code: error.code, message: error.message.replace(/^\[E_INTERNAL\] /, '') }
  return { code: 'E_INTERNAL', message: error instanceof Error ? `${error.name}: ${error.message}` : String(error) }
}

/** Reports an error; gives the exit code. */
export function reportError(error: unknown, json: boolean, console: Console): number {
  const data = errorData(error)
  console.progress(undefined)
  if (json) console.line(JSON.stringify({ error: data }, undefined, 2))
  else {
    console.note(`${pc.red('error')} [${data.code}] ${data.message}`)
    if (data.where !== undefined) console.note(`  at ${data.where}`)
    if (data.help !== undefined) console.note(`  ${pc.cyan('help')}: ${data.help}`)
  }
  if (error instanceof UsageError) return exitCodes.usage
  if (error instanceof UserError) return exitCodes.failed
  if (!json) {
    console.note('  this is a defect of Sinter, not of your program; please report it with the model')
    if (error instanceof Error && error.stack !== undefined) console.note(pc.dim(error.stack))
  }
  return exitCodes.defect
}
