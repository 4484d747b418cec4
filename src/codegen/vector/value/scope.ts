/**
 * Frames of code under construction, innermost last. Every open loop has a frame; a computation is emitted into the
 * outermost frame where its operands stand, and remembered there, so invariants leave loops by construction.
 */

import { type Atom, asConstant, atomKey, constant, type Expr, rangeOf, type Term } from '../../../affine/expr.ts'
import { InternalError, invariant } from '../../../diagnostics/errors.ts'
import { Block, type Builder } from '../ir/builder.ts'
import * as X from '../ir/expr.ts'
import type { Register, Expr as Value } from '../ir/ir.ts'
import type { Reg } from './reg.ts'

/** An i32: a known number or a register. */
export type Index = number | Register

/** A name that tells an index from others. */
export const indexKey = (x: Index): string => (typeof x === 'number' ? `#${x}` : String(x.index))

export interface Frame {
  readonly block: Block
  /** Indices computed in this frame, by key. */
  readonly memo: Map<string, Register>
  /** Registers computed in this frame, by key. */
  readonly regs: Map<string, Reg>
  /** Positions of the axes bound in this frame (also `NAME.start`). */
  readonly axes: Map<string, Index>
}

export class Scope {
  readonly f: Builder
  readonly frames: Frame[] = []
  /** How index expressions read data: the innermost frame a tile value depends on, and its value as an i32. */
  valueDepth: (id: number) => number = () => fail('index values are not bound')
  valueIndex: (id: number) => Register = () => fail('index values are not bound')

  constructor(f: Builder) {
    this.f = f
  }

  get depth(): number {
    return this.frames.length - 1
  }

  /** Changes whenever frames or bindings do. */
  version = 0

  push(): Frame {
    this.version++
    const frame: Frame = { block: new Block(), memo: new Map(), regs: new Map(), axes: new Map() }
    this.frames.push(frame)
    return frame
  }

  /** Closes the innermost frame; the caller splices its code where it belongs. */
  pop(): Frame {
    this.version++
    const frame = this.frames.pop()
    invariant(frame !== undefined, 'no open frame')
    return frame
  }

  frame(depth: number): Frame {
    const frame = this.frames[depth]
    if (frame === undefined) throw new InternalError(`no frame ${depth}`)
    return frame
  }

  /** Emits into a frame. */
  at<T>(depth: number, body: () => T): T {
    return this.f.into(this.frame(depth).block, body)
  }

  /** Emits into the innermost frame. */
  here<T>(body: () => T): T {
    return this.at(this.depth, body)
  }

  bind(axis: string, at: Index): void {
    this.version++
    this.frame(this.depth).axes.set(axis, at)
  }

  /** The frame that binds an axis. */
  axisDepth(name: string): number {
    for (let d = this.frames.length - 1; d >= 0; d--) if (this.frames[d]?.axes.has(name) === true) return d
    return fail(`axis ${name} is not open`)
  }

  axisPosition(name: string): Index {
    for (let d = this.frames.length - 1; d >= 0; d--) {
      const at = this.frames[d]?.axes.get(name)
      if (at !== undefined) return at
    }
    return fail(`axis ${name} is not open`)
  }

  isBound(name: string): boolean {
    return this.frames.some((fr) => fr.axes.has(name))
  }

  /** A register remembered in any open frame. */
  find(key: string): Reg | undefined {
    for (let d = this.frames.length - 1; d >= 0; d--) {
      const found = this.frames[d]?.regs.get(key)
      if (found !== undefined) return found
    }
    return undefined
  }

  /** A register computed once in a frame. */
  keep(depth: number, key: string, emit: () => Reg): Reg {
    const { block, regs } = this.frame(depth)
    const r = this.f.into(block, emit)
    regs.set(key, r)
    return r
  }

  /** An index computed once in a frame. */
  once(depth: number, key: string, value: () => Value): Register {
    const { block, memo } = this.frame(depth)
    const found = memo.get(key)
    if (found !== undefined) return found
    // The register comes from the frame's own pool: see `Builder.into`.
    const made = this.f.into(block, () => this.f.keep(value()))
    memo.set(key, made)
    return made
  }

  /** The innermost frame an expression depends on. */
  exprDepth(e: Expr): number {
    let d = 0
    for (const { atom } of e.terms) {
      const own = this.atomDepth(atom)
      if (own > d) d = own
    }
    return d
  }

  private atomDepth(a: Atom): number {
    switch (a.kind) {
      case 'axis':
        for (let d = this.frames.length - 1; d >= 0; d--) {
          const at = this.frames[d]?.axes.get(a.name)
          if (at !== undefined) return typeof at === 'number' ? 0 : d
        }
        return fail(`axis ${a.name} is not open`)
      case 'value':
        return this.valueDepth(a.id)
      case 'div':
      case 'mod':
      case 'scaled':
        return this.exprDepth(a.of)
    }
  }

