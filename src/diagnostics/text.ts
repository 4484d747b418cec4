/** Text that others wrote (names, paths, messages), as it may be shown: what would steer a terminal is written out. */

/**
 * C0 and C1 controls, DEL, marks and overrides of direction, line and paragraph separators, the byte order mark, annotations,
 * noncharacters, tags, and halves of surrogate pairs. Joiners stay: scripts and emoji need them.
 */
const steering =
  /[\p{Cc}\p{Cs}\u061c\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\ufdd0-\ufdef\u{e0000}-\u{e007f}]/gu

const short: Readonly<Record<string, string>> = { '\n': '\\n', '\r': '\\r', '\t': '\\t' }

const written = (c: string): string => {
  const code = c.codePointAt(0) ?? 0
  return short[c] ?? (code > 0xffff ? `\\u{${code.toString(16)}}` : `\\u${code.toString(16).padStart(4, '0')}`)
}

/** Text of one line. */
export const printable = (text: string): string => text.replace(steering, written)

/** Text of several lines. */
export const printableLines = (text: string): string => text.split('\n').map(printable).join('\n')

/** Data as JSON in which nothing steers a terminal; it parses to the same data. */
export const printableJson = (data: unknown): string =>
  JSON.stringify(data, undefined, 2).replace(steering, (c) => {
    if (c === '\n') return c
    return Array.from({ length: c.length }, (_, i) => `\\u${c.charCodeAt(i).toString(16).padStart(4, '0')}`).join('')
  })
