/** Which part of a group of equal ones a program works on: found by the program's number, described by its row of the table. */
import { typeUpTo } from '../../kernel/indexType.ts'
import type { PartGroup } from '../../schedule/simt/part/union.ts'
import { add, type Block, bin, cast, type Ex, int, mul, v } from './ir/ir.ts'
import { hidden } from './programNumber.ts'
import type { Unit } from './unit.ts'

export interface Member {
  /** The program's number among those of its part. */
  readonly own: Ex
  /** Extents of axes that the code does not know. */
  readonly ends: ReadonlyMap<string, Ex>
}

/** `rest` is the program's number in the group. `isHidden`: what it is counted from is to be hidden (programNumber.ts). */
export function memberOf(unit: Unit, g: PartGroup, rest: Ex, isHidden: boolean, out: Block): Member {
  const counted = (number: Ex): Ex => (isHidden && number.k === 'bin' ? hidden(number) : number)
  let row: Ex = int(0)
  let own = rest
  if (g.count === 1 && counted(rest) !== rest) {
    const name = unit.name('own')
    out.push({ k: 'let', name, value: counted(rest) })
    own = v(rest.type, name)
  }
  if (g.count > 1) {
    const [member, inside] = [unit.name('member'), unit.name('own')]
    row = v('i32', member)
    own = v(rest.type, inside)
    if (g.firsts === undefined) {
      const size = int(g.programs / g.count)
      out.push({ k: 'let', name: member, value: cast('i32', bin('/', rest, size)) })
      out.push({ k: 'let', name: inside, value: bin('%', rest, size) })
    } else {
      const first = unit.name('first')
      out.push({ k: 'member', name: member, firsts: g.firsts, count: g.count, index: rest })
      out.push({ k: 'entry', name: first, type: 'i32', index: add(row, int(g.firsts)) })
      out.push({ k: 'let', name: inside, value: counted(bin('-', rest, v('i32', first))) })
    }
  }
  const at = (i: number): Ex => add(mul(row, int(g.stride)), int(g.offset + i))
  g.varying.forEach((param, i) => {
    out.push({ k: 'pointer', param, aliased: g.aliased.has(param), index: at(i) })
  })
  const ends = new Map<string, Ex>()
  if (g.extentOf !== undefined) {
    const name = unit.name(`${g.extentOf}_extent`)
    const type = typeUpTo(g.part.axes.reduce((n, a) => (a.name === g.extentOf ? a.extent : n), 0))
    out.push({ k: 'entry', name, type, index: at(g.stride - 1) })
    ends.set(g.extentOf, v(type, name))
  }
  return { own, ends }
}
