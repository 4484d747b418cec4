/**
 * Meetings with two ends: halfway through an iteration a thread says that as far as it goes the next may begin, and at the head of that it waits
 * until all have said so (`OperandPrefetch.meetsHalfway`).
 */
import { type Block, bin, type Ex, eq, int, type SharedArray, v, when } from '../ir/ir.ts'
import { tid } from '../nest/scope.ts'
import type { Unit } from '../unit.ts'

/** The name of the variable that tells how often a thread came to the meeting: odd or even. */
export const parityName = 'halfway_parity'
const parity = v('i32', parityName)

/** The meeting of a block's threads: loops that follow one another share it. */
const meetingOf = (unit: Unit): Ex => {
  const array: SharedArray = unit.scratch('u64', 1, '_halfway')
  return { k: 'address', type: 'u64', of: array.name, index: int(0) }
}

/** Before anything else, where threads meet so. */
export const openHalfway = (unit: Unit, threads: number): Block => [
  ...when(eq(tid, int(0)), [{ k: 'call', fn: 'halfway_open', args: [meetingOf(unit), int(threads)] }]),
  { k: 'barrier' },
  { k: 'var', name: parityName, type: 'i32', value: int(1) },
]

/** A thread says that it is there. */
export const arriveHalfway = (unit: Unit): Block => [
  { k: 'call', fn: 'halfway_arrive', args: [meetingOf(unit)] },
  { k: 'assign', to: parity, value: bin('^', parity, int(1)) },
]

/** Waits until all threads have said so as often as this one. */
export const awaitHalfway = (unit: Unit): Block => [{ k: 'call', fn: 'halfway_wait', args: [meetingOf(unit), parity] }]
