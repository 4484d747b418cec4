/** Kernel loops: an axis in blocks, in order, with tiles carried in registers. */
import { invariant } from '../../diagnostics/errors.ts'
import type { Carry, LetStmt, LoopStmt, ValueId } from '../../kernel/ir.ts'
import { allStmts } from '../../schedule/simt/facts.ts'
import { type AheadPlan, aheadOf, makeAhead, startAhead } from './ahead.ts'
import { openCarried } from './carried.ts'
import { add, type Block, bin, cast, type Ex, forLoop, greatest, int, least, lit, lt, regType, sub, v } from './ir.ts'
import { itemsOf, type LowerItems } from './items.ts'
import { openPipeline } from './pipeline.ts'
import { Point } from './point.ts'
import { quotient } from './quotient.ts'
import { declare, forRegisters, type Registers, registerAt, registerIndex } from './registers.ts'
import type { Held, Scope, SharedTile } from './scope.ts'
import { type Copy, copyBytes, copyOf, makeRing, startCopy } from './stage.ts'

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

/** `before`: statements outside the loop that are computed inside. */
export function lowerLoop(scope: Scope, s: LoopStmt, before: readonly LetStmt[], lower: LowerItems, out: Block): void {
  const { part, unit } = scope
  const { extent, type } = part.axis(s.axis)
  const bound = (id: ValueId | undefined, otherwise: number, wish: string): Ex => {
    if (id === undefined) return lit(type, otherwise)
    const x = new Point(scope, new Map()).read(id)
    const clamped = cast(type, least(greatest(x, int(0)), int(extent)))
    const name = unit.name(wish)
    out.push({ k: 'uniform', name, value: clamped, slot: unit.scratch(type, 1, '_bound').name })
    return v(type, name)
  }
  const from = bound(s.from, 0, `${s.axis}_from`)
  const to = bound(s.to, extent, `${s.axis}_to`)
  const carried = new Map<Carry, Registers>()
  for (const c of s.carries) {
    const axes = part.axesOf(c.param)
    const r: Registers = { name: unit.name(`carry_${c.param}`), type: regType(c.dtype), length: scope.registers(axes) }
    declare(r, out)
    copyInto(scope, r, axes, c.init, out)
    carried.set(c, r)
  }
  const body: Block = []
  // A single block needs no loop.
  const single = extent > 0 && from.k === 'lit' && to.k === 'lit' && Number(to.value) - Number(from.value) <= s.block
  const counter = unit.name(`${s.axis}_start`)
  const start: Ex = single ? from : v(type, counter)
  const ranges = new Map(scope.ranges)
  const whole = to.k === 'lit' && from.k === 'lit' && extent % s.block === 0
  const next = add(start, int(s.block))
  const end = unit.name(`${s.axis}_end`)
  if (!whole && !single) body.push({ k: 'let', name: end, value: least(next, to) })
  ranges.set(s.axis, { start, end: single ? to : whole ? next : v(type, end) })
  const ring =
    single || from.k !== 'lit' || to.k !== 'lit'
      ? undefined
      : openRing(scope, s, before, Number(from.value), start, out, body)
  const pipeline =
    single || ring !== undefined || before.length > 0
      ? undefined
      : openPipeline(scope, s, { from, to, start }, out, body)
  const folds = openCarried(scope, s, single ? new Map() : carried, out)
  const inner = scope.child({ ranges }).openWhole([s.axis], body)
  for (const [id, tile] of ring ?? []) inner.held.set(id, tile)
  for (const [c, r] of carried) inner.held.set(c.param, heldIn(scope, r, part.axesOf(c.param)))
  if (ring === undefined && [...allStmts(s.body)].some((t) => t.kind === 'let' && t.op.kind === 'stage'))
    body.push({ k: 'barrier' })
  const exports = new Set(s.carries.map((c) => c.next))
  if (pipeline !== undefined) {
    unit.ahead = pipeline.ring
    unit.wordsAhead = pipeline.words ?? new Map()
  }
  lower(inner, itemsOf([...before, ...s.body]), exports, body)
  if (pipeline !== undefined) {
    unit.ahead = undefined
    unit.wordsAhead = new Map()
  }
  unit.aheads.clear()
  passOn(inner, s.carries, carried, body)
  folds.close(body)
  if (single) out.push(...body)
  else out.push(forLoop(type, { name: counter, from, to, step: s.block, body }))
  folds.finish(out)
  for (const [c, r] of carried) scope.held.set(c.result, heldIn(scope, r, part.axesOf(c.param)))
}

