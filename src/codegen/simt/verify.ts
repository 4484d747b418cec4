/**
 * Verifies thread-level code: names are declared before use and have one type, operands have the types of their operations, places in
 * memory are counted in index arithmetic, and counters of loops have the type of their bounds.
 */
import { invariant } from '../../diagnostics/errors.ts'
import type { ThreadCode } from './code.ts'
import type { Ex, S, Type } from './ir.ts'
import { bodiesOf, expressionsIn, visitIn } from './walk.ts'

type Names = ReadonlyMap<string, Type>

const isIndex = (t: Type): boolean => t === 'i32' || t === 'i64' || t === 'u32'
const isShift = (op: string): boolean => op === '<<' || op === '>>'

/** Throws an internal error naming the first thing that is wrong. */
export function verifyThreadCode(code: ThreadCode): void {
  const where = `the code of kernel ${code.kernel.name}`
  const check = (holds: boolean, what: string): void => invariant(holds, `${where}: ${what}`)
  const halves = new Set(code.shared.flatMap((a) => (a.half === true ? a.name : [])))
  const shared = new Map(code.shared.map((a) => [a.name, a.type]))

  const expression = (e: Ex, names: Names): void => {
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
      case 'uniform':
        return [[s.name, s.value.type]]
      case 'var':
        check(s.value === undefined || s.value.type === s.type, `${s.name} is ${s.type}, its value ${s.value?.type}`)
        return [[s.name, s.type]]
      case 'array':
        return [[s.name, s.type]]
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
      for (const b of bodiesOf(s)) block(b, inside)
    }
  }
  block(
    code.body,
    new Map<string, Type>([
      ['tid', 'i32'],
      ['program', code.rows > 1 ? 'i64' : 'i32'],
    ]),
  )
}
