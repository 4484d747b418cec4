/** Faults of program modules: what a user's own code throws is theirs, told with their stack; what breaks inside Sinter stays a defect. */
import { fileURLToPath } from 'node:url'
import { frameOf, isHelper } from '../api/calls/callsite.ts'
import { InternalError, UserError } from '../diagnostics/errors.ts'

/** The folder of Sinter's own files. */
const home = fileURLToPath(new URL('..', import.meta.url)).replaceAll('\\', '/')

interface Frame {
  readonly file: string
  readonly at: string
  readonly line: string
}

const framesOf = (error: Error): Frame[] =>
  (error.stack ?? '').split('\n').flatMap((line) => {
    const frame = frameOf(line)
    return frame === undefined ? [] : [{ ...frame, line: line.trim() }]
  })

const isOurs = ({ file }: Frame): boolean => file.startsWith(home)

/** The frames of a stack that are the user's: above the command line, and neither Sinter's nor those of what loads a module. */
export function userFrames(error: Error): Frame[] {
  const frames = framesOf(error)
  const end = frames.findIndex((f) => f.file.startsWith(`${home}cli/`))
  const above = end < 0 ? frames : frames.slice(0, end)
  return above.filter((f) => !isOurs(f) && !f.file.startsWith('node:') && !isHelper(f.file))
}

/** Errors of loading: text that is no program, and modules that are not there. */
function isLoading(error: Error): boolean {
  const code = 'code' in error ? String(error.code) : ''
  return (
    error.name === 'SyntaxError' ||
    error.message.startsWith('ParseError: ') ||
    /^(ERR_|MODULE_NOT_FOUND|BABEL)/.test(code)
  )
}

/**
 * What a program module threw, as the user is told: E_FILE where it does not load, E_CALLBACK for what its code throws. Coded errors
 * and what is thrown inside Sinter's own files come out as they are.
 */
function faultOf(path: string, thrown: unknown): unknown {
  if (thrown instanceof UserError || thrown instanceof InternalError) return thrown
  if (!(thrown instanceof Error))
    return new UserError('E_CALLBACK', `the program module ${path} threw ${String(thrown)}`, {
      help: 'throw an Error: it says where it comes from',
      cause: thrown,
    })
  if (isLoading(thrown))
    return new UserError('E_FILE', `the program module ${path} does not load: ${thrown.message}`, { cause: thrown })
  const [top] = framesOf(thrown)
  if (top !== undefined && isOurs(top)) return thrown
  const [site] = userFrames(thrown)
  return new UserError('E_CALLBACK', `the program module ${path} threw ${thrown.name}: ${thrown.message}`, {
    ...(site === undefined ? {} : { where: `${site.file}${site.at}` }),
    help: 'the module itself threw this: its stack follows',
    cause: thrown,
  })
}

/** Runs code of a program module. Throws E_FILE, E_CALLBACK. */
export function callModule<R>(path: string, call: () => R): R {
  try {
    return call()
  } catch (thrown) {
    throw faultOf(path, thrown)
  }
}

/** Waits for code of a program module. Throws E_FILE, E_CALLBACK. */
export async function awaitModule<R>(path: string, call: () => Promise<R>): Promise<R> {
  try {
    return await call()
  } catch (thrown) {
    throw faultOf(path, thrown)
  }
}
