/**
 * PartialResult results of folds: how one is merged into another, how the lanes of a warp merge theirs by a butterfly, and the slots in
 * shared memory through which warps and blocks hand theirs over.
 */
import { invariant } from '../../../diagnostics/errors.ts'
import { isArgCombiner } from '../../../scalar/ops.ts'
import type { FoldExchange } from '../../../schedule/simt/fold/exchange.ts'
import { combinerOf } from '../../../schedule/simt/fold/folds.ts'
import {
  add,
  type Block,
  bin,
  call,
  type Ex,
  eq,
  int,
  type SharedArray,
  shared,
  typeBytes,
  v,
  when,
  yes,
} from '../ir/ir.ts'
import { forRegisters, registerAt, registerIndex } from '../ir/registers.ts'
import { type Scope, tid } from '../nest/scope.ts'
import { beatsEx, mergeEx, wrapTo } from '../scalar/arith.ts'
import type { Accumulator } from './open.ts'

/** A partial result: a value, with its position where the fold has positions. */
export interface PartialResult {
  readonly value: Ex
  readonly at: Ex | undefined
}

/** What merging one partial result into another does. */
export function mergeInto(acc: Accumulator, to: PartialResult, from: PartialResult, scope: Scope, out: Block): void {
  const c = combinerOf(acc.let)
  if (!isArgCombiner(c)) {
    out.push({ k: 'assign', to: to.value, value: mergeEx(c, acc.dtype, to.value, from.value) })
    return
  }
  invariant(to.at !== undefined && from.at !== undefined, 'an arg-fold without positions')
  const [nx, nq] = [scope.unit.name('other'), scope.unit.name('other_at')]
  out.push({ k: 'let', name: nx, value: from.value }, { k: 'let', name: nq, value: from.at })
  const [vx, vq] = [v(from.value.type, nx), v(from.at.type, nq)]
  const last = acc.let.op.kind === 'reduce' && acc.let.op.last === true
  out.push({
    k: 'if',
    cond: beatsEx(c, last, { value: vx, at: vq }, { value: to.value, at: to.at }),
    body: [
      { k: 'assign', to: to.value, value: vx },
      { k: 'assign', to: to.at, value: vq },
    ],
    otherwise: [],
  })
}

export function assign(to: PartialResult, from: PartialResult, out: Block): void {
  out.push({ k: 'assign', to: to.value, value: from.value })
  if (to.at !== undefined && from.at !== undefined) out.push({ k: 'assign', to: to.at, value: from.at })
}

/** Slots of partial results in shared memory: one array of values, one of positions. */
export interface Slots {
  readonly values: SharedArray
  readonly positions: SharedArray | undefined
  /** Where the fold's slots begin in each. */
  readonly first: number
  readonly firstAt: number
  /** Added to both. */
  readonly from?: Ex
}

export const slot = (s: Slots, index: Ex): PartialResult => {
  const at = s.from === undefined ? index : add(s.from, index)
  return {
    value: shared(s.values, add(at, int(s.first))),
    at: s.positions === undefined ? undefined : shared(s.positions, add(at, int(s.firstAt))),
  }
}

/** What threads exchange of a fold: its accumulator, or keys of it. */
export interface Spread extends FoldExchange {
  readonly acc: Accumulator
}

/** Hands out slots in shared memory for several folds at once. */
export function allotter(scope: Scope, which: string): (acc: Accumulator, length: number) => Slots {
  const used = new Map<string, number>()
  const take = (type: Ex['type'], suffix: string, length: number): { array: SharedArray; first: number } => {
    const key = `${suffix}_${type}`
    const first = used.get(key) ?? 0
    used.set(key, first + length)
    return { array: scope.unit.scratch(type, first + length, suffix), first }
  }
  return (acc, length) => {
    const values = take(acc.values.type, which, length)
    const positions = acc.positions === undefined ? undefined : take(acc.positions.type, `${which}_at`, length)
    return {
      values: values.array,
      positions: positions?.array,
      first: values.first,
      firstAt: positions?.first ?? 0,
    }
  }
}

export function eachRegister(
  scope: Scope,
  acc: Accumulator,
  out: Block,
  emit: (i: Ex, held: PartialResult, body: Block) => void,
): void {
  forRegisters(scope, acc.kept, out, (lanes, body) => {
    const i = registerIndex(scope.layout, acc.kept, lanes)
    const at = acc.positions === undefined ? undefined : registerAt(acc.positions, i)
    emit(i, { value: registerAt(acc.values, i), at }, body)
  })
}

export function butterfly(
  scope: Scope,
  acc: Accumulator,
  to: PartialResult,
  bits: readonly number[],
  out: Block,
): void {
  const c = combinerOf(acc.let)
  const { type } = to.value
  const { laneBits, foldsLanes } = scope.unit.machine
  const isWarp = foldsLanes && bits.length > 0 && bits.length === laneBits
  if (isWarp && (type === 'i32' || type === 'u32') && (c === 'max' || c === 'min' || c === 'sum')) {
    const value = wrapTo(acc.dtype, call(type, `${type}_lanes_${c}`, to.value))
    out.push({ k: 'assign', to: to.value, value })
    return
  }
  for (const b of [...bits].reverse()) {
    const other = (x: Ex): Ex => ({ k: 'shuffle', type: x.type, a: x, mask: 2 ** b })
    mergeInto(acc, to, { value: other(to.value), at: to.at === undefined ? undefined : other(to.at) }, scope, out)
  }
}

export const range = (from: number, to: number): number[] => Array.from({ length: to - from }, (_, i) => from + i)

/** Statements for the threads whose folded lanes are all zero: one of those that agree. */
export function onOneLane(lanes: readonly number[], body: Block, out: Block): void {
  const mask = lanes.reduce((m, b) => m | (1 << b), 0)
  out.push(...when(mask === 0 ? yes : eq(bin('&', tid, int(mask)), int(0)), body))
}

/** Bytes of one partial result. */
export const bytesOf = (acc: Accumulator): number =>
  typeBytes(acc.values.type) + (acc.positions === undefined ? 0 : typeBytes(acc.positions.type))
