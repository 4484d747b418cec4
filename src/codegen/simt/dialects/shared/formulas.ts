/** Approximated functions as code: the formulas of `scalar/approximations.ts` printed as lines, one for each value with a name. */
import { approximated, approximations } from '../../../../scalar/approximations.ts'
import type { Algebra } from '../../../../scalar/formula.ts'
import { scalarInfo } from '../../../../scalar/ops.ts'
import { fn, type Library, type LibraryFunction } from './print.ts'

type Called = 'abs' | 'sqrt' | 'round' | 'exp' | 'log' | 'erf' | 'fma'

/** How a language writes what formulas ask for. */
export interface FormulaStyle {
  readonly prefix: 'f32' | 'f64'
  readonly literal: (x: number) => string
  readonly constant: (name: string, value: string) => string
  /** Functions of the language or of the library (those start with the prefix). */
  readonly names: Readonly<Record<Called, string>>
  readonly select: (m: string, a: string, b: string) => string
  /** The function of these operands: its lines. */
  readonly define: (name: string, operands: readonly string[], lines: readonly string[]) => string
  /** What all of them need before them. */
  readonly uses: readonly string[]
}

const binary =
  (sign: string) =>
  (a: string, b: string): string =>
    `(${a} ${sign} ${b})`

/** Library functions of all approximated operations. */
export function formulaLibrary(style: FormulaStyle): Library {
  const { prefix, names } = style
  const entry = (op: (typeof approximated)[number]): readonly [string, LibraryFunction] => {
    const lines: string[] = []
    const uses = new Set(style.uses)
    const call =
      (name: string) =>
      (...args: readonly string[]): string => {
        if (name.startsWith(prefix)) uses.add(name)
        return `${name}(${args.join(', ')})`
      }
    const algebra: Algebra<string, string> = {
      wide: prefix === 'f64',
      lit: style.literal,
      let: (x) => {
        const name = `t${lines.length}`
        lines.push(style.constant(name, x))
        return name
      },
      add: binary('+'),
      sub: binary('-'),
      mul: binary('*'),
      div: binary('/'),
      fma: call(names.fma),
      neg: (a) => `(-${a})`,
      abs: call(names.abs),
      sqrt: call(names.sqrt),
      round: call(names.round),
      exp: call(names.exp),
      log: call(names.log),
      erf: call(names.erf),
      lt: binary('<'),
      eq: binary('=='),
      isnan: call(`${prefix}_isnan`),
      isinf: call(`${prefix}_isinf`),
      select: style.select,
    }
    const operands = scalarInfo(op).arity === 2 ? ['x', 'y'] : ['x']
    const result = approximations[op].formula(algebra, 'x', operands[1] ?? 'x')
    const name = `${prefix}_${op}`
    return [name, fn(style.define(name, operands, [...lines, `return ${result};`]), [...uses])]
  }
  return Object.fromEntries(approximated.map(entry))
}