  /**
   * The value of an expression at the current point (lane 0 of a vector axis) plus an optional base, in 32-bit wrapping
   * arithmetic. What does not change in a loop is summed outside it.
   */
  index(e: Expr, base?: Register): Index {
    const known = asConstant(e)
    if (known !== undefined && base === undefined) return known
    if (known === 0 && base !== undefined) return base
    const [only] = e.terms
    if (base === undefined && e.terms.length === 1 && e.offset === 0 && only?.coef === 1) return this.atom(only.atom)
    const d = this.exprDepth(e)
    const key = `i:${base?.index ?? ''}:${e.key}`
    const found = this.frame(d).memo.get(key)
    if (found !== undefined) return found
    const low: Term[] = []
    const high: Term[] = []
    for (const t of e.terms) (this.atomDepth(t.atom) === d ? high : low).push(t)
    const outer = d === 0 || (low.length === 0 && e.offset === 0) ? base : this.index(withTerms(low, e.offset), base)
    const parts: Index[] = high.map((t) => this.term(t, d))
    if (outer !== undefined) parts.unshift(outer)
    if (d === 0) parts.push(e.offset)
    return this.once(d, key, () => {
      const [first = 0, ...others] = parts.filter((x) => x !== 0)
      return others.reduce<Value>((sum, x) => X.add(sum, x), X.asExpr(first))
    })
  }

  private term(t: Term, depth: number): Index {
    const at = this.atom(t.atom)
    if (t.coef === 1) return at
    if (typeof at === 'number') return Math.imul(at, t.coef)
    return this.once(depth, `t:${t.coef}*${at.index}`, () => scaled(at, t.coef))
  }

  private atom(a: Atom): Index {
    switch (a.kind) {
      case 'axis':
        return this.axisPosition(a.name)
      case 'value':
        return this.valueIndex(a.id)
      case 'div':
      case 'mod': {
        const of = this.index(a.of)
        if (typeof of === 'number') return a.kind === 'div' ? Math.floor(of / a.by) : ((of % a.by) + a.by) % a.by
        const key = `${a.kind}:${of.index}:${a.by}`
        const d = this.exprDepth(a.of)
        return this.once(d, key, () => this.quotient(a.kind, of, a.by, rangeOf(a.of).lo >= 0))
      }
      case 'scaled': {
        const [of, by] = [this.index(a.of), this.axisPosition(a.by)]
        if (of === 1) return by
        return this.once(this.exprDepth(a.of), `scaled:${indexKey(of)}:${a.by}`, () => X.mul(of, by))
      }
    }
  }

  /** floor(x / by) or x - by * floor(x / by); `by` is known where x may be negative. */
  quotient(kind: 'div' | 'mod', x: Register, by: Index, nonNegative: boolean): Value {
    if (typeof by !== 'number') {
      invariant(nonNegative, 'a negative number is divided by one that is not known')
      return X.binary(kind === 'div' ? 'div_u' : 'rem_u', x, by)
    }
    const shift = Math.log2(by)
    if (Number.isInteger(shift)) {
      if (kind === 'mod') return X.and(x, by - 1)
      return nonNegative ? X.shrU(x, shift) : X.shrS(x, shift)
    }
    if (nonNegative) return X.binary(kind === 'div' ? 'div_u' : 'rem_u', x, by)
    // A negative remainder moves up by one multiple; then x less the remainder divides exactly.
    const { f } = this
    return f.inline(() => {
      const r = f.keep(X.binary('rem_s', x, by))
      const remainder = X.add(r, X.and(X.shrS(r, 31), by))
      f.release(r)
      return kind === 'mod' ? remainder : X.binary('div_s', X.sub(x, remainder), by)
    })
  }
}

/** An index times a constant. */
export function scaled(at: Register, coef: number): Value {
  if (coef === 1) return at
  const shift = Math.log2(coef)
  return coef > 0 && Number.isInteger(shift) ? X.shl(at, shift) : X.mul(at, coef)
}

export const withTerms = (terms: readonly Term[], offset: number): Expr => {
  const keyOf = (t: Term): string => `${t.coef}*${atomText(t.atom)}`
  const parts = terms.map(keyOf)
  if (offset !== 0 || parts.length === 0) parts.push(String(offset))
  return terms.length === 0 ? constant(offset) : { terms, offset, key: parts.join('+') }
}

const atomText = (a: Atom): string => (a.kind === 'value' ? `%${a.id}` : atomKey(a))

function fail(message: string): never {
  throw new InternalError(message)
}
