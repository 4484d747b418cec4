/**
 * Merging the threads' partial results of folds: lanes of a warp by a butterfly, then warps through the block's shared memory,
 * then the blocks of a cluster, each pushing its result into the shared memory of the others. Folds that are ready together share
 * barriers. The order is fixed and the same in every block.
 */

import { invariant } from '../../../diagnostics/errors.ts'
import type { ExchangePlan, FoldExchange } from '../../../schedule/simt/fold/exchange.ts'
import { mostRead } from '../../../schedule/simt/fold/folds.ts'
import { add, type Block, bin, type Ex, eq, int, mul, when } from '../ir/ir.ts'
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
  for (const { folds, ...turns } of plan.inBlock) exchangeInBlock(scope, found(folds), turns, out)
  const far = found(plan.amongBlocks)
  if (far.length > 0) exchangeInCluster(scope, far, Math.log2(scope.layout.threads / scope.unit.cluster), out)
  out.push(...back)
}

type Turns = Omit<ExchangePlan['inBlock'][number], 'folds'>

function exchangeInBlock(scope: Scope, folds: readonly Spread[], turns: Turns, out: Block): void {
  const slotsFor = allotter(scope, turns.slots)
  // A slot for each thread but for the lanes that agree now; the digits of warps stand at the end.
  const all = folds.map((s) => {
    const [groups, members] = [2 ** s.rest.length, 2 ** (s.warps.length - turns.halvings)]
    const slots = slotsFor(s.acc, groups * members * s.acc.values.length)
    const place = (i: Ex, m: Ex): PartialResult =>
      slot(slots, add(mul(add(mul(i, int(groups)), digitOf(s.rest)), int(members)), m))
    return { ...s, place, members, member: digitOf(s.warps) }
  })
  // Where slots are fewer than members, those beyond hand theirs over by turns.
  for (let turn = 2 ** turns.halvings - 1; turn > 0; turn--) {
    for (const { acc, lanes, place, members, member } of all)
      eachRegister(scope, acc, out, (i, held, body) => {
        const taken: Block = []
        assign(place(i, bin('&', member, int(members - 1))), held, taken)
        onOneLane(lanes, when(eq(bin('/', member, int(members)), int(turn)), taken), body)
      })
    out.push({ k: 'barrier' })
    for (const { acc, place, members, member } of all)
      eachRegister(scope, acc, out, (i, held, body) => {
        const taken: Block = []
        mergeInto(acc, held, place(i, member), scope, taken)
        body.push(...when(bin('<', member, int(members)), taken))
      })
    out.push({ k: 'barrier', reuse: true })
  }
  for (const { acc, lanes, place, members, member } of all)
    eachRegister(scope, acc, out, (i, held, body) => {
      const taken: Block = []
      assign(place(i, member), held, taken)
      onOneLane(lanes, turns.halvings === 0 ? taken : when(bin('<', member, int(members)), taken), body)
    })
  out.push({ k: 'barrier' })
  for (let left = Math.max(...all.map((s) => s.warps.length)) - turns.halvings; left > mostRead; left--) {
    const half = 2 ** (left - 1)
    for (const { acc, lanes, members, place, member } of all) {
      if (members < 2 * half) continue
      eachRegister(scope, acc, out, (i, _, body) => {
        const taken: Block = []
        mergeInto(acc, place(i, member), place(i, add(member, int(half))), scope, taken)
        onOneLane(lanes, when(bin('<', member, int(half)), taken), body)
      })
    }
    out.push({ k: 'barrier' })
  }
  for (const { acc, members, place } of all)
    eachRegister(scope, acc, out, (i, held, body) => {
      for (let m = 0; m < Math.min(members, 2 ** mostRead); m++)
        if (m === 0) assign(held, place(i, int(m)), body)
        else mergeInto(acc, held, place(i, int(m)), scope, body)
    })
  out.push({ k: 'barrier', reuse: true })
}
