/** What stands in expressions and statements of the vector IR. */
import type { Expr, Register, Statement } from './ir.ts'

/** The expressions that an expression is computed from. */
export function operandsOf(e: Expr): readonly Expr[] {
  switch (e.kind) {
    case 'register':
    case 'const':
    case 'undefined':
      return []
    case 'binary':
    case 'compare':
    case 'shuffle':
    case 'pack':
    case 'dotPairs':
      return [e.a, e.b]
    case 'shift':
      return [e.a, e.count]
    case 'select':
      return [e.a, e.b, e.condition]
    case 'fma':
      return [e.a, e.b, e.c]
    case 'load':
      return [e.address]
    case 'loadLane':
      return [e.address, e.a]
    case 'replace':
      return [e.a, e.value]
    case 'lookup':
      return [e.a, e.indices]
    case 'call':
      return e.args
    case 'branch':
      return [e.condition, e.a, e.b]
    case 'let':
      return [e.value]
    default:
      return [e.a]
  }
}

/** The expressions that a statement itself evaluates, apart from those of statements in it. */
export function expressionsOf(s: Statement): readonly Expr[] {
  switch (s.kind) {
    case 'assign':
      return [s.value]
    case 'store':
    case 'storeLane':
      return [s.address, s.value]
    case 'if':
    case 'repeat':
    case 'until':
    case 'leave':
      return [s.condition]
    case 'for':
      return [s.from, s.to]
    case 'copy':
      return [s.to, s.from, s.bytes]
    case 'run':
      return s.args
    case 'scope':
      return []
  }
}

/** The statements in a statement. */
export function bodiesOf(s: Statement): readonly (readonly Statement[])[] {
  switch (s.kind) {
    case 'if':
      return s.otherwise === undefined ? [s.body] : [s.body, s.otherwise]
    case 'for':
    case 'repeat':
    case 'until':
    case 'scope':
      return [s.body]
    default:
      return []
  }
}

/** The registers that statements assign, those of statements inside expressions among them. */
export function assignedIn(list: readonly Statement[]): Register[] {
  const out: Register[] = []
  const visitValue = (e: Expr): void => {
    if (e.kind === 'let') visitAll(e.body)
    for (const x of operandsOf(e)) visitValue(x)
  }
  const visitAll = (statements: readonly Statement[]): void => {
    for (const s of statements) {
      if (s.kind === 'assign') out.push(s.register)
      if (s.kind === 'for') out.push(s.counter)
      for (const e of expressionsOf(s)) visitValue(e)
      for (const body of bodiesOf(s)) visitAll(body)
    }
  }
  visitAll(list)
  return out
}
