/**
 * Merging the threads' partial results of folds: lanes of a warp by a butterfly, then warps through the block's shared memory,
 * then the blocks of a cluster, each pushing its result into the shared memory of the others. Folds that are ready together share
 * barriers. The order is fixed and the same in every block.
 */
import { invariant } from '../../diagnostics/errors.ts'
import { isArgCombiner } from '../../scalar/ops.ts'
import { type Accumulator, combinerOf, foldsLanes, fromKeys, keysOf } from './accumulator.ts'
import { beatsEx, mergeEx, wrapTo } from './arith.ts'
import { foldAxes } from './facts.ts'
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
  shared,
  typeBytes,
  uint,
  v,
} from './ir.ts'
import {
  declare,
  digitOf,
  forRegisters,
  type Registers,
  registerAt,
  registerIndex,
  type Scope,
  tid,
  type Unit,
} from './scope.ts'
import { placeShared } from './shared.ts'

/** A partial result: a value, with its position where the fold has positions. */
interface Partial {
  readonly value: Ex
  readonly at: Ex | undefined
}

/** What merging one partial result into another does. */
function mergeInto(acc: Accumulator, to: Partial, from: Partial, scope: Scope, out: Block): void {
  const c = combinerOf(acc.let)
  if (!isArgCombiner(c)) {
    out.push({ k: 'assign', to: to.value, value: mergeEx(c, acc.dtype, to.value, from.value) })
    return
  }
  invariant(to.at !== undefined && from.at !== undefined, 'an arg-fold without positions')
  const [nx, nq] = [scope.unit.name('other'), scope.unit.name('other_at')]
  out.push({ k: 'let', name: nx, value: from.value }, { k: 'let', name: nq, value: from.at })
  const [vx, vq] = [v(from.value.type, nx), v('i32', nq)]
  const last = acc.let.op.kind === 'reduce' && acc.let.op.last === true
  out.push({
    k: 'if',
    cond: beatsEx(c, last, vx, vq, to.value, to.at),
    body: [
      { k: 'assign', to: to.value, value: vx },
      { k: 'assign', to: to.at, value: vq },
    ],
    otherwise: [],
  })
}

function assign(to: Partial, from: Partial, out: Block): void {
  out.push({ k: 'assign', to: to.value, value: from.value })
  if (to.at !== undefined && from.at !== undefined) out.push({ k: 'assign', to: to.at, value: from.at })
}

/** Slots of partial results in shared memory: one array of values, one of positions. */
interface Slots {
  readonly values: SharedArray
  readonly positions: SharedArray | undefined
  /** Where the fold's slots begin in each. */
  readonly first: number
  readonly firstAt: number
  /** Added to both. */
  readonly from?: Ex
}

const slot = (s: Slots, index: Ex): Partial => {
  const at = s.from === undefined ? index : add(s.from, index)
  return {
    value: shared(s.values, add(at, int(s.first))),
    at: s.positions === undefined ? undefined : shared(s.positions, add(at, int(s.firstAt))),
  }
}

/** A fold with the thread bits that it runs over, by how far they reach. */
interface Spread {
  readonly acc: Accumulator
  readonly lanes: readonly number[]
  readonly warps: readonly number[]
  readonly blocks: readonly number[]
  /** Bits of the block's threads that the fold keeps apart, but for those that agree now. */
  readonly rest: readonly number[]
}

/** Hands out slots in shared memory for several folds at once. */
function allotter(scope: Scope, which: string): (acc: Accumulator, length: number) => Slots {
  const used = new Map<string, number>()
  const take = (type: Ex['type'], suffix: string, length: number): { array: SharedArray; first: number } => {
    const key = `${suffix}_${type}`
    const first = used.get(key) ?? 0
    used.set(key, first + length)
    return { array: scope.unit.scratch(type, first + length, suffix), first }
  }
  return (acc, length) => {
    const values = take(acc.values.type, which, length)
    const positions = acc.positions === undefined ? undefined : take('i32', `${which}_at`, length)
    return {
      values: values.array,
      positions: positions?.array,
      first: values.first,
      firstAt: positions?.first ?? 0,
    }
  }
}

