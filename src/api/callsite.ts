/** The user's call site: the first frame of the stack outside this folder and what lies below it. */

type StackError = ErrorConstructor & { stackTraceLimit?: number }

const strip = (url: string): string => url.replace(/^file:\/\//, '')

/** The folder this library runs from (its `src` or `dist`): frames of it are ours. */
const home = strip(new URL('..', import.meta.url).href)

const place = /\(?((?:file:\/\/|https?:\/\/)?[^()\s]+:\d+:\d+)\)?$/

/** `file:line:column` of the call into the library, or undefined where the engine does not say. */
export function callSite(): string | undefined {
  const E: StackError = Error
  const limit = E.stackTraceLimit
  E.stackTraceLimit = 16
  const { stack } = new Error('call site')
  if (limit !== undefined) E.stackTraceLimit = limit
  for (const line of (stack ?? '').split('\n').slice(1)) {
    const found = place.exec(line.trim())?.[1]
    if (found === undefined) continue
    const where = strip(found)
    if (!where.startsWith(home) && !where.startsWith('node:')) return where
  }
  return undefined
}
