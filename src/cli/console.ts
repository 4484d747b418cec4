/** Where commands write: results on standard output, notes and progress on standard error; errors as people or programs read them. */
import { InternalError, UserError } from '../diagnostics/errors.ts'
import { printableJson } from '../diagnostics/text.ts'
import { userFrames } from './modules.ts'
import { cyan, dim, red, rendered, wantsColour } from './style.ts'

/** The two streams a command writes to. A line is one line whatever names stand in it: what would steer a terminal is written out. */
export interface Console {
  /** A line of the result. */
  line(text?: string): void
  /** A line beside the result. */
  note(text: string): void
  /** A line that the next one overwrites; `undefined` clears it. Shown on terminals only. */
  progress(text: string | undefined): void
}

/** Where a console writes: a stream, whether it takes colours, and the width of a terminal. */
export interface Sink {
  readonly write: (text: string) => void
  readonly colour: boolean
  readonly columns?: number
}

/** A console on two streams. */
export function consoleOn(out: Sink, err: Sink): Console {
  let shown = false
  const clear = (): void => {
    if (shown) err.write('\r\u001b[K')
    shown = false
  }
  return {
    line: (text = '') => {
      clear()
      out.write(`${rendered(text, out.colour)}\n`)
    },
    note: (text) => {
      clear()
      err.write(`${rendered(text, err.colour)}\n`)
    },
    progress: (text) => {
      if (err.columns === undefined) return
      clear()
      if (text === undefined) return
      const width = Math.max(20, err.columns)
      err.write(rendered(dim(text.length >= width ? `${text.slice(0, width - 2)}…` : text), err.colour))
      shown = true
    },
  }
}

/** The process's own streams. */
export function processConsole(args: readonly string[]): Console {
  const sink = (stream: NodeJS.WriteStream): Sink => ({
    write: (text) => {
      stream.write(text)
    },
    colour: wantsColour(stream, args, process.env),
    ...(stream.isTTY === true ? { columns: stream.columns ?? 80 } : {}),
  })
  return consoleOn(sink(process.stdout), sink(process.stderr))
}

/** Text of several lines, each a line of the result. */
export function printLines(text: string, console: Pick<Console, 'line'>): void {
  for (const line of text.split('\n')) console.line(line)
}

/** A message beside the result; further lines are indented, so that no message can pass for another. */
export function noteLines(text: string, console: Pick<Console, 'note'>): void {
  text.split('\n').forEach((line, i) => {
    console.note(i === 0 ? line : `  ${line}`)
  })
}

/** Data as the result, for programs. */
export const printData = (data: unknown, console: Pick<Console, 'line'>): void =>
  printLines(printableJson(data), console)

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
  /** Of what a user's function threw: the user's frames. */
  readonly stack?: readonly string[]
}

/** The user's frames of what a function of theirs threw. */
const stackOf = (error: UserError): readonly string[] =>
  error.code === 'E_CALLBACK' && error.cause instanceof Error ? userFrames(error.cause).map((f) => f.line) : []

/** What of an error a user is told. */
export function errorData(error: unknown): ErrorData {
  if (error instanceof UserError) {
    const stack = stackOf(error)
    return {
      code: error.code,
      message: error.summary,
      ...(error.where === undefined ? {} : { where: error.where }),
      ...(error.help === undefined ? {} : { help: error.help }),
      ...(stack.length === 0 ? {} : { stack }),
    }
  }
  if (error instanceof InternalError)
    return { code: error.code, message: error.message.replace(/^\[E_INTERNAL\] /, '') }
  return { code: 'E_INTERNAL', message: error instanceof Error ? `${error.name}: ${error.message}` : String(error) }
}

/** Reports an error; gives the exit code. */
export function reportError(error: unknown, json: boolean, console: Console): number {
  const data = errorData(error)
  console.progress(undefined)
  if (json) printData({ error: data }, console)
  else {
    noteLines(`${red('error')} [${data.code}] ${data.message}`, console)
    if (data.where !== undefined) console.note(`  at ${data.where}`)
    if (data.help !== undefined) console.note(`  ${cyan('help')}: ${data.help}`)
    for (const line of data.stack ?? []) console.note(dim(`    ${line}`))
  }
  if (error instanceof UsageError) return exitCodes.usage
  if (error instanceof UserError) return exitCodes.failed
  if (!json) {
    console.note('  this is a defect of Sinter, not of your program; please report it with the model')
    if (error instanceof Error && error.stack !== undefined)
      for (const line of error.stack.split('\n')) console.note(dim(line))
  }
  return exitCodes.defect
}
