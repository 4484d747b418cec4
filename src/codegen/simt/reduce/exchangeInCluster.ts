/**
 * Merging partial results over the blocks of a cluster: each block pushes what it has folded into the shared memory of the others,
 * where a meeting counts the bytes that land (dialects/cudaCluster.ts).
 */

import { powerWithin } from '../../../affine/powers.ts'
import { landingRoom, mostFolded, pitchOf } from '../../../schedule/simt/fold/exchange.ts'
import {
  add,
  type Block,
  bin,
  call,
  constantOf,
  type Ex,
  eq,
  int,
  lt,
  mul,
  type SharedArray,
  uint,
  v,
  when,
} from '../ir/ir.ts'
import { declare, type Registers, registerAt } from '../ir/registers.ts'
import { digitOf, type Scope, tid } from '../nest/scope.ts'
import type { Unit } from '../unit.ts'
import type { Accumulator } from './open.ts'
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
  type Slots,
  type Spread,
  slot,
} from './partial.ts'

/** A fold's results in a block: `results` of them, register by register and group by group. */
interface Wide extends Spread {
  readonly results: number
  readonly groups: number
  /** Blocks that hold parts of one result. */
  readonly count: number
  readonly own: Slots | undefined
  readonly landing: Slots
  readonly whole: Slots | undefined
}

/** The number of the result that a thread holds in register `i`. */
const resultOf = (w: Wide, i: Ex): Ex => add(mul(i, int(w.groups)), digitOf(w.rest))

/** The number of the thread in its block. */
const inBlock = (threads: number): Ex => bin('&', tid, int(threads - 1))

/** What blocks of a cluster wait for each other with: barriers that count the bytes that have landed. */
const meetings = (unit: Unit): SharedArray => unit.scratch('u64', 2, '_meetings')

/** The name of the variable that counts exchanges where loops repeat them. */
export const roundName = 'exchange_round'

/** Before anything else, where a kernel's blocks exchange: the meetings begin, and each block says that it runs. */
export function openCluster(unit: Unit, threads: number): Block {
  const at = (i: number): Ex => ({ k: 'address', type: 'u64', of: meetings(unit).name, index: int(i) })
  const open = [0, 1].map((i): Block[number] => ({ k: 'call', fn: 'meeting_open', args: [at(i)] }))
  const arrive: Block = [...when(eq(inBlock(threads), int(0)), open), { k: 'call', fn: 'cluster_arrive', args: [] }]
  if (!unit.loops) return arrive
  const round: Block[number] = { k: 'var', name: roundName, type: 'i32', value: int(0) }
  return [...arrive, { k: 'call', fn: 'cluster_wait', args: [] }, round]
}

/**
 * Each block folds its part and pushes it into the shared memory of all blocks that share the result; what lands there is counted,
 * and a block goes on when it has all parts. Where they land alternates from one exchange to the next, so none is overwritten
 * before it was read: a block pushes for the second time into one place when it has what this block pushed in between, which this
 * block did behind a barrier of its own that lies behind the reading. Where the exchange in between is not among all blocks, a
 * barrier of the cluster tells it instead.
 */
