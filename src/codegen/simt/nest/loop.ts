/** Kernel loops: an axis in blocks, in order, with tiles carried in registers. */
import { invariant } from '../../../diagnostics/errors.ts'
import type { Carry, LoopStmt, ValueId } from '../../../kernel/ir.ts'
import { isOnMatrices } from '../../../schedule/simt/part/matrixCarries.ts'
import { tilesOf } from '../../../schedule/simt/prefetch/copiedStages.ts'
import type { OperandPrefetch } from '../../../schedule/simt/prefetch/operandPrefetch.ts'
import type { LoopWork, Sequence } from '../../../schedule/simt/sequence/sequence.ts'
import {
  add,
  type Block,
  bin,
  cast,
  type Ex,
  forLoop,
  greatest,
  int,
  least,
  lit,
  lt,
  mul,
  regType,
  shared,
  v,
} from '../ir/ir.ts'
import { declare, forRegisters, type Registers, registerAt, registerIndex } from '../ir/registers.ts'
import { closeMatrices, openMatrices } from '../matmul/multiplyMatrices.ts'
import { makeAhead, startAhead } from '../memory/earlyLoads.ts'
import { arriveHalfway, awaitHalfway } from '../memory/halfway.ts'
import { openPipeline } from '../memory/prefetch.ts'
import { openRing, startCopy } from '../memory/stage.ts'
import { openCarried } from '../reduce/carried.ts'
import { eachKept } from '../reduce/fold.ts'
import { divided } from '../scalar/quotient.ts'
import { Point } from './point.ts'
import { type Held, type Scope, type SharedTile, tid } from './scope.ts'

/** Emits what threads do in order. */
export type EmitSequence = (scope: Scope, sequence: Sequence, out: Block) => void

/** Copies a tile into registers. */
function copyInto(scope: Scope, to: Registers, axes: readonly string[], id: ValueId, out: Block): void {
  forRegisters(scope, axes, out, (lanes, body) => {
    const value = new Point(scope, lanes).read(id)
    body.push({ k: 'assign', to: registerAt(to, registerIndex(scope.layout, axes, lanes)), value })
  })
}

const heldIn = (scope: Scope, registers: Registers, axes: readonly string[]): Held => ({
  kind: 'registers',
  registers,
  layout: scope.layout,
  axes,
})

export function emitLoop(scope: Scope, work: LoopWork, emit: EmitSequence, out: Block): void {
  const { loop: s, isSingle, isWhole, operands, prefetch } = work
  const { part, unit } = scope
  const { type } = part.axis(s.axis)
  const extent = scope.endOf(s.axis)
  const bound = (id: ValueId | undefined, otherwise: Ex, wish: string): Ex => {
    if (id === undefined) return otherwise
    const x = new Point(scope, new Map()).read(id)
    const clamped = cast(type, least(greatest(x, int(0)), extent))
    const name = unit.name(wish)
    out.push({ k: 'uniform', name, value: clamped, slot: unit.scratch(type, 1, '_bound').name })
    return v(type, name)
  }
  const from = bound(s.from, lit(type, 0), `${s.axis}_from`)
  const to = bound(s.to, extent, `${s.axis}_to`)
  const carried = new Map<Carry, Registers>()
  const declareCarry = (c: Carry): Registers => {
    const length = scope.registers(part.axesOf(c.param))
    const r: Registers = { name: unit.name(`carry_${c.param}`), type: regType(c.dtype), length }
    declare(r, out)
    carried.set(c, r)
    return r
  }
  for (const { product } of work.onMatrices) unit.matrices.set(product.dot, openMatrices(scope, product, out))
  const inRegisters = s.carries.filter((c) => !isOnMatrices(part, c))
  for (const c of inRegisters) copyInto(scope, declareCarry(c), part.axesOf(c.param), c.init, out)
  const body: Block = []
  const counter = unit.name(`${s.axis}_start`)
  const start: Ex = isSingle ? from : v(type, counter)
  const ranges = new Map(scope.ranges)
  const next = add(start, int(s.block))
  const end = unit.name(`${s.axis}_end`)
  if (!isWhole && !isSingle) body.push({ k: 'let', name: end, value: least(next, to) })
  ranges.set(s.axis, { start, end: isSingle ? to : isWhole ? next : v(type, end) })
  const ring = operands === undefined ? undefined : openOperands(scope, s, operands, { from, to, start }, out, body)
  const pipeline = prefetch === undefined ? undefined : openPipeline(scope, s, prefetch, { from, to, start }, out, body)
  const folds = openCarried(scope, work.totals, carried, out)
  const inner = scope.child({ ranges }).openWhole([s.axis], body)
  for (const [id, tile] of ring ?? []) inner.held.set(id, tile)
  for (const [c, r] of carried) inner.held.set(c.param, heldIn(scope, r, part.axesOf(c.param)))
  if (work.meets) body.push({ k: 'barrier' })
  if (pipeline !== undefined) {
    unit.ahead = pipeline.ring
    unit.wordsAhead = pipeline.words ?? new Map()
  }
  emit(inner, work.body, body)
  if (pipeline !== undefined) {
    unit.ahead = undefined
    unit.wordsAhead = new Map()
  }
  unit.aheads.clear()
  passOn(inner, inRegisters, carried, body)
  folds.close(body)
  if (isSingle) out.push(...body)
  else out.push(forLoop(type, { name: counter, from, to, step: s.block, body }))
  folds.finish(out)
  for (const c of work.shares) {
    const r = carried.get(c)
    if (r !== undefined) addShares(scope, r, part.axesOf(c.param), out)
  }
  for (const { carry: c, product } of work.onMatrices)
    closeMatrices(scope, product, part.axesOf(c.param), declareCarry(c), out)
  for (const [c, r] of carried) scope.held.set(c.result, heldIn(scope, r, part.axesOf(c.param)))
}