function eachRegister(
  scope: Scope,
  acc: Accumulator,
  out: Block,
  emit: (i: Ex, held: Partial, body: Block) => void,
): void {
  forRegisters(scope, acc.kept, out, (lanes, body) => {
    const i = registerIndex(scope.layout, acc.kept, lanes)
    const at = acc.positions === undefined ? undefined : registerAt(acc.positions, i)
    emit(i, { value: registerAt(acc.values, i), at }, body)
  })
}

function butterfly(scope: Scope, acc: Accumulator, to: Partial, bits: readonly number[], out: Block): void {
  const c = combinerOf(acc.let)
  const { type } = to.value
  if (foldsLanes(scope, bits) && (type === 'i32' || type === 'u32') && (c === 'max' || c === 'min' || c === 'sum')) {
    const value = wrapTo(acc.dtype, call(type, `${type}_lanes_${c}`, to.value))
    out.push({ k: 'assign', to: to.value, value })
    return
  }
  for (const b of [...bits].reverse()) {
    const other = (x: Ex): Ex => ({ k: 'shuffle', type: x.type, a: x, mask: 2 ** b })
    mergeInto(acc, to, { value: other(to.value), at: to.at === undefined ? undefined : other(to.at) }, scope, out)
  }
}

const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

/** Statements for the threads whose folded lanes are all zero: one of those that agree. */
function onOneLane(lanes: readonly number[], body: Block, out: Block): void {
  const mask = lanes.reduce((m, b) => m | (1 << b), 0)
  if (mask === 0) out.push(...body)
  else out.push({ k: 'if', cond: eq(bin('&', tid, int(mask)), int(0)), body, otherwise: [] })
}

/** Merges what threads hold of folds; every thread ends with the results it keeps. */
export function exchange(scope: Scope, accs: readonly Accumulator[], out: Block): void {
  const { unit, layout } = scope
  const { laneBits } = unit.limits
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
    const place = (i: Ex, m: Ex): Partial =>
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
        onOneLane(lanes, [guard(bin('<', member, int(half)), taken)], body)
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

/** Of so many partial results of blocks a thread folds all it keeps; of more, each result is folded once a block. */
const mostFolded = 16

/** What blocks of a cluster wait for each other with: barriers that count the bytes that have landed. */
const meetings = (unit: Unit): SharedArray => unit.scratch('u64', 2, '_meetings')

/** The number of the exchange, where loops make it a variable. */
const roundName = 'exchange_round'

/** Before anything else, where a kernel's blocks exchange: the meetings begin, and each block says that it runs. */
export function openCluster(unit: Unit, threads: number): Block {
  const at = (i: number): Ex => ({ k: 'address', type: 'u64', of: meetings(unit).name, index: int(i) })
  const open = [0, 1].map((i): Block[number] => ({ k: 'call', fn: 'meeting_open', args: [at(i)] }))
  const arrive: Block = [
    guard(eq(bin('&', tid, int(threads - 1)), int(0)), open),
    { k: 'call', fn: 'cluster_arrive', args: [] },
  ]
  if (!unit.loops) return arrive
  const round: Block[number] = { k: 'var', name: roundName, type: 'i32', value: int(0) }
  return [...arrive, { k: 'call', fn: 'cluster_wait', args: [] }, round]
}

/** Slots that the results of all folds of a part take where they land: what any exchange takes is less. */
function landingRoom(scope: Scope, blockBits: number): number {
  const { part, layout } = scope
  let room = 0
  for (const l of part.lets.values()) {
    if (l.op.kind !== 'reduce' && l.op.kind !== 'dot') continue
    const bits = layout.bitsOf(foldAxes(l))
    const rest = blockBits - bits.filter((b) => b < blockBits).length
    room += scope.registers(part.axesOf(l.id)) * 2 ** (rest + bits.filter((b) => b >= blockBits).length)
  }
  return room
}

/**
 * Each block folds its part and pushes it into the shared memory of all blocks that share the result; what lands there is counted,
 * and a block goes on when it has all parts. Where they land alternates from one exchange to the next, so none is overwritten
 * before it was read: a block pushes for the second time into one place when it has what this block pushed in between, which this
 * block did behind a barrier of its own that lies behind the reading. Where the exchange in between is not among all blocks, a
 * barrier of the cluster tells it instead.
 */
function exchangeInCluster(scope: Scope, folds: readonly Spread[], blockBits: number, out: Block): void {
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
  const local = bin('&', tid, int(threads - 1))
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
      const result = add(mul(i, int(w.groups)), digitOf(w.rest))
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
  out.push(guard(eq(local, int(0)), [{ k: 'call', fn: 'meeting_expect', args: [meeting, int(bytes)] }]))
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
      out.push(guard(lt(r, int(w.results)), body))
    }
  }
  if (all.some((w) => w.whole !== undefined)) out.push({ k: 'barrier' })
  for (const w of all)
    eachRegister(scope, w.acc, out, (i, held, body) => {
      const result = add(mul(i, int(w.groups)), digitOf(w.rest))
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
    if (slots.positions !== undefined) scope.unit.scratch('i32', 2 * room, '_landing_at')
    return { ...slots, from: mul(parity, int(room)) }
  }
}

