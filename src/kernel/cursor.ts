/** A reader over the tokens of the kernel's text form, with the parsers of index expressions and predicates. */
import {
  add,
  asConstant,
  axis,
  constant,
  div,
  type Expr,
  launched,
  mod,
  mul,
  type Scale,
  scaled,
  sub,
  value,
} from '../affine/expr.ts'
import type { Bound } from '../affine/predicate.ts'
import { lex, syntaxError, type Token } from './lex.ts'

const show = (t: Token): string =>
  t.kind === 'newline' ? 'the end of the line' : t.kind === 'end' ? t.text : JSON.stringify(t.text)

/** The product of two expressions, the second of which is a number times launch scalars. */
function timesScalars(a: Expr, { terms, offset }: Expr): Expr | undefined {
  const [t, second] = terms
  if (t?.atom.kind !== 'scaled' || second !== undefined || offset !== 0) return undefined
  const { of } = t.atom
  const product = asConstant(of) === undefined ? timesScalars(a, of) : a
  return product === undefined ? undefined : scaled(mul(product, t.coef), t.atom)
}

export class Cursor {
  private readonly tokens: readonly Token[]
  private at = 0
  /** Extents of the axes in scope of the part being read. */
  extents: ReadonlyMap<string, number> = new Map()
  /** Launch scalars of the kernel being read. */
  scalars: ReadonlyMap<string, Scale> = new Map()

  constructor(text: string) {
    this.tokens = lex(text)
  }

  get token(): Token {
    const t = this.tokens[this.at] ?? this.tokens[this.tokens.length - 1]
    if (t === undefined) throw syntaxError('no tokens', { line: 1, column: 1 })
    return t
  }

  fail(expected: string): never {
    throw syntaxError(`expected ${expected}, found ${show(this.token)}`, this.token)
  }

  next(): Token {
    const t = this.token
    this.at++
    return t
  }

  is(text: string): boolean {
    return (this.token.kind === 'symbol' || this.token.kind === 'name') && this.token.text === text
  }

  /** Takes the token if it is `text`. */
  accept(text: string): boolean {
    if (!this.is(text)) return false
    this.at++
    return true
  }

  expect(text: string): void {
    if (!this.accept(text)) this.fail(JSON.stringify(text))
  }

  name(what: string): string {
    if (this.token.kind !== 'name') this.fail(what)
    return this.next().text
  }

  /** One of the given words. */
  word<W extends string>(words: readonly W[], what: string): W {
    const found = words.find((w) => this.is(w))
    if (found === undefined) this.fail(what)
    this.next()
    return found
  }

  natural(what: string): number {
    if (this.token.kind !== 'number' || !/^\d+$/.test(this.token.text)) this.fail(what)
    return Number(this.next().text)
  }

  integer(what: string): number {
    const negative = this.accept('-')
    const v = this.natural(what)
    return negative ? 0 - v : v
  }

  valueId(): number {
    this.expect('%')
    return this.natural('the number of a value')
  }

  /** `item, item, ...`, at least one. */
  list<T>(item: () => T): T[] {
    const out = [item()]
    while (this.accept(',')) out.push(item())
    return out
  }

  /** Items up to a closing symbol; none is fine. */
  listUntil<T>(close: string, item: () => T): T[] {
    if (this.accept(close)) return []
    const out = this.list(item)
    this.expect(close)
    return out
  }

  skipNewlines(): void {
    while (this.token.kind === 'newline') this.at++
  }

  /** The end of a statement: a line end, or the block's end ahead. */
  endStatement(): void {
    if (this.token.kind === 'newline') this.skipNewlines()
    else if (!this.is('}') && this.token.kind !== 'end') this.fail('the end of the statement')
  }

  /** `{`, statements each ended, `}`. */
  block(statement: () => void): void {
    this.expect('{')
    this.skipNewlines()
    while (!this.accept('}')) {
      statement()
      this.endStatement()
    }
  }

  expr(): Expr {
    const negative = this.accept('-')
    let e = this.product()
    if (negative) e = mul(e, -1)
    for (;;) {
      if (this.accept('+')) e = add(e, this.product())
      else if (this.accept('-')) e = sub(e, this.product())
      else return e
    }
  }

  private product(): Expr {
    let e = this.factor()
    for (;;) {
      if (this.accept('/')) e = div(e, this.divisor())
      else if (this.accept('%')) e = mod(e, this.divisor())
      else if (this.is('*')) e = this.times(e)
      else return e
    }
  }

  private divisor(): number {
    const t = this.token
    const n = this.natural('a whole number to divide by')
    if (n === 0) throw syntaxError('an index is divided by 0', t)
    return n
  }

  private times(a: Expr): Expr {
    const at = this.next()
    const b = this.factor()
    const ca = asConstant(a)
    const cb = asConstant(b)
    if (cb !== undefined) return mul(a, cb)
    if (ca !== undefined) return mul(b, ca)
    const product = timesScalars(a, b) ?? timesScalars(b, a)
    if (product !== undefined) return product
    throw syntaxError(
      'a product of two indices is not quasi-affine: one factor must be a number or a launch scalar',
      at,
    )
  }

  private factor(): Expr {
    if (this.accept('(')) {
      const e = this.expr()
      this.expect(')')
      return e
    }
    if (this.token.kind === 'number') return constant(this.natural('a whole number'))
    if (this.is('%')) {
      const id = this.valueId()
      this.expect(':')
      const at = this.token
      if (!at.text.startsWith('$')) return value(id, this.natural('the extent the value is below'))
      const open = this.name('a launch scalar')
      return value(id, this.scalar(open, at).most, open)
    }
    return this.axis()
  }

  private axis(): Expr {
    const at = this.token
    const name = this.name('an axis, a value or a number')
    if (name.startsWith('$')) return launched(this.scalar(name, at))
    const extent = this.extents.get(name)
    if (extent === undefined)
      throw syntaxError(`axis ${name} is not declared (declared: ${[...this.extents.keys()].join(', ') || 'none'})`, at)
    if (!this.accept('.')) return axis(name, extent)
    this.expect('start')
    return axis(`${name}.start`, extent)
  }

  /** The launch scalar of a name. */
  scalar(name: string, at: Token): Scale {
    const scale = this.scalars.get(name)
    if (scale === undefined) throw syntaxError(`the launch scalar ${name} is not declared`, at)
    return scale
  }

  bound(): Bound {
    const lo = this.integer('a lower bound')
    this.expect('<=')
    const expr = this.expr()
    this.expect('<')
    return { expr, lo, hi: this.integer('an upper bound') }
  }
}
