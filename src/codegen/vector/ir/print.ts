/** Text of functions of the vector IR, for people: a statement a line, expressions as calls, memory in brackets. */
import type { Expr, Statement, VectorFunction } from './ir.ts'

/** A function as text. */
export function printFunctionText(fn: VectorFunction): string {
  const params = fn.params.map((p) => `${nameOf(p.index)}: ${p.type.name}`)
  return [`function ${fn.name}(${params.join(', ')}) {`, ...lines(fn.body, '  '), '}'].join('\n')
}

const nameOf = (register: number): string => `%${register}`

const place = (address: Expr, offset: number): string =>
  `[${printExpr(address)}${offset === 0 ? '' : ` + ${String(offset)}`}]`

function lines(list: readonly Statement[], indent: string): string[] {
  return list.flatMap((s) => statementLines(s, indent))
}

function statementLines(s: Statement, indent: string): string[] {
  const inner = (body: readonly Statement[]): string[] => lines(body, `${indent}  `)
  switch (s.kind) {
    case 'assign':
      return [`${indent}${nameOf(s.register.index)}: ${s.register.type.name} = ${printExpr(s.value)}`]
    case 'store': {
      const form = s.form === 'plain' ? '' : `.${s.form}`
      return [`${indent}store${form} ${place(s.address, s.offset)} = ${printExpr(s.value)}`]
    }
    case 'storeLane':
      return [`${indent}store ${place(s.address, s.offset)} = ${printExpr(s.value)}.${String(s.lane)}`]
    case 'if': {
      const otherwise = s.otherwise === undefined ? [] : [`${indent}} else {`, ...inner(s.otherwise)]
      return [`${indent}if ${printExpr(s.condition)} {`, ...inner(s.body), ...otherwise, `${indent}}`]
    }
    case 'for': {
      const range = `${nameOf(s.counter.index)} from ${printExpr(s.from)} to ${printExpr(s.to)} by ${String(s.step)}`
      return [`${indent}for ${range} {`, ...inner(s.body), `${indent}}`]
    }
    case 'repeat':
      return [`${indent}repeat {`, ...inner(s.body), `${indent}} while ${printExpr(s.condition)}`]
    case 'until':
      return [`${indent}until ${printExpr(s.condition)} {`, ...inner(s.body), `${indent}}`]
    case 'scope':
      return [`${indent}scope ${String(s.label.id)} {`, ...inner(s.body), `${indent}}`]
    case 'leave':
      return [`${indent}leave ${String(s.label.id)} if ${printExpr(s.condition)}`]
    case 'copy':
      return [`${indent}copy [${printExpr(s.to)}] = [${printExpr(s.from)}] of ${printExpr(s.bytes)} bytes`]
    case 'run':
      return [`${indent}run ${s.callee.name}(${s.args.map(printExpr).join(', ')})`]
  }
}

const listOf = (...args: readonly Expr[]): string => args.map(printExpr).join(', ')

/** An expression as text. */
export function printExpr(e: Expr): string {
  const { type } = e
  switch (e.kind) {
    case 'register':
      return nameOf(e.index)
    case 'const': {
      const text = typeof e.value === 'object' ? e.value.join(', ') : Object.is(e.value, -0) ? '-0' : String(e.value)
      return type.name === 'i32' ? text : `${type.name}(${text})`
    }
    case 'unary':
      return `${e.op}(${listOf(e.a)})`
    case 'binary':
      return `${e.op}(${listOf(e.a, e.b)})`
    case 'isZero':
      return `isZero(${listOf(e.a)})`
    case 'compare':
      return `${e.op}(${listOf(e.a, e.b)})`
    case 'shift':
      return `${e.op}(${listOf(e.a, e.count)})`
    case 'select':
      return `select(${listOf(e.condition, e.a, e.b)})`
    case 'fma':
      return `${e.negated ? 'fnma' : 'fma'}(${listOf(e.a, e.b, e.c)})`
    case 'load': {
      const form = e.form === 'plain' ? '' : `.${e.form}`
      return `load.${type.name}${form} ${place(e.address, e.offset)}`
    }
    case 'loadLane':
      return `replace(${printExpr(e.a)}.${String(e.lane)}, load ${place(e.address, e.offset)})`
    case 'splat':
      return `${type.name}(${listOf(e.a)})`
    case 'extract':
      return `${printExpr(e.a)}.${String(e.lane)}`
    case 'replace':
      return `replace(${printExpr(e.a)}.${String(e.lane)}, ${printExpr(e.value)})`
    case 'shuffle':
      return `shuffle(${listOf(e.a, e.b)}; ${e.lanes.join(' ')})`
    case 'lookup':
      return `lookup(${listOf(e.a, e.indices)})`
    case 'convert': {
      const isInteger = [type, e.a.type].some((t) => t.element.startsWith('i'))
      const sign = isInteger ? (e.signed ? '.s' : '.u') : ''
      return `${type.name}.from${sign}${e.high ? '.high' : ''}(${listOf(e.a)})`
    }
    case 'pack':
    case 'dotPairs':
      return `${e.kind}(${listOf(e.a, e.b)})`
    case 'bits':
    case 'any':
      return `${e.kind}(${listOf(e.a)})`
    case 'view':
      return `as.${type.name}(${listOf(e.a)})`
    case 'call':
      return `${e.callee.name}(${listOf(...e.args)})`
    case 'branch':
      return `(if ${listOf(e.condition)} then ${listOf(e.a)} else ${listOf(e.b)})`
    case 'let':
      return `{ ${lines(e.body, '').join('; ')}; ${listOf(e.value)} }`
    case 'undefined':
      return 'undefined'
  }
}