export function exchangeInCluster(scope: Scope, folds: readonly Spread[], blockBits: number, out: Block): void {
  const { unit } = scope
  const round = unit.exchanges++
  const slotsFor = allotter(scope, '')
  const number = v('i32', roundName)
  const parity = unit.loops ? bin('&', number, int(1)) : int(round % 2)
  const phase = unit.loops ? bin('&', bin('>>', number, uint(1)), int(1)) : int((round >> 1) % 2)
  const landingFor = landings(scope, blockBits, parity)
  const wholeFor = allotter(scope, '_whole')
  const threads = 2 ** blockBits
  const meeting: Ex = { k: 'address', type: 'u64', of: meetings(unit).name, index: parity }
  const local = inBlock(threads)
  const all = folds.map((s): Wide => {
    const { acc } = s
    const groups = 2 ** s.rest.length
    const results = groups * acc.values.length
    const count = 2 ** s.blocks.length
    const pitch = pitchOf(2 ** s.warps.length, results)
    return {
      ...s,
      groups,
      results,
      count,
      own: s.warps.length === 0 ? undefined : slotsFor(acc, results * pitch),
      landing: landingFor(acc, results * count),
      whole: acc.values.length * count > mostFolded ? wholeFor(acc, results) : undefined,
    }
  })
  for (const w of all) {
    const { own } = w
    if (own === undefined) continue
    const pitch = pitchOf(2 ** w.warps.length, w.results)
    eachRegister(scope, w.acc, out, (i, held, body) => {
      const taken: Block = []
      const result = resultOf(w, i)
      assign(slot(own, add(mul(result, int(pitch)), digitOf(w.warps))), held, taken)
      onOneLane(w.lanes, taken, body)
    })
  }
  out.push({ k: 'barrier' })
  // Before the first push every block must run.
  if (round === 0 && !unit.loops) out.push({ k: 'call', fn: 'cluster_wait', args: [] })
  const isPartial = (round > 0 || unit.loops) && all.every((w) => w.count < unit.cluster)
  if (isPartial) out.push({ k: 'call', fn: 'cluster_release', args: [] })
  const bytes = all.reduce((n, w) => n + w.results * w.count * bytesOf(w.acc), 0)
  out.push(...when(eq(local, int(0)), [{ k: 'call', fn: 'meeting_expect', args: [meeting, int(bytes)] }]))
  for (const w of all)
    if (w.own === undefined) pushOwn(scope, { ...w, meeting }, blockBits, out)
    else foldAndPush(scope, { ...w, meeting }, w.own, blockBits, out)
  out.push({ k: 'call', fn: 'meeting_wait', args: [meeting, phase] })
  for (const w of all) {
    const { whole } = w
    if (whole === undefined) continue
    for (let first = 0; first < w.results; first += threads) {
      const body: Block = []
      const r = add(local, int(first))
      const sum = fresh(scope, w.acc, body)
      for (let f = 0; f < w.count; f++) take(scope, w.acc, sum, slot(w.landing, add(r, int(f * w.results))), f, body)
      assign(slot(whole, r), sum, body)
      out.push(...when(lt(r, int(w.results)), body))
    }
  }
  if (all.some((w) => w.whole !== undefined)) out.push({ k: 'barrier' })
  for (const w of all)
    eachRegister(scope, w.acc, out, (i, held, body) => {
      const result = resultOf(w, i)
      if (w.whole !== undefined) assign(held, slot(w.whole, result), body)
      else
        for (let f = 0; f < w.count; f++)
          take(scope, w.acc, held, slot(w.landing, add(result, int(f * w.results))), f, body)
    })
  if (isPartial) out.push({ k: 'call', fn: 'cluster_wait', args: [] })
  if (unit.loops) out.push({ k: 'assign', to: number, value: add(number, int(1)) })
}

/** Where results land: one array for even and one for odd exchanges, or both in one where the number is a variable. */
function landings(scope: Scope, blockBits: number, parity: Ex): (acc: Accumulator, length: number) => Slots {
  if (!scope.unit.loops) return allotter(scope, constantOf(parity) === 0 ? '_even' : '_odd')
  const room = landingRoom(scope, blockBits)
  const slotsFor = allotter(scope, '_landing')
  return (acc, length) => {
    const slots = slotsFor(acc, length)
    scope.unit.scratch(acc.values.type, 2 * room, '_landing')
    if (slots.positions !== undefined) scope.unit.scratch(acc.positions?.type ?? 'i32', 2 * room, '_landing_at')
    return { ...slots, from: mul(parity, int(room)) }
  }
}

function fresh(scope: Scope, acc: Accumulator, out: Block): PartialResult {
  const values: Registers = { name: scope.unit.name('part'), type: acc.values.type, length: 1 }
  declare(values, out)
  if (acc.positions === undefined) return { value: registerAt(values, int(0)), at: undefined }
  const positions: Registers = { name: scope.unit.name('part_at'), type: acc.positions.type, length: 1 }
  declare(positions, out)
  return { value: registerAt(values, int(0)), at: registerAt(positions, int(0)) }
}

