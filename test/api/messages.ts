/** Errors as tests compare them: the message without the parts that move, or the code alone. */
import { UserError } from '../../src/diagnostics/errors.ts'

export function messageOf(f: () => unknown): string {
  try {
    f()
  } catch (error) {
    return String(error).replace(/at \S*\/(test\/\S+?):\d+:\d+/g, 'at $1')
  }
  return 'no error'
}

/** The code of the user's error that f throws; errors of other kinds pass. */
export function codeOf(f: () => unknown): string {
  try {
    f()
  } catch (error) {
    if (error instanceof UserError) return error.code
    throw error
  }
  return 'no error'
}
