/** Tiles in registers: a thread's register arrays, the loops over them, and where a point of such a nest lies in an array. */

import { type Layout, registersOf } from '../../../schedule/simt/layout/layout.ts'
import { type Loop, loopsOf } from '../../../schedule/simt/sequence/sequence.ts'

export { loopsOf }

import { add, type Block, type Ex, elem, int, mul, type Type, v } from './ir.ts'

/** A register array; one register is a plain variable. */
export interface Registers {
  readonly name: string
  readonly type: Type
  readonly length: number
}

export const registerAt = (r: Registers, index: Ex): Ex =>
  r.length === 1 ? v(r.type, r.name) : elem(r.type, r.name, index)

export function declare(r: Registers, out: Block): void {
  if (r.length === 1) out.push({ k: 'var', name: r.name, type: r.type, value: undefined })
  else out.push({ k: 'array', name: r.name, type: r.type, length: r.length })
}

/** Registers of a loop nest's current point: repeat and vector lane by axis. */
export type Lanes = ReadonlyMap<string, { readonly rep: Ex; readonly lane: Ex }>

export const withLane = (lanes: Lanes, axis: string, lane: number): Lanes =>
  new Map([...lanes, [axis, { rep: lanes.get(axis)?.rep ?? int(0), lane: int(lane) }]])

export const withRepeat = (lanes: Lanes, axis: string, rep: number): Lanes =>
  new Map([...lanes, [axis, { rep: int(rep), lane: lanes.get(axis)?.lane ?? int(0) }]])

/** The place of a point in a register array. */
export function registerIndex(layout: Layout, axes: readonly string[], lanes: Lanes): Ex {
  let out: Ex = int(0)
  for (const name of axes) {
    const a = layout.axis(name)
    const at = lanes.get(name)
    out = mul(out, int(registersOf(a)))
    if (at !== undefined) out = add(out, add(mul(at.rep, int(a.vec)), at.lane))
  }
  return out
}

/** Where loops stand: what names them, and the layout of their axes. */
interface Frame {
  readonly unit: { name(wish: string): string }
  readonly layout: Layout
}

/** Beyond this many repetitions loops stay loops, and arrays may lie in memory. */
const mostUnrolled = 256

export function emitLoops(
  scope: Pick<Frame, 'unit'>,
  loops: readonly Loop[],
  out: Block,
  emit: (lanes: Lanes, body: Block) => void,
): void {
  const unroll = loops.reduce((n, l) => n * l.count, 1) <= mostUnrolled
  const names = loops.map((l) => scope.unit.name(l.over === 'rep' ? `${l.axis}_r` : `${l.axis}_v`))
  const lanes = new Map<string, { rep: Ex; lane: Ex }>()
  loops.forEach((l, i) => {
    const at = lanes.get(l.axis) ?? { rep: int(0), lane: int(0) }
    lanes.set(l.axis, { ...at, [l.over]: v('i32', names[i] ?? '') })
  })
  let body: Block = []
  emit(lanes, body)
  for (let i = loops.length - 1; i >= 0; i--) {
    const l = loops[i]
    if (l === undefined) continue
    body = [{ k: 'for', name: names[i] ?? '', from: int(0), to: int(l.count), step: 1, unroll, body }]
  }
  out.push(...body)
}

/** Emits a statement for each register of a tile over axes, in the given order. */
export function forRegisters(
  scope: Frame,
  axes: readonly string[],
  out: Block,
  emit: (lanes: Lanes, body: Block) => void,
): void {
  const loops: Loop[] = axes.flatMap((a) => loopsOf(scope.layout, a))
  emitLoops(scope, loops, out, emit)
}