const bytesOf = (acc: Accumulator): number => typeBytes(acc.values.type) + (acc.positions === undefined ? 0 : 4)

/** Slots from one result's partial results to the next one's: odd, so that banks differ. */
const pitchOf = (members: number, results: number): number => (results > 1 ? members + 1 : members)

const guard = (cond: Ex, body: Block): Block[number] => ({ k: 'if', cond, body, otherwise: [] })

function fresh(scope: Scope, acc: Accumulator, out: Block): Partial {
  const values: Registers = { name: scope.unit.name('part'), type: acc.values.type, length: 1 }
  declare(values, out)
  if (acc.positions === undefined) return { value: registerAt(values, int(0)), at: undefined }
  const positions: Registers = { name: scope.unit.name('part_at'), type: 'i32', length: 1 }
  declare(positions, out)
  return { value: registerAt(values, int(0)), at: registerAt(positions, int(0)) }
}

/** Takes the first of several partial results over, merges the others. */
function take(scope: Scope, acc: Accumulator, to: Partial, from: Partial, which: number, out: Block): void {
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
  part: Partial,
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
    if (step > w.count) out.push(guard(lt(l, int(w.count)), body))
    else out.push(...body)
  }
}

/** Pushes what threads hold, where a block's part is whole in a warp; the lanes that agree share the blocks out. */
function pushOwn(scope: Scope, w: Pushing, blockBits: number, out: Block): void {
  eachRegister(scope, w.acc, out, (i, held, body) => {
    const r = add(mul(i, int(w.groups)), digitOf(w.rest))
    push(scope, w, r, held, digitOf(w.lanes), 2 ** w.lanes.length, blockBits, body)
  })
}

/** Folds the warps' parts, some lanes a result, and pushes; the lanes share the blocks out. */
function foldAndPush(scope: Scope, w: Pushing, own: Slots, blockBits: number, out: Block): void {
  const threads = 2 ** blockBits
  const members = 2 ** w.warps.length
  const most = Math.min(members, 2 ** scope.unit.limits.laneBits, Math.floor(threads / w.results))
  const lanes = 2 ** Math.floor(Math.log2(Math.max(1, most)))
  const warp = 2 ** scope.unit.limits.laneBits
  const local = bin('&', tid, int(threads - 1))
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
    else body.push(guard(lt(local, int(active)), pushed))
    const reached = Math.ceil(active / warp) * warp
    if (reached === threads) out.push(...body)
    else out.push(guard(lt(local, int(reached)), body))
  }
}
