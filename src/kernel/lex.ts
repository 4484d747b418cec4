/** Tokens of the kernel's text form. Line ends separate statements except inside brackets and parentheses. */
import { UserError } from '../diagnostics/errors.ts'

export interface Token {
  readonly kind: 'name' | 'number' | 'string' | 'symbol' | 'newline' | 'end'
  readonly text: string
  readonly line: number
  readonly column: number
}

/** A syntax error at a place of the text. */
export const syntaxError = (message: string, at: { readonly line: number; readonly column: number }): UserError =>
  new UserError('E_KERNEL_SYNTAX', message, { where: `${at.line}:${at.column}` })

const space = /[ \t\r]+|#[^\n]*/y
const patterns: readonly (readonly [Token['kind'], RegExp])[] = [
  ['newline', /[\n;]/y],
  ['name', /\$?[A-Za-z_][A-Za-z0-9_]*/y],
  ['number', /\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/y],
  ['string', /"(?:[^"\\\n]|\\.)*"/y],
  ['symbol', /<=|\+=|\*=|[{}[\]():,=<+\-*/%.]/y],
]

/** Comments run from `#` to the end of the line. Throws E_KERNEL_SYNTAX on a character of no token. */
export function lex(text: string): Token[] {
  const out: Token[] = []
  let at = 0
  let line = 1
  let lineStart = 0
  let depth = 0
  const match = (re: RegExp): string | undefined => {
    re.lastIndex = at
    return re.exec(text)?.[0]
  }
  while (at < text.length) {
    const skipped = match(space)
    if (skipped !== undefined) {
      at += skipped.length
      continue
    }
    const place = { line, column: at - lineStart + 1 }
    const found = patterns.map(([kind, re]) => ({ kind, text: match(re) })).find((m) => m.text !== undefined)
    if (found?.text === undefined) throw syntaxError(`unexpected character ${JSON.stringify(text[at])}`, place)
    at += found.text.length
    if (found.text === '[' || found.text === '(') depth++
    if (found.text === ']' || found.text === ')') depth--
    if (found.kind !== 'newline' || depth <= 0) out.push({ kind: found.kind, text: found.text, ...place })
    if (found.text === '\n') {
      line++
      lineStart = at
    }
  }
  out.push({ kind: 'end', text: 'the end of the text', line, column: at - lineStart + 1 })
  return out
}
