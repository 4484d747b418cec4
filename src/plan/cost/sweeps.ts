/** How often a program that goes through its rows several times evaluates what it does not hold in between. */
import { axesOf } from '../../affine/expr.ts'
import { type LetStmt, operandsOf, type ValueId } from '../../kernel/ir.ts'
import { passesBefore } from '../axes/reductionRoles.ts'
import type { Body } from '../body/body.ts'

/** How often values are evaluated; once, where it does not say. */
export type Sweeps = ReadonlyMap<ValueId, number>

export const noSweeps: Sweeps = new Map()

/** For each value with axes of a row, in how many of the passes over it something needs it. */
export function sweepsOf(body: Body, row: ReadonlySet<string>): Sweeps {
  const lets = new Map(body.lets.map((l) => [l.id, l]))
  const { before, folds } = passesBefore(body, lets, row, true)
  /** Bit p: pass p needs the value. */
  const needed = new Map<ValueId, number>()
  const need = (id: ValueId, passes: number): void => {
    needed.set(id, (needed.get(id) ?? 0) | passes)
  }
  const isAlongRow = (axes: Iterable<string>): boolean => [...axes].some((a) => row.has(a))
  for (const s of body.stores)
    if (isAlongRow(s.index.flatMap((e) => [...axesOf(e)]))) need(s.value, 1 << (before.get(s.value) ?? 0))
  const passesOf = (l: LetStmt): number =>
    folds(l) ? 1 << ((before.get(l.id) ?? 1) - 1) : isAlongRow(l.axes) ? (needed.get(l.id) ?? 0) : 0
  for (const l of [...body.lets].reverse()) for (const id of operandsOf(l.op)) need(id, passesOf(l))
  return new Map(
    body.lets.flatMap((l) => (isAlongRow(l.axes) && !folds(l) ? [[l.id, ones(needed.get(l.id) ?? 0)]] : [])),
  )
}

const ones = (bits: number): number => {
  let n = 0
  for (let b = bits; b !== 0; b &= b - 1) n++
  return n
}
