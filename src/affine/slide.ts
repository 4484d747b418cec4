/** Windows that overlap: positions that depend on two axes through one sum of them alone, such as `2 k + m` of output `k` and tap `m`. */

import type { Expr } from './form.ts'
import { gcd } from './gcd.ts'

/** Positions move by `step` of the sum from one index of `along` to the next, and by `way` from one of `over`. */
export interface Slide {
  readonly step: number
  readonly way: 1 | -1
}

/** The common slide of expressions along one axis and over another; undefined where one depends on them otherwise, or none on both. */
export function slideOf(exprs: readonly Expr[], along: string, over: string): Slide | undefined {
  let found: Slide | undefined
  for (const e of exprs)
    for (const slide of slidesIn(e, along, over)) {
      if (slide === undefined || (found !== undefined && (found.step !== slide.step || found.way !== slide.way)))
        return undefined
      found = slide
    }
  return found
}

/** The slides of a sum and of what its quotients and remainders are taken of; undefined for one that is none. */
function slidesIn(e: Expr, along: string, over: string): (Slide | undefined)[] {
  const out: (Slide | undefined)[] = []
  let [a, o] = [0, 0]
  for (const { atom, coef } of e.terms)
    if (atom.kind === 'axis') {
      if (atom.name === along) a += coef
      if (atom.name === over) o += coef
    } else if (atom.kind !== 'value') out.push(...slidesIn(atom.of, along, over))
  if (a === 0 && o === 0) return out
  const way = a * o > 0 ? 1 : -1
  const isSlide = o !== 0 && a % o === 0 && a !== 0 && gcd(a, o) === Math.abs(o)
  return [...out, isSlide ? { step: Math.abs(a / o), way } : undefined]
}
