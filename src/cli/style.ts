/** Styles of text on a terminal: marks that a console turns into codes when it writes, and all else in the text made harmless. */
import { randomBytes } from 'node:crypto'
import { inspect } from 'node:util'
import { printable } from '../diagnostics/text.ts'

/** No name can hold the marks of a process: it would have to guess the key. */
const key = randomBytes(8).toString('hex')
const mark = (code: number): string => `\ufdd0${key}:${code}\ufdd1`
const marks = new RegExp(`\ufdd0${key}:(\\d+)\ufdd1`)

type Style = (text: string) => string
const style = (name: keyof typeof inspect.colors): Style => {
  const [open, close] = inspect.colors[name] ?? [0, 0]
  return (text) => `${mark(open)}${text}${mark(close)}`
}

export const bold = style('bold')
export const dim = style('dim')
export const red = style('red')
export const green = style('green')
export const yellow = style('yellow')
export const cyan = style('cyan')

/** Text as a stream gets it, in one line: marks as codes, or left out, and what would steer a terminal written out. */
export const rendered = (text: string, colour: boolean): string =>
  text
    .split(marks)
    .map((part, i) => (i % 2 === 0 ? printable(part) : colour ? `\u001b[${part}m` : ''))
    .join('')

/**
 * Whether a stream gets codes: `--no-color` forbids, FORCE_COLOR commands (0 and false forbid), NO_COLOR forbids; else terminals do,
 * if they know any.
 */
export function wantsColour(
  stream: { readonly isTTY?: boolean },
  args: readonly string[],
  env: Readonly<Record<string, string | undefined>>,
): boolean {
  if (args.includes('--no-color')) return false
  const forced = env.FORCE_COLOR
  if (forced !== undefined) return forced !== '0' && forced !== 'false'
  if (env.NO_COLOR !== undefined && env.NO_COLOR !== '') return false
  return stream.isTTY === true && env.TERM !== 'dumb'
}
