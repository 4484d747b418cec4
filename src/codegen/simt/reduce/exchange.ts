/**
 * Merging the threads' partial results of folds: lanes of a warp by a butterfly, then warps through the block's shared memory,
 * then the blocks of a cluster, each pushing its result into the shared memory of the others. Folds that are ready together share
 * barriers. The order is fixed and the same in every block.
 */

import { invariant } from '../../../diagnostics/errors.ts'
import type { ExchangePlan, FoldExchange } from '../../../schedule/simt/fold/exchange.ts'
import { mostRead } from '../../../schedule/simt/fold/folds.ts'
import { add, and, type Block, bin, type Ex, int, mul, sub, when, yes } from '../ir/ir.ts'
import { digitOf, type Scope } from '../nest/scope.ts'
import { fromKeys, keysOf } from './accumulator.ts'
import { exchangeInCluster } from './exchangeInCluster.ts'
import type { Accumulator } from './open.ts'
import {
  allotter,
  assign,
  butterfly,
  eachRegister,
  mergeInto,
  onOneLane,
  type PartialResult,
  type Spread,
  slot,
} from './partial.ts'

/** Merges what threads hold of folds; every thread ends with the results it keeps. */
export function exchange(scope: Scope, accs: readonly Accumulator[], plan: ExchangePlan, out: Block): void {
  const back: Block = []
  const spread = plan.folds.map((fold): Spread => {
    const given = accs.find((acc) => acc.let.id === fold.let.id)
    invariant(given !== undefined, `the fold %${fold.let.id} is not open`)
    const acc = fold.asKeys ? keysOf(scope, given, out) : given
    if (fold.asKeys) fromKeys(scope, given, acc, back)
    return { ...fold, acc }
  })
  const found = (folds: readonly FoldExchange[]): Spread[] =>
    folds.flatMap((f) => spread.filter((s) => s.let.id === f.let.id))
  for (const { acc, lanes } of spread)
    eachRegister(scope, acc, out, (_, held, body) => butterfly(scope, acc, held, lanes, body))
  for (const { folds, slots, rounds } of plan.inBlock)
    for (let round = 0; round < rounds; round++) exchangeInBlock(scope, found(folds), slots, { round, rounds }, out)
  const far = found(plan.amongBlocks)
  if (far.length > 0) exchangeInCluster(scope, far, Math.log2(scope.layout.threads / scope.unit.cluster), out)
  out.push(...back)
}

/** One of the rounds in which registers are exchanged, as many at a time as there are slots for. */
interface Round {
  readonly round: number
  readonly rounds: number
}

function exchangeInBlock(
  scope: Scope,
  folds: readonly Spread[],
  which: string,
  { round, rounds }: Round,
  out: Block,
): void {
  const slotsFor = allotter(scope, which)
  // A slot for each thread but for the lanes that agree now; the digits of warps stand at the end.
  const all = folds.map((s) => {
    const [groups, members] = [2 ** s.rest.length, 2 ** s.warps.length]
    const atOnce = Math.ceil(s.acc.values.length / rounds)
    const first = round * atOnce
    const slots = slotsFor(s.acc, groups * members * atOnce)
    const place = (i: Ex, m: Ex): PartialResult =>
      slot(slots, add(mul(add(mul(sub(i, int(first)), int(groups)), digitOf(s.rest)), int(members)), m))
    const isNow = (i: Ex): Ex => (rounds === 1 ? yes : and(bin('<=', int(first), i), bin('<', i, int(first + atOnce))))
    const each = (emit: (i: Ex, held: PartialResult, body: Block) => void): void =>
      eachRegister(scope, s.acc, out, (i, held, body) => {
        const taken: Block = []
        emit(i, held, taken)
        body.push(...when(isNow(i), taken))
      })
    return { ...s, place, each, member: digitOf(s.warps) }
  })
  for (const { lanes, place, member, each } of all)
    each((i, held, body) => {
      const taken: Block = []
      assign(place(i, member), held, taken)
      onOneLane(lanes, taken, body)
    })
  out.push({ k: 'barrier' })
  for (let left = Math.max(...all.map((s) => s.warps.length)); left > mostRead; left--) {
    const half = 2 ** (left - 1)
    for (const { acc, lanes, warps, place, member, each } of all) {
      if (warps.length < left) continue
      each((i, _, body) => {
        const taken: Block = []
        mergeInto(acc, place(i, member), place(i, add(member, int(half))), scope, taken)
        onOneLane(lanes, when(bin('<', member, int(half)), taken), body)
      })
    }
    out.push({ k: 'barrier' })
  }
  for (const { acc, warps, place, each } of all)
    each((i, held, body) => {
      for (let m = 0; m < 2 ** Math.min(warps.length, mostRead); m++)
        if (m === 0) assign(held, place(i, int(m)), body)
        else mergeInto(acc, held, place(i, int(m)), scope, body)
    })
  out.push({ k: 'barrier', reuse: true })
}
