/** Kernel loops: an axis in blocks, in order, with tiles carried in registers. */
import { invariant } from '../../diagnostics/errors.ts'
import type { Carry, LetStmt, LoopStmt, ValueId } from '../../kernel/ir.ts'
import { allStmts } from './facts.ts'
import { add, type Block, bin, call, type Ex, int, lt, quotient, regType, sub, v } from './ir.ts'
import { itemsOf, type LowerItems } from './items.ts'
import { Point } from './point.ts'
import {
  declare,
  forRegisters,
  type Held,
  type Registers,
  registerAt,
  registerIndex,
  type Scope,
  type SharedTile,
} from './scope.ts'
import { copyOf, makeRing, startCopy } from './stage.ts'

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
  const extent = part.axis(s.axis).extent
  const bound = (id: ValueId | undefined, otherwise: number, wish: string): Ex => {
    if (id === undefined) return int(otherwise)
    const x = new Point(scope, new Map()).read(id)
    const clamped = call('i32', 'i32_min', call('i32', 'i32_max', x, int(0)), int(extent))
    const name = unit.name(wish)
    out.push({ k: 'uniform', name, value: clamped, slot: unit.scratch('i32', 1, '_bound').name })
    return v('i32', name)
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
  const start: Ex = single ? from : v('i32', counter)
  const ranges = new Map(scope.ranges)
  const whole = to.k === 'lit' && from.k === 'lit' && extent % s.block === 0
  const next = add(start, int(s.block))
  const end = unit.name(`${s.axis}_end`)
  if (!whole && !single) body.push({ k: 'let', name: end, value: call('i32', 'i32_min', next, to) })
  ranges.set(s.axis, { start, end: single ? to : whole ? next : v('i32', end) })
  const ring =
    single || from.k !== 'lit' || to.k !== 'lit'
      ? undefined
      : openRing(scope, s, before, Number(from.value), start, out, body)
  const inner = scope.child({ ranges }).openWhole([s.axis], body)
  for (const [id, tile] of ring ?? []) inner.held.set(id, tile)
  for (const [c, r] of carried) inner.held.set(c.param, heldIn(scope, r, part.axesOf(c.param)))
  if (ring === undefined && [...allStmts(s.body)].some((t) => t.kind === 'let' && t.op.kind === 'stage'))
    body.push({ k: 'barrier' })
  const exports = new Set(s.carries.map((c) => c.next))
  lower(inner, itemsOf([...before, ...s.body]), exports, body)
  passOn(inner, s.carries, carried, body)
  if (single) out.push(...body)
  else out.push({ k: 'for', name: counter, from, to, step: s.block, unroll: false, body })
  for (const [c, r] of carried) scope.held.set(c.result, heldIn(scope, r, part.axesOf(c.param)))
}

/** Tiles under way or in use. */
const ringTiles = 3

/**
 * Where every stage of a loop only copies blocks of parameters, the copies run ahead: a ring of tiles, filled in the background
 * while earlier ones are multiplied. Emits the first copies before the loop and the next ones at its body's head; the tiles.
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
  const stages = [...allStmts(s.body)].flatMap((t) => (t.kind === 'let' && t.op.kind === 'stage' ? [t] : []))
  const copies = stages.map((l) => copyOf(scope, l))
  if (stages.length === 0 || before.length > 0 || s.body.some((t) => t.kind === 'loop')) return undefined
  const all = copies.flatMap((c) => (c === undefined ? [] : [c]))
  if (all.length !== stages.length) return undefined
  const rings = all.map((c) => makeRing(scope, c, ringTiles))
  const end = int(scope.part.axis(s.axis).extent)
  const begin = (at: Ex, slot: Ex, to: Block): void => {
    const there = scope.child({ ranges: new Map([...scope.ranges, [s.axis, { start: at, end }]]), exact: new Set() })
    const copies: Block = []
    for (const [i, c] of all.entries()) {
      const tile = rings[i]?.(slot)
      if (tile !== undefined) startCopy(there, c, tile, copies)
    }
    const exists = lt(at, end)
    if (exists.k !== 'lit') to.push({ k: 'if', cond: exists, body: copies, otherwise: [] })
    else if (exists.value === true) to.push(...copies)
    to.push({ k: 'call', fn: 'copy_commit', args: [] })
  }
  for (let i = 0; i + 1 < ringTiles; i++) begin(int(from + i * s.block), int(i), out)
  const ahead0 = sub(start, int(from))
  const step = Number.isInteger(Math.log2(s.block)) ? quotient(ahead0, s.block) : bin('/', ahead0, int(s.block))
  const slot = (ahead: number): Ex => {
    const name = scope.unit.name('slot')
    body.push({ k: 'let', name, value: bin('%', add(step, int(ahead)), int(ringTiles)) })
    return v('i32', name)
  }
  body.push({ k: 'call', fn: `copy_wait_${ringTiles - 2}`, args: [] })
  const products = new Set(stages.flatMap((l) => scope.part.productOn(l.id) ?? []))
  const [product] = products
  const inGroups = product?.groups !== undefined
  if (inGroups) body.push({ k: 'call', fn: 'tile_written', args: [] })
  body.push({ k: 'barrier' })
  const [later, now] = [slot(ringTiles - 1), slot(0)]
  const next: Block = []
  begin(add(start, int((ringTiles - 1) * s.block)), later, next)
  if (inGroups && products.size === 1) scope.unit.meanwhile.set(product.dot, next)
  else body.push(...next)
  return new Map(
    all.map((c, i): [ValueId, SharedTile] => {
      const tile = rings[i]?.(now)
      invariant(tile !== undefined, 'a ring without tile')
      return [c.let.id, tile]
    }),
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