/** Puts together what the warps of a block carry of the same sums, in the order of the warps: each thread has the whole of its registers then. */
function addShares(scope: Scope, to: Registers, axes: readonly string[], out: Block): void {
  const { threads } = scope.layout
  const cells = scope.unit.scratch(to.type, to.length * threads, '_depth')
  const each = eachKept(scope, axes)
  const cell = (i: Ex, thread: Ex): Ex => shared(cells, add(mul(i, int(threads)), thread))
  each(out, (i, body) => body.push({ k: 'assign', to: cell(i, tid), value: registerAt(to, i) }))
  out.push({ k: 'barrier' })
  const lane = bin('&', tid, int(31))
  const warps = Array.from({ length: threads / 32 }, (_, w) => add(lane, int(32 * w)))
  each(out, (i, body) => {
    const value = warps.map((thread) => cell(i, thread)).reduce(add)
    body.push({ k: 'assign', to: registerAt(to, i), value })
  })
  out.push({ k: 'barrier', reuse: true })
}

/**
 * Rings of tiles, and of what threads will read to compute others: emits the first copies before the loop and the next ones at its
 * body's head, or while tensor cores are at work. Gives the tiles of the stages that only copy.
 */
function openOperands(
  scope: Scope,
  s: LoopStmt,
  { slots, early, meetsHalfway, copied, ahead, during, inGroups }: OperandPrefetch,
  { from, to: last, start }: { readonly from: Ex; readonly to: Ex; readonly start: Ex },
  out: Block,
  body: Block,
): Map<ValueId, SharedTile> {
  const { part, unit } = scope
  const tiles = copied.map((c) => ({ copy: c, at: openRing(unit, c, slots) }))
  const [laterName, nowName] = [unit.name('slot'), unit.name('slot')]
  const [later, now] = [v('i32', laterName), v('i32', nowName)]
  const aheads = ahead.map((p) => makeAhead(scope, p, slots, now))
  const { type } = part.axis(s.axis)
  const end = scope.endOf(s.axis)
  const begin = (at: Ex, slot: Ex, to: Block): void => {
    const there = scope.child({ ranges: new Map([...scope.ranges, [s.axis, { start: at, end }]]), exact: new Set() })
    const started: Block = []
    for (const t of tiles) startCopy(there, t.copy, t.at(slot), started)
    for (const a of aheads) startAhead(there, a, slot, started)
    const exists = lt(at, last)
    if (exists.k !== 'lit') to.push({ k: 'if', cond: exists, body: started, otherwise: [] })
    else if (exists.value === true) to.push(...started)
    to.push({ k: 'call', fn: 'copy_commit', args: [] })
  }
  const slotOf = (at: Ex, ahead: number): Ex => {
    return cast('i32', bin('%', add(divided(at, s.block), int(ahead)), int(slots)))
  }
  const slot = (ahead: number): Ex => slotOf(start, ahead)
  for (let i = 0; i < early; i++)
    if (s.from === undefined) begin(lit(type, i * s.block), int(i), out)
    else begin(add(from, int(i * s.block)), slotOf(from, i), out)
  const copiesThere: Block = [
    { k: 'call', fn: `copy_wait_${early - 1}`, args: [] },
    ...(inGroups ? [{ k: 'call', fn: 'tile_written', args: [] } as const] : []),
  ]
  if (meetsHalfway) {
    unit.halfway = [...copiesThere, ...arriveHalfway(unit)]
    out.push(...unit.halfway)
    body.push(...awaitHalfway(unit))
  } else body.push(...copiesThere, { k: 'barrier' })
  const next: Block = []
  if (early < slots) {
    body.push({ k: 'let', name: laterName, value: slot(early) })
    begin(add(start, int(early * s.block)), later, next)
  } else next.push({ k: 'call', fn: 'copy_commit', args: [] })
  body.push({ k: 'let', name: nowName, value: slot(0) })
  if (during !== undefined) unit.meanwhile.set(during, next)
  else body.push(...next)
  for (const a of aheads) unit.aheads.set(a.stage.id, a)
  return new Map(
    tiles.flatMap(({ copy, at }) =>
      tilesOf(copy).map(({ let: l, axes }): [ValueId, SharedTile] => [l.id, { ...at(now), axes }]),
    ),
  )
}

/** Next values into the carried registers: through copies where a next value is itself a carried one. */
function passOn(scope: Scope, carries: readonly Carry[], carried: ReadonlyMap<Carry, Registers>, body: Block): void {
  const { part, unit } = scope
  const params = new Set(carries.map((c) => c.param))
  const moves: { readonly to: Registers; readonly axes: readonly string[]; readonly id: ValueId }[] = []
  for (const c of carries) {
    const r = carried.get(c)
    invariant(r !== undefined, 'a carry without registers')
    const axes = part.axesOf(c.param)
    if (c.next === c.param) continue
    if (!params.has(c.next)) {
      moves.push({ to: r, axes, id: c.next })
      continue
    }
    const copy: Registers = { ...r, name: unit.name(`${r.name}_next`) }
    declare(copy, body)
    copyInto(scope, copy, axes, c.next, body)
    const id = -1 - c.param
    scope.held.set(id, heldIn(scope, copy, axes))
    moves.push({ to: r, axes, id })
  }
  for (const m of moves) copyInto(scope, m.to, m.axes, m.id, body)
}
