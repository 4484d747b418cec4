/**
 * Random bits: elements of the calls of the generator (`randomElement` of src/scalar/threefry.ts). Where a thread holds
 * neighbouring elements of a call, it makes the call once; where neighbouring threads hold halves of calls, they exchange words.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import type { LetStmt } from '../../../kernel/ir.ts'
import { isRandomDType, randomWidth } from '../../../scalar/threefry.ts'
import type { CallGroup } from '../../../schedule/simt/access/access.ts'
import { type Block, bin, type Ex, eq, int, select, uint, v } from '../ir/ir.ts'
import type { Registers } from '../ir/registers.ts'
import type { LaneGroup, Point } from '../nest/point.ts'
import { tid } from '../nest/scope.ts'

type Call = ReturnType<Point['randomCall']>

const callOf = (point: Point, l: LetStmt): Call => {
  invariant(l.op.kind === 'random' && isRandomDType(l.dtype), 'not random bits')
  return point.randomCall(l.op, l.dtype)
}

/** All lanes of a vector (and all repeats of the axis whose calls are exchanged) into registers: a call for each group. */
export function randomGroups(point: Point, l: LetStmt, group: CallGroup, to: Registers, out: Block): void {
  const { axis, n, exchanged } = group
  if (exchanged === undefined) {
    for (const lanes of point.laneGroups(axis, n)) {
      const { args, at } = callOf(lanes.first, l)
      const words = called(point, l, args, out)
      fill(l, group, lanes, (e) => fieldOf(l, group, wordOf(l, group, words, at, e), at, e), to, out)
    }
    return
  }
  const { reps } = point.scope.layout.axis(exchanged)
  for (let rep = 0; rep < reps; rep += 2) {
    const [one, other] = [rep, rep + 1]
      .flatMap((r) => point.atRepeat(exchanged, r).laneGroups(axis, n))
      .map((lanes) => ({ lanes, call: callOf(lanes.first, l) }))
    invariant(one !== undefined && other !== undefined, 'a thread holds one group of each repeat')
    const words = exchange(point, l, group, [one.call, other.call], out)
    for (const [{ lanes, call }, word] of [
      [one, words[0]],
      [other, words[1]],
    ] as const)
      fill(l, group, lanes, (e) => fieldOf(l, group, word, call.at, e), to, out)
  }
}

/** Makes a call and gives its two words. */
function called(point: Point, l: LetStmt, args: readonly Ex[], out: Block): readonly [Ex, Ex] {
  invariant(l.op.kind === 'random', 'not random bits')
  const name = point.scope.unit.name('words')
  out.push({ k: 'words', name, fn: `threefry_${l.op.rounds}`, args })
  const word = (at: number): Ex => ({ k: 'comp', type: 'u32', of: name, words: 2, at })
  return [word(0), word(1)]
}

/**
 * The words that two neighbouring threads need of two calls: even threads make the one call, odd threads the other. Both need the same
 * word of each, or even threads the first and odd threads the second.
 */
function exchange(
  point: Point,
  l: LetStmt,
  { n, repeat }: CallGroup,
  [one, other]: readonly [Call, Call],
  out: Block,
): readonly [Ex, Ex] {
  const named = (wish: string, value: Ex): Ex => {
    const name = point.scope.unit.name(wish)
    out.push({ k: 'let', name, value })
    return v(value.type, name)
  }
  const even = eq(bin('&', tid, int(1)), int(0))
  // The keys are the same, and the upper halves of counters that need none.
  const args = one.args.map((a, i) => (i < 2 || a.k === 'lit' ? a : select(even, a, other.args[i] ?? a)))
  const [x, y] = called(point, l, args, out)
  const { inWord } = widthOf(l)
  const needBoth = 2 * n > inWord * repeat
  const isFirst = needBoth ? even : eq(bin('&', select(even, one.at, other.at), uint(inWord)), uint(0))
  const kept = named('kept', select(isFirst, x, y))
  const sent = needBoth ? select(even, y, x) : kept
  const got = named('got', { k: 'shuffle', type: 'u32', a: sent, mask: 1 })
  return [named('word', select(even, kept, got)), named('word', select(even, got, kept))]
}

/** Elements of random bits that a group reads. */
const elementsOf = ({ n, repeat }: CallGroup): number => Math.ceil(n / repeat)

/** The word of a call that element `e` of a group lies in, whose first is element `at` of the call. */
function wordOf(l: LetStmt, group: CallGroup, [first, second]: readonly [Ex, Ex], at: Ex, e: number): Ex {
  const { inWord } = widthOf(l)
  if (elementsOf(group) === 2 * inWord) return e < inWord ? first : second
  return select(eq(bin('&', at, uint(inWord)), uint(0)), first, second)
}

/** Element `e` of a group in its word. */
function fieldOf(l: LetStmt, group: CallGroup, word: Ex, at: Ex, e: number): Ex {
  const { width, inWord } = widthOf(l)
  const isWhole = elementsOf(group) >= inWord
  const place = e % inWord
  const shift = isWhole ? uint(place * width) : bin('*', bin('+', bin('&', at, uint(inWord - 1)), uint(e)), uint(width))
  const down = bin('>>', word, shift)
  const isClean = width === 32 || (isWhole && place === inWord - 1)
  return isClean ? down : bin('&', down, uint(2 ** width - 1))
}

function widthOf({ dtype }: LetStmt): { readonly width: number; readonly inWord: number } {
  invariant(isRandomDType(dtype), 'not random bits')
  const width = randomWidth(dtype)
  return { width, inWord: 32 / width }
}

/** The lanes of a group: `repeat` of them read one element. */
function fill(
  l: LetStmt,
  { repeat }: CallGroup,
  { points }: LaneGroup,
  element: (e: number) => Ex,
  to: Registers,
  out: Block,
): void {
  const registers = points.map((q) => q.registerOf(to, q.scope.part.axesOf(l.id)))
  registers.forEach((r, i) => {
    const value = i % repeat === 0 ? element(i / repeat) : registers[i - 1]
    invariant(value !== undefined, 'a neighbour without the one before it')
    out.push({ k: 'assign', to: r, value })
  })
}
