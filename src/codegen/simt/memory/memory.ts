/**
 * Loads and stores: 16-byte accesses where index maps prove them aligned and side by side, single elements elsewhere. Elements
 * narrower than a word are packed where one thread owns the word, and replaced bit by bit where others may be writing beside it.
 */
import type { Expr } from '../../../affine/expr.ts'
import type { KernelParam, LetStmt, StoreStmt } from '../../../kernel/ir.ts'
import type { Access, Group } from '../../../schedule/simt/access/access.ts'
import { flatIndex } from '../../../schedule/simt/part/facts.ts'
import { isAlreadyRounded } from '../../../schedule/simt/precision/alreadyRounded.ts'
import { elementBits } from '../../../schedule/simt/storage/words.ts'
import { and, type Block, bin, call, type Ex, int, isYes, lit, lt, regType, uint, v, when, yes } from '../ir/ir.ts'
import type { Registers } from '../ir/registers.ts'
import type { Point } from '../nest/point.ts'
import { behindLoads, insideAlong, type Scope } from '../nest/scope.ts'
import { castEx, constant } from '../scalar/arith.ts'
import {
  elementAt,
  fieldBits,
  fromField,
  replaceBits,
  shiftOf,
  takeFields,
  takeFieldsOf,
  wordType,
} from './packedElements.ts'
import { prefetchNext } from './prefetchNext.ts'

/** Whether an access takes place at a point. */
export function allowed(point: Point, access: Access, axes: readonly string[], checked?: string): Ex {
  const { scope, lanes } = point
  return and(
    ...axes.filter((a) => a !== checked).map((a) => insideAlong(scope, a, lanes)),
    access.maskValue === undefined ? undefined : point.read(access.maskValue),
    point.predicate(access.mask),
  )
}

/** One element, guarded; the value elsewhere is `other`. */
export function loadElement(
  point: Point,
  l: LetStmt,
  access: Access,
  axes: readonly string[],
  other: Ex,
  out: Block,
): Ex {
  const { scope } = point
  const p = scope.unit.param(access.param)
  const cond = allowed(point, access, axes)
  const element = elementAt(scope, p, point.position(flatIndex(access.index, p.shape)))
  if (isYes(cond)) return element
  const name = scope.unit.name(`${access.param}_${l.id}`)
  out.push({ k: 'var', name, type: regType(l.dtype), value: other })
  out.push({ k: 'if', cond, body: [{ k: 'assign', to: v(regType(l.dtype), name), value: element }], otherwise: [] })
  return v(regType(l.dtype), name)
}

/** All lanes of a vector, in groups, into registers. */
export function loadGroups(
  point: Point,
  l: LetStmt,
  access: Access,
  axes: readonly string[],
  group: Group,
  to: Registers,
  other: Ex,
  out: Block,
): void {
  const { scope } = point
  const p = scope.unit.param(access.param)
  const flat = flatIndex(access.index, p.shape)
  const own = scope.part.axesOf(l.id)
  for (const { first: at, last, points } of point.laneGroups(group.axis, group.n)) {
    const { repeats = 1 } = group
    const all = points.map((q) => q.registerOf(to, own))
    const targets = all.filter((_, i) => i % repeats === 0)
    const again = repeated(all, repeats)
    const rest = allowed(at, access, axes, group.axis)
    const first = insideAlong(scope, group.axis, at.lanes)
    const end = scope.range(group.axis).end
    const full = group.whole ? first : insideAlong(scope, group.axis, last.lanes)
    const cond = and(rest, full)
    const body: Block = []
    const bits = elementBits(p)
    if (group.whole && cond.k !== 'lit' && isZeroBits(other) && bits < 32 && targets.length * bits >= 32) {
      loadWords(at, p, flat, cond, targets, out)
      out.push(...again)
      continue
    }
    loadGroup(at, p, flat, targets, body)
    if (scope.unit.next !== undefined) prefetchNext(scope.unit, p, flat, at.position(flat), body)
    body.push(...again)
    if (isYes(cond)) {
      out.push(...body)
      continue
    }
    for (const t of all) out.push({ k: 'assign', to: t, value: other })
    const otherwise: Block = []
    if (!group.whole && first !== undefined) {
      const single = points.map((one): Block[number] => {
        const inside = insideAlong(scope, group.axis, one.lanes) ?? lt(int(0), end)
        const value = elementAt(scope, p, one.position(flat))
        return { k: 'if', cond: inside, body: [{ k: 'assign', to: one.registerOf(to, own), value }], otherwise: [] }
      })
      otherwise.push({ k: 'if', cond: and(rest, first), body: single, otherwise: [] })
    }
    out.push({ k: 'if', cond, body: body, otherwise })
  }
}