/** Blocks under way or in use. */
const ring = 3
/** Most bytes of a block that loads ahead of its use. */
const mostRingBytes = 48 << 10

/**
 * Where every stage of a loop copies blocks of parameters, or is computed from blocks that can be copied, the copies run ahead: a ring
 * of tiles (or of what threads will read), filled in the background while earlier blocks are multiplied. Emits the first copies before
 * the loop and the next ones at its body's head, or while tensor cores are at work; the tiles of the stages that only copy.
 */
function openRing(
  scope: Scope,
  s: LoopStmt,
  before: readonly LetStmt[],
  from: number,
  start: Ex,
  out: Block,
  body: Block,
): Map<ValueId, SharedTile> | undefined {
  const { part, unit } = scope
  const stages = [...allStmts(s.body)].flatMap((t) => (t.kind === 'let' && t.op.kind === 'stage' ? [t] : []))
  if (stages.length === 0 || before.length > 0 || s.body.some((t) => t.kind === 'loop')) return undefined
  const copies: Copy[] = []
  const plans: AheadPlan[] = []
  for (const l of stages) {
    const copy = copyOf(scope, l)
    const plan = copy === undefined ? aheadOf(scope, l, s.axis) : undefined
    if (copy !== undefined) copies.push(copy)
    else if (plan !== undefined) plans.push(plan)
    else return undefined
  }
  const bytes = copies.reduce((n, c) => n + copyBytes(scope, c), 0) + plans.reduce((n, p) => n + p.bytes, 0)
  if (plans.length > 0 && bytes > mostRingBytes) return undefined
  const tiles = copies.map((c) => ({ copy: c, at: makeRing(scope, c, ring) }))
  const [laterName, nowName] = [unit.name('slot'), unit.name('slot')]
  const [later, now] = [v('i32', laterName), v('i32', nowName)]
  const aheads = plans.map((p) => makeAhead(scope, p, ring, now))
  const { extent, type } = part.axis(s.axis)
  const end = lit(type, extent)
  const begin = (at: Ex, slot: Ex, to: Block): void => {
    const there = scope.child({ ranges: new Map([...scope.ranges, [s.axis, { start: at, end }]]), exact: new Set() })
    const started: Block = []
    for (const t of tiles) startCopy(there, t.copy, t.at(slot), started)
    for (const a of aheads) startAhead(there, a, slot, started)
    const exists = lt(at, end)
    if (exists.k !== 'lit') to.push({ k: 'if', cond: exists, body: started, otherwise: [] })
    else if (exists.value === true) to.push(...started)
    to.push({ k: 'call', fn: 'copy_commit', args: [] })
  }
  for (let i = 0; i + 1 < ring; i++) begin(lit(type, from + i * s.block), int(i), out)
  const done = sub(start, int(from))
  const step = Number.isInteger(Math.log2(s.block)) ? quotient(done, s.block) : bin('/', done, int(s.block))
  const slot = (ahead: number): Ex => cast('i32', bin('%', add(step, int(ahead)), int(ring)))
  body.push({ k: 'call', fn: `copy_wait_${ring - 2}`, args: [] })
  const [product, ...others] = new Set(stages.flatMap((l) => part.productOn(l.id) ?? []))
  const inGroups = product?.groups !== undefined
  if (inGroups) body.push({ k: 'call', fn: 'tile_written', args: [] })
  body.push({ k: 'barrier' })
  body.push({ k: 'let', name: laterName, value: slot(ring - 1) }, { k: 'let', name: nowName, value: slot(0) })
  const next: Block = []
  begin(add(start, int((ring - 1) * s.block)), later, next)
  if (inGroups && others.length === 0) unit.meanwhile.set(product.dot, next)
  else body.push(...next)
  for (const a of aheads) unit.aheads.set(a.stage.id, a)
  return new Map(tiles.map((t): [ValueId, SharedTile] => [t.copy.let.id, t.at(now)]))
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
