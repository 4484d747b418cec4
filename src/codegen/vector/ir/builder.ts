/** Builds functions of the vector IR: statements into blocks, registers out of pools. */
import { InternalError } from '../../../diagnostics/errors.ts'
import { asExpr, int, type Operand, view } from './expr.ts'
import type { Expr, External, Label, Register, Statement, StoreForm, VectorFunction } from './ir.ts'
import type { Bank, Type } from './types.ts'

/** Statements that stand apart until they are put into place, and the registers released among them. */
export class Block {
  statements: Statement[] = []
  readonly free = new Map<Bank, number[]>()
}

export class Builder {
  readonly params: readonly Register[]
  private readonly root = new Block()
  /** Where statements go. */
  private open = this.root
  /** Whether each register, by number, is in use. */
  private readonly live: boolean[] = []
  private readonly externals = new Map<string, External>()
  private next: number
  private labels = 0

  constructor(params: readonly Type[]) {
    this.params = params.map((type, index) => ({ kind: 'register', type, index }))
    this.next = params.length
  }

  /** Builds a function. */
  static function(
    name: string,
    params: readonly Type[],
    body: (f: Builder, params: readonly Register[]) => void,
  ): VectorFunction {
    const f = new Builder(params)
    body(f, f.params)
    return { name, params: f.params, body: f.root.statements, externals: [...f.externals.values()] }
  }

  /** Statements so far, where they go now. */
  get size(): number {
    return this.open.statements.length
  }

  param(i: number): Register {
    const p = this.params[i]
    if (p === undefined) throw new InternalError(`no parameter ${i}`)
    return p
  }

  /**
   * Builds into another block, for `splice` to put into its place later. Each block pools its own registers: statements that are built later
   * may run earlier, so a register must not pass from one to the other.
   */
  into<T>(block: Block, body: () => T): T {
    const { open } = this
    this.open = block
    const out = body()
    this.open = open
    return out
  }

  /** Appends a finished block's statements. */
  splice(block: Block): void {
    const { statements } = this.open
    for (const s of block.statements) statements.push(s)
  }

  /** A register, fresh or released before: its value is undefined until it is assigned. */
  register(type: Type): Register {
    const index = this.open.free.get(type.bank)?.pop() ?? this.next++
    this.live[index] = true
    return { kind: 'register', type, index }
  }

  /** Gives registers back for reuse. */
  release(...registers: readonly Register[]): void {
    for (const { type, index } of registers) {
      if (this.live[index] !== true) throw new InternalError(`register ${index} is released twice, or is a parameter`)
      this.live[index] = false
      const pool = this.open.free.get(type.bank)
      if (pool === undefined) this.open.free.set(type.bank, [index])
      else pool.push(index)
    }
  }

  /** The value in a register of its own. */
  keep(value: Operand): Register {
    const x = typeof value === 'number' ? int(value) : value
    const register = this.register(x.type)
    this.open.statements.push({ kind: 'assign', register, value: x })
    return register
  }

  assign(register: Register, value: Operand): void {
    this.open.statements.push({ kind: 'assign', register, value: view(register.type, value) })
  }

  /** What `body` gives, behind the statements that it builds: they run where the value is evaluated. */
  inline(body: () => Expr): Expr {
    const { open } = this
    const { statements } = open
    open.statements = []
    const value = body()
    const inner = open.statements
    open.statements = statements
    return inner.length === 0 ? value : { kind: 'let', type: value.type, body: inner, value }
  }

  /** The statements that `body` builds. */
  private nested(body: () => void): Statement[] {
    const { open } = this
    const { statements } = open
    const inner: Statement[] = []
    open.statements = inner
    body()
    open.statements = statements
    return inner
  }

  store(address: Operand, value: Operand, offset: number, align: number, form: StoreForm = 'plain'): void {
    const [at, x] = [asExpr(address), asExpr(value)]
    this.open.statements.push({ kind: 'store', form, address: at, value: x, offset, align })
  }

  storeLane(address: Operand, value: Expr, lane: number, offset: number, align: number): void {
    this.open.statements.push({ kind: 'storeLane', address: asExpr(address), value, lane, offset, align })
  }

  if(condition: Operand, then: () => void, otherwise?: () => void): void {
    const c = asExpr(condition)
    const yes = this.nested(then)
    const no = otherwise === undefined ? undefined : this.nested(otherwise)
    this.open.statements.push({ kind: 'if', condition: c, body: yes, otherwise: no })
  }

  /** `for (counter = from; counter < to; counter += step)`, of signed i32s; `to` is evaluated in every round. */
  for(counter: Register, from: Operand, to: Operand, step: number, body: () => void): void {
    const [first, end] = [asExpr(from), asExpr(to)]
    this.open.statements.push({ kind: 'for', counter, from: first, to: end, step, body: this.nested(body) })
  }

  /** The body, then again while the condition that it gives holds. */
  repeat(body: () => Expr): void {
    let condition: Expr | undefined
    const inner = this.nested(() => {
      condition = body()
    })
    if (condition === undefined) throw new InternalError('a loop without condition')
    this.open.statements.push({ kind: 'repeat', body: inner, condition })
  }

  /** The body, until the condition before it holds. */
  until(condition: Expr, body: () => void): void {
    this.open.statements.push({ kind: 'until', condition, body: this.nested(body) })
  }

  /** Statements that `leave` leaves. */
  scope(body: (label: Label) => void): void {
    const label = { id: this.labels++ }
    this.open.statements.push({ kind: 'scope', label, body: this.nested(() => body(label)) })
  }

  leave(label: Label, condition: Expr): void {
    this.open.statements.push({ kind: 'leave', label, condition })
  }

  copy(to: Operand, from: Operand, bytes: Operand): void {
    this.open.statements.push({ kind: 'copy', to: asExpr(to), from: asExpr(from), bytes: asExpr(bytes) })
  }

  run(callee: VectorFunction, args: readonly Expr[]): void {
    this.open.statements.push({ kind: 'run', callee, args })
  }

  /** A function outside the program; the same name is the same function. */
  external(name: string, params: readonly Type[], result: Type): External {
    const have = this.externals.get(name)
    if (have !== undefined) return have
    const made = { name, params, result }
    this.externals.set(name, made)
    return made
  }
}
