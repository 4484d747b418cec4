/** The places of errors: which call of the user's met them. Stacks are looked at when an error is made, never before. */
import { causeOf, UserError } from '../../diagnostics/errors.ts'
import { withOrigin } from '../../diagnostics/origin.ts'
import { callSite } from './callsite.ts'

/** Operations that run inside one another; nested calls of the library belong to the outermost one. */
let depth = 0

/** Whether a call that begins now is the user's own. */
export const isOutermost = (): boolean => depth === 0

/** A place as a detail of an error. */
export const withPlace = (where = callSite()): { readonly where?: string } => (where === undefined ? {} : { where })

/** Errors that functions of the user threw. */
const ofUsers = new WeakSet<TypeError>()

/** What engines throw when the library looks at a proxy of the user's that was revoked, as an error that says so; any other as it is. */
const coded = (error: unknown): unknown =>
  error instanceof TypeError && !ofUsers.has(error) && /\brevoked\b/.test(error.message)
    ? new UserError('E_ARGUMENT', 'an argument is, or holds, a revoked proxy', {
        help: 'pass the object itself, or revoke the proxy after the call',
        cause: error,
      })
    : error

/** Adds the operation and its place to an error that knows neither. */
function locate(name: string, thrown: unknown): unknown {
  const error = coded(thrown)
  if (!(error instanceof UserError) || error.where !== undefined) return error
  const { code, summary, help } = error
  return new UserError(code, summary.startsWith(name) ? summary : `${name}: ${summary}`, {
    ...withPlace(),
    ...(help === undefined ? {} : { help }),
    cause: causeOf(error),
  })
}

/** An error with the place of the outermost call, if it says none. */
export const located = (error: unknown): unknown => (depth > 0 ? error : locate('', error))

/** Runs a call that is no operation (its messages say its name): errors say its place. */
export function placed<R>(body: () => R): R {
  try {
    return body()
  } catch (error) {
    throw located(error)
  }
}

/** Runs an operation; errors say its name and the place of the outermost call. */
export function within<R>(name: string, where: string | undefined, body: () => R): R {
  depth++
  try {
    return withOrigin(name, where, body)
  } catch (error) {
    throw depth === 1 ? locate(name, error) : error
  } finally {
    depth--
  }
}

/** Runs a function of the user that an operation calls: its own calls say their own places. */
export function asUser<R>(body: () => R): R {
  const outer = depth
  depth = 0
  try {
    return body()
  } catch (error) {
    if (error instanceof TypeError) ofUsers.add(error)
    throw error
  } finally {
    depth = outer
  }
}
