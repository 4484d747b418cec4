/**
 * Merging the threads' partial results of folds: lanes of a warp by a butterfly, then warps through the block's shared memory,
 * then the blocks of a cluster, each pushing its result into the shared memory of the others. Folds that are ready together share
 * barriers. The order is fixed and the same in every block.
 */

import { foldAxes } from '../../kernel/folds.ts'
import { type Accumulator, fromKeys, keysOf } from './accumulator.ts'
import { exchangeInCluster } from './exchangeInCluster.ts'
import { add, type Block, bin, type Ex, int, mul, when } from './ir.ts'
import {
  allotter,
  assign,
  butterfly,
  bytesOf,
  eachRegister,
  mergeInto,
  onOneLane,
  type PartialResult,
  range,
  type Spread,
  slot,
} from './partial.ts'
import { digitOf, type Scope } from './scope.ts'
import { placeShared } from './shared.ts'

/** Merges what threads hold of folds; every thread ends with the results it keeps. */
export function exchange(scope: Scope, accs: readonly Accumulator[], out: Block): void {
  const { unit, layout } = scope
  const { laneBits } = unit.machine
  const blockBits = Math.log2(layout.threads / unit.cluster)
  const back: Block = []
  const spread = accs.flatMap((given): Spread[] => {
    const bits = layout.bitsOf(foldAxes(given.let))
    if (bits.length === 0) return []
    const lanes = bits.filter((b) => b < laneBits)
    const keys = keysOf(scope, given, lanes, out)
    if (keys !== undefined) fromKeys(scope, given, keys, back)
    const acc = keys ?? given
    const warps = bits.filter((b) => b >= laneBits && b < blockBits)
    const rest = range(0, blockBits).filter((b) => !lanes.includes(b) && !warps.includes(b))
    return [{ acc, lanes, warps, blocks: bits.filter((b) => b >= blockBits), rest }]
  })
  for (const { acc, lanes } of spread)
    eachRegister(scope, acc, out, (_, held, body) => butterfly(scope, acc, held, lanes, body))
  const near = spread.filter((s) => s.blocks.length === 0 && s.warps.length > 0)
  const far = spread.filter((s) => s.blocks.length > 0)
  for (const folds of batches(scope, near)) exchangeInBlock(scope, folds, out)
  if (far.length > 0) exchangeInCluster(scope, far, blockBits, out)
  out.push(...back)
}

/** Of so many warps every thread reads all partial results; more are first folded by a tree. */
const mostRead = 3

/** Additions one upon another that the merging of a sum's partial results takes. */
export function exchangeAdditions({ unit, layout }: Scope, folded: readonly string[]): number {
  const { laneBits } = unit.machine
  const blockBits = Math.log2(layout.threads / unit.cluster)
  const bits = layout.bitsOf(folded)
  const lanes = bits.filter((b) => b < laneBits).length
  const blocks = bits.filter((b) => b >= blockBits).length
  const warps = bits.length - lanes - blocks
  const inOrder = Math.min(warps, mostRead)
  return lanes + (warps - inOrder) + (2 ** inOrder - 1) + (2 ** blocks - 1)
}

/** Bytes of slots of which there are two sets, so that an exchange does not wait until the one before it is read (barriers.ts). */
const mostTwice = 1024

/** Bytes of a fold's slots in its block. */
const roomOf = ({ acc, rest, warps }: Spread): number =>
  2 ** (rest.length + warps.length) * acc.values.length * bytesOf(acc)

/** Folds that exchange together: all of them, where the shared memory that tiles leave has room for their slots at once. */
function batches({ unit }: Scope, folds: readonly Spread[]): Spread[][] {
  const tiles = placeShared(unit.shared.filter((a) => !a.name.startsWith('partial'))).bytes
  const types = new Set(folds.flatMap(({ acc }) => [acc.values.type, ...(acc.positions === undefined ? [] : ['at'])]))
  const most = (unit.sharedBytes - tiles) / Math.max(1, types.size)
  const out: Spread[][] = []
  let room = Number.POSITIVE_INFINITY
  for (const fold of folds) {
    room += roomOf(fold)
    if (room > most) {
      out.push([])
      room = roomOf(fold)
    }
    out.at(-1)?.push(fold)
  }
  return out
}

function exchangeInBlock(scope: Scope, folds: readonly Spread[], out: Block): void {
  const room = folds.reduce((n, s) => n + roomOf(s), 0)
  const slotsFor = allotter(scope, room <= mostTwice && scope.unit.blockExchanges++ % 2 === 1 ? '_other' : '')
  // A slot for each thread but for the lanes that agree now; the digits of warps stand at the end.
  const all = folds.map((s) => {
    const [groups, members] = [2 ** s.rest.length, 2 ** s.warps.length]
    const slots = slotsFor(s.acc, groups * members * s.acc.values.length)
    const place = (i: Ex, m: Ex): PartialResult =>
      slot(slots, add(mul(add(mul(i, int(groups)), digitOf(s.rest)), int(members)), m))
    return { ...s, place, member: digitOf(s.warps) }
  })
  for (const { acc, lanes, place, member } of all)
    eachRegister(scope, acc, out, (i, held, body) => {
      const taken: Block = []
      assign(place(i, member), held, taken)
      onOneLane(lanes, taken, body)
    })
  out.push({ k: 'barrier' })
  for (let left = Math.max(...all.map((s) => s.warps.length)); left > mostRead; left--) {
    const half = 2 ** (left - 1)
    for (const { acc, lanes, warps, place, member } of all) {
      if (warps.length < left) continue
      eachRegister(scope, acc, out, (i, _, body) => {
        const taken: Block = []
        mergeInto(acc, place(i, member), place(i, add(member, int(half))), scope, taken)
        onOneLane(lanes, when(bin('<', member, int(half)), taken), body)
      })
    }
    out.push({ k: 'barrier' })
  }
  for (const { acc, warps, place } of all)
    eachRegister(scope, acc, out, (i, held, body) => {
      for (let m = 0; m < 2 ** Math.min(warps.length, mostRead); m++)
        if (m === 0) assign(held, place(i, int(m)), body)
        else mergeInto(acc, held, place(i, int(m)), scope, body)
    })
  out.push({ k: 'barrier', reuse: true })
}
