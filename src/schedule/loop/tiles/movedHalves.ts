/**
 * Values of half precision that are moved or chosen, and nothing else, are taken as their bits: they are not made f32 and rounded again, and a NaN keeps
 * its bits.
 */
import {
  type KernelParam,
  type KernelPart,
  type LetStmt,
  operandsOf,
  type TileOp,
  type ValueId,
} from '../../../kernel/ir.ts'
import { storeOperands } from '../../../kernel/walk.ts'
import { numberToBf16, numberToF16 } from '../../../scalar/half.ts'
import type { Scalar } from '../../../scalar/ops.ts'
import { type DType, isHalf } from '../../../types/dtype.ts'

/** The part with values of half precision that only move as u16. */
export function movedHalves(part: KernelPart, params: ReadonlyMap<string, KernelParam>): KernelPart {
  if (part.body.some((s) => s.kind === 'loop')) return part
  const moved = movedIn(part, params)
  if (moved.size === 0) return part
  return {
    ...part,
    body: part.body.map((s) => (s.kind === 'let' && moved.has(s.id) && isHalf(s.dtype) ? asBits(s, s.dtype) : s)),
  }
}

/** Loads, constants and choices among them that stores of the same format take, other choices, and nothing else. */
function movedIn({ body }: KernelPart, params: ReadonlyMap<string, KernelParam>): Set<ValueId> {
  const moved = new Map<ValueId, LetStmt>()
  const plain = (name: string, dtype: DType): boolean => {
    const p = params.get(name)
    return p?.format === 'plain' && p.dtype === dtype
  }
  for (const s of body) {
    if (s.kind !== 'let' || !isHalf(s.dtype)) continue
    const { op, dtype } = s
    if (op.kind === 'const' || (op.kind === 'load' && plain(op.param, dtype))) moved.set(s.id, s)
    else if (op.kind === 'scalar' && op.op === 'select') moved.set(s.id, s)
  }
  for (let before = -1; before !== moved.size; ) {
    before = moved.size
    for (const s of body) {
      if (s.kind === 'store') {
        const value = moved.get(s.value)
        const stays = value !== undefined && s.combiner === undefined && plain(s.param, value.dtype)
        for (const id of storeOperands(s)) if (id !== s.value || !stays) moved.delete(id)
      } else if (s.kind === 'let') {
        const chosen = s.op.kind === 'scalar' && s.op.op === 'select' ? s.op.args.slice(1) : []
        const together = moved.has(s.id) && chosen.every((id) => moved.has(id))
        if (!together && s.op.kind === 'scalar') moved.delete(s.id)
        for (const id of operandsOf(s.op)) if (!together || !chosen.includes(id)) moved.delete(id)
      }
    }
  }
  // A constant that is stored alone gains nothing.
  return [...moved.values()].some(({ op }) => op.kind === 'load') ? new Set(moved.keys()) : new Set()
}

function asBits(l: LetStmt, dtype: 'f16' | 'bf16'): LetStmt {
  const bits = (v: Scalar): number => (dtype === 'f16' ? numberToF16 : numberToBf16)(Number(v))
  const op: TileOp =
    l.op.kind === 'const'
      ? { ...l.op, value: bits(l.op.value) }
      : l.op.kind === 'load'
        ? { ...l.op, other: bits(l.op.other) }
        : l.op
  return { ...l, dtype: 'u16', op }
}