/** Elements that stand for so many indices in a row, from the first of them on to the others. */
export const repeated = (all: readonly Ex[], repeats: number): Block =>
  all.flatMap((to, i): Block => {
    const value = all[i - (i % repeats)]
    return value === undefined || i % repeats === 0 ? [] : [{ k: 'assign', to, value }]
  })

const isZeroBits = (x: Ex): boolean => x.k === 'lit' && (x.value === false || Object.is(Number(x.value), 0))

/** A guarded group whose words are zero elsewhere: nothing but the load waits for the condition. */
function loadWords(point: Point, p: KernelParam, flat: Expr, cond: Ex, targets: readonly Ex[], out: Block): void {
  const { scope } = point
  const n = targets.length
  const bits = elementBits(p)
  const words = (n * bits) / 32
  const at = point.position(flat)
  const name = scope.unit.name(`${p.name}_w`)
  const type = wordType(p)
  const all = Array.from({ length: words }, () => scope.unit.name(`${p.name}_word`))
  for (const w of all) out.push({ k: 'var', name: w, type, value: lit(type, 0) })
  const body: Block = [{ k: 'vload', name, param: p.name, index: at, bits, words, type }]
  all.forEach((w, i) => {
    body.push({ k: 'assign', to: v(type, w), value: { k: 'comp', type, of: name, words, at: i } })
  })
  prefetchNext(scope.unit, p, flat, at, body)
  out.push({ k: 'if', cond, body, otherwise: [] })
  takeFieldsOf(scope, p, (i) => v(type, all[i] ?? name), targets, out)
}

function loadGroup(point: Point, p: KernelParam, flat: Expr, targets: readonly Ex[], out: Block): void {
  const { scope } = point
  const n = targets.length
  const bits = elementBits(p)
  const words = (n * bits) / 32
  const at = point.position(flat)
  const [only, second] = targets
  if (only !== undefined && second === undefined) {
    out.push({ k: 'assign', to: only, value: elementAt(scope, p, at) })
    return
  }
  if (words < 1) {
    // Less than a word: shift it down and take the fields.
    const name = scope.unit.name(`${p.name}_w`)
    const bytes = scope.unit.dialect.bytes && n * bits === 8
    const word: Ex = bytes
      ? { k: 'load', type: 'u32', param: p.name, index: bin('>>', at, uint(Math.log2(8 / bits))) }
      : bin(
          '>>',
          { k: 'word', type: 'u32', param: p.name, index: bin('>>', at, uint(Math.log2(32 / bits))) },
          shiftOf(at, bits),
        )
    out.push({ k: 'let', name, value: word })
    targets.forEach((to, i) => {
      out.push({ k: 'assign', to, value: fromField(p, bin('>>', v('u32', name), uint(i * bits))) })
    })
    return
  }
  const type = wordType(p)
  const name = scope.unit.name(`${p.name}_w`)
  out.push({ k: 'vload', name, param: p.name, index: at, bits, words, type })
  takeFields(scope, p, name, targets, out)
}

/** Writes one element at a point. */
function storeElement(point: Point, s: StoreStmt, value: Ex, out: Block): void {
  const { scope } = point
  const p = scope.unit.param(s.param)
  const at = point.position(flatIndex(s.index, p.shape))
  const bits = elementBits(p)
  if (p.format === 'plain' && (scope.unit.dialect.bytes || bits >= 32)) {
    out.push({ k: 'store', param: p.name, index: at, value })
    return
  }
  const field = isPacked(scope, s) ? call('u32', 'bf16_bits_exact', value) : fieldBits(p, value)
  out.push(replaceBits(p.name, at, bits, bits, field))
}

/** The stored value in the parameter's dtype. */
export const storedValue = (point: Point, s: StoreStmt, x: Ex): Ex => {
  const p = point.scope.unit.param(s.param)
  const dtype = point.scope.part.dtypeOf(s.value)
  return dtype === p.dtype || isPacked(point.scope, s) ? x : castEx(dtype, p.dtype, x)
}

/** Whether a store keeps the bits of values that are bf16 already. */
const isPacked = ({ part, unit }: Scope, s: StoreStmt): boolean =>
  unit.param(s.param).dtype === 'bf16' && s.combiner === undefined && isAlreadyRounded(part, s.value, 'bf16')

/**
 * The function that packs two values of a store into a word. Where the values are coarse, in which of two directions ties of their
 * rounding go says nothing: a dialect without conversions leaves them where that is the least work.
 */
export function packingOf(scope: Scope, s: StoreStmt, isCoarse: boolean): string {
  const { unit } = scope
  const { dtype } = unit.param(s.param)
  if (isPacked(scope, s)) return 'high_halves'
  return isCoarse && dtype === 'bf16' && !unit.dialect.convertsHalf ? 'bf16_coarse_pair' : `${dtype}_pair`
}

