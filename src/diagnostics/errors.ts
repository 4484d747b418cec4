/** Errors: a stable code, what happened, where in the user's code, and what to do about it. */
import { printable, printableLines } from './text.ts'

/** Stable codes of errors. What throws one says so under its name. */
export type ErrorCode =
  | 'E_SHAPE'
  | 'E_DTYPE'
  | 'E_AXIS'
  | 'E_ARGUMENT'
  | 'E_INDEX'
  | 'E_OVERFLOW'
  | 'E_OUT_OF_MEMORY'
  | 'E_DISPOSED'
  | 'E_LEAKED_TRACER'
  | 'E_NOT_CONCRETE'
  | 'E_STRUCTURE'
  | 'E_DEVICE'
  | 'E_WORKER_LOST'
  | 'E_UNSUPPORTED'
  | 'E_CALLBACK'
  | 'E_ONNX_MALFORMED'
  | 'E_ONNX_UNSUPPORTED'
  | 'E_ONNX_INPUT'
  | 'E_FILE'
  | 'E_KERNEL_SYNTAX'
  | 'E_KERNEL_INVALID'

/** What an error says besides its code and summary. */
export interface ErrorDetail {
  /** What to do about it, one sentence. */
  readonly help?: string
  /** The user's call site (`file:line:column`) or the ONNX node. */
  readonly where?: string
  /** What was thrown before. */
  readonly cause?: unknown
}

/** The user's input cannot be served. `code` is stable; `message` says what, where and what to do. */
export class UserError extends Error {
  /** Which kind it is. */
  readonly code: ErrorCode
  /** What happened: the message without code, place and help. */
  readonly summary: string
  /** The user's call site (`file:line:column`) or the ONNX node. */
  readonly where: string | undefined
  /** What to do about it. */
  readonly help: string | undefined
  constructor(code: ErrorCode, message: string, detail: ErrorDetail = {}) {
    // Names of others stand in all three.
    const summary = printableLines(message)
    const where = detail.where === undefined ? undefined : printable(detail.where)
    const help = detail.help === undefined ? undefined : printableLines(detail.help)
    const at = where === undefined ? '' : `\n  at ${where}`
    const remedy = help === undefined ? '' : `\n  help: ${help}`
    super(`[${code}] ${summary}${at}${remedy}`, detail.cause === undefined ? undefined : { cause: detail.cause })
    this.name = 'UserError'
    this.code = code
    this.summary = summary
    this.where = where
    this.help = help
  }
}

/** The cause of an error that says the same with more: what a user's function threw stays the cause itself. */
export const causeOf = (error: UserError): unknown => (error.code === 'E_CALLBACK' ? error.cause : error)

/** A broken promise inside the compiler: always a defect of Sinter, never of the user's program. */
export class InternalError extends Error {
  /** One for all of them. */
  readonly code = 'E_INTERNAL'
  constructor(message: string, cause?: unknown) {
    super(`[E_INTERNAL] ${message}`, cause === undefined ? undefined : { cause })
    this.name = 'InternalError'
  }
}

/** What a thrown value says, in one line where it is an error of ours. */
function messageOf(cause: unknown): string {
  if (cause instanceof UserError) return `[${cause.code}] ${cause.summary}`
  return cause instanceof Error ? cause.message : String(cause)
}

/** Runs a function of the user's; what it throws comes out as E_CALLBACK, with `what` threw it. */
function userCall(what: string, call: () => void): void {
  try {
    call()
  } catch (cause) {
    throw new UserError('E_CALLBACK', `${what} threw: ${messageOf(cause)}`, {
      help: 'what it threw is the cause of this error',
      cause,
    })
  }
}

/** Runs the callback of an inspect. Throws E_CALLBACK. */
export const callInspector = (label: string, call: () => void): void =>
  userCall(`the inspect callback "${label}"`, call)

/** Runs a kernel of the user's. Throws E_CALLBACK. */
export const callKernel = (name: string, call: () => void): void => userCall(`the opaque kernel "${name}"`, call)

/** Throws an InternalError unless the condition holds. */
export function invariant(condition: unknown, message: string): asserts condition {
  if (!condition) throw new InternalError(message)
}

/** For exhaustive switches. */
export function unreachable(value: never, what: string): never {
  throw new InternalError(`unexpected ${what}: ${String(value)}`)
}