/** Takes the first of several partial results over, merges the others. */
function take(scope: Scope, acc: Accumulator, to: PartialResult, from: PartialResult, which: number, out: Block): void {
  if (which === 0) assign(to, from, out)
  else mergeInto(acc, to, from, scope, out)
}

/** The number in the cluster of the block whose digit along a fold's bits is `f`, and this block's along the others. */
function rankOf(scope: Scope, w: Wide, f: Ex, blockBits: number): Ex {
  const bits = w.blocks.map((b) => b - blockBits)
  if (2 ** bits.length === scope.unit.cluster) return f
  const mask = bits.reduce((m, b) => m | (1 << b), 0)
  const own = bin('&', bin('>>', tid, uint(blockBits)), int(~mask))
  return bits.reduce((out, b, i) => bin('|', out, bin('<<', bin('&', bin('>>', f, uint(i)), int(1)), uint(b))), own)
}

interface Pushing extends Wide {
  readonly meeting: Ex
}

/** Writes a block's part of result `r` into the blocks whose digit is `l`, `l + step` and so on. */
function push(
  scope: Scope,
  w: Pushing,
  r: Ex,
  part: PartialResult,
  l: Ex,
  step: number,
  blockBits: number,
  out: Block,
): void {
  const { landing } = w
  const own = add(mul(digitOf(w.blocks), int(w.results)), r)
  const index = landing.from === undefined ? own : add(landing.from, own)
  for (let f = 0; f < w.count; f += step) {
    const rank = rankOf(scope, w, add(l, int(f)), blockBits)
    const body: Block = []
    const put = (array: SharedArray, first: number, value: Ex): void => {
      body.push({ k: 'push', array: array.name, index: add(index, int(first)), rank, value, meeting: w.meeting })
    }
    put(landing.values, landing.first, part.value)
    if (landing.positions !== undefined && part.at !== undefined) put(landing.positions, landing.firstAt, part.at)
    if (step > w.count) out.push(...when(lt(l, int(w.count)), body))
    else out.push(...body)
  }
}

/** Pushes what threads hold, where a block's part is whole in a warp; the lanes that agree share the blocks out. */
function pushOwn(scope: Scope, w: Pushing, blockBits: number, out: Block): void {
  eachRegister(scope, w.acc, out, (i, held, body) => {
    const r = resultOf(w, i)
    push(scope, w, r, held, digitOf(w.lanes), 2 ** w.lanes.length, blockBits, body)
  })
}

/** Folds the warps' parts, some lanes a result, and pushes; the lanes share the blocks out. */
function foldAndPush(scope: Scope, w: Pushing, own: Slots, blockBits: number, out: Block): void {
  const threads = 2 ** blockBits
  const members = 2 ** w.warps.length
  const most = Math.min(members, 2 ** scope.unit.machine.laneBits, Math.floor(threads / w.results))
  const lanes = powerWithin(most)
  const warp = 2 ** scope.unit.machine.laneBits
  const local = inBlock(threads)
  const pitch = pitchOf(members, w.results)
  for (let first = 0; first < w.results; first += threads / lanes) {
    const active = Math.min(threads, (w.results - first) * lanes)
    const body: Block = []
    const result = add(bin('>>', local, uint(Math.log2(lanes))), int(first))
    const whole = active % warp === 0
    const r = whole ? result : call('i32', 'i32_min', result, int(w.results - 1))
    const l = bin('&', local, int(lanes - 1))
    const sum = fresh(scope, w.acc, body)
    for (let m = 0; m < members; m += lanes)
      take(scope, w.acc, sum, slot(own, add(mul(r, int(pitch)), add(l, int(m)))), m, body)
    butterfly(scope, w.acc, sum, range(0, Math.log2(lanes)), body)
    const pushed: Block = []
    push(scope, w, r, sum, l, lanes, blockBits, pushed)
    if (whole) body.push(...pushed)
    else body.push(...when(lt(local, int(active)), pushed))
    const reached = Math.ceil(active / warp) * warp
    if (reached === threads) out.push(...body)
    else out.push(...when(lt(local, int(reached)), body))
  }
}
