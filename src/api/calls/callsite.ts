/**
 * The user's call site: the first frame of the stack that is not of this library.
 *
 * Which frames are ours the stack itself says: its first frame is this file's, under the name that every other frame has too
 * (sources, `dist`, or `dist` seen through source maps). Where a bundler joined the library with other code, files say no more:
 * what stands in the bundle's own file is left out, since a wrong place is worse than none.
 */

type StackError = ErrorConstructor & { stackTraceLimit?: number }

/** Packages that call back into this library when its own command runs. */
const helpers = /\/node_modules\/(?:commander|jiti)\//

/** Whether a file is of such a package. */
export const isHelper = (file: string): boolean => helpers.test(file)

/** A file as users write it: no scheme, no escapes, no query. */
function fileOf(url: string): string {
  if (!url.startsWith('file://')) return url.replaceAll('\\', '/').replace(/\?.*$/, '')
  const path = url.slice('file://'.length).replace(/^\/(?=[A-Za-z]:\/)/, '')
  try {
    return decodeURIComponent(path)
  } catch {
    return path
  }
}

interface Frame {
  readonly file: string
  readonly at: string
}

/** Frames of lines seen lately: operations of one function have most of their stacks in common. */
const frames = new Map<string, Frame | undefined>()
const mostFrames = 1000

/** File and position of a line of a stack (V8: `at f (file:1:2)`, `at file:1:2`; others: `f@file:1:2`). */
export function frameOf(line: string): Frame | undefined {
  const have = frames.get(line)
  if (have !== undefined || frames.has(line)) return have
  if (frames.size >= mostFrames) frames.clear()
  const frame = parseFrame(line)
  frames.set(line, frame)
  return frame
}

function parseFrame(line: string): Frame | undefined {
  const [, text = ''] = /^\s*(?:at (?:async )?(?:.*? \()?|[^/]*@)?(.*?)\)?$/.exec(line) ?? []
  const [, url, at] = /^(.+?)(:\d+:\d+)$/.exec(text) ?? []
  return url === undefined || at === undefined || url.includes('<anonymous>') ? undefined : { file: fileOf(url), at }
}

/** The folder of the library, or its one file where it was bundled. */
const homeOf = (self: string): string => /^(.*\/)api\/calls\/callsite\.[cm]?[jt]s$/.exec(self)?.[1] ?? self

/** The user's frame in a stack whose first frame is this file's; a frame of a package of others only where there is no other. */
export function siteIn(stack: readonly string[]): { readonly where: string | undefined; readonly installed: boolean } {
  let home: string | undefined
  let installed: string | undefined
  for (const line of stack) {
    const frame = frameOf(line)
    if (frame === undefined) continue
    const { file, at } = frame
    home ??= homeOf(file)
    if (file.startsWith(home) || file.startsWith('node:') || isHelper(file)) continue
    if (!file.includes('/node_modules/')) return { where: file + at, installed: false }
    installed ??= file + at
  }
  return { where: installed, installed: true }
}

function stackOf(limit: number): string {
  const E: StackError = Error
  const before = E.stackTraceLimit
  E.stackTraceLimit = limit
  const { stack } = new Error('call site')
  if (before !== undefined) E.stackTraceLimit = before
  return stack ?? ''
}

/** Frames to look at first: the user calls `add`, which reaches `callSite` through four of ours. */
const nearest = 7

/** Sites by the stacks seen lately: a loop calls from the same places. */
const sites = new Map<string, string>()
const mostSites = 100

/** `file:line:column` of the call into the library, or undefined where the engine does not say. */
export function callSite(): string | undefined {
  // Mostly the frame is near; engines without a limit give all frames at once.
  const text = stackOf(nearest)
  const have = sites.get(text)
  if (have !== undefined) return have
  const near = text.split('\n')
  const { where, installed } = siteIn(near)
  if (installed && near.length >= nearest) return siteIn(stackOf(100).split('\n')).where
  if (where === undefined) return undefined
  if (sites.size >= mostSites) sites.clear()
  sites.set(text, where)
  return where
}
