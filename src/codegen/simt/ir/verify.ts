/**
 * Verifies thread-level code: names are declared before use and have one type, operands have the types of their operations, places in
 * memory are counted in index arithmetic, counters of loops have the type of their bounds, and multiples of the program's number that
 * compilers may put together fit 32 bits where arithmetic is in 32 (programNumber.ts).
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { ThreadCode } from './code.ts'
import type { Ex, S, Type } from './ir.ts'
import { bodiesOf, expressionsIn, visitIn } from './walk.ts'

type Names = ReadonlyMap<string, Type>

const isIndex = (t: Type): boolean => t === 'i32' || t === 'i64' || t === 'u32'
const isNarrow = (t: Type): boolean => t === 'i32' || t === 'u32'
const isShift = (op: string): boolean => op === '<<' || op === '>>'

/** The bound of a condition on the program's number. */
function programsBefore(cond: Ex): number {
  if (cond.k !== 'bin' || cond.op !== '<' || cond.a.k !== 'var' || cond.a.name !== 'program')
    return Number.POSITIVE_INFINITY
  return cond.b.k === 'lit' ? Number(cond.b.value) : Number.POSITIVE_INFINITY
}

/** Throws an internal error naming the first thing that is wrong. */
export function verifyThreadCode(code: ThreadCode): void {
  const where = `the code of kernel ${code.kernel.name}`
  const check = (holds: boolean, what: string): void => invariant(holds, `${where}: ${what}`)
  const halves = new Set(code.shared.flatMap((a) => (a.half === true ? a.name : [])))
  const shared = new Map(code.shared.map((a) => [a.name, a.type]))

  /** What the program's number is multiplied by in what names stand for, and in an expression: sums and multiples alone. */
  const multiples = new Map<string, number>([['program', 1]])
  const multipleIn = (e: Ex): number => {
    switch (e.k) {
      case 'var':
        return multiples.get(e.name) ?? 0
      case 'cast':
        return multipleIn(e.a)
      case 'neg':
        return -multipleIn(e.a)
      case 'bin': {
        const [a, b] = [multipleIn(e.a), multipleIn(e.b)]
        const [x, y] = [e.a, e.b].map((o) => (o.k === 'lit' ? Number(o.value) : undefined))
        if (e.op === '+' || e.op === '|') return a + b
        if (e.op === '-') return a - b
        if (e.op === '*') return y !== undefined ? a * y : x !== undefined ? b * x : 0
        return e.op === '<<' && y !== undefined ? a * 2 ** y : 0
      }
      default:
        return 0
    }
  }
  /** Programs that the statements at hand are for: those before this one. */
  let programs = code.programs
  const checkMultiple = (e: Ex): void => {
    if (e.k !== 'bin' || !isNarrow(e.type)) return
    const most = Math.abs(multipleIn(e)) * (programs - 1)
    check(
      most < (e.type === 'i32' ? 2 ** 31 : 2 ** 32),
      `a multiple of the program's number goes to ${most} as ${e.type}`,
    )
  }

  const expression = (e: Ex, names: Names): void => {
    checkMultiple(e)
    switch (e.k) {
      case 'lit':
        if (e.type === 'i32') check(Number(e.value) === (Number(e.value) | 0), `${e.value} is no i32`)
        if (e.type === 'u32') check(Number(e.value) === Number(e.value) >>> 0, `${e.value} is no u32`)
        return
      case 'var':
        check(names.get(e.name) === e.type, `${e.name} is ${names.get(e.name) ?? 'not declared'}, read as ${e.type}`)
        return
      case 'elem':
        check(names.get(e.array) === e.type, `${e.array} is ${names.get(e.array) ?? 'not declared'}, read as ${e.type}`)
        check(e.index.type === 'i32', `the place in ${e.array} is ${e.index.type}`)
        return
      case 'shared':
        check(shared.get(e.array) === e.type, `${e.array} is ${shared.get(e.array) ?? 'not shared'}, read as ${e.type}`)
        check(e.index.type === 'i32', `the place in ${e.array} is ${e.index.type}`)
        return
      case 'load':
      case 'word':
        check(isIndex(e.index.type), `the place in ${e.param} is ${e.index.type}`)
        return
      case 'address':
        check(isIndex(e.index.type), `the place in ${e.of} is ${e.index.type}`)
        return
      case 'bin':
        if (isShift(e.op)) check(e.a.type === e.type && e.b.type === 'u32', `${e.op} of ${e.a.type} by ${e.b.type}`)
        else check(e.a.type === e.b.type, `${e.op} of ${e.a.type} and ${e.b.type}`)
        return
      case 'select':
        check(e.cond.type === 'bool', `a choice by ${e.cond.type}`)
        check(e.a.type === e.type && e.b.type === e.type, `a choice between ${e.a.type} and ${e.b.type}`)
        return
      default:
    }
  }

  /** Checks a statement; what it declares. */
  const statement = (s: S, names: Names): readonly (readonly [string, Type])[] => {
    for (const e of expressionsIn(s)) visitIn(e, (x) => expression(x, names))
    switch (s.k) {
      case 'let':
        multiples.set(s.name, multipleIn(s.value))
        return [[s.name, s.value.type]]
      case 'uniform':
        return [[s.name, s.value.type]]
      case 'var':
        check(s.value === undefined || s.value.type === s.type, `${s.name} is ${s.type}, its value ${s.value?.type}`)
        return [[s.name, s.type]]
      case 'array':
        return [[s.name, s.type]]
      case 'extreme':
        for (const x of [s.to, ...s.of.flatMap((o) => [o.taken, o.value])])
          check(x.type === 'f32', `${x.type} folded by ${s.by}`)
        return []
      case 'assign': {
        // Elements of 16 bits are stored as their bits.
        const isHalf = s.to.k === 'shared' && halves.has(s.to.array)
        check(s.value.type === (isHalf ? 'u32' : s.to.type), `${s.value.type} assigned to ${s.to.type}`)
        return []
      }
      case 'for': {
        const type = s.type ?? 'i32'
        check(
          s.from.type === type && s.to.type === type,
          `${s.name} counts from ${s.from.type} to ${s.to.type} as ${type}`,
        )
        return []
      }
      case 'if':
        check(s.cond.type === 'bool', `a condition of ${s.cond.type}`)
        return []
      case 'vload':
      case 'vstore':
      case 'store':
      case 'storeBits':
        check(isIndex(s.index.type), `the place in ${s.param} is ${s.index.type}`)
        return []
      case 'entry':
        return [[s.name, s.type]]
      case 'member':
        check(s.index.type === 'i32', `the number of a program in a table is ${s.index.type}`)
        return [[s.name, 'i32']]
      default:
        return []
    }
  }

  const block = (stmts: readonly S[], around: Names): void => {
    const names = new Map(around)
    for (const s of stmts) {
      for (const [name, type] of statement(s, names)) names.set(name, type)
      const inside = s.k === 'for' ? new Map([...names, [s.name, s.type ?? 'i32'] as const]) : names
      const around = programs
      for (const b of bodiesOf(s)) {
        if (s.k === 'if' && b === s.body) programs = Math.min(around, programsBefore(s.cond))
        block(b, inside)
        programs = around
      }
    }
  }
  block(
    code.body,
    new Map<string, Type>([
      ['tid', 'i32'],
      ['program', code.rows > 1 ? 'i64' : 'i32'],
      ...code.passed.map((s): readonly [string, Type] => [s.name, 'i32']),
    ]),
  )
}