export function storeOne(point: Point, s: StoreStmt, axes: readonly string[], once: boolean, out: Block): void {
  const cond = and(once ? point.scope.owner(axes) : undefined, allowed(point, s, axes))
  const body: Block = []
  storeElement(point, s, storedValue(point, s, point.read(s.value)), body)
  out.push(...when(cond, body))
}

/** Merges into what stands at a place; that is read first, since bits are cleared before they are replaced. */
export function storeMerged(
  point: Point,
  s: StoreStmt,
  axes: readonly string[],
  merge: (old: Ex, x: Ex) => Ex,
  out: Block,
): void {
  const { scope } = point
  const p = scope.unit.param(s.param)
  const old = scope.unit.name(`${p.name}_old`)
  const body: Block = [{ k: 'let', name: old, value: elementAt(scope, p, point.position(flatIndex(s.index, p.shape))) }]
  storeElement(point, s, merge(v(regType(p.dtype), old), storedValue(point, s, point.read(s.value))), body)
  out.push({ k: 'if', cond: and(scope.owner(axes), allowed(point, s, axes)), body: body, otherwise: [] })
}

export function storeGroups(
  point: Point,
  s: StoreStmt,
  axes: readonly string[],
  group: Group,
  isCoarse: boolean,
  out: Block,
): void {
  const { scope } = point
  const p = scope.unit.param(s.param)
  const flat = flatIndex(s.index, p.shape)
  for (const { first: at, last, points } of point.laneGroups(group.axis, group.n)) {
    const stored = points.map((q) => ({ q, x: storedValue(q, s, q.read(s.value)) }))
    const body: Block = []
    storeGroup(
      at,
      p,
      flat,
      stored.map(({ x }) => x),
      body,
      packingOf(scope, s, isCoarse),
    )
    const rest = and(scope.owner(axes), allowed(at, s, axes, group.axis))
    const first = insideAlong(scope, group.axis, at.lanes)
    const full = group.whole ? first : insideAlong(scope, group.axis, last.lanes)
    const cond = and(rest, full, behindLoads(scope))
    if (isYes(cond)) {
      out.push(...body)
      continue
    }
    const otherwise: Block = []
    if (!group.whole && first !== undefined) {
      const single = stored.map(({ q, x }): Block[number] => {
        const one: Block = []
        storeElement(q, s, x, one)
        return { k: 'if', cond: insideAlong(scope, group.axis, q.lanes) ?? yes, body: one, otherwise: [] }
      })
      otherwise.push({ k: 'if', cond: and(rest, first), body: single, otherwise: [] })
    }
    out.push({ k: 'if', cond, body: body, otherwise })
  }
}

/** `pair`: the function that packs two values of half precision. */
export function storeGroup(
  point: Point,
  p: KernelParam,
  flat: Expr,
  values: readonly Ex[],
  out: Block,
  pair = `${p.dtype}_pair`,
): void {
  const bits = elementBits(p)
  const at = point.position(flat)
  const n = values.length
  if (bits === 32) {
    out.push({ k: 'vstore', param: p.name, index: at, bits, values })
    return
  }
  const words = packedWords(p, values, pair)
  if (n * bits >= 32) {
    out.push({ k: 'vstore', param: p.name, index: at, bits, values: words })
    return
  }
  const [word = uint(0)] = words
  if (point.scope.unit.dialect.bytes && p.format !== 'plain' && n * bits === 8) {
    out.push({ k: 'store', param: p.name, index: bin('>>', at, uint(Math.log2(8 / bits))), value: word })
    return
  }
  out.push(replaceBits(p.name, at, bits, n * bits, word))
}

/** Words of elements narrower than one; what is less is in the lowest bits. */
export function packedWords(p: KernelParam, values: readonly Ex[], pair: string): Ex[] {
  const bits = elementBits(p)
  const n = values.length
  const words: Ex[] = []
  const each = Math.min(n, 32 / bits)
  for (let w = 0; w < n; w += each) {
    const [low, high] = [values[w], values[w + 1]]
    if ((p.dtype === 'bf16' || p.dtype === 'f16') && each === 2 && low !== undefined && high !== undefined) {
      words.push(call('u32', pair, low, high))
      continue
    }
    let word: Ex = uint(0)
    for (let i = 0; i < each; i++) {
      const x = values[w + i]
      if (x === undefined) continue
      const field = bin('<<', fieldBits(p, x), uint(i * bits))
      word = i === 0 ? field : bin('|', word, field)
    }
    words.push(word)
  }
  return words
}

/** The parameter and the position of a load at a point. */
export const positionOf = (p: Point, access: Access): { readonly param: string; readonly at: Ex } => ({
  param: access.param,
  at: p.position(flatIndex(access.index, p.scope.unit.param(access.param).shape)),
})

export const otherOf = (l: LetStmt): Ex => constant(l.dtype, l.op.kind === 'load' ? l.op.other : 0)
