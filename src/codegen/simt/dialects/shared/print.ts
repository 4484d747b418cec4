/** What the printers of all dialects share: statements with indentation, operators with parentheses, libraries of functions. */
import { InternalError } from '../../../../diagnostics/errors.ts'
import type { Ex, S, Type } from '../../ir/ir.ts'

/** A library function: its source, and the functions it calls. */
export interface LibraryFunction {
  readonly code: string
  readonly uses?: readonly string[]
}

export type Library = Readonly<Record<string, LibraryFunction>>

export const fn = (code: string, uses: readonly string[] = []): LibraryFunction => ({ code, uses })

/** Calls printed in place: another function's name, or text made of operands (in parentheses where they need them). */
export type Inline = Readonly<Record<string, string | ((...operands: readonly string[]) => string)>>

const tight = new Set(['+', '*'])

export abstract class Printer {
  private readonly lines: string[] = []
  private depth = 0
  private readonly used = new Set<string>()
  private readonly library: Library
  private readonly inline: Inline

  constructor(library: Library, inline: Inline) {
    this.library = library
    this.inline = inline
  }

  protected abstract type(t: Type): string
  protected abstract literal(t: Type, value: number | bigint | boolean): string
  protected abstract castText(to: Type, from: Type, a: string): string
  protected abstract bitcastText(to: Type, from: Type, a: string): string
  protected abstract selectText(type: Type, cond: string, a: string, b: string): string
  protected abstract memory(e: Extract<Ex, { k: 'load' | 'word' | 'comp' | 'shuffle' | 'turn' | 'address' }>): string
  /** Statements whose form differs. */
  protected abstract special(s: S): void
  /** Operators that a dialect writes as calls; undefined: plain. */
  protected abstract operator(e: Extract<Ex, { k: 'bin' | 'neg' | 'not' }>): string | undefined

  line(text: string): void {
    this.lines.push(text === '' ? '' : '  '.repeat(this.depth) + text)
  }

  indented(body: () => void): void {
    this.depth++
    body()
    this.depth--
  }

  /** The code so far. */
  get text(): string {
    return this.lines.join('\n')
  }

  /** The library functions used, in an order that defines before use. */
  libraryText(): string[] {
    const out: string[] = []
    const done = new Set<string>()
    const visit = (name: string): void => {
      if (done.has(name)) return
      done.add(name)
      const f = this.library[name]
      if (f === undefined) throw new InternalError(`there is no library function ${name}`)
      for (const u of f.uses ?? []) visit(u)
      out.push(f.code)
    }
    for (const name of [...this.used].sort()) visit(name)
    return out
  }

  use(name: string): void {
    this.used.add(name)
  }

  ex(e: Ex): string {
    switch (e.k) {
      case 'lit':
        return this.literal(e.type, e.value)
      case 'var':
        return e.name
      case 'elem':
      case 'shared':
        return `${e.array}[${this.ex(e.index)}]`
      case 'neg':
        return this.operator(e) ?? `-${this.operand(e.a)}`
      case 'not':
        return this.operator(e) ?? `${e.type === 'bool' ? '!' : '~'}${this.operand(e.a)}`
      case 'bin':
        return this.operator(e) ?? `${this.side(e, e.a, true)} ${e.op} ${this.side(e, e.b, false)}`
      case 'cast':
        return this.castText(e.type, e.a.type, this.ex(e.a))
      case 'bitcast':
        return this.bitcastText(e.type, e.a.type, this.ex(e.a))
      case 'select':
        return this.selectText(e.type, this.ex(e.cond), this.ex(e.a), this.ex(e.b))
      case 'call':
        return this.call(e.fn, e.args)
      default:
        return this.memory(e)
    }
  }

  call(fn: string, args: readonly Ex[]): string {
    const plain = this.inline[fn]
    if (typeof plain === 'function') return plain(...args.map((a) => this.operand(a)))
    const texts = args.map((a) => this.ex(a))
    if (plain !== undefined) return `${plain}(${texts.join(', ')})`
    this.use(fn)
    return `${fn}(${texts.join(', ')})`
  }

  /** An operand that needs no parentheses around it. */
  operand(e: Ex): string {
    const text = this.ex(e)
    return e.k === 'bin' || e.k === 'neg' || e.k === 'select' || e.k === 'not' || e.k === 'call' || text.startsWith('-')
      ? `(${text})`
      : text
  }

  private side(e: Extract<Ex, { k: 'bin' }>, x: Ex, left: boolean): string {
    const text = this.ex(x)
    const simple = x.k !== 'bin' && x.k !== 'select' && x.k !== 'neg' && x.k !== 'call' && !text.startsWith('-')
    if (simple) return text
    if (x.k === 'call' && /^\w+\(/.test(text) && this.inline[x.fn] === undefined) return text
    if (x.k === 'bin') {
      if (e.op === '+' && (x.op === '*' || (x.op === '+' && left)) && this.operator(x) === undefined) return text
      if (tight.has(e.op) && e.op === x.op && left && this.operator(x) === undefined) return text
      if ((e.op === '&&' || e.op === '||') && e.op === x.op && left) return text
      if (this.operator(x) !== undefined) return text
    }
    return `(${text})`
  }

  stmts(body: readonly S[]): void {
    for (const s of body) this.stmt(s)
  }

  stmt(s: S): void {
    switch (s.k) {
      case 'comment':
        this.line(`// ${s.text}`)
        break
      case 'assign':
        this.line(`${this.ex(s.to)} = ${this.ex(s.value)};`)
        break
      case 'if':
        this.printIf(s)
        break
      case 'scope':
        this.line('{')
        this.indented(() => this.stmts(s.body))
        this.line('}')
        break
      case 'call':
        this.line(`${this.call(s.fn, s.args)};`)
        break
      default:
        this.special(s)
    }
  }

  private printIf(s: Extract<S, { k: 'if' }>): void {
    if (s.cond.k === 'lit') {
      this.stmts(s.cond.value === true ? s.body : s.otherwise)
      return
    }
    this.line(`if (${this.ex(s.cond)}) {`)
    this.indented(() => this.stmts(s.body))
    let rest = s.otherwise
    for (;;) {
      const [only] = rest
      if (rest.length === 0) break
      if (rest.length === 1 && only?.k === 'if' && only.cond.k !== 'lit') {
        this.line(`} else if (${this.ex(only.cond)}) {`)
        this.indented(() => this.stmts(only.body))
        rest = only.otherwise
        continue
      }
      this.line('} else {')
      const body = rest
      this.indented(() => this.stmts(body))
      break
    }
    this.line('}')
  }
}

/** A number as a decimal that reads back as the same f32 or f64, with a point or exponent in it. */
export function decimal(x: number): string {
  const s = String(x)
  return /[.e]/.test(s) ? s : `${s}.0`
}
