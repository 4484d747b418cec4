/**
 * Random bits: elements of the calls of the generator (`randomElement` of src/scalar/threefry.ts). Where a thread holds
 * neighbouring elements of a call, it makes the call once.
 */
import { invariant } from '../../diagnostics/errors.ts'
import { drawsAt } from '../../kernel/draws.ts'
import type { LetStmt } from '../../kernel/ir.ts'
import { elementsPerCall, isRandomDType, randomWidth, roundsOf } from '../../scalar/threefry.ts'
import { isSideBySide, variesAlong } from './contiguity.ts'
import { type Block, bin, type Ex, eq, select, uint } from './ir.ts'
import type { Point } from './point.ts'
import type { Registers } from './registers.ts'
import type { Scope } from './scope.ts'

/** Neighbours that share a call: `n` at a time along `axis`, of which each `repeat` read one element of the call. */
export interface CallGroup {
  readonly axis: string
  readonly n: number
  readonly repeat: number
}

/** The widest groups of elements whose calls a thread can share. */
export function callGroupOf(scope: Scope, l: LetStmt): CallGroup | undefined {
  const { op, dtype } = l
  if (op.kind !== 'random' || !isRandomDType(dtype)) return undefined
  const { part, layout } = scope
  const { position, repeat } = drawsAt(op.index)
  for (const axis of part.axesOf(l.id)) {
    const vec = layout.find(axis)?.vec ?? 1
    const along = variesAlong(part, axis)
    if (vec === 1 || along(op.k0) || along(op.k1)) continue
    for (let n = Math.min(vec, repeat * elementsPerCall(dtype)); n > 1; n /= 2) {
      if (isSideBySide(part, position, [], axis, n)) return { axis, n, repeat }
    }
  }
  return undefined
}

/** All lanes of a vector into registers: a call for each group. */
export function randomGroups(
  point: Point,
  l: LetStmt,
  { axis, n, repeat }: CallGroup,
  to: Registers,
  out: Block,
): void {
  const { op, dtype } = l
  invariant(op.kind === 'random' && isRandomDType(dtype), 'not random bits')
  const { scope } = point
  const each = elementsPerCall(dtype)
  const width = randomWidth(dtype)
  const inWord = 32 / width
  const axes = scope.part.axesOf(l.id)
  for (const { first, points } of point.laneGroups(axis, n)) {
    const { args, at } = first.randomCall(op, dtype)
    const name = scope.unit.name('words')
    out.push({ k: 'words', name, fn: `threefry_${roundsOf(dtype)}`, args })
    const word = (i: number): Ex => ({ k: 'comp', type: 'u32', of: name, words: 2, at: i })
    const elements = n / repeat
    const element = (i: number): Ex => {
      const own =
        elements === each
          ? word(i < each / 2 ? 0 : 1)
          : select(eq(bin('&', at, uint(each / 2)), uint(0)), word(0), word(1))
      const shift =
        elements >= inWord
          ? uint((i % inWord) * width)
          : bin('*', bin('+', bin('&', at, uint(inWord - 1)), uint(i)), uint(width))
      const down = bin('>>', own, shift)
      const isClean = width === 32 || (elements >= inWord && i % inWord === inWord - 1)
      return isClean ? down : bin('&', down, uint(2 ** width - 1))
    }
    for (const [i, q] of points.entries()) {
      const value = i % repeat === 0 ? element(i / repeat) : points[i - 1]?.registerOf(to, axes)
      invariant(value !== undefined, 'a neighbour without the one before it')
      out.push({ k: 'assign', to: q.registerOf(to, axes), value })
    }
  }
}
